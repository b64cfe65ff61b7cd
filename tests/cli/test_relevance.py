"""``cogltx relevance``: scores and labels per epoch."""

import re
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
    assert "; - not scored: in z already, not proposed or not drawn, or the text was read whole" in shown
    blocks[0]["scores"] = [0.25, 0.5]
    assert "not scored" not in _format({"example": "a", "epochs": [1, 2], "blocks": blocks})


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


def test_relevance_of_one_block_where_blocks_are_queries(
    classified: Path, tagged: Path, call: Call, tmp_path: Path
) -> None:
    sentence = "anna B-PER\nhas O\nthe O\nboat B-THING\n. O\n\n"
    (tmp_path / "long.conll").write_text(f"-DOCSTART- O\n\n{sentence * 16}" * 2)
    settings = [
        f"data.train={tmp_path / 'long.conll'}", "reader=cogltx", "judge.name=encoder", "training.epochs=2", "training.relevance.raise_threshold=0.0001",
        "memrecall.capacity=48",
    ]  # fmt: skip
    changes = [part for setting in settings for part in ("--set", setting)]
    done = call("train", tagged / "run.yaml", "--output", tmp_path / "run", *changes)
    assert done.code == 0
    assert "pairs of blocks relevant" in done.err
    example = re.findall(r"ids are '(.+?)'", call("relevance", tmp_path / "run", "--example", "none").err)[0]
    asked = ["relevance", tmp_path / "run", "--example", example, "--json"]
    done = call(*asked, "--block", "1")
    assert done.code == 0, done.err
    assert (done.json["query"], done.json["epochs"]) == (1, [1, 2])
    blocks = done.json["blocks"]
    assert blocks[1]["scores"] == [None, None], "the query is no candidate"
    assert all(score is not None for block in blocks[:1] + blocks[2:] for score in block["scores"])
    shown = call(*asked[:-1], "--block", "1").out
    assert f"example {example}, block 1 as the query: the judge's last score by the end of each epoch" in shown
    assert re.search(r"\n +1 +query +query +", shown)
    last = len(blocks) - 1
    for arguments, line in (
        (asked, f"--block: each block of this text is a query; name one from 0 to {last}"),
        ([*asked, "--block", str(last + 1)], f"--block: each block of this text is a query; name one from 0 to {last}"),
    ):
        done = call(*arguments)
        assert (done.code, line in done.err) == (2, True)
    name = re.findall(r"ids are '(.+?)'", call("relevance", classified / "run", "--example", "none").err)[0]
    done = call("relevance", classified / "run", "--example", name, "--block", "0")
    assert done.code == 2
    assert "--block: only for tagging" in done.err
