"""Reranking in the forms of other servers: what each form sends and gets, and what is refused."""

import math
from typing import Any

import pytest
from fastapi.testclient import TestClient
from test_pipeline import QUESTION

from cogltx.blocks import encode
from cogltx.pipeline import CogLTX

TEXTS = ["Rain fell on the hills.", "Anna Karlsson wrote the report in Stockholm. " * 30, "", "Who wrote the report?"]
PATHS = ("/rerank", "/v1/rerank", "/v2/rerank", "/infinity/rerank")


@pytest.fixture(scope="module")
def relevance(reader: CogLTX) -> list[float]:
    return reader.relevance(QUESTION, TEXTS)


def n_tokens(reader: CogLTX, *texts: str) -> int:
    return sum(len(ids) for ids, _ in encode(texts, reader.model.tokenizer))


def nulls(value: Any) -> bool:
    match value:
        case dict():
            return any(map(nulls, value.values()))
        case list():
            return any(map(nulls, value))
    return value is None


def ranked(client: TestClient, path: str = "/rerank", **body: Any) -> Any:
    response = client.post(path, json={"query": QUESTION, **body})
    assert response.status_code == 200, response.text
    assert not nulls(response.json()), "clients refuse fields that are null"
    return response.json()


def refused(client: TestClient, **body: Any) -> str:
    response = client.post("/rerank", json={"query": QUESTION, **body})
    assert response.status_code == 422
    message = response.json()["error"]["message"]
    assert "\n" not in message
    return str(message)


def test_text_embeddings_inference(client: TestClient, relevance: list[float]) -> None:
    best = sorted(range(4), key=lambda index: -relevance[index])
    plain = ranked(client, texts=TEXTS, raw_scores=False, return_text=False, truncate=False)
    assert plain == [{"index": index, "score": pytest.approx(relevance[index])} for index in best]
    options = {"truncate": True, "truncation_direction": "Right", "return_text": True, "top_n": 2}
    assert ranked(client, texts=TEXTS, **options) == [
        {"index": index, "score": pytest.approx(relevance[index]), "text": TEXTS[index]} for index in best[:2]
    ]


@pytest.mark.parametrize("path", PATHS)
def test_documents(client: TestClient, reader: CogLTX, relevance: list[float], path: str) -> None:
    given = ranked(client, path, documents=TEXTS, model="any", top_n=3, return_documents=True)
    assert given["model"] == "tiny"
    assert [one["relevance_score"] for one in given["results"]] == pytest.approx(sorted(relevance, reverse=True)[:3])
    total = n_tokens(reader, QUESTION, *TEXTS)
    assert given["usage"] == {"prompt_tokens": total, "total_tokens": total}
    assert given["meta"]["tokens"] == {"input_tokens": total, "output_tokens": 0}
    assert given["meta"]["billed_units"] == {"search_units": 1}
    assert given["meta"]["api_version"] == {"version": "1" if path == "/v1/rerank" else "2"}
    of_infinity = path == "/infinity/rerank"
    assert given["object"] == ("rerank" if of_infinity else "list")
    texts = [TEXTS[one["index"]] for one in given["results"]]
    assert [one["document"] for one in given["results"]] == (
        texts if of_infinity else [{"text": text} for text in texts]
    )
    assert "document" not in ranked(client, path, documents=TEXTS)["results"][0]


def test_infinity_is_known_by_raw_scores(client: TestClient) -> None:
    body = {"documents": TEXTS, "return_documents": True, "model": "default/not-specified"}
    given = ranked(client, raw_scores=False, **body)
    assert given["object"] == "rerank"
    assert isinstance(given["created"], int)
    assert sorted(one["document"] for one in given["results"]) == sorted(TEXTS)


def test_raw_scores_are_log_odds(
    client: TestClient, reader: CogLTX, relevance: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_they_are = {one["index"]: one["score"] for one in ranked(client, texts=TEXTS, raw_scores=True)}
    assert [as_they_are[index] for index in range(4)] == pytest.approx(relevance), "BM25 has no probabilities"
    monkeypatch.setattr(type(reader.memrecall.judge), "probabilities", True)
    monkeypatch.setattr(client.app.state.service, "relevance", probabilities)  # type: ignore[attr-defined]
    for body in ({"texts": TEXTS, "raw_scores": True}, {"documents": TEXTS, "raw_scores": True},
                 {"documents": TEXTS, "use_activation": False}):  # fmt: skip
        given = ranked(client, **body)
        given = given if isinstance(given, list) else given["results"]
        scores = {one["index"]: one["score"] if "texts" in body else one["relevance_score"] for one in given}
        assert [scores[0], scores[1]] == pytest.approx([math.log(9), -math.log(3)])
        assert scores[2] < -20 < 20 < scores[3]


async def probabilities(*arguments: object) -> list[float]:
    return [0.9, 0.25, 0.0, 1.0]


def test_fields_of_objects(client: TestClient, relevance: list[float]) -> None:
    objects = [{"text": text, "title": "A report", "year": 1884} for text in TEXTS]
    given = ranked(client, documents=objects, return_documents=True)
    assert {one["index"]: one["relevance_score"] for one in given["results"]} == pytest.approx(
        dict(enumerate(relevance))
    )
    assert all(one["document"] == objects[one["index"]] for one in given["results"])
    by_title = ranked(client, documents=objects, rank_fields=["title", "missing"])
    assert len({one["relevance_score"] for one in by_title["results"]}) == 1
    joined = ranked(client, documents=[{"a": TEXTS[0], "b": TEXTS[3]}], rank_fields=["b", "a"])
    same = ranked(client, documents=[f"{TEXTS[3]}\n{TEXTS[0]}"])
    assert joined["results"] == same["results"]
    assert ranked(client, documents=objects, raw_scores=False, return_documents=True)["results"][0]["document"] in TEXTS


def test_tokens_per_document(client: TestClient, reader: CogLTX) -> None:
    long = "Rain fell. " * 20_000 + "Anna Karlsson wrote the report in Stockholm."
    whole = ranked(client, documents=[long, "Rain fell."])
    limit = n_tokens(reader, "Rain fell. Rain fell.")
    cut = ranked(client, documents=[long, "Rain fell."], max_tokens_per_doc=limit)
    assert whole["usage"]["total_tokens"] == n_tokens(reader, QUESTION, long, "Rain fell.")
    assert cut["usage"]["total_tokens"] == n_tokens(reader, QUESTION, "Rain fell. Rain fell.", "Rain fell.")
    assert whole["results"][0]["relevance_score"] > cut["results"][0]["relevance_score"]
    same = ranked(client, documents=["Rain fell. Rain fell.", "Rain fell."])
    assert cut["results"] == same["results"]


@pytest.mark.parametrize("number", [{"top_n": 2}, {"top_k": 2}, {"top_n": 2, "top_k": 2}, {"top_n": None, "top_k": 2}])
def test_number_of_results(client: TestClient, number: dict[str, Any]) -> None:
    assert len(ranked(client, documents=TEXTS, **number)["results"]) == 2


@pytest.mark.parametrize("option", [
    {"top_n": 0}, {"top_n": 99}, {"truncation": True}, {"user": "anna"}, {"priority": 0}, {"max_chunks_per_doc": None},
    {"truncate_prompt_tokens": -1}, {"return_embeddings": False}, {"raw_scores": None}, {"max_tokens_per_doc": None},
])  # fmt: skip
def test_options_without_effect(client: TestClient, option: dict[str, Any]) -> None:
    assert len(ranked(client, documents=TEXTS, **option)["results"]) == 4


@pytest.mark.parametrize(
    ("body", "wording"),
    [
        ({"documents": TEXTS, "texts": TEXTS}, "documents: Extra inputs are not permitted"),
        ({"documents": TEXTS, "return_text": True}, "return_text: Extra inputs are not permitted"),
        ({"texts": TEXTS, "return_documents": True}, "return_documents: Extra inputs are not permitted"),
        ({"documents": TEXTS, "max_chunks_per_doc": 10}, "max_chunks_per_doc: texts of any length are read whole"),
        ({"documents": TEXTS, "max_doc_length": 10}, "max_doc_length: texts of any length are read whole"),
        ({"documents": TEXTS, "truncate_prompt_tokens": 10}, "truncate_prompt_tokens: texts of any length are read"),
        ({"documents": TEXTS, "return_embeddings": True}, "return_embeddings: relevance has no embeddings"),
        ({"documents": TEXTS, "priority": 5}, "priority: requests take turns"),
        ({"documents": TEXTS, "rank_fields": ["a"]}, "documents.0: rank_fields needs objects"),
        ({"documents": [{"a": "b"}], "rank_fields": ["c", "d"]}, "documents.0: the object has no field c, d"),
        ({"documents": ["a", {"a": "b"}]}, "documents.1: the object has no field text"),
        ({"documents": [{"text": 5}]}, "documents.0: a field that is ranked (text) is not a text"),
        ({"documents": [5]}, "documents.0: a document is a text, or an object such as"),
        ({"documents": TEXTS, "top_n": 2, "top_k": 3}, "top_n and top_k are names of the same number"),
        ({"documents": TEXTS, "raw_scores": True, "use_activation": True}, "contradict each other"),
        ({"documents": TEXTS, "top_n": -1}, "top_n: Input should be greater than or equal to 0"),
        ({"documents": TEXTS, "max_tokens_per_doc": 0}, "max_tokens_per_doc: Input should be greater than"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured(client: TestClient, body: dict[str, Any], wording: str) -> None:
    assert wording in refused(client, **body)
