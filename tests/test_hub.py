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
text, *names = sys.argv[1:]
for name in names:
    model = CogLTX.from_pretrained(name)
    prediction = model.predict(text, "Who designed the bridge?")
    print(json.dumps([prediction.answer, prediction.start, [block.start for block in prediction.evidence]]))
    print(model.config.encoder.name)
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
for name in sys.argv[1:]:
    print(load_encoder(EncoderConfig(name=name)).width)
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
        loaded = run(LOAD, hub, tmp_path / "second", TEXT, "ada/reader", "ada/nothing")
        hub.requests.clear()
        tagged = run(LOAD, hub, tmp_path / "third", TEXT, "ada/reader@v1", "ada/reader@v2")
        assert any("/api/models/ada/reader/revision/v1" in request for request in hub.requests)
    local = CogLTX.from_pretrained(model).predict(TEXT, "Who designed the bridge?")
    answer, _ = loaded.stdout.splitlines()
    assert json.loads(answer) == [local.answer, local.start, [block.start for block in local.evidence]]
    assert tagged.stdout == loaded.stdout, tagged.stderr
    assert "ModelError: ada/reader@v2: no such folder, and no model of this name" in tagged.stderr
    assert "ModelError: ada/nothing: no such folder, and no model of this name on the Hugging Face hub" in loaded.stderr


def test_a_question_answering_model_of_transformers(tmp_path: Path) -> None:
    folder = tiny.make_question_answering(tmp_path / "model")
    with stand_in() as hub:
        hub.repositories["ada/squad"] = {path.name: path.read_bytes() for path in folder.iterdir()}
        loaded = run(LOAD, hub, tmp_path / "cache", TEXT, "ada/squad")
        hub.requests.clear()
        trained = run(TRAIN, hub, tmp_path / "other", "ada/squad@v1", TEXT)
        assert not any("/main" in request for request in hub.requests), "another revision"
    assert loaded.returncode == 0, loaded.stderr
    local = CogLTX.from_pretrained(folder).predict(TEXT, "Who designed the bridge?")
    answer, name = loaded.stdout.splitlines()
    assert json.loads(answer) == [local.answer, local.start, [block.start for block in local.evidence]]
    assert name == f"ada/squad@{SHA}"
    assert trained.stdout == f"ada/squad@{SHA}\n", trained.stderr


def test_a_revision_of_an_encoder(tmp_path: Path) -> None:
    folder = tiny.make_encoder(tmp_path / "encoder")
    width = json.loads((folder / "config.json").read_text())["hidden_size"]
    with stand_in() as hub:
        hub.repositories["ada/encoder"] = {path.name: path.read_bytes() for path in folder.iterdir()}
        loaded = run(ENCODER, hub, tmp_path / "cache", "ada/encoder@v1", "ada/encoder@v2")
        assert any("/api/models/ada/encoder/revision/v1" in request for request in hub.requests)
    assert loaded.stdout == f"{width}\n", loaded.stderr
    assert "ModelError: encoder 'ada/encoder@v2': no encoder that transformers can load" in loaded.stderr
