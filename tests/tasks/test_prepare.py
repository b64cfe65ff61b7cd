"""Fetching and preparing data sets, against a server on this machine."""

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cogltx.errors import DataError
from cogltx.tasks import Split, make_task
from cogltx.tasks.download import SOURCES, Downloaded, Source, download, fetch
from cogltx.tasks.jsonl import JsonLines
from cogltx.tasks.prepare import prepare

SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "T",
            "paragraphs": [
                {
                    "context": "Rome is old.",
                    "qas": [
                        {"id": "a", "question": "Q?", "answers": [{"text": "Rome", "answer_start": 0}]},
                        {"id": "b", "question": "Q?", "answers": [{"text": "Rome", "answer_start": 5}]},
                    ],
                }
            ],
        }
    ],
}
CONTENT = json.dumps(SQUAD).encode()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one file whole, one cut short, and nothing else."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        if name not in ("whole.json", "cut.json"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if name == "whole.json" else CONTENT[:10])

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def home() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_fetch(tmp_path: Path, home: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "new" / "x.json"
    assert fetch(f"{home}/whole.json", target) == Downloaded(target, SHA256)
    assert target.read_bytes() == CONTENT
    assert capsys.readouterr().out == f"{target}: sha256 {SHA256}\n"
    fetch(target.as_uri(), tmp_path / "y.json", sha256=SHA256.upper())
    assert (tmp_path / "y.json").read_bytes() == CONTENT
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "sha256", "expected"),
    [
        ("whole.json", "0" * 64, f"expected the sha256 {'0' * 64}, got {SHA256}"),
        ("cut.json", SHA256, f"expected {len(CONTENT)} bytes, got 10"),
        ("none.json", None, "expected a file to download, got HTTP 404 Not Found"),
    ],
)
def test_fetch_that_fails(tmp_path: Path, home: str, name: str, sha256: str | None, expected: str) -> None:
    (tmp_path / "x.json").write_text("old")
    with pytest.raises(DataError) as error:
        fetch(f"{home}/{name}", tmp_path / "x.json", sha256=sha256)
    assert str(error.value) == f"{home}/{name}: {expected}"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    assert (tmp_path / "x.json").read_text() == "old"


@pytest.mark.parametrize(
    "url", ["nonsense", "file:///no/such/file", "http://127.0.0.1:9/refused", "gopher://x/y", "http://[x"]
)
def test_addresses_that_lead_nowhere(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError) as error:
        fetch(url, tmp_path / "x")
    assert str(error.value).startswith(f"{url}: expected a file to download, got: ")
    assert list(tmp_path.iterdir()) == []


def test_download(tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sources: dict[Split, Source] = {"train": Source(f"{home}/whole.json", SHA256)}
    monkeypatch.setitem(SOURCES, "squad", sources)
    assert download("squad", "train", tmp_path).path == tmp_path / "whole.json"
    # what lies there whole is not fetched again; what lies there broken is
    assert download("squad", "train", tmp_path, url=f"{home}/none.json").sha256 == SHA256
    (tmp_path / "whole.json").write_text("broken")
    assert download("squad", "train", tmp_path).sha256 == SHA256
    (tmp_path / "whole.json").unlink()
    with pytest.raises(DataError, match="expected the sha256 00, got "):
        download("squad", "train", tmp_path, sha256="00")
    with pytest.raises(DataError, match=r"^squad: expected the split train, got 'test', which is not public$"):
        download("squad", "test", tmp_path)


@pytest.mark.parametrize(
    ("data_set", "expected"),
    [
        (
            "newsqa",
            "newsqa: expected a file that you bring, got none; its stories may not be redistributed: make ",
        ),
        ("cuad", "cuad: expected a file that you bring, got none; unpack data.zip"),
        ("jsonl", "jsonl: expected a file that you bring, got none; this is the format of your own data"),
        ("imdb", "download: expected one of hotpotqa, squad, squad-1.1, got 'imdb'"),
    ],
)
def test_what_cannot_be_downloaded(tmp_path: Path, data_set: str, expected: str) -> None:
    with pytest.raises(DataError) as error:
        download(data_set, "train", tmp_path)
    assert str(error.value).startswith(expected)


def test_known_checksums_are_sha256() -> None:
    for sources in SOURCES.values():
        for source in sources.values():
            assert len(bytes.fromhex(source.sha256)) == 32


def test_prepare(tmp_path: Path) -> None:
    source, output = tmp_path / "squad.json", tmp_path / "out.jsonl.gz"
    source.write_bytes(CONTENT)
    task = make_task("squad", {"headings": True})
    report = prepare(task, source, output, "train")
    assert report.examples == 2
    assert [problem.id for problem in report.unmapped] == ["b"]
    assert list(JsonLines().read(output, split="train")) == list(task.read(source, split="train"))


def test_prepare_fetches(tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sources: dict[Split, Source] = {"validation": Source(f"{home}/whole.json", SHA256)}
    monkeypatch.setitem(SOURCES, "squad", sources)
    assert prepare(make_task("squad", {}), None, tmp_path / "d" / "out.jsonl", "validation").examples == 2
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["out.jsonl", "whole.json"]


def test_prepare_leaves_nothing_half_done(tmp_path: Path) -> None:
    source = tmp_path / "squad.json"
    source.write_bytes(CONTENT[:-5])
    with pytest.raises(DataError, match=r"squad.json:1: expected "):
        prepare(make_task("squad", {}), source, tmp_path / "out.jsonl", "train")
    with pytest.raises(DataError, match=r"squad.json: expected another file than the source, got the same$"):
        prepare(make_task("squad", {}), source, source, "train")
    assert [path.name for path in tmp_path.iterdir()] == ["squad.json"]


@pytest.mark.parametrize("name", ["hotpotqa/dev.json.gz", "cuad/test.json.gz", "squad/dev-v2.0.json.gz"])
def test_real_data_comes_back(data_folder: Path, tmp_path: Path, name: str) -> None:
    task = make_task("hotpotqa" if name.startswith("hotpotqa") else "squad", {})
    output = tmp_path / "out.jsonl"
    prepare(task, data_folder / name, output, "validation")
    before, after = (
        task.read(data_folder / name, split="validation"),
        JsonLines().read(output, split="validation"),
    )
    assert all(one == other for one, other in zip(before, after, strict=True))
