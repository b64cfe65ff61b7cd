"""Questions made from raw texts."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cogltx.document import Example
from cogltx.errors import DataError
from cogltx.tasks import ReadReport, make_task

TEXT = (
    "The long bridge was built by Anna Berg in the year of the flood. It rained for many days. "
    "In the north the people thanked Anna Berg with a song. Nobody else was thanked that year."
)


def questions(folder: Path, *texts: str, **options: object) -> list[Example]:
    file = folder / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return list(make_task("cloze", options).read(file, split="train"))


def test_a_sentence_asks_for_a_name_that_recurs(tmp_path: Path) -> None:
    asked = {example.query.text: example for example in questions(tmp_path, TEXT, blank="___") if example.query}
    names = [question for question, example in asked.items() if example.answers == ("Anna Berg",)]
    assert names, "Anna Berg is the only name"
    for question in names:
        example = asked[question]
        (span,) = example.answer_spans
        assert example.document.text[span.start : span.end] == "Anna Berg"
        assert question.count("___") == 1
        assert question.replace("___", "Anna Berg") in TEXT
        assert question.replace("___", "Anna Berg") not in example.document.text, "the passage lacks the sentence"
        assert example.relevant == example.answer_spans


def test_only_whole_words_are_hidden(tmp_path: Path) -> None:
    text = "Ana and Anabel walked with Ana to the old mill in 1919. In 19 days the mill of Ana burned down again. Ana left."
    asked = questions(tmp_path, text, blank="___", passage_words=10)
    whole = {"___ and Anabel walked with ___ to the old mill in 1919.", "In 19 days the mill of ___ burned down again."}
    of_ana = {example.query.text for example in asked if example.query and example.answers == ("Ana",)}
    assert of_ana
    assert of_ana <= whole


_WORDS = st.sampled_from(["Anna", "Berg", "town", "bridge", "1932", "the", "of", "old", "river"])
_SENTENCES = st.lists(st.lists(_WORDS, min_size=1, max_size=14).map(lambda words: " ".join(words) + "."), max_size=12)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sentences=_SENTENCES, size=st.integers(10, 40), seed=st.integers(0, 3))
def test_any_text(tmp_path: Path, sentences: list[str], size: int, seed: int) -> None:
    text = "\n".join(sentences) or "a"
    try:
        made = questions(tmp_path, text, passage_words=size, seed=seed)
    except DataError as error:
        assert "nothing to ask" in str(error)
        return
    assert made == questions(tmp_path, text, passage_words=size, seed=seed), "drawn by the seed"
    hidden = []
    for example in made:
        assert example.query is not None
        assert example.answers is not None
        (answer,) = example.answers
        assert {example.document.text[span.start : span.end] for span in example.answer_spans} == {answer}
        assert example.document.text in text
        words = answer.split()
        assert not {words[0], words[-1]} & {"the", "of"}
        assert len(words) <= 6
        whole = example.query.text.replace("[MASK]", answer)
        assert whole in text
        assert len(whole.split()) >= 6, "seven with its mark"
        hidden.append(whole)
    assert len(set(hidden)) == len(hidden) or len(set(sentences)) < len(sentences), "every sentence asks once"


def test_a_span_inside_a_longer_one_is_not_asked_for(tmp_path: Path) -> None:
    answers = {example.answers for seed in range(20) for example in questions(tmp_path, TEXT, seed=seed)}
    assert ("Anna Berg",) in answers
    assert not {("Anna",), ("Berg",)} & answers


def test_only_what_recurs_in_a_section_is_asked_for(tmp_path: Path) -> None:
    far = TEXT.replace("It rained for many days.", "It rained for many, many days. " * 10)
    assert any(example.answers == ("Anna Berg",) for example in questions(tmp_path, far, section_words=200))
    answers = {example.answers for example in questions(tmp_path, far, section_words=40)}
    assert ("Anna Berg",) not in answers


def test_numbers_of_questions_and_words(tmp_path: Path) -> None:
    text = " ".join(f"The old man Number {i} met the young man Number {i + 1} in the rain today." for i in range(60))
    assert len(questions(tmp_path, text, section_words=200, questions=2)) == 2 * 5
    for size in (10, 50):
        lengths = [len(example.document.text.split()) for example in questions(tmp_path, text, passage_words=size)]
        long_enough = [length >= size - 4 for length in lengths]  # marks count as words
        assert sum(long_enough) > 0.7 * len(lengths), "shorter only between the question and the end of the section"
        assert max(lengths) < size + 20


def test_every_text_is_read_once(tmp_path: Path) -> None:
    once = questions(tmp_path, TEXT)
    assert questions(tmp_path, TEXT, TEXT) == once
    report = ReadReport()
    made = list(make_task("cloze", {}).read(tmp_path / "texts.jsonl", split="train", report=report))
    assert report.examples == len(made) == len({example.id for example in made})


def test_documents_of_another_task(tmp_path: Path) -> None:
    paragraphs = [{"context": TEXT, "qas": [{"id": id, "question": "Who?", "answers": []} for id in ("a", "b")]}]
    file = tmp_path / "squad.json"
    file.write_text(json.dumps({"data": [{"title": "Bridge", "paragraphs": paragraphs}]}))
    made = list(make_task("cloze", {"of": "squad", "options": {"join_paragraphs": True}}).read(file, split="train"))
    assert [example.document.text for example in made] == [e.document.text for e in questions(tmp_path, TEXT)]


def test_nothing_to_ask(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"texts\.jsonl: no name, number or phrase recurs in the texts"):
        questions(tmp_path, "It rained. The sun shone.")
