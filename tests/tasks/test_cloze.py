"""Questions made from raw texts."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cogltx.document import Example, Span
from cogltx.errors import DataError
from cogltx.tasks import ReadReport, make_task
from cogltx.tasks.cloze import _make_questions

TEXT = (
    "The long bridge was built by Anna Berg in the year of the flood. It rained for many days. "
    "In the north the people thanked Anna Berg with a song. Nobody else was thanked that year."
)


def questions(folder: Path, *texts: str, **options: object) -> list[Example]:
    file = folder / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return list(make_task("cloze", options).read(file, split="train"))


def made(text: str, seed: int = 0, n_questions: int = 14, **sizes: int) -> list[tuple[str, str, str, tuple[Span, ...]]]:
    """Passage, question, answer and its spans of each question about a text."""
    asked = _make_questions(text, n_questions, np.random.default_rng([seed, 1]), **sizes)
    return [(passage, question, passage[spans[0].start : spans[0].end], spans) for passage, question, spans in asked]


def test_a_sentence_asks_for_a_name_that_recurs(tmp_path: Path) -> None:
    asked = {example.query.text: example for example in questions(tmp_path, TEXT) if example.query}
    names = [question for question, example in asked.items() if example.answers == ("Anna Berg",)]
    assert names, "Anna Berg is the only name"
    for question in names:
        example = asked[question]
        (span,) = example.answer_spans
        assert example.document.text[span.start : span.end] == "Anna Berg"
        assert question.count("[MASK]") == 1
        assert question.replace("[MASK]", "Anna Berg") in TEXT
        assert question.replace("[MASK]", "Anna Berg") not in example.document.text, "the passage lacks the sentence"
        assert example.relevant == example.answer_spans


def test_only_whole_words_are_hidden() -> None:
    text = "Ana and Anabel walked with Ana to the old mill in 1919. In 19 days the mill of Ana burned down again. Ana left."
    hidden = "[MASK] and Anabel walked with [MASK] to the old mill in 1919."
    whole = {hidden, "In 19 days the mill of [MASK] burned down again."}
    of_ana = {question for _, question, answer, _ in made(text, passage_words=10) if answer == "Ana"}
    assert of_ana
    assert of_ana <= whole


_WORDS = st.sampled_from(["Anna", "Berg", "town", "bridge", "1932", "the", "of", "old", "river"])
_SENTENCES = st.lists(st.lists(_WORDS, min_size=1, max_size=14).map(lambda words: " ".join(words) + "."), max_size=12)


@settings(max_examples=150)
@given(sentences=_SENTENCES, size=st.integers(10, 40), seed=st.integers(0, 3))
def test_any_text(sentences: list[str], size: int, seed: int) -> None:
    text = "\n".join(sentences) or "a"
    asked = made(text, seed, passage_words=size)
    assert asked == made(text, seed, passage_words=size), "drawn by the seed"
    hidden = []
    for passage, question, answer, spans in asked:
        assert {passage[span.start : span.end] for span in spans} == {answer}
        assert passage in text
        words = answer.split()
        assert not {words[0], words[-1]} & {"the", "of"}
        assert len(words) <= 6
        whole = question.replace("[MASK]", answer)
        assert whole in text
        assert len(whole.split()) >= 6, "seven with its mark"
        hidden.append(whole)
    assert len(set(hidden)) == len(hidden) or len(set(sentences)) < len(sentences), "every sentence asks once"


def test_a_span_inside_a_longer_one_is_not_asked_for() -> None:
    answers = {answer for seed in range(20) for _, _, answer, _ in made(TEXT, seed)}
    assert "Anna Berg" in answers
    assert not {"Anna", "Berg"} & answers


def test_only_what_recurs_in_a_section_is_asked_for() -> None:
    far = TEXT.replace("It rained for many days.", "It rained for many, many days. " * 10)
    assert "Anna Berg" in {answer for _, _, answer, _ in made(far, section_words=200)}
    assert "Anna Berg" not in {answer for _, _, answer, _ in made(far, section_words=40)}


def test_numbers_of_questions_and_words() -> None:
    text = " ".join(f"The old man Number {i} met the young man Number {i + 1} in the rain today." for i in range(60))
    assert len(made(text, n_questions=2, section_words=200)) == 2 * 5
    for size in (10, 50):
        lengths = [len(passage.split()) for passage, *_ in made(text, passage_words=size)]
        long_enough = [length >= size - 4 for length in lengths]  # marks count as words
        assert sum(long_enough) > 0.7 * len(lengths), "shorter only between the question and the end of the section"
        assert max(lengths) < size + 20


def test_every_text_is_read_once(tmp_path: Path) -> None:
    once = questions(tmp_path, TEXT)
    assert questions(tmp_path, TEXT, TEXT) == once
    report = ReadReport()
    examples = list(make_task("cloze", {}).read(tmp_path / "texts.jsonl", split="train", report=report))
    assert report.examples == len(examples) == len({example.id for example in examples})


def test_documents_of_another_task(tmp_path: Path) -> None:
    paragraphs = [{"context": TEXT, "qas": [{"id": id, "question": "Who?", "answers": []} for id in ("a", "b")]}]
    file = tmp_path / "squad.json"
    file.write_text(json.dumps({"data": [{"title": "Bridge", "paragraphs": paragraphs}]}))
    task = make_task("cloze", {"of": "squad", "options": {"join_paragraphs": True}})
    assert [example.document.text for example in task.read(file, split="train")] == [
        e.document.text for e in questions(tmp_path, TEXT)
    ]


def test_nothing_to_ask(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"texts\.jsonl: no name, number or phrase recurs in the texts"):
        questions(tmp_path, "It rained. The sun shone.")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("大桥由张建国在洪水之年建成。雨下了很多天。北方的人们唱歌感谢张建国先生。", "张建国"),
        (
            "बड़ा पुल विक्रम सेठी ने बाढ़ के साल बनाया। कई दिन तक पानी बरसा। उत्तर के लोगों ने विक्रम सेठी को गीत गाकर धन्यवाद दिया।",
            "विक्रम सेठी",
        ),
    ],
)
def test_names_recur_in_other_scripts(text: str, name: str) -> None:
    asked = [question for _, question, answer, _ in made(text, passage_words=5) if name in answer]
    assert asked
    assert all(
        text.startswith(question.split("[MASK]")[0].strip()) or question.split("[MASK]")[0] in text
        for question in asked
    )
