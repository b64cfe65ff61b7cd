"""Models go to the Hugging Face hub and come back, by the real client against a stand-in of its API."""

import json
import os
import subprocess
import sys
from pathlib import Path

import tiny
from hub import SHA, Hub, stand_in

from cogltx.pipeline import CogLTX

PUSH = """
import sys
from cogltx import CogLTX
print(CogLTX.from_pretrained(sys.argv[1]).push_to_hub("ada/reader", private=True))
"""
LOAD = """
import json, sys
from cogltx import CogLTX
prediction = CogLTX.from_pretrained(sys.argv[1]).predict(sys.argv[2], "Who designed the bridge?")
print(json.dumps([prediction.answer, prediction.start, [block.start for block in prediction.evidence]]))
"""
NAMED = """
import sys
from cogltx import CogLTX
print(CogLTX.from_pretrained(sys.argv[1], judge="bm25").config.encoder.name)
"""
TRAIN = """
import sys
import cogltx
rows = [{"text": sys.argv[2], "question": "Who designed the bridge?", "answers": ["Ilse Brandt"]}] * 4
config = {"init_from": sys.argv[1], "judge": {"name": "bm25"}, "training": {"epochs": 1}}
print(cogltx.train(config, rows, validation=rows[:1], report=lambda line: None).config.encoder.name)
"""
ENCODER = """
import sys
from cogltx.encoding.encoder import load_encoder
from cogltx.encoding.pretrained import EncoderConfig
print(load_encoder(EncoderConfig(name=sys.argv[1])).width)
"""
TEXT = "Rain fell. Ilse Brandt designed the bridge in 1884. Snow fell. " * 20


def run(code: str, hub: Hub, cache: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HOME": str(cache), "HF_TOKEN": "hf_secret"}
    environment |= {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "*"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_a_model_is_pushed_and_loaded_by_its_name(model: str, tmp_path: Path) -> None:
    with stand_in() as hub:
        pushed = run(PUSH, hub, tmp_path / "first", model)
        assert pushed.returncode == 0, pushed.stderr
        assert "ada/reader" in pushed.stdout
        files = hub.repositories["ada/reader"]
        assert hub.private == {"ada/reader": True}
        assert hub.tokens == {"Bearer hf_secret"}
        assert {"config.json", "reasoner.safetensors", "README.md", "tokenizer/tokenizer.json"} <= set(files)
        card = files["README.md"].decode()
        assert "library_name: cogltx" in card
        assert 'from_pretrained("ada/reader")' in card
        loaded = run(LOAD, hub, tmp_path / "second", "ada/reader", TEXT)
        assert loaded.returncode == 0, loaded.stderr
        local = CogLTX.from_pretrained(model).predict(TEXT, "Who designed the bridge?")
        assert json.loads(loaded.stdout) == [local.answer, local.start, [block.start for block in local.evidence]]
        hub.requests.clear()
        tagged = run(LOAD, hub, tmp_path / "third", "ada/reader@v1", TEXT)
        assert tagged.stdout == loaded.stdout, tagged.stderr
        assert any("/api/models/ada/reader/revision/v1" in request for request in hub.requests)
        unknown = run(LOAD, hub, tmp_path / "third", "ada/reader@v2", TEXT)
        missing = run(LOAD, hub, tmp_path / "second", "ada/nothing", TEXT)
    assert "ModelError: ada/reader@v2: no such folder, and no model of this name" in unknown.stderr
    assert (
        "ModelError: ada/nothing: no such folder, and no model of this name on the Hugging Face hub" in missing.stderr
    )


def test_a_question_answering_model_of_transformers(tmp_path: Path) -> None:
    folder = tiny.make_question_answering(tmp_path / "model")
    with stand_in() as hub:
        hub.repositories["ada/squad"] = {path.name: path.read_bytes() for path in folder.iterdir()}
        loaded = run(LOAD, hub, tmp_path / "cache", "ada/squad", TEXT)
        named = run(NAMED, hub, tmp_path / "cache", "ada/squad")
        hub.requests.clear()
        trained = run(TRAIN, hub, tmp_path / "other", "ada/squad@v1", TEXT)
        assert not any("/main" in request for request in hub.requests), "another revision"
    assert loaded.returncode == 0, loaded.stderr
    local = CogLTX.from_pretrained(folder).predict(TEXT, "Who designed the bridge?")
    assert json.loads(loaded.stdout) == [local.answer, local.start, [block.start for block in local.evidence]]
    assert named.stdout == f"ada/squad@{SHA}\n"
    assert trained.stdout == f"ada/squad@{SHA}\n", trained.stderr


def test_a_revision_of_an_encoder(tmp_path: Path) -> None:
    folder = tiny.make_encoder(tmp_path / "encoder")
    width = json.loads((folder / "config.json").read_text())["hidden_size"]
    with stand_in() as hub:
        hub.repositories["ada/encoder"] = {path.name: path.read_bytes() for path in folder.iterdir()}
        loaded = run(ENCODER, hub, tmp_path / "cache", "ada/encoder@v1")
        assert any("/api/models/ada/encoder/revision/v1" in request for request in hub.requests)
        unknown = run(ENCODER, hub, tmp_path / "cache", "ada/encoder@v2")
    assert loaded.stdout == f"{width}\n", loaded.stderr
    assert "ModelError: encoder 'ada/encoder@v2': no encoder that transformers can load" in unknown.stderr
