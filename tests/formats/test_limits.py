"""Files that would take long or fill memory end in one line; the process that reads them dies alone."""

import gc
import gzip
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cogltx.document import Document, Line, Segment
from cogltx.errors import ConfigError, DataError
from cogltx.formats import FORMATS, _processes, ending, read_document
from cogltx.formats._limits import Limits

TEXT = "Anna has a boat."
READ = f"from cogltx.formats._sections import Sections\n\ndef read(content):\n    one = Sections()\n    one.paragraph({TEXT!r})\n    return one\n"
SLOW = "def read(content):\n    while True: pass\n"
ASLEEP = "import time\ndef read(content):\n    time.sleep(600)\n"
LARGE = "def read(content):\n    return [bytearray(1 << 20) for _ in range(4000)]\n"
HIDDEN = "def read(content):\n    try:\n        [bytearray(1 << 20) for _ in range(4000)]\n    except MemoryError:\n        raise OSError('unknown')\n"
ABORT = "import os\ndef read(content):\n    os.abort()\n"
LOUD = READ.replace(
    "    one = ", "    print('a line'); import os; os.write(1, b'another\\n'); os.write(2, b'third\\n')\n    one = "
)

posix = pytest.mark.skipif(os.name != "posix", reason="these limits are those of POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory so")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Start and end without an idle process."""
    _processes.end_all()
    yield
    _processes.end_all()


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes a file of a format that the given code reads."""

    def make(code: str) -> Path:
        module = f"import types, cogltx.formats; m = types.ModuleType('cogltx.formats._odd'); exec({code!r}, m.__dict__); sys.modules[m.__name__] = m"
        code = _processes._CODE.replace("from cogltx", f"{module}; from cogltx")
        monkeypatch.setattr(_processes, "_CODE", code)
        monkeypatch.setitem(FORMATS, ".odd", ("odd", "odd file"))
        (tmp_path / "a.odd").write_text("anything")
        return tmp_path / "a.odd"

    return make


def refused(path: Path, **limits: float) -> str:
    """The one line that says why a file is not read."""
    with pytest.raises(DataError) as caught:
        read_document(path, **limits)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize("code", [SLOW, ASLEEP], ids=["busy", "asleep"])
@posix
def test_a_file_that_takes_too_long(odd: Callable[[str], Path], code: str) -> None:
    """Processor time, or elapsed time if the reader only waits."""
    short = "from cogltx.formats._limits import Limits\nLimits.wall_seconds = property(lambda one: 20 * one.seconds)\n"
    path, start = odd(short + code), time.monotonic()
    wording = "a.odd: reading it takes over 0.1 s; raise the limit with --seconds, or read_document(…, seconds=…)"
    assert refused(path, seconds=0.1).endswith(wording)
    assert time.monotonic() - start < 30


def test_a_system_without_timers(odd: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = odd(f"import cogltx.formats._limits as limits\nlimits._set = lambda *values: None\n{ASLEEP}")
    monkeypatch.setattr(Limits, "wall_seconds", 0.2)
    monkeypatch.setattr(_processes, "_GRACE_SECONDS", 0.0)
    assert "a.odd: reading it takes over 1.5 s" in refused(path)


@pytest.mark.parametrize("code", [LARGE, HIDDEN], ids=["plain", "called another error"])
@linux
def test_a_file_that_needs_too_much_memory(odd: Callable[[str], Path], code: str) -> None:
    assert "a.odd: reading it needs over 80 MB of memory; raise the limit with --megabytes" in refused(
        odd(code), megabytes=80
    )


def test_a_reader_that_crashes(odd: Callable[[str], Path], tmp_path: Path) -> None:
    """The process dies alone, and the next file is read by another; one that was used before is tried again."""
    (tmp_path / "a.md").write_text(TEXT)
    path = odd(ABORT)
    for _ in range(2):
        assert "a.odd: reading it ends in a crash (SIGABRT), maybe for lack of memory; " in refused(path)
        assert read_document(tmp_path / "a.md").text == TEXT


def test_what_a_library_prints_is_no_reply(odd: Callable[[str], Path], capfd: pytest.CaptureFixture[str]) -> None:
    assert read_document(odd(LOUD)).text == TEXT
    assert capfd.readouterr() == ("", "")


def test_one_process_reads_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start = _processes._Process.__init__
    monkeypatch.setattr(_processes._Process, "__init__", lambda one: (started.append(1), start(one))[1])
    monkeypatch.setattr(_processes, "_MOST_FILES", 20)
    (tmp_path / "a.md").write_text(TEXT)
    (tmp_path / "b.pdf").write_text("broken")
    for _ in range(15):
        assert read_document(tmp_path / "a.md").text == TEXT
        assert "not a readable PDF file" in refused(tmp_path / "b.pdf")
    assert len(started) == 2


def test_an_idle_process_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(TEXT)
    assert read_document(tmp_path / "a.md").text == TEXT
    os.kill(_processes._idle[0].pid, signal.SIGTERM)
    assert read_document(tmp_path / "a.md").text == TEXT


def test_threads_read_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.md" for number in range(12)]
    for path in paths:
        path.write_text(path.name)
    with ThreadPoolExecutor(3) as pool:
        assert [document.text for document in pool.map(read_document, paths)] == [path.name for path in paths]
    assert 1 <= len(_processes._idle) <= 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_starts_one_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(TEXT)
    read_document(tmp_path / "a.md")
    parent = _processes._idle[0].pid
    if not (forked := os.fork()):
        code = 1
        try:
            is_read = read_document(tmp_path / "a.md").text == TEXT
            code = not (is_read and _processes._idle[0].pid != parent)
            _processes.end_all()
            _processes._forgotten.clear()
            gc.collect()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
    assert read_document(tmp_path / "a.md").text == TEXT
    assert _processes._idle[0].pid == parent


@pytest.mark.parametrize("interpreter", ["", "/none", "/bin/false"])
def test_where_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, interpreter: str
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    _processes._warn.cache_clear()
    (tmp_path / "a.md").write_text(TEXT)
    for _ in range(2):
        assert read_document(tmp_path / "a.md").text == TEXT
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("files are read without limits of time and memory: ")


SCRIPT = """
import sys, threading, _thread, time
sys.path.insert(0, {root!r})
from cogltx.formats import _processes, read_document
document = read_document({path!r})
print(document.text, _processes._idle[0].pid, "torch" in sys.modules, flush=True)
{rest}
"""


def alive(pid: int) -> bool:
    """Whether a process runs; waits up to ten seconds for its end."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        status = Path(f"/proc/{pid}/stat")
        if status.exists() and ") Z " in status.read_text():  # ended; nobody has asked how
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(
    "rest", ["", "import os; os.kill(os.getpid(), 9)", "import os; os._exit(0)", "raise SystemExit(3)"]
)
@posix
def test_scripts_without_a_main_guard(tmp_path: Path, rest: str) -> None:
    """A script that reads on its first level is run once, and its process ends with it, however it ends."""
    (tmp_path / "a.md").write_text(TEXT)
    script = SCRIPT.format(root=str(Path(__file__).parents[2]), path=str(tmp_path / "a.md"), rest=rest)
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-W", "error", tmp_path / "script.py"], capture_output=True, text=True, cwd=tmp_path
    )
    *text, pid, has_torch = done.stdout.split()
    assert (" ".join(text), has_torch, done.stderr) == (TEXT, "False", "")
    assert not alive(int(pid))


@posix
def test_an_interrupt_ends_the_process(odd: Callable[[str], Path]) -> None:
    path, pids = odd(SLOW), list[int]()
    start = _processes._Process.read

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def read(one: _processes._Process, *arguments: object) -> object:
        pids.append(one.pid)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        return start(one, *arguments)  # type: ignore[arg-type]

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(_processes._Process, "read", read)
            read_document(path, seconds=60)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not alive(pids[0])
    assert not _processes._idle


def test_documents_travel_whole() -> None:
    document = Document(
        "A — 語\n\nB", "ü\n.pdf", (Segment(0, 5, "Ä"),), pages=((0, 1), (7, "slide 4")),
        lines=(Line(0, 5, 1, (0.1, 2.5, 1 / 3, 4.0)),), notes=("page 2 is a picture",),
    )  # fmt: skip
    assert Document.from_dict(json.loads(json.dumps(document.to_dict()))) == document


def test_the_limits_of_a_file() -> None:
    """They grow with its size, and any of them can be given."""
    sizes = (0, 100_000, 1_000_000, 10**9)
    assert [Limits.of(size).seconds for size in sizes] == [1.5, 4.0, 40.0, 600.0]
    assert [Limits.of(size).megabytes for size in sizes] == [250, 255, 300, 2000]
    with pytest.raises(ConfigError, match="seconds is -1; it must be above 0"):
        Limits.of(1, seconds=-1)
    assert Limits.of(5, seconds=9.0) == Limits(9.0, Limits.of(5).megabytes)
    assert Limits.of(5, megabytes=900).expanded_bytes == 300_000_000


@pytest.mark.parametrize(
    ("name", "expected"), [("a.PDF", ".pdf"), ("b/a.tar.Html.GZ", ".html"), ("a.gz", ""), (".gz", ""), ("a", "")]
)
def test_endings(name: str, expected: str) -> None:
    assert ending(name) == expected


def test_any_file_may_be_gzipped(tmp_path: Path) -> None:
    (tmp_path / "a.md.gz").write_bytes(gzip.compress(b"# Boats\n\nAnna has *one*."))
    document = read_document(tmp_path / "a.md.gz")
    assert (document.text, document.id, document.segments[0].heading) == ("Boats\n\nAnna has one.", "a.md.gz", "Boats")


def test_files_that_expand(tmp_path: Path) -> None:
    """A gzipped text, page and Word file of which little is compressed; a larger limit reads them."""
    bomb = gzip.compress(b"a " * 20_000_000)
    for name in ("a.txt.gz", "a.md.gz"):
        (tmp_path / name).write_bytes(bomb)
        assert f"{name}: it expands to over 30 MB, a third of the limit of 90 MB of memory" in refused(
            tmp_path / name, megabytes=90
        )
    assert len(read_document(tmp_path / "a.txt.gz", megabytes=130).text) == 40_000_000
    with zipfile.ZipFile(tmp_path / "a.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", bytes(40_000_000))
    assert "a.docx: it expands to over 30 MB" in refused(tmp_path / "a.docx", megabytes=90)


@linux
def test_a_zip_that_lies_about_its_size(tmp_path: Path) -> None:
    """The directory of the archive says 9 bytes, of 200 million."""
    with zipfile.ZipFile(tmp_path / "a.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_rels/.rels", bytes(200_000_000))
    packed = (tmp_path / "a.docx").read_bytes()
    assert packed.count((200_000_000).to_bytes(4, "little")) == 2
    (tmp_path / "a.docx").write_bytes(packed.replace((200_000_000).to_bytes(4, "little"), (9).to_bytes(4, "little")))
    line = refused(tmp_path / "a.docx", megabytes=150)
    assert "a.docx: reading it needs over 150 MB" in line
