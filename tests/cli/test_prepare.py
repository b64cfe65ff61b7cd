"""``cogltx prepare``."""

import gzip
from pathlib import Path

from command_line import COUNT, Call, Files


def test_prepare(files: Files, call: Call, tmp_path: Path) -> None:
    output = tmp_path / "again.jsonl.gz"
    done = call("prepare", "jsonl", "--source", files.data, "--output", output)
    assert done.err == f"{COUNT} examples in {output}; 0 gold labels do not match the text\n"
    assert gzip.decompress(output.read_bytes()) == gzip.decompress(files.data.read_bytes())
