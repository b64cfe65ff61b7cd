"""A new user's own data: a short YAML file or one Python call trains each kind, and the first mistakes have an answer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Call

import cogltx
from cogltx.errors import ConfigError, DataError
from cogltx.pipeline import CogLTX
from cogltx.training import train

SMALL: dict[str, Any] = {"max_block_tokens": 16, "memrecall": {"capacity": 64, "strides": [2]}}
NOISE = "Filler words fill the page; the dog does not mind. "


def questions(count: int = 30) -> list[dict[str, Any]]:
    names = ["Anna", "John", "Smith"]
    return [
        {
            "text": f"{NOISE * 3}The key of {names[n % 3]} is in block {n}. {NOISE * 3}",
            "question": f"Where is the key of {names[n % 3]}?",
            "answers": [f"block {n}"],
        }
        for n in range(count)
    ]


def texts(count: int = 12) -> list[dict[str, Any]]:
    topics = {"france": "Paris is the capital of France. ", "moon": "People walked on the Moon. "}
    names = list(topics)
    return [
        {"text": f"{NOISE * 6}{topics[names[n % 2]]}{NOISE * 2}Page {n}.", "label": names[n % 2]} for n in range(count)
    ]


def several(count: int = 12) -> list[dict[str, Any]]:
    return [
        {"text": item["text"], "labels": [item["label"], "long"] if n % 3 else []}
        for n, item in enumerate(texts(count))
    ]


def entities(count: int = 8) -> list[dict[str, Any]]:
    text = f"{NOISE}Anna Karlsson wrote it in Stockholm. {NOISE}"
    first, second = text.index("Anna"), text.index("Stockholm")
    return [
        {"text": text, "entities": [[first, first + 13, "person"], [second, second + 9, "place"]]} for _ in range(count)
    ]


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def write_folders(path: Path) -> Path:
    for number, item in enumerate(texts()):
        (path / item["label"]).mkdir(parents=True, exist_ok=True)
        (path / item["label"] / f"{number}.txt").write_text(item["text"])
    return path


def write_conll(path: Path) -> Path:
    sentence = "Anna B-person\nKarlsson I-person\nwrote O\nit O\nin O\nStockholm B-place\n. O\n"
    path.write_text("".join(f"-DOCSTART- O\n\n{(sentence + chr(10)) * 4}" for _ in range(6)))
    return path


KINDS: dict[str, tuple[str, Callable[[Path], Path], Callable[[], list[dict[str, Any]]] | None]] = {
    "questions": ("", lambda path: write_lines(path / "questions.jsonl", questions()), questions),
    "labels": ("{name: classification}", lambda path: write_lines(path / "texts.jsonl", texts()), texts),
    "folders": ("{name: classification}", lambda path: write_folders(path / "texts"), None),
    "multi_label": (
        "{name: classification, multi_label: true}",
        lambda path: write_lines(path / "texts.jsonl", several()),
        several,
    ),
    "entities": ("{name: tagging}", lambda path: write_lines(path / "tags.jsonl", entities()), entities),
    "conll": ("{name: tagging}", lambda path: write_conll(path / "tags.conll"), None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_file_trains_own_data(kind: str, tiny_encoder: Path, tmp_path: Path, call: Call) -> None:
    reasoner, write, _ = KINDS[kind]
    data = write(tmp_path)
    lines = [
        f"encoder: {{name: {tiny_encoder}, precision: float32}}",
        f"data: {{train: {data}}}",
        "training: {epochs: 1}",
        "max_block_tokens: 16",
        "memrecall: {capacity: 64, strides: [2]}",
        *([f"reasoner: {reasoner}"] if reasoner else []),
    ]
    assert len(lines) <= 6
    config = tmp_path / "run.yaml"
    config.write_text("\n".join(lines))
    done = call("train", config, "--output", tmp_path / "run")
    code, err = done.code, done.err
    assert code == 0, err
    assert "* epoch 1 is kept" in err
    assert CogLTX.from_pretrained(tmp_path / "run").predict(texts(1)[0]["text"], "Where is the key?").n_blocks > 1
    if Path(data).suffix == ".jsonl":
        measured = call("evaluate", tmp_path / "run", "--data", data)
        assert f"warning: {tmp_path / 'run'} learned from {data}; " in measured.err


@pytest.mark.parametrize("kind", [kind for kind, (_, _, make) in KINDS.items() if make is not None])
def test_one_call_trains_own_data(kind: str, tiny_encoder: Path) -> None:
    reasoner, _, make = KINDS[kind]
    assert make is not None
    config: dict[str, Any] = SMALL | {
        "encoder": {"name": str(tiny_encoder), "precision": "float32"},
        "training": {"epochs": 1},
    }
    if reasoner:
        name, *more = reasoner.strip("{}").replace("name: ", "").split(", ")
        config["reasoner"] = {"name": name} | ({"multi_label": True} if more else {})
    lines: list[str] = []
    model = train(config, make(), report=lines.append)
    assert isinstance(model, CogLTX)
    assert any(line.startswith("* epoch 1 is kept: ") for line in lines)
    prediction = model.predict(make()[0]["text"], "Where is the key of Anna?" if kind == "questions" else None)
    assert prediction.n_tokens > 0


def test_examples_from_python_stay_in_the_named_folder(tiny_encoder: Path, tmp_path: Path) -> None:
    config = SMALL | {"encoder": {"name": str(tiny_encoder), "precision": "float32"}, "training": {"epochs": 1}}
    examples = [
        cogltx.Example(
            id=str(n), document=cogltx.Document(item["text"]), query=cogltx.Query(item["question"]), answers=()
        )
        for n, item in enumerate(questions(6))
    ]
    with pytest.raises(DataError, match="no example"):
        train(config | {"reasoner": {"name": "classification"}}, examples, report=lambda line: None)
    train(config, questions(6), validation=questions(3), output=tmp_path / "run", report=lambda line: None)
    assert (tmp_path / "run" / "run-config.json").is_file()
    with pytest.raises(ConfigError, match="the folder has a run, "):
        train(config, questions(6), output=tmp_path / "run", report=lambda line: None)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"reasoner": {"name": "classify"}}, "reasoner.name: 'classify' is not known"),
        ({"training": {"epoch": 2}}, "epoch is not a setting of training; did you mean epochs?"),
        ({"reader": "truncation"}, r"reader: train\(\) returns a CogLTX model"),
        ({"reader": "trunc"}, "reader: 'trunc' is not a reader; use cogltx, sliding_window"),
    ],
)
def test_a_wrong_setting_of_a_call_is_named(config: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        train(config, questions())


def test_items_of_another_kind_are_named() -> None:
    with pytest.raises(DataError, match="^example 1: "):
        train({}, [questions(1)[0], {"text": {1, 2}}])
    with pytest.raises(DataError, match="^example 1: "):
        train({}, [questions(1)[0], {"texts": "a"}])


def test_holding_out_everything_names_the_setting(tiny_encoder: Path, tmp_path: Path, call: Call) -> None:
    data = write_lines(tmp_path / "questions.jsonl", questions())
    config = tmp_path / "run.yaml"
    config.write_text(f"encoder: {{name: {tiny_encoder}}}\ndata: {{train: {data}, held_out: 30}}\n")
    done = call("train", config, "--output", tmp_path / "run")
    code, err = done.code, done.err
    assert code == 2
    assert "data.held_out: holding out 30 of 30 examples" in err


@pytest.mark.parametrize("more", [[], ["--resume"]])
def test_a_training_that_failed_early_leaves_its_folder_free(
    more: list[str], tiny_encoder: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_lines(tmp_path / "questions.jsonl", questions(6))
    config = tmp_path / "run.yaml"
    text = f"encoder: {{name: {tiny_encoder}, precision: float32}}\ndata: {{train: {data}}}\ntraining: {{epochs: 1}}\n"
    config.write_text(text)
    with monkeypatch.context() as patch:
        patch.setattr("cogltx.training._steps.JudgeSteps.step", lambda *_: (_ for _ in ()).throw(DataError("broken")))
        assert call("train", config, "--output", tmp_path / "run").code == 2
    assert (tmp_path / "run" / "run-config.json").exists()
    config.write_text(text + "max_block_tokens: 16\n")
    done = call("train", config, "--output", tmp_path / "run", *more)
    code, err = done.code, done.err
    assert code == 0, err
