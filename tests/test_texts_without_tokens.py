"""A text of characters that the tokenizer drops never ends a call about other texts."""

import json
import logging
from pathlib import Path

import fakes
import pytest
from bridges import QUESTION, TEXTS
from command_line import Call
from fastapi.testclient import TestClient
from haystack import Document as HaystackDocument
from langchain_core.documents import Document as LangChainDocument
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from cogltx import CogLTX
from cogltx.config import ModelConfig
from cogltx.document import Document, Example, Query
from cogltx.errors import DataError
from cogltx.integrations.haystack import CogLTXRanker, CogLTXReader
from cogltx.integrations.langchain import CogLTXCompressor
from cogltx.integrations.llama_index import CogLTXPostprocessor
from cogltx.server.app import create_app
from cogltx.training._data import read_examples

DROPPED = ("\u200b", "\ufeff\ufe0f", "\x00\x01\x02", "\u00ad \u200d", "\ufffd")
NO_TOKEN = "the tokenizer finds no token in the text"


@pytest.fixture(scope="module")
def reader(tiny_encoder: Path) -> CogLTX:
    return fakes.reader(tiny_encoder)


@pytest.fixture(scope="module")
def model(reader: CogLTX, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    reader.save_pretrained(folder)
    return str(folder)


def examples() -> list[Example]:
    texts = [DROPPED[0], TEXTS[0], DROPPED[2], TEXTS[1]]
    return [
        Example(id=str(number), document=Document(text), query=Query(QUESTION)) for number, text in enumerate(texts)
    ]


def test_relevance(reader: CogLTX) -> None:
    scores = reader.relevance(QUESTION, [*DROPPED, TEXTS[0], "", *DROPPED])
    assert scores[len(DROPPED)] == reader.relevance(QUESTION, TEXTS[:1])[0] > 0
    assert [score for score in scores if score] == scores[len(DROPPED) : len(DROPPED) + 1]


def test_relevance_of_a_text_in_place_of_a_list(reader: CogLTX) -> None:
    with pytest.raises(DataError, match="give a list of texts, each a string"):
        reader.relevance(QUESTION, TEXTS[0])


@pytest.mark.parametrize("text", DROPPED)
def test_one_document(reader: CogLTX, text: str) -> None:
    for read in (reader.predict, reader.recall):
        with pytest.raises(DataError, match=NO_TOKEN):
            read(text, QUESTION)


def test_a_stream_goes_on(reader: CogLTX, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "cogltx"):
        predictions = list(reader.predict_many(examples()))
    assert [one.id for one in predictions] == ["0", "1", "2", "3"]
    assert [bool(one.n_tokens) for one in predictions] == [False, True, False, True]
    assert not predictions[0].answer
    assert caplog.messages == [f"example '{number}': no answer: {NO_TOKEN}" for number in (0, 2)]
    [alone] = reader.predict_many([examples()[3]])
    assert (alone.id, alone.answer, alone.start) == (predictions[3].id, predictions[3].answer, predictions[3].start)


def test_predict_goes_on(model: str, call: Call, tmp_path: Path) -> None:
    rows = [{"id": one.id, "text": one.document.text, "question": QUESTION} for one in examples()]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = call("predict", model, "--input", tmp_path / "texts.jsonl", "--output", tmp_path / "out.jsonl")
    assert not done.code, done.err
    assert done.err.count(NO_TOKEN) == 2
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["0", "1", "2", "3"]
    assert [line["n_tokens"] > 0 for line in lines] == [False, True, False, True]
    again = call("predict", model, "--input", tmp_path / "texts.jsonl", "--output", tmp_path / "out.jsonl")
    assert "0 new predictions" in again.err


def test_ask_about_a_folder(model: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXTS[1])
    (tmp_path / "b.txt").write_text("\u200b\u200b")
    done = call("ask", tmp_path, QUESTION, "--model", model)
    assert not done.code, done.err
    assert f"b.txt: {NO_TOKEN}" in done.err
    done = call("ask", tmp_path / "b.txt", QUESTION, "--model", model)
    assert done.code == 2
    assert NO_TOKEN in done.err.splitlines()[-1]


def test_rerank_of_the_server(reader: CogLTX) -> None:
    texts = [DROPPED[0], TEXTS[0], "", TEXTS[1], DROPPED[3]]
    with TestClient(create_app(reader), "http://localhost") as client:
        ranked = client.post("/rerank", json={"query": QUESTION, "texts": texts}).json()
        assert [one["index"] for one in ranked][2:] == [0, 2, 4]
        assert {one["score"] for one in ranked[2:]} == {0.0}
        failed = client.post("/answer", json={"question": QUESTION, "text": DROPPED[0]})
        assert failed.status_code == 422
        assert NO_TOKEN in failed.text


def test_integrations(model: str) -> None:
    texts = [DROPPED[0], TEXTS[1], DROPPED[1]]
    documents = [HaystackDocument(content=text) for text in texts]
    ranked = CogLTXRanker(model, budget=30).run(QUESTION, documents)["documents"]
    assert [one.score == 0 for one in ranked] == [False, True, True]
    assert [one.content for one in ranked[1:]] == [DROPPED[0], DROPPED[1]]
    assert CogLTXReader(model).run(QUESTION, documents)["answers"]
    assert CogLTXReader(model).run(QUESTION, documents[:1]) == {"answers": []}
    compressed = CogLTXCompressor(model=model, budget=30).compress_documents(
        [LangChainDocument(text) for text in texts], QUESTION
    )
    assert compressed[0].metadata["relevance_score"] > compressed[1].metadata["relevance_score"] == 0
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in texts]
    best = CogLTXPostprocessor(model=model, budget=30).postprocess_nodes(nodes, query_bundle=QueryBundle(QUESTION))
    assert [one.score == 0 for one in best] == [False, True, True]


def test_training_data(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "cogltx"):
        kept, _ = read_examples(ModelConfig(), examples(), "train")
    assert [example.id for example in kept] == ["1", "3"]
    assert caplog.messages == [f"left out: train data: example '{number}': {NO_TOKEN}" for number in (0, 2)]
