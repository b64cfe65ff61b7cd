"""The index: a saved document answers as the document does, without splitting or embedding it again."""

from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import config
from safetensors import safe_open
from safetensors.numpy import save_file

from cogltx.document import Document, Query, Segment
from cogltx.errors import DataError, TrainingError
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction

LINE = "The quick brown fox jumps over the lazy dog. Anna Karlsson wrote the report in Stockholm, on 3 May 2014.\n"
TEXT = LINE * 4
HEADED = Document(TEXT, "headed", (Segment(0, len(LINE), "animals"), Segment(len(LINE), len(TEXT), "writers")))
QUESTIONS = (Query("Who wrote the report?"), Query("Where?"))


def reader(encoder: Path, shortlist: int | None = 3, max_block_tokens: int = 16) -> CogLTX:
    torch.manual_seed(5)
    values = config(encoder).model_dump(mode="json")
    values["memrecall"] |= {"shortlist": shortlist}
    values["max_block_tokens"] = max_block_tokens
    made = config(encoder).model_validate(values)
    return CogLTX(Model.create(made, with_judge=True, device="cpu"))


@pytest.fixture
def index(tiny_encoder: Path, tmp_path: Path) -> Path:
    reader(tiny_encoder).open(TEXT).save(tmp_path / "some.index")
    return tmp_path / "some.index"


@pytest.mark.parametrize("document", [Document(TEXT, "plain"), HEADED, Document("Ä 東京.", "short")])
@pytest.mark.parametrize("shortlist", [None, 3])
def test_answers_from_an_index_equal_those_without(
    tiny_encoder: Path, tmp_path: Path, document: Document, shortlist: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = reader(tiny_encoder, shortlist)
    expected = [first.predict(document, question) for question in QUESTIONS]
    first.open(document).save(tmp_path / "x.index")
    second = reader(tiny_encoder, shortlist)

    def fail(*args: object, **options: object) -> None:
        raise AssertionError("the document is split again")

    monkeypatch.setattr("cogltx.model.split", fail)
    opened = second.open(index=tmp_path / "x.index")
    assert [opened.ask(question) for question in QUESTIONS] == expected
    assert opened.document == document


def test_vectors_of_another_retriever(tiny_encoder: Path, index: Path, tmp_path: Path) -> None:
    def trained(seed: int, capacity: int = 64) -> CogLTX:
        torch.manual_seed(seed)
        values = config(tiny_encoder).model_dump(mode="json")
        values["memrecall"] |= {"shortlist": 3, "retriever": "trained", "capacity": capacity}
        values["max_block_tokens"] = 16
        made = CogLTX(Model.create(config(tiny_encoder).model_validate(values), with_judge=True, device="cpu"))
        with torch.no_grad():
            made.model.retriever.bm25_weight += seed  # type: ignore[union-attr]
        return made

    first = trained(1)
    expected = [first.predict(TEXT, question) for question in QUESTIONS]
    first.open(TEXT).save(tmp_path / "trained.index")
    assert [trained(1).open(index=tmp_path / "trained.index").ask(question) for question in QUESTIONS] == expected
    for other, path in ((trained(2), tmp_path / "trained.index"), (trained(1, 60), tmp_path / "trained.index"), (trained(1), index)):  # fmt: skip
        with pytest.raises(
            DataError, match=r"\.index: made for a model with another retriever; delete it, or name another file"
        ):
            other.open(index=path)


def test_an_index_of_another_text(tiny_encoder: Path, index: Path) -> None:
    model = reader(tiny_encoder)
    assert model.open(TEXT, index=index).document.text == TEXT
    with pytest.raises(DataError, match=r"some\.index: the index of another text; delete it, or name another file"):
        model.open(TEXT + "More.", index=index)
    with pytest.raises(DataError, match=r"some\.index: the index of another text; delete it, or name another file"):
        model.open(HEADED, index=index)


@pytest.mark.parametrize("shortlist", [None, 3])
def test_the_text_may_have_another_name_now(tiny_encoder: Path, tmp_path: Path, shortlist: int | None) -> None:
    model = reader(tiny_encoder, shortlist)
    model.open([Document(TEXT, "docs/a"), Document(LINE, "docs/b")]).save(tmp_path / "x.index")
    found = model.open([Document(TEXT, "a"), Document(LINE, "b")], index=tmp_path / "x.index").ask(QUESTIONS[0])
    assert {found.document, *(block.document for block in found.evidence)} <= {"a", "b", ""}
    assert found.evidence


def test_files_that_are_no_index(tiny_encoder: Path, index: Path, tmp_path: Path) -> None:
    model = reader(tiny_encoder)
    for name, content, problem in (
        ("empty", b"", "not a complete index"),
        ("half", index.read_bytes()[:-100], "not a complete index"),
        ("text", b"hello, this is no index", "not a complete index"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=f"{name}: {problem}"):
            model.open(index=tmp_path / name)
    save_file({"weights": np.zeros(3)}, tmp_path / "weights")
    with pytest.raises(DataError, match="weights: not an index; name another file"):
        model.open(index=tmp_path / "weights")
    save_file({"weights": np.zeros(3)}, tmp_path / "later", {"cogltx_index": "99"})
    with pytest.raises(DataError, match="later: an index of format 99; name another file"):
        model.open(index=tmp_path / "later")
    with safe_open(index, framework="np") as file:
        some = {name: file.get_tensor(name) for name in file.keys() if name != "cuts"}  # noqa: SIM118
        save_file(some, tmp_path / "less", file.metadata())
    with pytest.raises(DataError, match="less: not a complete index \\('cuts'\\)"):
        model.open(index=tmp_path / "less")
    with pytest.raises(DataError, match="none: file not found"):
        model.open(index=tmp_path / "none")


def test_an_index_for_another_model(tiny_encoder: Path, index: Path) -> None:
    with pytest.raises(DataError, match="made for a model with another tokenizer or max_block_tokens"):
        reader(tiny_encoder, max_block_tokens=15).open(index=index)


def test_what_the_tokenizer_did_last_does_not_matter(tiny_encoder: Path, index: Path) -> None:
    model = reader(tiny_encoder)
    model.model.tokenizer("Anna wrote", truncation=True, max_length=3, padding="max_length")
    assert model.open(index=index).document.text == TEXT


def test_a_full_disk_keeps_the_index_before(tiny_encoder: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = index.read_bytes()

    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cogltx._files._write", full)
    with pytest.raises(TrainingError, match="No space left on device"):
        reader(tiny_encoder).open("Another text.").save(index)
    assert index.read_bytes() == before


@pytest.mark.parametrize("shortlist", [None, 3])
def test_several_documents_are_searched_together(tiny_encoder: Path, tmp_path: Path, shortlist: int | None) -> None:
    documents = {name: Document(f"{start}{TEXT}", name) for name, start in (("a", "Über. "), ("b", ""), ("c", "And "))}
    model = reader(tiny_encoder, shortlist)
    opened = model.open(list(documents.values()))
    predictions = [opened.ask(question) for question in QUESTIONS]
    seen = set()
    for prediction in predictions:
        if prediction.start is not None:
            assert documents[prediction.document].text[prediction.start : prediction.end] == prediction.answer
        for evidence in prediction.evidence:
            assert documents[evidence.document].text[evidence.start : evidence.end] == evidence.text
            seen.add(evidence.document)
        for answer in prediction.alternatives:
            if answer.start is not None:
                assert documents[answer.document].text[answer.start : answer.end] == answer.text
    assert len(seen) > 1 or shortlist
    opened.save(tmp_path / "all.index")
    again = reader(tiny_encoder, shortlist).open(index=tmp_path / "all.index")
    assert [again.ask(question) for question in QUESTIONS] == predictions
    assert (again.document.text, again.document.parts) == (opened.document.text, opened.document.parts)


def test_an_answer_ends_with_its_document() -> None:
    joined = Document.joined([Document("One two", "a"), Document("three", "b")])
    found = Prediction(id="", answer="two\n\nthr", start=4, end=12, confidence=1.0).within(joined)
    assert (found.document, found.start, found.end, found.answer) == ("a", 4, 7, "two")
    unknown = Prediction(id="", answer="", start=None, end=None, confidence=1.0).within(joined)
    assert (unknown.document, unknown.start) == ("", None)


def test_bm25_needs_no_vectors(tiny_encoder: Path, tmp_path: Path) -> None:
    values = config(tiny_encoder).model_dump(mode="json")
    values["memrecall"] |= {"shortlist": 3, "retriever": "bm25"}
    values["max_block_tokens"] = 16
    made = CogLTX(Model.create(config(tiny_encoder).model_validate(values), with_judge=True, device="cpu"))
    made.open(TEXT).save(tmp_path / "words.index")
    expected = [made.predict(TEXT, question) for question in QUESTIONS]
    assert [made.open(index=tmp_path / "words.index").ask(question) for question in QUESTIONS] == expected
