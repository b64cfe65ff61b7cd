"""The components of Haystack, in its pipelines and as dictionaries."""

import itertools

import pytest
from bridges import QUESTION, TEXTS
from haystack import Document, Pipeline
from haystack.dataclasses import ExtractedAnswer

from cogltx.integrations.haystack import CogLTXRanker, CogLTXReader

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
