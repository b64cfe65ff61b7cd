"""The pieces of a model: made anew, loaded from a folder, or refused in one line that names the file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from fakes import WordOverlap, config, reader

from cogltx._folders import model_folder
from cogltx.config import ModelConfig, TaskConfig, load_config
from cogltx.errors import ConfigError, ModelError
from cogltx.judges import EncoderJudge
from cogltx.model import Model
from cogltx.pipeline import CogLTX

TEXT = "The quick brown fox jumps over the lazy dog. Anna Karlsson wrote the report in Stockholm, on 3 May 2014.\n" * 4
QUESTION = "Who wrote the report?"


@pytest.fixture
def saved(tiny_encoder: Path, tmp_path: Path) -> Path:
    reader(tiny_encoder).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("file", "wording"),
    [
        ("config.json", r"model: neither a model folder nor a run: it has no config\.json and no run\.json"),
        ("reasoner.safetensors", r"reasoner\.safetensors: file not found"),
        ("judge.safetensors", r"judge\.safetensors: file not found"),
        ("encoder/config.json", r"encoder/config\.json: file not found"),
        ("tokenizer/tokenizer.json", "tokenizer': no tokenizer that transformers can load"),
    ],
)
def test_a_half_written_folder(saved: Path, file: str, wording: str) -> None:
    (saved / file).unlink()
    with pytest.raises(ModelError, match=wording) as caught:
        CogLTX.from_pretrained(saved)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "file",
    ["config.json", "reasoner.safetensors", "judge.safetensors", "encoder/config.json", "tokenizer/tokenizer.json"],
)
def test_a_file_that_was_cut_off(saved: Path, file: str) -> None:
    content = (saved / file).read_bytes()
    (saved / file).write_bytes(content[: len(content) // 2])
    wording = "not valid JSON|is not a complete safetensors file|no tokenizer that transformers can load"
    with pytest.raises(ModelError, match=wording) as caught:
        CogLTX.from_pretrained(saved)
    assert "\n" not in str(caught.value)
    assert str(saved) in str(caught.value)


def test_a_pickle_in_place_of_safetensors(saved: Path) -> None:
    torch.save({"a": torch.ones(3)}, saved / "judge.safetensors")
    with pytest.raises(ModelError, match=r"judge\.safetensors: is a pickle, which is never loaded"):
        CogLTX.from_pretrained(saved)


def test_weights_of_another_model(saved: Path) -> None:
    (saved / "judge.safetensors").unlink()
    shutil.copy(saved / "reasoner.safetensors", saved / "judge.safetensors")
    with pytest.raises(
        ModelError, match=r"judge\.safetensors: not the weights of this EncoderJudge: Missing key"
    ) as caught:
        CogLTX.from_pretrained(saved)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "wording"),
    [
        (
            {"memrecal": {}},
            r"config\.json: not the configuration of .*: memrecal is not a setting; did you mean memrecall\?",
        ),
        ({"max_block_tokens": "many"}, r": max_block_tokens must be an integer, but is 'many'"),
        ({"memrecall": {"capacity": 8}}, r": memrecall\.capacity must be greater than or equal to 32, but is 8"),
    ],
)
def test_a_config_of_something_else(saved: Path, change: dict[str, object], wording: str) -> None:
    values = json.loads((saved / "config.json").read_text()) | change
    (saved / "config.json").write_text(json.dumps(values))
    with pytest.raises(ModelError, match=wording):
        CogLTX.from_pretrained(saved)


def test_a_config_that_is_a_list(saved: Path) -> None:
    (saved / "config.json").write_text("[1, 2]")
    with pytest.raises(ModelError, match=r"config\.json: must be one JSON object, but is \[1, 2\]"):
        CogLTX.from_pretrained(saved)


@pytest.mark.parametrize("name", ["/no/such/folder", "missing", "./a/b", "no/such/folder"])
def test_a_missing_folder(name: str) -> None:
    with pytest.raises(ModelError, match=f"^{name}: no such folder$"):
        CogLTX.from_pretrained(name)


def test_a_mistyped_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs" / "hotpotqa").mkdir(parents=True)
    (tmp_path / "runs" / "squad").mkdir()
    with pytest.raises(ModelError, match=r"runs/hotpotqu: no such folder; did you mean .*runs/hotpotqa\?$"):
        CogLTX.from_pretrained(tmp_path / "runs" / "hotpotqu")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"^runs/hotpotqu: no such folder; did you mean runs/hotpotqa\?$"):
        CogLTX.from_pretrained("runs/hotpotqu")
    with pytest.raises(ModelError, match=r"^runs/other: no such folder; train it first$"):
        CogLTX.from_pretrained("runs/other")
    with pytest.raises(ModelError, match=r"^rums: no such folder; did you mean runs\?$"):
        CogLTX.from_pretrained("rums")
    with pytest.raises(ModelError, match=r"^qa-minlm: no such folder; did you mean qa-minilm\?$"):
        CogLTX.from_pretrained("qa-minlm")


def test_a_model_that_the_hub_does_not_give() -> None:
    with pytest.raises(ModelError, match="^owner/model: no such folder, and the Hugging Face hub cannot be reached$"):
        model_folder("owner/model")


def test_the_folder_of_a_run(saved: Path) -> None:
    run = saved.parent / "run"
    run.mkdir()
    with pytest.raises(ModelError, match="run: neither a model folder nor a run"):
        model_folder(run)
    (run / "run.json").write_text('{"best": null}')
    with pytest.raises(ModelError, match="run: the run has no finished epoch; continue it with train --resume"):
        model_folder(run)
    shutil.copytree(saved, run / "epoch-2")
    (run / "run.json").write_text('{"best": "epoch-2"}')
    assert model_folder(run) == run / "epoch-2"
    assert CogLTX.from_pretrained(run).predict(TEXT, QUESTION).n_blocks > 1


@pytest.mark.parametrize(
    ("options", "wording"),
    [
        (
            {"capacity": 513},
            r"memrecall\.capacity is 513, but the encoder has 512 positions; encoder\.positions extends them",
        ),
        ({"max_block_tokens": 63}, r"max_block_tokens is 63; memrecall\.capacity 64 allows 62"),
    ],
)
def test_a_wrong_capacity(tiny_encoder: Path, options: dict[str, int], wording: str) -> None:
    with pytest.raises(ConfigError, match=wording):
        reader(tiny_encoder, **options)


def test_values_of_other_types(saved: Path) -> None:
    command = [sys.executable, "-m", "tests.mistakes", str(saved)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout
        == f"""\
DataError: document 'x': the text is a NoneType, not a string
DataError: document 'x': the text is a PosixPath, not a string; read a file with cogltx.read_document
DataError: document 'x': segment 0 is a tuple, not a Segment
DataError: the question is a NoneType, not a string
DataError: entity 0:1: the label None is not a name
DataError: span: start 'words' and end 1 must be integers with 0 <= start < end
DataError: span: start 0.5 and end 1 must be integers with 0 <= start < end
DataError: example '1': the document is a str, not a Document
DataError: example '1': the query is a str, not a Query
DataError: example '1': (0, 1) is not a Span or an Entity
ConfigError: positions.length must be an integer, but is 'words'
ConfigError: positions.length must be greater than or equal to 1, but is 0
ConfigError: positions.length must be an integer, but is None
ConfigError: positions.form must be 'computed' or 'table', but is 'words'
ConfigError: positions.method must be 'hierarchical', 'tiled' or 'random', but is 'words'
ModelError: positions: NoneType is not an encoder
ModelError: None: not a folder: expected str, bytes or os.PathLike object, not NoneType
ModelError: {"x" * 60}: not a folder: File name too long
ConfigError: device 'nowhere' is not available on this machine
ConfigError: device 'cuda:99' is not available on this machine
"""
    )


def test_a_tokenizer_of_another_encoder(saved: Path) -> None:
    tiny.make_tokenizer(texts=["unheard-of words"]).save_pretrained(saved / "tokenizer")
    with pytest.raises(ModelError, match=r"the tokenizer has \d+ tokens, the encoder only \d+"):
        CogLTX.from_pretrained(saved)


def test_starting_from_another_model(tiny_encoder: Path, saved: Path) -> None:
    torch.manual_seed(9)
    plain = config(tiny_encoder)
    values = plain.model_dump(mode="json")
    values["reasoner"]["init_from"] = values["judge"]["init_from"] = str(saved)
    model = Model.create(ModelConfig.model_validate(values), with_judge=True)
    source = CogLTX.from_pretrained(saved).model
    for name in ("reasoner", "judge"):
        for first, second in zip(getattr(model, name).parameters(), getattr(source, name).parameters(), strict=True):
            assert torch.equal(first, second)
    assert not torch.equal(
        Model.create(plain, with_judge=True).reasoner.start_end.weight, source.reasoner.start_end.weight
    )


def test_a_judge_from_the_reasoner(tiny_encoder: Path, saved: Path) -> None:
    values = config(tiny_encoder).model_dump(mode="json")
    values["reasoner"]["init_from"], values["judge"]["init_from"] = str(saved), "reasoner"
    model = Model.create(ModelConfig.model_validate(values), with_judge=True)
    assert isinstance(model.judge, EncoderJudge)
    for first, second in zip(model.judge.encoder.parameters(), model.reasoner.encoder.parameters(), strict=True):
        assert torch.equal(first, second)
    assert Model.create(ModelConfig.model_validate(values), with_judge=False).judge is None
    values["judge"]["name"] = "bm25"
    with pytest.raises(
        ConfigError, match=r'judge\.init_from is "reasoner", which needs judge\.name "encoder", not \'bm25\''
    ):
        Model.create(ModelConfig.model_validate(values), with_judge=True)


def test_the_device_and_format_of_a_model(tiny_encoder: Path) -> None:
    model = Model.create(config(tiny_encoder), with_judge=False, device="cpu")
    assert (model.form.capacity, model.judge) == (64, None)
    assert not model.runner.precision.bfloat16


@pytest.mark.parametrize("judge", ["bm25", "fakes:Checksums", WordOverlap()])
def test_a_model_with_another_judge_is_saved_with_it(saved: Path, tmp_path: Path, judge: Any) -> None:
    model = CogLTX.from_pretrained(saved, judge=judge)
    model.save_pretrained(tmp_path / "again")
    name = judge if isinstance(judge, str) else "fakes:WordOverlap"
    again = CogLTX.from_pretrained(tmp_path / "again", judge=None if name == "bm25" else name)
    assert again.predict(TEXT, QUESTION) == model.predict(TEXT, QUESTION)


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [("encoder.name", "encoder.name", "minilm"), ("encoder.positions", "encoder.positions.length", 1024)],
)
def test_a_trained_model_keeps_its_encoder(saved: Path, setting: str, key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{setting}: a trained model keeps its encoder"):
        CogLTX.from_pretrained(saved, changes={key: value})


def test_the_retriever_starts_from_that_of_the_reasoners_model(tiny_encoder: Path, tmp_path: Path) -> None:
    values = config(tiny_encoder).model_dump(mode="json")
    values["memrecall"] |= {"shortlist": 4, "retriever": "trained"}
    first = CogLTX(Model.create(ModelConfig.model_validate(values), with_judge=True))
    assert first.model.retriever is not None
    with torch.no_grad():
        for weights in first.model.retriever.parameters():
            weights += 0.5
    first.save_pretrained(tmp_path / "first")
    values["judge"]["name"], values["reasoner"]["init_from"] = "bm25", str(tmp_path / "first")
    second = Model.create(ModelConfig.model_validate(values), with_judge=True).retriever
    assert second is not None
    for before, after in zip(first.model.retriever.parameters(), second.parameters(), strict=True):
        assert torch.equal(before, after)


def test_a_card_is_utf8_whatever_the_locale(saved: Path, tmp_path: Path) -> None:
    code = f"from cogltx import CogLTX; CogLTX.from_pretrained({str(saved)!r}).save_pretrained({str(tmp_path / 'b')!r}, name='Br\\u00fccke')"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert "Brücke" in (tmp_path / "b" / "README.md").read_text(encoding="utf-8")


def test_another_task_has_options_of_its_own(tiny_encoder: Path, tmp_path: Path) -> None:
    values = config(tiny_encoder).model_dump(mode="json")
    values["task"] = {"name": "hotpotqa", "options": {"paragraphs": 2}}
    CogLTX(Model.create(ModelConfig.model_validate(values), with_judge=True)).save_pretrained(tmp_path)
    assert load_config(tmp_path, {"task.name": "jsonl"}).task == TaskConfig(name="jsonl")
    assert load_config(tmp_path, {"task.name": "hotpotqa"}).task.options == {"paragraphs": 2}
    assert load_config(tmp_path, {"task.options": {"paragraphs": 3}}).task.options == {"paragraphs": 3}
