"""Broken files of people: each is read, or refused in one line, soon and in little memory.

A case is its seed and number: ``--only 17`` reads one again and keeps its file.
"""

import copy
import gzip
import io
import os
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from xml.etree import ElementTree
from zipfile import ZIP_DEFLATED, ZipFile

from fuzz import documents, mutated

from cogltx.errors import DataError
from cogltx.formats import ENDINGS, _processes, ending, read_document

SECONDS = 5.0
MEGABYTES = 600
_TICKS = os.sysconf("SC_CLK_TCK")
_LIMITED = ("reading it takes over", "reading it needs over", "reading it ends in a crash", "it expands to over")


@dataclass
class _Most:
    """The most that one file needed."""

    seconds: float = 0.0
    megabytes: float = 0.0


def campaign(folder: Path, count: int, seed: int, found: Callable[[str], None], real: Path | None, only: str) -> str:
    """Read broken files, made of own ones and of those in the folder ``real``; return the outcomes by ending."""
    originals = _originals(real)
    outcomes, most = Counter[str](), _Most()
    for number in [int(only)] if only else range(count):
        random = Random(f"{seed}:{number}")
        path = folder / f"broken{_break(originals, random, folder)}"
        outcome = _read(path, most)
        if outcome.startswith("found"):
            found(f"document {number} ({path.suffixes}): {outcome}")
        outcomes[f"{ending(path) or 'text'} {outcome.partition(':')[0]}"] += 1
        if number % 1000 == 999:
            print(f"{number + 1:,} documents", flush=True)
        if only:
            print(outcome, shutil.copy(path, Path.cwd()))
    limits = f"at most {most.seconds:.1f} s of processor time, {most.megabytes:.0f} MB"
    return f"{dict(sorted(outcomes.items()))}, {limits}"


def _originals(real: Path | None) -> list[tuple[str, bytes]]:
    """Names and contents of whole files."""
    files = sorted(path for path in real.rglob("*") if path.suffix in ENDINGS and path.is_file()) if real else []
    text = "Anna has a boat. The boat was built in 1911 by Ilse Brandt, who lived on the hills.\n" * 20
    own = [
        *documents(text),
        ("a.txt", text.encode()),
        ("a.md.gz", gzip.compress(text.encode(), mtime=0)),
        ("a", text.encode("utf-16")),
    ]
    return [*own, *((path.name, path.read_bytes()) for path in files)]


def _break(originals: list[tuple[str, bytes]], random: Random, folder: Path) -> str:
    """Write a broken file; return its ending."""
    kind = random.choice(sorted({ending(name) for name, _ in originals}))
    alike = [one for one in originals if ending(one[0]) == kind]
    name, content = random.choice(alike)
    match random.randrange(5) if content[:2] != b"PK" or random.random() < 0.3 else 5:
        case 5:
            content = _in_trees(content, random)
        case 0:
            content = content[: random.randrange(len(content) + 1)]
        case 1:
            flipped = bytearray(content)
            for _ in range(random.choice((1, 10, 1000))):
                flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
            content = bytes(flipped)
        case 2:  # of two files
            other = random.choice(alike if random.random() < 0.8 else originals)[1]
            content = content[: random.randrange(len(content))] + other[random.randrange(len(other)) :]
        case _:
            content = mutated(content, random, kind)
    (folder / f"broken{''.join(Path(name).suffixes[-1:])}").write_bytes(content)
    return "".join(Path(name).suffixes[-1:])


def _in_trees(content: bytes, random: Random) -> bytes:
    """Change elements of XML files in an archive, which stay well-formed."""
    packed = io.BytesIO()
    with ZipFile(io.BytesIO(content)) as archive, ZipFile(packed, "w", ZIP_DEFLATED) as other:
        names = archive.namelist()
        for name in names:
            raw, is_chosen = archive.read(name), random.random() < max(0.2, 1 / len(names))
            with suppress(ElementTree.ParseError):
                raw = _in_tree(raw, random) if is_chosen else raw
            other.writestr(name, raw)
    return packed.getvalue()


def _in_tree(content: bytes, random: Random) -> bytes:
    """Remove, repeat, move or change elements."""
    root = ElementTree.fromstring(content)
    for _ in range(random.choice((1, 2, 10))):
        parent, other = random.choices(list(root.iter()), k=2)
        if len(parent) and (child := random.choice(list(parent))) is not None:
            match random.randrange(4):
                case 0:
                    parent.remove(child)
                case 1:
                    parent.extend([copy.deepcopy(child) for _ in range(random.choice((1, 3, 200)))])
                case 2:
                    other.append(copy.deepcopy(child))
                case _:
                    child.text = random.choice(("", "a", "9" * 400, "-1", "\u202e\u0301", "NaN", " " * 5000))
        for key in list(parent.attrib)[:1]:
            parent.set(key, random.choice(("", "a", "0", "-1", "9" * 40, "../../a", "1e999", parent.get(key, ""))))
    return ElementTree.tostring(root)


def _read(path: Path, most: _Most) -> str:
    """Read a file; return the outcome."""
    before = _used() if _processes._idle else (0.0, 0.0)
    try:
        outcome = "read" if read_document(path).text else "found: nothing"
    except DataError as error:
        line = str(error)
        outcome = "ended" if any(words in line for words in _LIMITED) else "refused"
        if len(line.splitlines()) != 1 or "Traceback" in line:
            outcome = f"found: not one line: {line!r}"
    except Exception as error:
        outcome = f"found: {type(error).__name__}: {error}"
    if _processes._idle:
        after = _used()
        seconds = after[0] - before[0] if after[0] >= before[0] else after[0]
        most.seconds, most.megabytes = max(most.seconds, seconds), max(most.megabytes, after[1])
        if seconds > SECONDS or after[1] > MEGABYTES:
            outcome = f"found: {seconds:.1f} s, {after[1]:.0f} MB"
    return outcome


def _used() -> tuple[float, float]:
    """Processor time so far, and largest memory, of the idle process that reads files."""
    place = Path("/proc") / str(_processes._idle[0].pid)
    fields = place.joinpath("stat").read_text().rpartition(")")[2].split()
    peak = next(line for line in place.joinpath("status").read_text().splitlines() if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) / _TICKS, int(peak.split()[1]) / 1000
