"""``cogltx split`` and ``cogltx prepare``."""

import gzip
import json
from pathlib import Path

from command_line import COUNT, Call, Files


def test_split(files: Files, call: Call) -> None:
    lines = call("split", "--document", files.document, "--json", "--max-tokens", 16).out.splitlines()
    assert "".join(json.loads(line)["text"] for line in lines) == files.document.read_text()
    assert len(call("split", "--document", files.document, "--max-tokens", 16).out.splitlines()) == len(lines)


def test_prepare(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "again.jsonl.gz"
    done = call("prepare", "jsonl", "--source", files.data, "--output", output)
    assert done.err == f"{COUNT} examples in {output}; 0 gold labels do not match the text\n"
    assert gzip.decompress(output.read_bytes()) == gzip.decompress(files.data.read_bytes())
