"""``cogltx relevance``: scores and labels per epoch."""

import shutil
from pathlib import Path

from command_line import Call

from cogltx.cli.relevance import _format


def test_relevance_by_epoch(classified: Path, call: Call, tmp_path: Path) -> None:
    names = sorted(str(path.relative_to(classified / "data")) for path in (classified / "data").rglob("*.txt"))
    codes = []
    for name in names:
        done = call("relevance", classified / "run", "--example", name, "--json")
        codes.append(done.code)
        if done.code == 0:
            assert done.json["epochs"] == [1, 2]
            text = (classified / "data" / name).read_text()
            assert "".join(block["text"] for block in done.json["blocks"]) == text
            assert not any(block["labels"][0] for block in done.json["blocks"]), "no intervention in the first epoch"
            plain = call("relevance", classified / "run", "--example", name, "--picture", tmp_path / "r.svg")
            assert "epoch 1  epoch 2" in plain.out
            assert b"<svg" in (tmp_path / "r.svg").read_bytes()
        else:
            assert "--example: no training example has the id '" in done.err
    assert codes.count(0) == 4, "two are held out"


def test_texts_without_scores() -> None:
    blocks = [{"index": 0, "text": "Anna has a boat.", "scores": [None, None], "labels": [False, True]}]
    shown = _format({"example": "a", "epochs": [1, 2], "blocks": blocks})
    assert "; - no score, as the text fits one window and was read whole" in shown
    blocks[0]["scores"] = [None, 0.5]
    assert "no score" not in _format({"example": "a", "epochs": [1, 2], "blocks": blocks})


def test_relevance_of_other_texts(classified: Path, call: Call, tmp_path: Path) -> None:
    shutil.copytree(classified / "data", tmp_path / "data")
    shutil.copytree(classified / "run", tmp_path / "run")
    config = tmp_path / "run" / "run-config.json"
    config.write_text(config.read_text().replace(str(classified / "data"), str(tmp_path / "data")))
    changed = next(iter(sorted((tmp_path / "data").rglob("*.txt"))))
    changed.write_text(changed.read_text() * 3)
    done = call("relevance", tmp_path / "run", "--example", changed.relative_to(tmp_path / "data"))
    assert done.code == 2
    assert f"{tmp_path / 'data'}: the examples have changed since the run was trained" in done.err
