"""``cogltx train`` with a data file in place of a configuration, and what training says about its data."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import corpus
import pytest
from command_line import Call, Files, write

from cogltx.cli._data_file import settings_for

TEXT = "The Harbour Bridge was designed by Ilse Brandt. It was opened in October and the toll was nine crowns. " * 3
GERMAN = (
    "Die Brücke wurde von Ilse Brandt gebaut und im Oktober für alle Wagen geöffnet, sagt der alte Müller heute. " * 4
)


def exported(number: int, answers: list[Any], text: str = TEXT, document: str = "guide.md") -> dict[str, Any]:
    """Make a line as ``exporting.js`` writes it."""
    segments = [{"start": 0, "end": 47, "heading": "History"}, {"start": 48, "end": 103, "heading": ""}]
    pages = {"pages": [[0, 1], [103, 2]]} if document.endswith(".pdf") else {}
    asked = {"question": f"Who designed it, {number}?", "answers": answers}
    return {"id": f"k{number}-1", "document": document, "text": text, "segments": segments, **pages, **asked}


def lines(path: Path, *records: Mapping[str, Any]) -> Path:
    return write(path, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records))


CORRECTIONS = [
    exported(1, [{"text": "Ilse Brandt", "start": 35}]),
    exported(2, [{"text": "nine crowns", "start": 90}]),
    exported(3, []),
    exported(4, ["yes"], document="bridge.pdf"),
    exported(5, [{"text": "October", "start": 65}], document="bridge.pdf"),
]


@pytest.fixture
def small(files: Files) -> list[str]:
    """Options with which a new tiny model is trained for an epoch."""
    settings = [f"encoder.name={files.folder / 'encoder'}", "training.epochs=1", "max_block_tokens=16"]
    return [word for setting in settings for word in ("--set", setting)]


def test_corrections_of_the_page(call: Call, tmp_path: Path) -> None:
    """The released model is trained further, and answers."""
    data, run = lines(tmp_path / "corrections.jsonl", *CORRECTIONS), tmp_path / "run"
    done = call("train", data, "--output", run, "--set", "training.epochs=1")
    assert done.code == 0, done.err
    first, second, *_ = done.err.splitlines()
    assert first == "5 questions; training qa-minilm further (--set init_from=MODEL chooses another)"
    assert second == "4 training and 1 validation examples"
    config = json.loads((run / "run-config.json").read_text())
    assert (config["init_from"], config["data"]["train"]) == ("qa-minilm", str(data))
    document = write(tmp_path / "a.txt", TEXT)
    assert call("ask", document, "Who designed it?", "--model", run).code == 0


def test_nothing_but_missing_answers(call: Call, tmp_path: Path) -> None:
    data = lines(tmp_path / "corrections.jsonl", *(exported(number, []) for number in range(3)))
    done = call("train", data, "--output", tmp_path / "run", "--set", "training.epochs=1")
    assert done.code == 0, done.err
    assert "training qa-minilm further, but not its judge, which learns from places of answers (" in done.err


def decision(call: Call, data: Path, *options: str) -> str:
    """What is decided about a file."""
    done = call("train", data, "--explain", *options)
    assert done.code == 0, done.err
    return done.err.splitlines()[0]


def test_the_model_that_fits_the_data(call: Call, tmp_path: Path) -> None:
    german = lines(tmp_path / "a.jsonl", *(exported(number, ["Ilse Brandt"], GERMAN) for number in range(3)))
    assert decision(call, german).startswith("3 questions; training qa-multilingual further (")
    other = ("--set", "init_from=qa-minilm")
    assert decision(call, german, *other).startswith("3 questions; training qa-minilm further (")
    new = "3 questions; training a new span model (--set init_from=MODEL chooses one to train further)"
    assert decision(call, german, "--set", "init_from=null") == new
    labelled = lines(tmp_path / "b.jsonl", {"text": TEXT, "label": "a"}, {"text": GERMAN, "label": "b"})
    assert decision(call, labelled).startswith("2 texts with 2 labels; training a new classification model (")
    tagged = lines(tmp_path / "d.jsonl", {"text": TEXT, "entities": [[4, 18, "PLACE"], [35, 46, "PERSON"]]})
    assert decision(call, tagged).startswith("1 text with 2 entities; training a new tagging model (")
    several = lines(tmp_path / "c.jsonl", {"text": TEXT, "labels": ["a", "b"]}, {"text": GERMAN, "labels": []})
    assert settings_for(several, (), ())[0][1:] == ["reasoner.name=classification", "reasoner.multi_label=true"]


@pytest.mark.parametrize(
    ("name", "records", "expected"),
    [
        ("a.jsonl", [], "a.jsonl: no example with a question, labels or entities, from which a model learns"),
        ("a.jsonl", [{"text": "A text."}], "a.jsonl: no example with a question, labels or entities, from which"),
        (
            "a.jsonl",
            [{"text": "A text.", "label": "a"}, {"text": "A text.", "question": "What?", "answers": []}],
            "a.jsonl: 1 with questions and 1 with labels together; a model learns one kind, so put each into its own",
        ),
        ("a.jsonl", [{"txt": "A text."}], "a.jsonl:1: text is missing; txt is not a field; did you mean text?"),
        ("a.csv", [], "a.csv: a table needs the documents of its answers; name them with --documents"),
    ],
)
def test_files_that_do_not_train(
    call: Call, tmp_path: Path, name: str, records: list[dict[str, Any]], expected: str
) -> None:
    done = call("train", lines(tmp_path / name, *records), "--output", tmp_path / "run")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert expected in done.err


def test_one_example_and_documents_of_no_table(call: Call, tmp_path: Path) -> None:
    data = lines(tmp_path / "a.jsonl", CORRECTIONS[0])
    done = call("train", data, "--output", tmp_path / "run")
    assert done.err.splitlines()[1:] == ["cogltx: there is only one training example; a second one has to validate"]
    done = call("train", data, "--output", tmp_path / "run", "--documents", tmp_path)
    expected = "cogltx: data.documents: only for a table of questions (.csv or .tsv) in data.train"
    assert (done.code, done.err.splitlines()[1:]) == (2, [expected])


@pytest.fixture
def table(tmp_path: Path) -> tuple[Path, Path]:
    """A table with seven answers that are nowhere, and the folder with its documents."""
    rows = ["question,answer,document"]
    (tmp_path / "documents").mkdir()
    for example in corpus.make(8):
        write(tmp_path / "documents" / f"{example.id}.txt", example.document.text)
        rows.append(f'{example.query.text if example.query else ""},"{(example.answers or ("",))[0]}",{example.id}')
    rows += [f"who has number {number}?,zzz{number},0" for number in range(7)]
    return write(tmp_path / "questions.csv", "\n".join(rows)), tmp_path / "documents"


def test_a_table_and_its_documents(table: tuple[Path, Path], small: list[str], call: Call, tmp_path: Path) -> None:
    path, folder = table
    done = call("train", path, "--documents", folder, "--output", tmp_path / "a", "--set", "init_from=null", *small)
    assert done.code == 0, done.err
    first, second, *listed = done.err.splitlines()[:8]
    assert first.startswith("8 questions; training a new span model (")
    assert second == "8 of 15 answers found in 8 documents; 7 not found:"
    assert listed[0].startswith(f"  {path}:10: 'who has number 0?': 'zzz0' is not in 0.txt")
    prepare = f"cogltx prepare {path} --documents {folder} --output data.jsonl"
    assert listed[5] == f"  … and 2 more; {prepare} lists them all"
    config = write(tmp_path / "run.yaml", f"data: {{train: '{path}', documents: ['{folder}']}}\n")
    again = call("train", config, "--output", tmp_path / "b", *small)
    assert again.code == 0, again.err
    assert again.err.splitlines()[0] == "7 training and 1 validation examples"
    assert again.err.splitlines()[1:8] == [second, *listed]
    config = write(tmp_path / "run.yaml", f"data: {{train: '{path}'}}\n")
    done = call("train", config, "--output", tmp_path / "c", *small)
    expected = f"cogltx: {path}: a table needs the documents of its answers; name them with --documents"
    assert (done.code, done.err.splitlines()) == (2, [expected])
    write(path, "question,answer\nwho?,nobody at all\n")
    done = call("train", path, "--documents", folder, "--output", tmp_path / "d")
    assert done.code == 2
    assert f"{path}: none of its 1 answers is in the documents; {path}:2: 'who?': 'nobody at all' is in" in done.err


def test_answers_that_are_missing(small: list[str], call: Call, tmp_path: Path) -> None:
    records = [{"id": f"q{n}", "text": f"{TEXT} {n}", "question": "Who designed the bridge?"} for n in range(8)]
    right = [{**one, "answers": ["Ilse Brandt"]} for one in records]
    wrong = [{**one, "answers": ["Ilsa Brand"]} for one in records]
    data = lines(tmp_path / "a.jsonl", *right[6:], *wrong[:6])
    command = ["train", data, "--set", "init_from=null", *small]
    _, _, *err = call(*command, "--output", tmp_path / "a").err.splitlines()
    assert err[:8] == [
        "6 of 8 answers do not occur in their text; the reasoner does not learn from them:",
        *(f"  q{n}: 'Who designed the bridge?': the answer 'Ilsa Brand' does not occur in the text" for n in range(5)),
        f"  … and 1 more; cogltx prepare jsonl --source {data} --output data.jsonl lists them all",
        "warning: more than half of the answers are missing; an answer must be an exact slice of its text: copy it from "
        "there, or let cogltx train TABLE --documents find it",
    ]
    prepared = call("prepare", "jsonl", "--source", data, "--output", tmp_path / "data.jsonl").err
    assert prepared.count("the answer 'Ilsa Brand' does not occur in the text") == 6
    lines(data, *right[1:], wrong[0])
    _, _, *err = call(*command, "--output", tmp_path / "b").err.splitlines()
    assert err[0] == "1 of 8 answers do not occur in their text; the reasoner does not learn from them:"
    assert "warning: more than half" not in "\n".join(err)
    lines(data, *wrong)
    done = call(*command, "--set", "judge.name=bm25", "--output", tmp_path / "c")
    assert (done.code, done.err.splitlines()[-1]) == (
        2,
        (
            "cogltx: none of the 8 answers occurs in its text; q0: 'Who designed the bridge?': the answer 'Ilsa Brand' does "
            "not occur in the text; an answer must be an exact slice of its text: copy it from there, or let cogltx train "
            "TABLE --documents find it"
        ),
    )
    assert not (tmp_path / "c").exists()
    lines(data, *({**one, "relevant": [[0, 12]]} for one in wrong))
    done = call(*command, "--output", tmp_path / "d")
    assert not done.code, "the judge learns from the evidence"
    assert "warning: more than half of the answers are missing" in done.err


def test_labels_that_are_rare_or_everywhere(small: list[str], call: Call, tmp_path: Path) -> None:
    records = [{"text": f"{TEXT} {n}", "label": "spam" if n else "ham"} for n in range(30)]
    data = lines(tmp_path / "a.jsonl", *records)
    more = ["--set", f"data.validation={data}", "--set", "training.epochs=2"]
    err = call("train", data, "--output", tmp_path / "a", *small, *more).err.splitlines()
    assert err[:4] == [
        "30 texts with 2 labels; training a new classification model (--set init_from=MODEL chooses one to train further)",
        "30 training and 30 validation examples",
        "labels with fewer than 5 training examples: ham (1); add examples, or join labels",
        "warning: 97 % of the training texts have the label 'spam': a model that always says 'spam' is right for 97 %, so "
        "accuracy alone does not show whether this one learns; compare macro_f1",
    ]
    assert "chance decides" not in "\n".join(err)


def test_entities_per_type_and_the_choice_of_an_epoch(small: list[str], call: Call, tmp_path: Path) -> None:
    entities = [[4, 18, "PLACE"], [35, 46, "PERSON"]]
    data = lines(tmp_path / "a.jsonl", *({"text": f"{TEXT} {n}", "entities": entities[: 1 + n % 2]} for n in range(12)))
    done = call(
        "train", data, "--output", tmp_path / "run", *small, "--set", "training.epochs=2", "--set", "training.seed=1"
    )
    assert done.code == 0, done.err
    _, _, numbers, few, choice, *_ = done.err.splitlines()
    n_people = int(numbers.partition("PERSON (")[2].partition(" ")[0])
    places = "PLACE (10 and 2)"
    assert numbers == f"entities in training and validation: PERSON ({n_people} and {6 - n_people}), {places}"
    assert few == f"warning: types with fewer than 10 training entities, too few to learn: PERSON ({n_people})"
    expected = (
        "the best epoch is chosen by 2 validation examples: chance decides; use more, or --set training.kept_epoch=last"
    )
    assert choice == expected
