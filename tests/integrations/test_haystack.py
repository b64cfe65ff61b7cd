"""The components of Haystack, in its pipelines and as dictionaries."""

import asyncio
import itertools
import logging

import pytest
from bridges import FILLER, QUESTION, TEXTS
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ExtractedAnswer
from haystack.document_stores.in_memory import InMemoryDocumentStore

from cogltx.integrations.haystack import CogLTXRanker, CogLTXReader, CogLTXSplitter

DOCUMENTS = [Document(content=text, meta={"number": number}) for number, text in enumerate([*TEXTS, None, " "])]


def test_answers_are_slices_of_their_documents(model: str) -> None:
    answers = CogLTXReader(model).run(QUESTION, DOCUMENTS, max_seq_length=384, stride=128)["answers"]
    assert [answer.score for answer in answers] == sorted((answer.score for answer in answers), reverse=True)
    spans = [answer for answer in answers if answer.document_offset is not None]
    assert spans
    for answer in spans:
        offset = answer.document_offset
        assert answer.document in DOCUMENTS
        assert answer.document.content[offset.start : offset.end] == answer.data
        if answer.context is not None:
            assert answer.context[answer.context_offset.start : answer.context_offset.end] == answer.data
    assert any(answer.context for answer in spans)
    assert [answer.data for answer in answers].count(None) == 1


def test_options_of_a_run(model: str) -> None:
    reader = CogLTXReader(model, no_answer=False, overlap_threshold=None)
    every = reader.run(QUESTION, DOCUMENTS)["answers"]
    assert len(every) > 1
    assert all(answer.data for answer in every)
    assert reader.run(QUESTION, DOCUMENTS, top_k=1)["answers"] == every[:1]
    apart = reader.run(QUESTION, DOCUMENTS, overlap_threshold=0.0)["answers"]
    spans = sorted(
        (a.document.meta["number"], a.document_offset.start, a.document_offset.end) for a in apart if a.document
    )
    assert all(one[0] != other[0] or one[2] <= other[1] for one, other in itertools.pairwise(spans))
    threshold = every[0].score
    assert all(one.score >= threshold for one in reader.run(QUESTION, DOCUMENTS, score_threshold=threshold)["answers"])
    assert reader.run(QUESTION, [])["answers"] == []
    assert len(reader.run(QUESTION, DOCUMENTS, no_answer=True)["answers"]) == len(every) + 1


def test_the_ranker_orders_and_shortens(model: str) -> None:
    ranked = CogLTXRanker(model, top_k=2, budget=30).run(QUESTION, DOCUMENTS)["documents"]
    assert next(one.meta["number"] for one in ranked) == 1
    assert len(ranked) == 2
    assert ranked[0].score > ranked[1].score
    assert "Ilse Brandt designed the bridge in 1884." in ranked[0].content
    assert len(ranked[0].content) < len(TEXTS[1]) / 4
    whole = CogLTXRanker(model).run(QUESTION, DOCUMENTS)["documents"]
    assert {one.content for one in whole} == {one.content for one in DOCUMENTS}
    assert DOCUMENTS[1].content == TEXTS[1]


@pytest.mark.parametrize("kind", [CogLTXReader, CogLTXRanker])
def test_a_pipeline_survives_its_dictionary(model: str, kind: type) -> None:
    pipeline = Pipeline()
    pipeline.add_component("reader", kind(model, top_k=3))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["cogltx.integrations.haystack"])
    inputs = {"reader": {"query": QUESTION, "documents": DOCUMENTS}}
    first, second = pipeline.run(inputs)["reader"], again.run(inputs)["reader"]
    assert first == second
    name = "answers" if kind is CogLTXReader else "documents"
    assert len(first[name]) >= 3
    assert isinstance(first[name][0], ExtractedAnswer if kind is CogLTXReader else Document)


def test_as_many_answers_as_asked_for(model: str) -> None:
    answers = [
        CogLTXReader(model, top_k=n, no_answer=False, overlap_threshold=None).run(QUESTION, DOCUMENTS)["answers"]
        for n in (3, 12)
    ]
    assert [len(found) for found in answers] == [3, 12]
    assert [one.data for one in answers[1][:3]] == [one.data for one in answers[0]]


def test_fewer_answers_are_the_best_of_those_that_do_not_overlap(model: str) -> None:
    reader = CogLTXReader(model, no_answer=False, overlap_threshold=0.0)
    every = reader.run(QUESTION, DOCUMENTS)["answers"]
    assert len(every) > 2
    for n in range(1, len(every)):
        assert reader.run(QUESTION, DOCUMENTS, top_k=n)["answers"] == every[:n]


@pytest.mark.parametrize(("first", "expected"), [(None, None), (4, 6), ("four", None)])
def test_answers_have_the_page_of_their_document(model: str, first: object, expected: int | None) -> None:
    text = f"{FILLER}\f{FILLER}\f{TEXTS[1]}"
    document = Document(content=text, meta={} if first is None else {"page_number": first})
    answers = CogLTXReader(model, overlap_threshold=None).run(QUESTION, [document])["answers"]
    on_the_last = [one for one in answers if one.document_offset and one.document_offset.start > text.rindex("\f")]
    assert on_the_last
    assert {one.meta.get("answer_page_number") for one in on_the_last} == {expected}
    assert document.meta == ({} if first is None else {"page_number": first})


def test_a_query_that_leaves_no_room_is_cut(model: str, caplog: pytest.LogCaptureFixture) -> None:
    query = f"{QUESTION} {FILLER * 100}"
    with caplog.at_level(logging.WARNING, "cogltx"):
        assert CogLTXReader(model).run(query, DOCUMENTS)["answers"]
        [best, *_] = CogLTXRanker(model, budget=30).run(query, DOCUMENTS)["documents"]
    assert best.score > 0
    assert "the rest is not read" in caplog.text


def test_runs_are_the_same_in_coroutines(model: str) -> None:
    reader, ranker = CogLTXReader(model, no_answer=False), CogLTXRanker(model, top_k=2)

    async def run() -> list[object]:
        return await asyncio.gather(
            reader.run_async(QUESTION, DOCUMENTS, top_k=3), ranker.run_async(QUESTION, DOCUMENTS),
            reader.run_async(QUESTION, DOCUMENTS, top_k=1, overlap_threshold=0.5, no_answer=True),
        )  # fmt: skip

    assert asyncio.run(run()) == [
        reader.run(QUESTION, DOCUMENTS, top_k=3), ranker.run(QUESTION, DOCUMENTS),
        reader.run(QUESTION, DOCUMENTS, top_k=1, overlap_threshold=0.5, no_answer=True),
    ]  # fmt: skip


def test_documents_are_split_into_exact_slices() -> None:
    document = Document(content=f"{TEXTS[1]}\f{TEXTS[0]}", meta={"page_number": 3, "name": "a"})
    [*parts] = CogLTXSplitter(max_tokens=40).run([document, Document(content=None), Document(content=" ")])["documents"]
    assert len(parts) > 10
    for number, part in enumerate(parts):
        start = part.meta["split_idx_start"]
        assert document.content[start : start + len(part.content)] == part.content
        assert (part.meta["split_id"], part.meta["source_id"], part.meta["name"]) == (number, document.id, "a")
        assert part.meta["page_number"] == (3 if start < len(TEXTS[1]) else 4)
        assert part.content.endswith("."), "a piece ends with a sentence where one ends near"
    assert "".join("".join(part.content.split()) for part in parts) == "".join(document.content.split())


def test_a_pipeline_from_splitting_to_answers(model: str) -> None:
    store = InMemoryDocumentStore()
    store.write_documents(CogLTXSplitter(max_tokens=64).run(DOCUMENTS)["documents"])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=20))
    pipeline.add_component("ranker", CogLTXRanker(model, top_k=5))
    pipeline.add_component("reader", CogLTXReader(model, no_answer=False))
    pipeline.connect("retriever.documents", "ranker.documents")
    pipeline.connect("ranker.documents", "reader.documents")
    inputs = {name: {"query": QUESTION} for name in ("retriever", "ranker", "reader")}
    answers = asyncio.run(pipeline.run_async(inputs))["reader"]["answers"]
    assert answers
    for answer in answers:
        if answer.document_offset is not None:
            source = DOCUMENTS[answer.document.meta["number"]].content
            first = answer.document.meta["split_idx_start"] + answer.document_offset.start
            assert source[first : first + len(answer.data)] == answer.data
