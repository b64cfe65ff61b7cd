"""Configurations from YAML: every error names the file, the line and the key; and the models made from them."""

import json
from pathlib import Path

import pytest
import torch
from fakes import Fussy, WordOverlap, config, reader

from cogltx._files import changed
from cogltx.baselines import SlidingWindow, load_reader
from cogltx.cli._yaml_config import load_yaml, parse_changes
from cogltx.config import ModelConfig
from cogltx.encoding.positions import PositionsConfig
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.judges import _ScoringJudgeAdapter as ScoringJudgeAdapter
from cogltx.pipeline import CogLTX
from cogltx.training._data import expand, read_examples, run_examples
from cogltx.training.config import RunConfig
from cogltx.training.masked_lm import MaskedConfig
from cogltx.training.run import _build

GOOD = """\
# a run
reader: cogltx
task: {name: jsonl}
encoder:
  name: minilm
  batch_tokens: 512
memrecall:
  capacity: 64
  strides: [1, 2]
data:
  train: $FOLDER/train.jsonl
  held_out: 2
training:
  epochs: 2
  judge: {learning_rate: 1e-4}
"""


FLOATS = (
    "training.judge.learning_rate", "training.relevance.raise_threshold", "training.relevance.lower_threshold",
    "reasoner.evidence_weight", "reasoner.calibration.no_answer", "memrecall.headings",
)  # fmt: skip


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run(tmp_path: Path) -> None:
    run = load_yaml(RunConfig, write(tmp_path, GOOD))
    assert run.memrecall.strides == (1, 2)
    assert run.training.judge.learning_rate == 1e-4
    assert run.training.reasoner.learning_rate == 1e-4
    assert run.data.held_out == 2
    part = run.model_part()
    assert type(part) is ModelConfig
    assert part.memrecall == run.memrecall


def test_the_given_runs_are_right() -> None:
    paths = sorted((Path(__file__).parents[2] / "configs").rglob("*.yaml"))
    assert paths
    for path in paths:
        if path.name.startswith("mlm-"):
            positions = load_yaml(MaskedConfig, path).encoder.positions
            assert positions is None or positions.length == load_yaml(MaskedConfig, path).length
        else:
            assert load_yaml(RunConfig, path).memrecall.capacity <= 512


@pytest.mark.parametrize(
    ("change", "wording"),
    [
        ("length=16", "--set: length must be greater than or equal to 32, but is 16"),
        ("training.steps=0", "--set: training.steps must be greater than or equal to 1, but is 0"),
        ("encoder.positions.base=2", "--set: base is not a setting of encoder.positions; choose from length, method, alpha"),
        ("reasoner.name=span", "--set: reasoner is not a setting; choose from task, encoder, data, length, training"),
        ("data=null", "--set: data must be "),
    ],
)  # fmt: skip
def test_a_masked_run_with_a_wrong_key_or_value(tmp_path: Path, change: str, wording: str) -> None:
    path = write(tmp_path, "data: {train: a.txt}\nencoder: {positions: {length: 1024}}\n")
    assert load_yaml(MaskedConfig, path).encoder.positions == PositionsConfig(length=1024)
    with pytest.raises(ConfigError, match=f"^{wording}"):
        load_yaml(MaskedConfig, path, [change])


@pytest.mark.parametrize(
    ("old", "new", "line", "wording"),
    [
        ("reader: cogltx", "raeder: cogltx", 2, "raeder is not a setting; did you mean reader\\?$"),
        ("  capacity: 64", "  capcity: 64", 8, "capcity is not a setting of memrecall; did you mean capacity\\?$"),
        ("  capacity: 64", "  capacity: 16", 8, "memrecall.capacity must be greater than or equal to 32, but is 16$"),
        ("  capacity: 64", "  capacity: many", 8, "memrecall.capacity must be an integer, but is 'many'$"),
        ("[1, 2]", "[1, two]", 9, "memrecall.strides.1. must be an integer, but is 'two'$"),
        ("[1, 2]", "[1, 0]", 9, "memrecall.strides.1. must be greater than or equal to 1, but is 0$"),
        ("[1, 2]", "[0]", 9, "memrecall.strides.0. must be greater than or equal to 1, but is 0$"),
        ("[1, 2]", "[]", 9, "memrecall.strides .*at least 1 item"),
        ("[1, 2]", "5", 9, "memrecall.strides must be .*, but is 5$"),
        ("  train: $FOLDER/train.jsonl\n", "", 10, "data.train is missing$"),
        ("  epochs: 2", "  epochs: -1", 14, "training.epochs must be greater than or equal to 0, but is -1$"),
        ("1e-4}", "-1}", 15, "training.judge.learning_rate must be greater than 0, but is -1$"),
        ("1e-4}", "1e-4, lr: 3}", 15, "lr is not a setting of training.judge; choose from learning_rate, head_rate"),
        ("  name: minilm", "  precision: float16", 5, "encoder.precision must be 'auto', 'float32' or 'bfloat16', but is 'float16'$"),
        ("task: {name: jsonl}", "task: jsonl", 3, "task must be .*, but is 'jsonl'$"),
    ],
)  # fmt: skip
def test_a_wrong_key_or_value(tmp_path: Path, old: str, new: str, line: int, wording: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(ConfigError, match=f"^{path}:{line}: {wording}") as caught:
        load_yaml(RunConfig, path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ("reader: [cogltx\n", r"run\.yaml:2: not valid YAML: "),
        ("a: b: c\n", r"run\.yaml:1: not valid YAML: mapping values are not allowed here"),
        ("", r"run\.yaml: the file has no settings; write KEY: VALUE lines"),
        ("- a\n- b\n", r"run\.yaml: the file has no settings; write KEY: VALUE lines"),
        ("reader: cogltx\n# \0", r"run\.yaml: not valid YAML: unacceptable character"),
        ("task:\n  name: jsonl\n  name: squad", r"run\.yaml:3: not valid YAML: the key name occurs twice$"),
        ("reader: cogltx\n", r"run\.yaml: data is missing"),
        (
            "data: {train: a.jsonl}\ntraining: {judge_epochs: 0}",
            r"training\.judge_epochs is 0, but the judge is new; name a",
        ),
        (
            "data: {train: a.jsonl}\njudge: {init_from: reasoner}\ntraining: {judge_epochs: 0}",
            r"training\.judge_epochs is 0, but the judge is new; name a",
        ),
        ("data: {train: a.jsonl}\njudge: {args: {a: 1}}", r"run\.yaml:2: judge: args: the judge encoder takes none"),
        ("a: " + "[" * 9_000, r"run\.yaml: not valid YAML: nested too deeply"),
    ],
)
def test_a_file_that_is_no_run(tmp_path: Path, text: str, wording: str) -> None:
    with pytest.raises(ConfigError, match=wording):
        load_yaml(RunConfig, write(tmp_path, text))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing\.yaml: file not found"):
        load_yaml(RunConfig, tmp_path / "missing.yaml")
    (tmp_path / "latin.yaml").write_bytes("# a run\nreader: Zürich".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.yaml:2: not UTF-8 \(byte 0xfc\)"):
        load_yaml(RunConfig, tmp_path / "latin.yaml")


def test_changes(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    run = load_yaml(
        RunConfig,
        path,
        ["memrecall.strides=[8]", "training.reasoner.learning_rate=0.01", "judge.name=bm25", "encoder.name=a=b"],
    )
    assert run.memrecall.strides == (8,)
    assert run.memrecall.capacity == 64
    assert run.training.reasoner.learning_rate == 0.01
    assert run.training.judge.learning_rate == 1e-4
    assert run.judge.name == "bm25"
    assert run.encoder.name == "a=b"
    rates = load_yaml(
        RunConfig, path, ["training.judge=null", "training.judge.head_rate=2", "training.reasoner.head_rate=2"]
    ).training
    assert (rates.judge.learning_rate, rates.reasoner.learning_rate, rates.judge.head_rate) == (4e-5, 1e-4, 2)
    values = {"a": {"b": 1}}
    assert changed(values, parse_changes(["a.c=null", "d=x"])) == {"a": {"b": 1, "c": None}, "d": "x"}
    assert values == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("change", "wording"),
    [
        ("training.epochs", "^--set training.epochs: write KEY=VALUE"),
        ("=3", "^--set =3: write KEY=VALUE"),
        ("training.epochs=[1", r"^--set training\.epochs: '\[1' is not a YAML value"),
        ("data.train_limit=no", "^--set: data.train_limit must be .*, but is False"),
        ("training.epochs=many", "^--set: training.epochs must be an integer, but is 'many'"),
        ("trainin.epochs=3", "^--set: trainin is not a setting; did you mean training\\?$"),
        ("training.epoch=3", "^--set: epoch is not a setting of training; did you mean epochs\\?$"),
        ("memrecall=3", "^--set: memrecall must be .*, but is 3"),
        ("task.options.x=1", "^--set: task jsonl: x is not a setting"),
        ("task.name=poetry", "^--set: the task 'poetry' is not known"),
        ("training.epochs.x=1", "^--set: training.epochs must be .*, but is {'x': 1}"),
        ("training.epochs={x: 1, x: 2}", "^--set training.epochs: '{x: 1, x: 2}' is not a YAML value"),
        ("data.train=5", "^--set: data.train must be a string, but is 5$"),
        ("data.train=[9]", "^--set: data.train\\[0\\] must be an object with named settings, but is 9$"),
        (
            "data.train=[{file: a, limt: 3}]",
            "^--set: limt is not a setting of data.train\\[0\\]; did you mean limit\\?$",
        ),
        ("data.train=[{limit: 3}]", "^--set: data.train\\[0\\].file is missing$"),
        (
            "training.reasoner.rate=1",
            "^--set: rate is not a setting of training.reasoner; ",
        ),
        *((f"reasoner={value}", "^--set: reasoner") for value in ("5", "null")),
        ("reasoner.name=null", "^--set: reasoner.name: 'None' is not known; choose from span, classification, tagging"),
        *(
            (f"{key}={value}", f"^--set: {key} must be a finite number, but is {value[1:]}")
            for key in FLOATS
            for value in (".nan", ".inf")
        ),
    ],
)
def test_a_wrong_change(tmp_path: Path, change: str, wording: str) -> None:
    with pytest.raises(ConfigError, match=wording):
        load_yaml(RunConfig, write(tmp_path, GOOD), [change])


def test_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", "/data")
    monkeypatch.setenv("HOME", "/home/anna")
    monkeypatch.delenv("NOWHERE", raising=False)
    assert expand("$FOLDER/train.jsonl") == Path("/data/train.jsonl")
    assert expand("${FOLDER}s/train.jsonl") == Path("/datas/train.jsonl")
    assert expand("~/train.jsonl") == Path("/home/anna/train.jsonl")
    assert expand("train.jsonl") == Path("train.jsonl")
    wording = r"\$NOWHERE/a: the environment variable NOWHERE is not set"
    with pytest.raises(ConfigError, match=wording):
        expand("$NOWHERE/a")


def examples_file(folder: Path, count: int, documents: int) -> Path:
    path = folder / "train.jsonl"
    lines = [
        {
            "id": str(n),
            "document": f"d{n * documents // count}",
            "text": f"Text {n * documents // count}.",
            "question": "Who?",
            "answers": [],
        }
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_examples_are_held_out_whole_documents_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", str(tmp_path))
    examples_file(tmp_path, 12, 4)
    run = load_yaml(RunConfig, write(tmp_path, GOOD))
    train, validation, report = run_examples(run)
    assert (len(train), len(validation), report.examples) == (9, 3, 12)
    assert {example.document.id for example in train}.isdisjoint(example.document.id for example in validation)
    assert run_examples(run)[1] == validation
    other = load_yaml(RunConfig, write(tmp_path, GOOD), ["training.seed=5"])
    assert {run_examples(other)[1][0].document.id, *(f"d{n}" for n in range(4))} == {f"d{n}" for n in range(4)}


def test_the_same_text_is_the_same_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", str(tmp_path))
    lines = [{"id": str(n), "text": f"Text {n % 4}.", "question": "Who?", "answers": []} for n in range(12)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    train, validation, _ = run_examples(load_yaml(RunConfig, write(tmp_path, GOOD)))
    assert (len(train), len(validation)) == (9, 3)
    assert {example.document.text for example in train}.isdisjoint(example.document.text for example in validation)


def test_a_validation_file_and_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", str(tmp_path))
    path = examples_file(tmp_path, 12, 4)
    run = load_yaml(
        RunConfig, write(tmp_path, GOOD), [f"data.validation={path}", "data.train_limit=5", "data.validation_limit=3"]
    )
    train, validation, _ = run_examples(run)
    assert (len(train), len(validation)) == (5, 3)
    assert [int(example.id) for example in train] == sorted(int(example.id) for example in train)


def test_several_training_files_each_with_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", str(tmp_path))
    examples_file(tmp_path, 12, 4)
    asked = {"id": "s", "question": "Who sat?", "answers": [{"text": "The cat", "answer_start": 0}]}
    article = {"title": "Cats", "paragraphs": [{"context": "The cat sat.", "qas": [asked]}]}
    (tmp_path / "squad.json").write_text(json.dumps({"data": [article]}))
    squad = "{file: $FOLDER/squad.json, task: {name: squad}}"
    files = f"data.train=[{{file: $FOLDER/train.jsonl, limit: 5}}, {squad}]"
    run = load_yaml(RunConfig, write(tmp_path, GOOD), [files, f"data.validation={tmp_path / 'train.jsonl'}"])
    train, validation, report = run_examples(run)
    assert [example.id for example in train] == [*sorted((one.id for one in train[:5]), key=int), "s"]
    assert train[5].answers == ("The cat",)
    assert (len(validation), report.examples) == (12, 13)
    assert run.data.train_files == ("$FOLDER/train.jsonl", "$FOLDER/squad.json")
    assert RunConfig.model_validate(run.model_dump(mode="json")) == run
    with pytest.raises(ConfigError, match="the task 'poetry' is not known"):
        run_examples(load_yaml(RunConfig, write(tmp_path, GOOD), [files.replace("squad}", "poetry}")]))


def test_a_file_without_examples(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("")
    with pytest.raises(DataError, match=r"train\.jsonl: no examples of the task jsonl"):
        read_examples(ModelConfig(), str(tmp_path / "train.jsonl"), "train")


def run_of(tiny_encoder: Path, folder: Path, *changes: str) -> object:
    small = [f"encoder.name={tiny_encoder}", "max_block_tokens=16", "encoder.precision=float32", *changes]
    return load_yaml(RunConfig, write(folder, GOOD.replace("$FOLDER", str(folder))), small)


def test_the_same_seed_gives_the_same_weights(tiny_encoder: Path, tmp_path: Path) -> None:
    def weights(*changes: str) -> list[torch.Tensor]:
        made = _build(run_of(tiny_encoder, tmp_path, *changes), [])
        assert isinstance(made, CogLTX)
        assert isinstance(made.model.judge, torch.nn.Module)
        return [*made.model.reasoner.parameters(), *made.model.judge.parameters()]

    first = weights()
    torch.randn(7)
    assert all(torch.equal(one, two) for one, two in zip(first, weights(), strict=True))
    assert not all(torch.equal(one, two) for one, two in zip(first, weights("training.seed=1"), strict=True))


def test_readers_by_name(tiny_encoder: Path, tmp_path: Path) -> None:
    assert isinstance(_build(run_of(tiny_encoder, tmp_path, "reader=sliding_window"), []), SlidingWindow)
    with pytest.raises(
        ConfigError,
        match="reader: 'slide' is not a reader; use cogltx, sliding_window, truncation, bag_of_words, text_cnn",
    ):
        _build(run_of(tiny_encoder, tmp_path, "reader=slide"), [])


def test_a_trained_reader_with_changes(tiny_encoder: Path, tmp_path: Path) -> None:
    reader(tiny_encoder).save_pretrained(tmp_path / "model")
    loaded = load_reader(tmp_path / "model", changes={"memrecall.strides": [4], "memrecall.capacity": 96})
    assert isinstance(loaded, CogLTX)
    assert loaded.memrecall.config.strides == (4,)
    assert loaded.memrecall.config.capacity == 96
    with pytest.raises(ConfigError, match=r"^memrecall\.capacity must be greater than or equal to 32, but is 3$"):
        load_reader(tmp_path / "model", changes={"memrecall.capacity": 3})
    with pytest.raises(
        ConfigError,
        match=r"^depth is not a setting of memrecall; choose from capacity, strides",
    ):
        load_reader(tmp_path / "model", changes={"memrecall.depth": 3})
    with pytest.raises(ConfigError, match=r"memrecall\.capacity is 600, but the encoder has 512 positions"):
        load_reader(tmp_path / "model", changes={"memrecall.capacity": 600})


def test_a_trained_reader_with_another_judge(tiny_encoder: Path, tmp_path: Path) -> None:
    reader(tiny_encoder).save_pretrained(tmp_path / "model")
    judge = WordOverlap()
    loaded = load_reader(tmp_path / "model", judge=judge)
    assert isinstance(loaded, CogLTX)
    assert isinstance(loaded.memrecall.judge, ScoringJudgeAdapter)
    assert loaded.memrecall.judge.scorer is judge
    named = load_reader(tmp_path / "model", changes={"judge.name": "fakes:Fussy", "judge.args": {"weight": 0.5}})
    assert isinstance(named, CogLTX)
    assert isinstance(named.memrecall.judge, ScoringJudgeAdapter)
    assert isinstance(named.memrecall.judge.scorer, Fussy)


def test_every_kind_of_reader_is_loaded_as_what_it_is(tiny_encoder: Path, tmp_path: Path) -> None:
    made = reader(tiny_encoder)
    made.save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(path.read_text().replace('"reader": "cogltx"', '"reader": "sliding_window"'))
    assert isinstance(load_reader(tmp_path / "model"), SlidingWindow)
    assert config(tiny_encoder).reader == "cogltx"
    with pytest.raises(ModelError, match="no such folder"):
        load_reader(tmp_path / "nothing")
