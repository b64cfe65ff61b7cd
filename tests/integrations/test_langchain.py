"""The components of LangChain, by themselves and in a chain."""

import asyncio

import pytest
from bridges import FILLER, QUESTION, TEXTS
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from pydantic import ValidationError

from cogltx.integrations.langchain import CogLTXCompressor, CogLTXRetriever, CogLTXSplitter

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


def is_slice(found: Document) -> bool:
    start, text = found.metadata["start_index"], DOCUMENTS[found.metadata["number"]].page_content
    return text[start : start + len(found.page_content)] == found.page_content


def test_passages_are_retrieved_from_all_documents(model: str) -> None:
    retriever = CogLTXRetriever(documents=DOCUMENTS, model=model)
    found = retriever.invoke(QUESTION)
    assert "Ilse Brandt designed the bridge in 1884." in found[0].page_content
    assert found[0].metadata["number"] == 1
    assert all(map(is_slice, found))
    scores = [one.metadata["relevance_score"] for one in found]
    assert scores == sorted(scores, reverse=True)
    assert asyncio.run(retriever.ainvoke(QUESTION)) == found
    assert retriever.batch([QUESTION] * 4) == [found] * 4, "several threads"
    assert CogLTXRetriever(documents=DOCUMENTS, model=model, top_k=2).invoke(QUESTION) == found[:2]
    assert "relevance_score" not in DOCUMENTS[1].metadata
    assert CogLTXRetriever(documents=[Document(""), Document(" ")], model=model).invoke(QUESTION) == []
    [only] = CogLTXRetriever(documents=[DOCUMENTS[2]], model=model).invoke(QUESTION)
    assert only.page_content == TEXTS[2]


def test_a_long_query_is_cut(model: str) -> None:
    query = f"{QUESTION} {FILLER * 100}"
    assert CogLTXRetriever(documents=DOCUMENTS, model=model).invoke(query)
    assert len(CogLTXCompressor(model=model).compress_documents(DOCUMENTS, query)) == len(DOCUMENTS)


def test_texts_are_split_at_sentences() -> None:
    splitter = CogLTXSplitter(40, add_start_index=True)
    parts = splitter.split_documents(DOCUMENTS)
    assert len(parts) > 10
    assert all(map(is_slice, parts))
    assert all(part.page_content.endswith(".") for part in parts)
    for number, document in enumerate(DOCUMENTS):
        together = "".join(part.page_content for part in parts if part.metadata["number"] == number)
        assert "".join(together.split()) == "".join(document.page_content.split())
    assert splitter.split_text(" ") == []
    assert asyncio.run(splitter.atransform_documents(DOCUMENTS)) == parts


def test_a_chain_from_splitting_to_a_prompt(model: str) -> None:
    retriever = CogLTXRetriever(documents=CogLTXSplitter(64).split_documents(DOCUMENTS), model=model, top_k=1)
    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    prompts: list[str] = []

    def join(documents: list[Document]) -> str:
        prompts.append("\n".join(one.page_content for one in documents))
        return prompts[-1]

    chain = (
        {"context": retriever | join, "question": RunnablePassthrough()}
        | prompt
        | FakeListChatModel(responses=["Ilse"])
    )
    assert (chain | StrOutputParser()).invoke(QUESTION) == "Ilse"
    assert "Ilse Brandt designed the bridge in 1884." in prompts[0]
