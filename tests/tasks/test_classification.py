"""Texts with labels: files and folders, labels as queries, and metrics that agree with scikit-learn."""

import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from cogltx.document import Document, Example
from cogltx.errors import ConfigError, DataError
from cogltx.prediction import Label, Prediction
from cogltx.tasks import ReadReport, make_task
from cogltx.tasks.newsgroups import _treat

POST = """From: anna@example.org (Anna)
Subject: Cars
Lines: 4

In article <1@x>, bert@example.org writes:
> I like cars.
So do I (Really I do), see http://example.org and well-known | tables.

--
Anna Karlsson
"""


def write(path: Path, *lines: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def said(id: str, *labels: str) -> Prediction:
    return Prediction(
        id=id, answer="", start=None, end=None, confidence=1.0, labels=tuple(Label(name, 0.9, True) for name in labels)
    )  # fmt: skip


def test_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"id": "1", "text": "a", "label": "x"}, {"id": "2", "text": "b", "labels": []})
    first, second = make_task("classification", {}).read(path, split="train")
    assert (first.labels, second.labels) == (("x",), ())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"text": "a", "label": "x", "labels": ["y"]}, ":1: has both label and labels; keep one"),
        ({"text": "a", "labels": ["y", "y"]}, ":1: labels must be different names, but are"),
        ({"text": "a", "labels": [" "]}, ":1: labels must be different names, but are"),
        ({"text": "a", "label": 3.5}, ":1: label must be a string or an integer, but is 3.5"),
        ({"text": " ", "label": "x"}, ":1: document"),
    ],
)
def test_wrong_lines(tmp_path: Path, line: dict[str, object], expected: str) -> None:
    path = write(tmp_path / "a.jsonl", line)
    with pytest.raises(DataError) as error:
        list(make_task("classification", {}).read(path, split="train"))
    assert expected in str(error.value)


def test_two_texts_with_one_id(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *[{"id": "1", "text": "a", "label": "x"}] * 2)
    with pytest.raises(DataError, match=r"a\.jsonl:2: the id '1' is already used at .*a\.jsonl:1"):
        list(make_task("classification", {}).read(path, split="train"))


def test_a_folder_for_each_label(tmp_path: Path) -> None:
    for name in ("train/food/1.txt", "train/city/2.txt", "test/food/3.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    task = make_task("classification", {})
    found = list(task.read(tmp_path, split="train"))
    assert [(example.id, example.labels) for example in found] == [("city/2.txt", ("city",)), ("food/1.txt", ("food",))]
    assert [example.labels for example in task.read(tmp_path, split="test")] == [("food",)]
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        DataError, match=r"empty: has no label folders with texts; put each text into a folder .*empty/positive/1\.txt"
    ):
        list(task.read(tmp_path / "empty", split="train"))


def test_hidden_files_are_no_texts(tmp_path: Path) -> None:
    for name in ("food/1.txt", "food/.DS_Store", ".DS_Store", ".git/config", "city/.hidden/2.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"text" if name.endswith("1.txt") else b"\0\xff")
    assert [example.id for example in make_task("classification", {}).read(tmp_path, split="train")] == ["food/1.txt"]


def test_texts_without_label_folders(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("a text")
    with pytest.raises(DataError, match=r"has no label folders with texts; .* such as .*/positive/1\.txt and "):
        list(make_task("classification", {}).read(tmp_path, split="train"))


def test_documents_of_each_format_have_labels(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "food").mkdir()
    (tmp_path / "city").mkdir()
    (tmp_path / "food/1.html").write_text("<h1>Soup</h1><p>It is <b>hot</b>.</p><style>p {}</style>")
    (tmp_path / "food/2.md").write_text("# Bread\n\nIt is *old*.")
    (tmp_path / "food/10004").write_text("no ending")
    (tmp_path / "city/3.docx").write_bytes(b"PK broken")
    (tmp_path / "city/blank.txt").write_text("\n")
    Path(os.fsdecode(bytes(tmp_path / "city") + b"/caf\xe9.txt")).write_text("coffee")
    task = make_task("classification", {})
    examples = list(task.read(tmp_path, split="train"))
    assert {example.id: example.document.text for example in examples} == {
        "food/10004": "no ending", "food/1.html": "Soup\n\nIt is hot.", "food/2.md": "Bread\n\nIt is old."
    }  # fmt: skip
    assert {segment.heading for example in examples for segment in example.document.segments} == {"Soup", "Bread"}
    assert [example.document.id for example in examples] == [example.id for example in examples]
    assert [message.partition(": ")[0] for message in caplog.messages] == ["left out"] * 3
    broken, blank, name = caplog.messages
    assert f"{tmp_path / 'city/3.docx'}: not a readable Word file" in broken
    assert f"{tmp_path / 'city/blank.txt'}: the document has no text" in blank
    assert "the file name 'city/caf\\udce9.txt' is not UTF-8" in name
    for file in (tmp_path / "food").iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"no file in the label folders can be read$"):
        list(task.read(tmp_path, split="train"))


def test_labels_as_queries(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"id": "1", "text": "a", "labels": ["x"]}, {"id": "2", "text": "b"})
    task = make_task("classification", {"label_queries": True, "labels": ["x", "y"]})
    report = ReadReport()
    found = list(task.read(path, split="train", report=report))
    assert [(e.id, e.query and e.query.text, e.labels) for e in found] == [
        ("1: x", "x", ("yes",)), ("1: y", "y", ("no",)), ("2: x", "x", None), ("2: y", "y", None),
    ]  # fmt: skip
    assert found[0].document is found[1].document
    assert (report.examples, [id for id, _ in report.unmapped]) == (2, ["2"])
    metrics = task.metrics(zip(found, [said("", "yes"), said("", "yes"), said("", "no"), said("", "no")], strict=True))
    assert metrics["micro_f1"] == pytest.approx(200 / 3)
    assert metrics["accuracy"] == 0
    with pytest.raises(DataError, match=r"example '1': the label 'x' is not in task\.options\.labels"):
        list(make_task("classification", {"label_queries": True, "labels": ["y"]}).read(path, split="train"))
    with pytest.raises(ConfigError, match="label_queries needs all label names"):
        list(make_task("classification", {"label_queries": True}).read(path, split="train"))


def test_metrics_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    gold, found = (rng.random((60, 5)) < 0.4 for _ in range(2))
    sets = [[{str(label) for label in np.flatnonzero(row)} for row in table] for table in (gold, found)]
    examples = [Example(id=str(n), document=Document("a"), labels=tuple(own)) for n, own in enumerate(sets[0])]
    predictions = [said(str(n), *own) for n, own in enumerate(sets[1])]
    metrics = make_task("classification", {}).metrics(zip(examples, predictions, strict=True))
    assert metrics["micro_f1"] == pytest.approx(100 * f1_score(gold, found, average="micro"))
    assert metrics["macro_f1"] == pytest.approx(100 * f1_score(gold, found, average="macro"))
    assert metrics["accuracy"] == pytest.approx(100 * (gold == found).all(axis=1).mean())


def test_treatments_of_a_post() -> None:
    assert _treat(POST, "headers") == POST
    stripped = _treat(POST, "stripped")
    assert "Subject" not in stripped
    assert "I like cars" not in stripped
    assert "Karlsson" not in stripped
    assert "So do I" in stripped
    paper = _treat(POST, "paper")
    assert "I like cars." in paper
    assert not set(">|-@:") & set(paper)
    assert "Really" not in paper
    assert "wellknown tables." in paper
    assert _treat("x" * 61 + " " + "y" * 60, "paper") == "y" * 60


def archive(path: Path, posts: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for name, content in posts.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return path


def test_an_archive_and_its_folder_hold_the_same(tmp_path: Path) -> None:
    posts = {
        "20news-bydate-train/rec.autos/1": POST.encode(),
        "20news-bydate-train/sci.space/2": b"From: x@y\n\n",
        "20news-bydate-test/rec.autos/3": b"From: x@y\n\ncaf\xe9 talk",
    }
    path = archive(tmp_path / "20news.tar.gz", posts)
    for name, content in posts.items():
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).write_bytes(content)
    task, report = make_task("newsgroups", {"text": "stripped"}), ReadReport()
    packed = list(task.read(path, split="train", report=report))
    assert packed == list(task.read(tmp_path / "folder", split="train"))
    assert [(e.id, e.labels) for e in packed] == [
        ("train/rec.autos/1", ("rec.autos",)), ("train/sci.space/2", ("sci.space",)),
    ]  # fmt: skip
    assert packed[1].document.text == "(no text)"
    assert [reason for _, reason in report.unmapped] == ["the form 'stripped' of the post is empty"]
    (last,) = task.read(path, split="test")
    assert last.document.text == "café talk"


def test_wrong_archives(tmp_path: Path) -> None:
    task = make_task("newsgroups", {})
    with pytest.raises(DataError, match=r"none\.tar\.gz: file not found"):
        list(task.read(tmp_path / "none.tar.gz", split="train"))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(
        DataError, match=r"20 Newsgroups has no validation posts; hold out training posts \(data.held_out"
    ):
        list(task.read(tmp_path, split="validation"))
    with pytest.raises(DataError, match="text: not an archive of 20 Newsgroups: "):
        list(task.read(tmp_path / "text", split="train"))
    with pytest.raises(DataError, match="the folder 20news-bydate-train is missing"):
        list(task.read(tmp_path, split="train"))


def test_the_real_archive(data_folder: Path) -> None:
    path = data_folder / "20news" / "20news-bydate.tar.gz"
    counts = {split: sum(1 for _ in make_task("newsgroups", {}).read(path, split=split)) for split in ("train", "test")}
    assert counts == {"train": 11314, "test": 7532}


def test_the_real_contracts(data_folder: Path) -> None:
    examples = list(
        make_task("classification", {}).read(data_folder / "cuad" / "multilabel-test.jsonl.gz", split="test")
    )
    assert len({label for example in examples for label in example.labels or ()}) > 30


def test_texts_with_extra_fields_are_no_label_queries() -> None:
    """Of four wrong predictions none is right, whatever the data says besides its labels."""
    extra: dict[str, object] = {"text": "a", "label": "pos"}
    pairs = [
        (Example(id=str(n), document=Document(f"text {n}"), labels=("pos",), extra=extra), said(str(n), "neg"))
        for n in range(4)
    ]
    assert make_task("classification", {}).metrics(pairs)["micro_f1"] == 0


def test_texts_of_two_files_with_the_same_numbers_all_count() -> None:
    pairs = [(Example(id="1", document=Document(text), labels=("pos",)), said("1", text)) for text in ("neg", "pos")]
    assert make_task("classification", {}).metrics(pairs)["micro_f1"] == 50
