"""LangChain's document compressor."""

import asyncio

import pytest
from bridges import QUESTION, TEXTS
from langchain_core.documents import Document
from pydantic import ValidationError

from cogltx.integrations.langchain import CogLTXCompressor

DOCUMENTS = [Document(text, id=str(number), metadata={"number": number}) for number, text in enumerate([*TEXTS, ""])]


def test_documents_are_ordered_and_shortened(model: str) -> None:
    compressor = CogLTXCompressor(model=model, top_n=2, budget=30)
    found = compressor.compress_documents(DOCUMENTS, QUESTION)
    assert next(one.id for one in found) == "1"
    assert len(found) == 2
    assert "Ilse Brandt designed the bridge in 1884." in found[0].page_content
    assert len(found[0].page_content) < len(TEXTS[1]) / 4
    assert found[0].metadata["number"] == 1
    assert found[0].metadata["relevance_score"] > found[1].metadata["relevance_score"]
    assert asyncio.run(compressor.acompress_documents(DOCUMENTS, QUESTION)) == found
    assert "relevance_score" not in DOCUMENTS[1].metadata


def test_a_mistyped_option_is_refused(model: str) -> None:
    with pytest.raises(ValidationError, match="top_k"):
        CogLTXCompressor(model=model, top_k=2)  # type: ignore[call-arg]


def test_documents_stay_whole_without_a_budget(model: str) -> None:
    found = CogLTXCompressor(model=model, budget=None).compress_documents(DOCUMENTS, QUESTION)
    assert {one.page_content for one in found} == {one.page_content for one in DOCUMENTS}
    assert CogLTXCompressor(model=model).compress_documents([], QUESTION) == []
