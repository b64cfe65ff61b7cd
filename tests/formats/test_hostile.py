"""Files that are no files, odd names, and contents made to be slow: read at once, or one line."""

import gzip
import io
import os
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import pytest
from command_line import Call

from cogltx.errors import DataError
from cogltx.formats import find_files, read_document
from cogltx.formats._limits import Limits

TEXT = "Anna has a boat."
posix = pytest.mark.skipif(os.name != "posix", reason="files of POSIX")


def refused(path: Path, **limits: float) -> str:
    with pytest.raises(DataError) as caught:
        read_document(path, **limits)
    line = str(caught.value)
    assert line.isprintable()
    return line


@posix
def test_pipes(tmp_path: Path) -> None:
    """A pipe without a writer ends after the limit; one with a writer is read, by name or by its number."""
    os.mkfifo(tmp_path / "a.md")
    start = time.monotonic()
    assert "a.md: reading it takes over 0.1 s" in refused(tmp_path / "a.md", seconds=0.1)
    assert time.monotonic() - start < 60
    for name in ("a.md", "b.txt"):
        if name == "b.txt":
            os.mkfifo(tmp_path / name)
        writer = threading.Thread(target=(tmp_path / name).write_text, args=(TEXT,))
        writer.start()
        assert read_document(tmp_path / name).text == TEXT
        writer.join()
    read, write = os.pipe()
    os.write(write, 3000 * TEXT.encode())
    os.close(write)
    assert read_document(f"/dev/fd/{read}").text == 3000 * TEXT
    os.close(read)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device /dev/zero")
def test_devices(tmp_path: Path) -> None:
    assert "/dev/zero: not a text file" in refused(Path("/dev/zero"))
    (tmp_path / "a.md").symlink_to("/dev/zero")
    assert "a.md: it expands to over 20 MB" in refused(tmp_path / "a.md", megabytes=60)


def test_an_endless_text(tmp_path: Path) -> None:
    """Text that goes on in a compressed file, after a beginning without anything odd."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT.encode() * 1000 + bytes(30_000_000)))
    assert "a.gz: it expands to over 20 MB" in refused(tmp_path / "a.gz", megabytes=60)
    assert "a.gz: not a text file" in refused(tmp_path / "a.gz")


@pytest.mark.parametrize(
    ("letters", "encoding"),
    [("Größe für Köln. ", "cp1252"), ("Мост построила в 1911 году инженер Анна Иванова. ", "cp1251")],
)
def test_an_encoding_that_shows_late(tmp_path: Path, letters: str, encoding: str) -> None:
    text = "Anna and Bo. " * 20_000 + letters * 100
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    assert read_document(tmp_path / "a.txt").text == text
    (tmp_path / "b.txt").write_bytes(b"a " * 200_000 + b"\xff\x81")
    assert read_document(tmp_path / "b.txt").text.endswith("a \ufffd\ufffd")


def test_a_file_that_grows(tmp_path: Path) -> None:
    path, stop = tmp_path / "a.md", threading.Event()
    path.write_text(TEXT)

    def grow() -> None:
        with path.open("a") as file:
            while not stop.is_set():
                file.write(" and another one" * 1000)
                file.flush()
                time.sleep(0.001)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        assert read_document(path).text.startswith(TEXT)
    finally:
        stop.set()
        writer.join()


@posix
@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\u202efdp", "a\u2028b", os.fsdecode(b"a\xff")])
@pytest.mark.parametrize("ending", [".txt", ".md"])
def test_names(tmp_path: Path, name: str, ending: str) -> None:
    """Names are data: they neither end a line nor steer a terminal."""
    path = tmp_path / f"{name}{ending}"
    assert "file not found" in refused(path)
    path.write_text(TEXT)
    assert read_document(path).text == TEXT
    assert read_document(path).id == path.name.replace("\udcff", "\\xff")
    path.write_bytes(b" ")
    refused(path)


@posix
def test_links_that_end_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a.md").symlink_to("b.md")
    (tmp_path / "b.md").symlink_to("a.md")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "c.md").write_text(TEXT)
    assert "a.md: cannot be read: Too many levels of symbolic links" in refused(tmp_path / "a.md")
    assert [path.name for path in find_files([tmp_path])] == ["c.md"]
    assert len(find_files([tmp_path / "a.md", tmp_path / "b.md", tmp_path / "c.md"])) == 3


def test_a_folder_with_the_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.pdf").mkdir()
    (tmp_path / "x.pdf" / "a.md").write_text(TEXT)
    assert [path.name for path in find_files([tmp_path])] == ["a.md"]
    (tmp_path / "y.txt").mkdir()
    assert "y.txt: is a folder, not a file" in refused(tmp_path / "y.txt")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the system's administrator may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    for name in ("a.md", "a.txt"):
        (tmp_path / name).touch(mode=0)
        assert f"{name}: cannot be read: Permission denied" in refused(tmp_path / name)


def word(text: str) -> bytes:
    file, packed = docx.Document(), io.BytesIO()
    file.add_paragraph(text)
    file.save(packed)
    return packed.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


CONTENTS: dict[str, Callable[[], bytes]] = {
    "archive of an archive.docx": lambda: zipped({"a.docx": word(TEXT)}),
    "gzip of a gzip.md.gz": lambda: gzip.compress(gzip.compress(TEXT.encode())),
    "many members.epub": lambda: zipped({f"{number}": b"" for number in range(20_000)}),
    "one word.txt": lambda: b"x" * 20_000_000,
    "one word.md": lambda: b"x" * 1_000_000,
    "marks.md": lambda: ("a" + "\u0301" * 500_000).encode(),
    "overrides.md": lambda: ("\u202eab \u202c" * 50_000).encode(),
    "headings.md": lambda: b"".join(b"# Heading %d\n\ntext\n\n" % number for number in range(20_000)),
    "headings.html": lambda: b"".join(b"<h2>Heading %d</h2>text" % number for number in range(20_000)),
    "quotes.md": lambda: b"> " * 50_000,
    "lists.md": lambda: b"* " * 50_000,
    "brackets.md": lambda: b"[" * 100_000 + b"](" * 50_000,
    "stars.md": lambda: b"*a_ " * 50_000,
    "backticks.md": lambda: b"".join(b"`" * number + b" " for number in range(500)),
    "rule.md": lambda: b"---\n" + b" \n" * 100_000,
    "links.md": lambda: b"[a]: <" * 20_000,
    "entities.md": lambda: b"&" * 300_000 + b"&#x;" * 50_000,
    "table.md": lambda: b"|a" * 20_000 + b"\n" + b"|-" * 20_000 + b"\n" + b"|b" * 20_000,
    "attributes.html": lambda: b"<p " + b"a=1 " * 200_000 + b">text</p>",
    "quote.html": lambda: b'<p a="' * 100_000,
    "tables.html": lambda: b"<table><tr><td>" * 20_000,
    "spans.html": lambda: b"<table><tr><td colspan=1000000 rowspan=1000000>a<td>b</table>" * 100,
    "forms.html": lambda: b"<a><b><i>" * 20_000 + b"text",
    "styles.html": lambda: b"<p style='display" + b" " * 200_000 + b"'>text",
    "charset.html": lambda: b"<meta charset=punycode>" + b"a-" * 100_000,
    "entity.epub": lambda: zipped(
        {"META-INF/container.xml": b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">' + b"".join(
            b'<!ENTITY %s "%s">' % (bytes([98 + n]), b"&%s;" % bytes([97 + n]) * 10) for n in range(9)
        ) + b"]><a>&j;</a>"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTENTS)
def test_contents_that_are_slow_for_some_parsers(tmp_path: Path, name: str) -> None:
    """Each is read, or refused in one line, within the limits of its size; none is near them but the last resort."""
    path = tmp_path / name
    path.write_bytes(CONTENTS[name]())
    limits = Limits.of(path.stat().st_size)
    start = time.process_time()
    try:
        assert read_document(path).text
    except DataError as error:
        assert len(str(error).splitlines()) == 1
        assert len(str(error)) < 500
    assert time.process_time() - start < limits.seconds + 1


def test_a_folder_with_broken_files_is_answered_from_the_others(tmp_path: Path, model: str, call: Call) -> None:
    """One line for each file that is left out; a file that is named alone is an error."""
    folder = tmp_path / "all"
    folder.mkdir()
    (folder / "good.md").write_text(TEXT)
    (folder / "b\nroken.pdf").write_text("%PDF-")
    (folder / "bomb.txt.gz").write_bytes(gzip.compress(b" " * 100_000_000))
    (folder / "slow.docx").write_bytes(zipped({"a": bytes(90_000_000)}))
    done = call("ask", folder, "What does Anna have?", "--model", model)
    assert done.code == 0
    assert "boat" in done.out
    left_out = [line for line in done.err.splitlines() if line.startswith("left out: ")]
    assert len(left_out) == 3
    assert "b\\nroken.pdf: not a readable PDF file" in left_out[0]
    alone = call("ask", folder / "bomb.txt.gz", "What does Anna have?", "--model", model)
    assert (alone.code, alone.out) == (2, "")
    assert "bomb.txt.gz: it expands to over" in alone.err
    more = call("ask", folder / "bomb.txt.gz", "What does Anna have?", "--model", model, "--megabytes", "400")
    assert "bomb.txt.gz: the document has no text" in more.err


def test_answers_do_not_steer_the_terminal(tmp_path: Path, model: str, call: Call) -> None:
    (tmp_path / "a.txt").write_text("Anna has a \x1b[31mred\x1b[0m \u202eboat\u202c.")
    done = call("ask", tmp_path / "a.txt", "What does Anna have?", "--model", model)
    assert done.code == 0
    assert "\u202e" not in done.out
    assert "\x1b[31m" not in done.out
