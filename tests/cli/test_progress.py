"""Long commands show on a terminal how much is left, and nothing elsewhere."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import fakes
import pytest
from command_line import Call
from tqdm.auto import tqdm

FAST = (
    "import sys; import cogltx._progress as shown; import tqdm.auto; "
    "tqdm.auto.tqdm.monitor_interval = 0; real = shown.tqdm; "
    "shown.tqdm = lambda *given, **options: real(*given, **{**options, 'delay': 0, 'mininterval': 0}); "
    "from cogltx.__main__ import main; main()"
)
TEXT = "The tower of Emden is 80 metres high. Rain fell on the green hills again. " * 40


@pytest.fixture(scope="module")
def model(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    fakes.reader(tiny_encoder).save_pretrained(folder)
    return folder


def on_terminal(*arguments: object) -> str:
    """What a command writes on the standard error of a terminal."""
    main, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("4H", 30, 100, 0, 0))  # a terminal without columns shows nothing
    try:
        command = [sys.executable, "-c", FAST, *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=end, stdin=subprocess.DEVNULL)
        os.close(end)
        written = b""
        while True:
            try:
                chunk = os.read(main, 4096)
            except OSError:
                break
            if not chunk:
                break
            written += chunk
        assert not process.wait(), written.decode()
    finally:
        os.close(main)
    return written.decode()


def commands(model: Path, folder: Path) -> dict[str, list[object]]:
    (folder / "text.txt").write_text(TEXT)
    rows = [{"id": str(number), "text": TEXT[number:], "question": "How high is it?"} for number in range(40)]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "ask": ["ask", folder / "text.txt", "How high is it?", "--model", model],
        "recall": ["recall", model, "--document", folder / "text.txt", "--question", "How high is it?"],
        "predict": ["predict", model, "--input", folder / "texts.jsonl", "--output", folder / "out.jsonl"],
    }


@pytest.mark.parametrize(
    ("name", "shown"),
    [("ask", ("tokens", "judge")), ("recall", ("tokens", "judge")), ("predict", ("predict", "judge"))],
)
def test_a_terminal_shows_what_is_left(
    model: Path, tmp_path: Path, name: str, shown: tuple[str, ...], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = commands(model, tmp_path)[name]
    written = on_terminal(*arguments)
    lines = written.replace("\n", "\r").split("\r")
    for title in shown:
        assert any(line.startswith(f"{title}: ") and "%|" in line for line in lines), f"{title} in {written!r}"
    if name == "predict":
        assert any("/40 [" in line for line in lines)
        (tmp_path / "out.jsonl").unlink()
    monkeypatch.setattr("cogltx._progress.tqdm", lambda *given, **options: tqdm(*given, **{**options, "delay": 0}))
    quiet = call(*arguments)
    assert not quiet.code, quiet.err
    assert "%|" not in quiet.err
