"""Fetching and preparing data sets, against a server on this machine."""

import gc
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cogltx.errors import DataError
from cogltx.tasks import Split, make_task
from cogltx.tasks._prepare import SOURCES, _download, prepare
from cogltx.tasks.jsonl import JsonLines

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


def offer(monkeypatch: pytest.MonkeyPatch, url: str, sha256: str = SHA256, split: Split = "train") -> None:
    monkeypatch.setitem(SOURCES, "squad", {split: (url, sha256)})


def test_download(tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, f"{home}/whole.json")
    path = _download("squad", "train", tmp_path / "new")
    assert path == tmp_path / "new" / "whole.json"
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mode & 0o777 == 0o644
    path.write_text("broken")
    assert _download("squad", "train", tmp_path / "new").read_bytes() == CONTENT
    offer(monkeypatch, f"http://127.0.0.1:9/{path.name}")  # a complete file is not downloaded again
    assert _download("squad", "train", tmp_path / "new") == path
    with pytest.raises(DataError, match=r"^squad: the split test is not public; choose train$"):
        _download("squad", "test", tmp_path)


@pytest.mark.parametrize(
    ("name", "sha256", "reason"),
    [
        ("whole.json", "0" * 64, SHA256),
        ("cut.json", SHA256, "IncompleteRead"),
        ("none.json", SHA256, "404 Client Error: Not Found"),
    ],
)
def test_download_that_fails(
    tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch, name: str, sha256: str, reason: str
) -> None:
    (tmp_path / name).write_text("old")
    offer(monkeypatch, f"{home}/{name}", sha256)
    with pytest.raises(DataError) as error:
        _download("squad", "train", tmp_path)
    assert str(error.value).startswith(f"{home}/{name} cannot be downloaded: ")
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "old"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # requests leaves a socket open
@pytest.mark.parametrize("url", ["nonsense/x", "http://127.0.0.1:9/refused", "gopher://x/y", "http://[x/y"])
def test_addresses_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    offer(monkeypatch, url)
    with pytest.raises(DataError) as error:
        _download("squad", "train", tmp_path)
    assert str(error.value).startswith(f"{url} cannot be downloaded: ")
    assert list(tmp_path.iterdir()) == []
    del error
    gc.collect()


@pytest.mark.parametrize(
    ("data_set", "expected"),
    [
        (
            "newsqa",
            "newsqa cannot be downloaded: its stories may not be redistributed: make ",
        ),
        ("cuad", "cuad cannot be downloaded: unpack data.zip"),
        ("jsonl", "jsonl cannot be downloaded: this is the format of your own data"),
        ("imdb", "imdb: there is no download; name its file with --source"),
        ("newsgroups", "newsgroups: name its archive or folder with --source; --source fetch downloads it"),
    ],
)
def test_what_cannot_be_downloaded(tmp_path: Path, data_set: str, expected: str) -> None:
    with pytest.raises(DataError) as error:
        _download(data_set, "train", tmp_path)
    assert str(error.value).startswith(expected)


def test_known_checksums_are_sha256() -> None:
    for sources in SOURCES.values():
        for _, sha256 in sources.values():
            assert len(bytes.fromhex(sha256)) == 32


def test_prepare(tmp_path: Path) -> None:
    source, output = tmp_path / "squad.json", tmp_path / "out.jsonl.gz"
    source.write_bytes(CONTENT)
    task = make_task("squad", {"headings": True})
    report = prepare(task, source, output, "train")
    assert report.examples == 2
    assert [id for id, _ in report.unmapped] == ["b"]
    assert list(JsonLines().read(output, split="train")) == list(task.read(source, split="train"))


def test_prepare_fetches(tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, f"{home}/whole.json", split="validation")
    assert prepare(make_task("squad", {}), None, tmp_path / "d" / "out.jsonl", "validation").examples == 2
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["out.jsonl", "whole.json"]


def test_prepare_leaves_nothing_half_done(tmp_path: Path) -> None:
    source = tmp_path / "squad.json"
    source.write_bytes(CONTENT[:-5])
    with pytest.raises(DataError, match=r"squad.json: the file ends early, after 0 complete items"):
        prepare(make_task("squad", {}), source, tmp_path / "out.jsonl", "train")
    with pytest.raises(DataError, match=r"squad.json: is both the source and the output; choose another output$"):
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
