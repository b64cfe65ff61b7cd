"""A run's configuration: every mistake is one line that names the file, the line, the key, the expected and the got."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from cogltx.cli.config import load_mlm, load_reader, load_run
from cogltx.cli.settings import changed
from fakes import Fussy, WordOverlap, config, reader

from cogltx.baselines import SlidingWindow
from cogltx.bench.quality import QualityConfig
from cogltx.encoding.positions import PositionsConfig
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.judges import ScoredBlocks
from cogltx.model import ModelConfig
from cogltx.pipeline import CogLTX
from cogltx.training.data import expand, read_examples, run_examples
from cogltx.training.run import _new_reader

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


LAUGHS = "a: &a {x: 1}\n" + "\n".join(
    f"{one}: &{one} {{{', '.join(f'x{n}: *{before}' for n in range(10))}}}" for before, one in pairwise("abcdefghijkl")
)
FLOATS = (
    "training.judge.learning_rate", "training.relevance.raise_threshold", "training.relevance.lower_threshold",
    "reasoner.no_answer_threshold", "memrecall.lexical_bonus",
)  # fmt: skip


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run(tmp_path: Path) -> None:
    run = load_run(write(tmp_path, GOOD))
    assert run.memrecall.strides == (1, 2)
    assert run.training.judge.learning_rate == 1e-4
    assert run.training.reasoner.learning_rate == 1e-4
    assert run.data.held_out == 2
    part = run.model_part()
    assert type(part) is ModelConfig
    assert part.memrecall == run.memrecall


def test_the_given_runs_are_right() -> None:
    paths = sorted((Path(__file__).parents[1] / "configs").rglob("*.yaml"))
    assert paths
    for path in paths:
        if path.name.startswith("mlm-"):
            positions = load_mlm(path).encoder.positions
            assert positions is None or positions.length == load_mlm(path).length
        elif path.name.startswith("quality-"):
            quality = QualityConfig.load(path)
            for reader in quality.readers:
                assert load_run(path.parent / quality.run, reader.changes).data.train
        else:
            assert load_run(path).memrecall.capacity <= 512


@pytest.mark.parametrize(
    ("change", "wording"),
    [
        ("length=16", "--set: length: expected greater than or equal to 32, got 16"),
        ("training.steps=0", "--set: training.steps: expected greater than or equal to 1, got 0"),
        ("encoder.positions.base=2", "--set: encoder.positions.base: expected one of length, method, alpha, form, got an unk"),
        ("reasoner.name=span", "--set: reasoner: expected one of encoder, data, length, training, got an unknown key"),
        ("data=null", "--set: data: expected a valid dictionary or instance of TextsConfig, got None"),
    ],
)  # fmt: skip
def test_a_masked_run_with_a_wrong_key_or_value(tmp_path: Path, change: str, wording: str) -> None:
    path = write(tmp_path, "data: {train: a.txt}\nencoder: {positions: {length: 1024}}\n")
    assert load_mlm(path).encoder.positions == PositionsConfig(length=1024)
    with pytest.raises(ConfigError, match=f"^{wording}"):
        load_mlm(path, [change])


@pytest.mark.parametrize(
    ("old", "new", "line", "wording"),
    [
        ("reader: cogltx", "raeder: cogltx", 2, "raeder: expected one of reader, task, encoder, max_block_tokens, judge, me"),
        ("  capacity: 64", "  capcity: 64", 8, "memrecall.capcity: expected one of capacity, strides, rehearse, neighbour_bonus, lexical_bonus, most_blocks, got an unknown"),
        ("  capacity: 64", "  capacity: 16", 8, "memrecall.capacity: expected greater than or equal to 32, got 16"),
        ("  capacity: 64", "  capacity: many", 8, "memrecall.capacity: expected a valid integer, .* got 'many'"),
        ("[1, 2]", "[1, two]", 9, "memrecall.strides.1: expected a valid integer, .* got 'two'"),
        ("[1, 2]", "[1, 0]", 9, "memrecall.strides.1: expected greater than or equal to 1, got 0"),
        ("[1, 2]", "[]", 9, "memrecall.strides: expected .*at least 1 item"),
        ("[1, 2]", "5", 9, "memrecall.strides: expected a valid tuple, got 5"),
        ("  train: $FOLDER/train.jsonl\n", "", 10, "data.train: expected a value, got none"),
        ("  epochs: 2", "  epochs: 0", 14, "training.epochs: expected greater than or equal to 1, got 0"),
        ("1e-4}", "-1}", 15, "training.judge.learning_rate: expected greater than 0, got -1"),
        ("1e-4}", "1e-4, lr: 3}", 15, "training.judge.lr: expected one of learning_rate, head_rate, warmup, weight_decay, max_gradient_"),
        ("  name: minilm", "  precision: float16", 5, "encoder.precision: expected 'auto', 'float32' or 'bfloat16', got 'float"),
        ("task: {name: jsonl}", "task: jsonl", 3, "task: expected .*dictionary.*, got 'jsonl'"),
        ("memrecall:", "1: 2\nmemrecall:", 7, "1: expected"),
    ],
)  # fmt: skip
def test_a_wrong_key_or_value(tmp_path: Path, old: str, new: str, line: int, wording: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(ConfigError, match=f"^{path}:{line}: {wording}") as caught:
        load_run(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ("reader: [cogltx\n", r"run\.yaml:2: expected YAML, got: "),
        ("a: b: c\n", r"run\.yaml:1: expected YAML, got: mapping values are not allowed here"),
        ("", r"run\.yaml:1: expected keys and values, got NoneType"),
        ("- a\n- b\n", r"run\.yaml:1: expected keys and values, got list"),
        ("reader: cogltx\n# \0", r"run\.yaml:2: expected YAML, got the character '\\x00'$"),
        ("task:\n  name: jsonl\n  name: squad", r"run\.yaml:3: expected YAML, got: the key 'name' twice$"),
        (
            "reader: cogltx\nseed: 2024-13-45",
            r"run\.yaml:2: expected YAML, got: '2024-13-45' \(month must be in 1\.\.12\)$",
        ),
        ("seed: " + "9" * 5000, r"run\.yaml:1: expected YAML, got: '9{39}… \(Exceeds the limit"),
        ("training: &a {judge: *a}", r"run\.yaml: expected YAML, got one nested too deeply$"),
        (LAUGHS, r"run\.yaml: expected at most 100,000 values, got more$"),
        ("reader: cogltx\n", r"run\.yaml: data: expected a value, got none"),
    ],
)
def test_a_file_that_is_no_run(tmp_path: Path, text: str, wording: str) -> None:
    with pytest.raises(ConfigError, match=wording):
        load_run(write(tmp_path, text))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml: expected a YAML file, got: No such file or directory"):
        load_run(tmp_path / "missing.yaml")
    (tmp_path / "latin.yaml").write_bytes("# a run\nreader: Zürich".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin\.yaml:2: not UTF-8 \(byte 0xfc\)"):
        load_run(tmp_path / "latin.yaml")


def test_changes(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    run = load_run(
        path, ["memrecall.strides=[8]", "training.reasoner.learning_rate=0.01", "judge.name=bm25", "encoder.name=a=b"]
    )
    assert run.memrecall.strides == (8,)
    assert run.memrecall.capacity == 64
    assert run.training.reasoner.learning_rate == 0.01
    assert run.training.judge.learning_rate == 1e-4
    assert run.judge.name == "bm25"
    assert run.encoder.name == "a=b"
    rates = load_run(
        path, ["training.judge=null", "training.judge.warmup=0.2", "training.reasoner.warmup=0.2"]
    ).training
    assert (rates.judge.learning_rate, rates.reasoner.learning_rate, rates.judge.warmup) == (4e-5, 1e-4, 0.2)
    values = {"a": {"b": 1}}
    assert changed(values, ["a.c=null", "d=x"]) == {"a": {"b": 1, "c": None}, "d": "x"}
    assert values == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("change", "wording"),
    [
        ("training.epochs", "^--set: expected KEY=VALUE, got 'training.epochs'"),
        ("=3", "^--set: expected KEY=VALUE, got '=3'"),
        ("training.epochs=[1", r"^--set training\.epochs: expected a YAML value, got '\[1'"),
        ("training.epochs=no", "^--set: training.epochs: expected .*, got False"),
        ("training.epochs=many", "^--set: training.epochs: expected a valid integer, .* got 'many'"),
        ("trainin.epochs=3", "^--set: trainin: expected one of .*, got an unknown key"),
        ("training.epoch=3", "^--set: training.epoch: expected one of epochs, .*, got an unknown key"),
        ("memrecall=3", "^--set: memrecall: expected .*, got 3"),
        ("task.options.x=1", "^--set: task jsonl: x is not a setting"),
        ("task.name=poetry", "^--set: the task 'poetry' is not known"),
        ("training.epochs.x=1", "^--set: training.epochs: expected a valid integer, got {'x': 1}"),
        ("training.epochs={x: 1, x: 2}", "^--set training.epochs: expected a YAML value, got '{x: 1, x: 2}'"),
        ("data.train=[" + "9," * 100 + "]", "^--set: data.train: expected a valid string, got \\[(9, ){13}…$"),
        (
            "training.reasoner.rate=1",
            "^--set: training.reasoner.rate: expected one of learning_rate, .*, got an unknown",
        ),
        *((f"reasoner={value}", "^--set: reasoner.name: expected one of span, .*, got '") for value in ("5", "null")),
        ("reasoner.name=null", "^--set: reasoner.name: expected one of span, classification, tagging, got 'None'"),
        *(
            (f"{key}={value}", f"^--set: {key}: expected a finite number, got {value[1:]}")
            for key in FLOATS
            for value in (".nan", ".inf")
        ),
    ],
)
def test_a_wrong_change(tmp_path: Path, change: str, wording: str) -> None:
    with pytest.raises(ConfigError, match=wording):
        load_run(write(tmp_path, GOOD), [change])


def test_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", "/data")
    monkeypatch.setenv("HOME", "/home/anna")
    monkeypatch.delenv("NOWHERE", raising=False)
    assert expand("$FOLDER/train.jsonl") == Path("/data/train.jsonl")
    assert expand("${FOLDER}s/train.jsonl") == Path("/datas/train.jsonl")
    assert expand("~/train.jsonl") == Path("/home/anna/train.jsonl")
    assert expand("train.jsonl") == Path("train.jsonl")
    wording = r"path '\$NOWHERE/a': expected the environment variable NOWHERE, which is not set"
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
    run = load_run(write(tmp_path, GOOD))
    train, validation, report = run_examples(run)
    assert (len(train), len(validation), report.examples) == (9, 3, 12)
    assert {example.document.id for example in train}.isdisjoint(example.document.id for example in validation)
    assert run_examples(run)[1] == validation
    other = load_run(write(tmp_path, GOOD), ["training.seed=5"])
    assert {run_examples(other)[1][0].document.id, *(f"d{n}" for n in range(4))} == {f"d{n}" for n in range(4)}


def test_a_validation_file_and_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", str(tmp_path))
    path = examples_file(tmp_path, 12, 4)
    run = load_run(write(tmp_path, GOOD), [f"data.validation={path}", "data.train_limit=5", "data.validation_limit=3"])
    train, validation, _ = run_examples(run)
    assert (len(train), len(validation)) == (5, 3)
    assert [int(example.id) for example in train] == sorted(int(example.id) for example in train)


def test_a_file_without_examples(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("")
    with pytest.raises(DataError, match=r"train\.jsonl: expected examples of task jsonl, found none"):
        read_examples(ModelConfig(), str(tmp_path / "train.jsonl"), "train")


def run_of(tiny_encoder: Path, folder: Path, *changes: str) -> object:
    small = [f"encoder.name={tiny_encoder}", "max_block_tokens=16", "encoder.precision=float32", *changes]
    return load_run(write(folder, GOOD.replace("$FOLDER", str(folder))), small)


def test_the_same_seed_gives_the_same_weights(tiny_encoder: Path, tmp_path: Path) -> None:
    def weights(*changes: str) -> list[torch.Tensor]:
        made = _new_reader(run_of(tiny_encoder, tmp_path, *changes))
        assert isinstance(made, CogLTX)
        assert isinstance(made.parts.judge, torch.nn.Module)
        return [*made.reasoner.parameters(), *made.parts.judge.parameters()]

    first = weights()
    torch.randn(7)
    assert all(torch.equal(one, two) for one, two in zip(first, weights(), strict=True))
    assert not all(torch.equal(one, two) for one, two in zip(first, weights("training.seed=1"), strict=True))


def test_readers_by_name(tiny_encoder: Path, tmp_path: Path) -> None:
    assert isinstance(_new_reader(run_of(tiny_encoder, tmp_path, "reader=sliding_window")), SlidingWindow)
    with pytest.raises(
        ConfigError,
        match="reader: expected one of cogltx, sliding_window, truncation, head_and_tail, bag_of_words, got 'slide'",
    ):
        _new_reader(run_of(tiny_encoder, tmp_path, "reader=slide"))


def test_a_trained_reader_with_changes(tiny_encoder: Path, tmp_path: Path) -> None:
    reader(tiny_encoder).save_pretrained(tmp_path / "model")
    loaded = load_reader(tmp_path / "model", changes=["memrecall.strides=[4]", "memrecall.capacity=96"])
    assert isinstance(loaded, CogLTX)
    assert loaded.memrecall.config.strides == (4,)
    assert loaded.form.capacity == 96
    with pytest.raises(ConfigError, match=r"^--set: memrecall\.capacity: expected greater than or equal to 32, got 3$"):
        load_reader(tmp_path / "model", changes=["memrecall.capacity=3"])
    with pytest.raises(
        ConfigError,
        match=r"^--set: memrecall\.depth: expected one of capacity, strides, rehearse, neighbour_bonus, lexical_bonus, most_blocks, got an",
    ):
        load_reader(tmp_path / "model", changes=["memrecall.depth=3"])
    with pytest.raises(
        ConfigError, match=r"memrecall\.capacity: expected at most 512, the positions of the encoder, got 6"
    ):
        load_reader(tmp_path / "model", changes=["memrecall.capacity=600"])


def test_a_trained_reader_with_another_judge(tiny_encoder: Path, tmp_path: Path) -> None:
    reader(tiny_encoder).save_pretrained(tmp_path / "model")
    judge = WordOverlap()
    loaded = load_reader(tmp_path / "model", judge=judge)
    assert isinstance(loaded, CogLTX)
    assert isinstance(loaded.judge, ScoredBlocks)
    assert loaded.judge.scorer is judge
    named = load_reader(tmp_path / "model", changes=["judge.name=fakes:Fussy", "judge.args={weight: 0.5}"])
    assert isinstance(named, CogLTX)
    assert isinstance(named.judge, ScoredBlocks)
    assert isinstance(named.judge.scorer, Fussy)


def test_every_kind_of_reader_is_loaded_as_what_it_is(tiny_encoder: Path, tmp_path: Path) -> None:
    made = reader(tiny_encoder)
    made.config = made.config.model_copy(update={"reader": "sliding_window"})
    made.save_pretrained(tmp_path / "model")
    assert isinstance(load_reader(tmp_path / "model"), SlidingWindow)
    assert config(tiny_encoder).reader == "cogltx"
    with pytest.raises(ModelError, match="expected a model folder"):
        load_reader(tmp_path / "nothing")
