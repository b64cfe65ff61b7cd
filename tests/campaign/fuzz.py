"""Broken and hostile files: one clear line and exit code 2, or a result; no traceback, hang or flood of memory.

A case is named by its target and number; ``--only pdf:17`` repeats one, with the same bytes, and keeps its files.
"""

import gzip
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import docx
import yaml
from faults import limit_memory
from forked import run
from fpdf import FPDF
from house import QUESTION, WORD

WITHIN = 30
"""Seconds that a command may take for a broken file; a whole one takes less than one."""

MEMORY = 3 << 30
"""Bytes of address space beyond those of the campaign itself."""

PIECES = (
    b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"-1", b"0", b"1e999", b"NaN", b"null", b"true", b"[]",
    b"{}", b'""', b"9" * 400, b"18446744073709551616", b"[" * 3000, b"{\"a\":" * 2000, b"<", b"</p>", b"&#x110000;",
    b"<!DOCTYPE a [<!ENTITY b \"c\">]>", b"&b;", b"%s", b"../../", b"\r", b"\n" * 50, b" " * 5000, b"a" * 5000,
    "İıſß\u202e\u0301🙂".encode(), b"!!python/object/apply:os.system ['true']", b"*a", b"&a [*a]",
)  # fmt: skip

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "a",
    "\0", "\ud800", "..", "/", "/dev/full", "x" * 5000, [], [[]], {}, {"": None}, [None], ["a", 1], [1] * 1000,
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """Files to break, and the command that reads them. ``{path}`` is the file, or the folder of the files."""

    name: str
    command: str
    files: dict[str, bytes]


def campaign(house: Path, count: int, seed: int, found: Callable[[str], None], only: str = "") -> dict[str, int]:
    """Read broken files of every kind; return the numbers of cases by target and outcome."""
    outcomes: dict[str, int] = {}
    targets = _targets(house)
    for number in range(count):
        for target in targets:
            name = f"{target.name}:{number}"
            if (only and name != only) or (not only and number >= -(-count // len(targets))):
                continue
            outcome, finding = _case(house, target, f"{seed}:{name}", keep=bool(only))
            if finding:
                found(f"{name}: {finding}")
            key = f"{target.name} {outcome}"
            outcomes[key] = outcomes.get(key, 0) + 1
    return outcomes


def _case(house: Path, target: Target, seed: str, *, keep: bool) -> tuple[str, str]:
    """Break a file and read it; return the outcome, and what is wrong with it."""
    random = Random(seed)
    folder = house / "fuzzed"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    broken = random.choice(sorted(target.files))
    for name, content in target.files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(mutated(content, random, Path(name).suffix) if name == broken else content)
    path = folder / broken if len(target.files) == 1 else folder
    ended = run(
        *target.command.format(path=path, house=house).split(), within=WITHIN, before=lambda: limit_memory(MEMORY)
    )
    if keep:
        print(f"{ended}\nfiles in {shutil.copytree(folder, Path.cwd() / 'fuzzed', dirs_exist_ok=True)}")
    if ended.problem:
        return "found", ended.problem
    if ended.code == 2 and sum(line.startswith("cogltx: ") for line in ended.err.splitlines()) != 1:
        return "found", f"not one line: {ended.err[-2000:]}"
    return ("refused" if ended.code == 2 else "read"), ""


def mutated(content: bytes, random: Random, suffix: str) -> bytes:
    """Break a file: in its bytes, in what it packs, or in the values of its JSON or YAML."""
    if content[:2] == b"PK" and random.random() < 0.7:
        return _in_archive(content, random)
    if content[:2] == b"\x1f\x8b" and random.random() < 0.7:
        return gzip.compress(mutated(gzip.decompress(content), random, suffix.removesuffix(".gz")))
    if suffix in (".json", ".jsonl", ".yaml") and random.random() < 0.6:
        return _in_values(content, random, suffix)
    if suffix in (".safetensors", ".index") and random.random() < 0.5:
        return _in_header(content, random)
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        start = random.randrange(len(changed) + 1)
        length = random.choice((1, 1, 4, 50, 1000))
        match random.randrange(6):
            case 0:
                del changed[start:]
            case 1:
                del changed[start : start + length]
            case 2:
                changed[start:start] = random.choice(PIECES)
            case 3:
                changed[start : start + length] = random.choice(PIECES)
            case 4:
                changed[start:start] = changed[start : start + length] * random.choice((1, 2, 300))
            case _:
                changed[start : start + 1] = bytes([random.randrange(256)])
    return bytes(changed)


def _in_archive(content: bytes, random: Random) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as other:
        names = archive.namelist()
        broken = random.choice(names)
        for name in names:
            raw = archive.read(name)
            if name == broken and random.random() < 0.1:
                continue
            other.writestr(name, mutated(raw, random, "") if name == broken else raw)
    return packed.getvalue()


def _in_values(content: bytes, random: Random, suffix: str) -> bytes:
    text = content.decode()
    if suffix == ".jsonl":
        lines = text.splitlines()
        place = random.randrange(len(lines))
        lines[place] = json.dumps(_replaced(json.loads(lines[place]), random))
        return "\n".join(lines).encode()
    if suffix == ".json":
        return json.dumps(_replaced(json.loads(text), random)).encode()
    return yaml.safe_dump(_replaced(yaml.safe_load(text), random)).encode("utf-8", "surrogatepass")


def _in_header(content: bytes, random: Random) -> bytes:
    """Break a safetensors file in the values of its header."""
    length = int.from_bytes(content[:8], "little")
    header = json.dumps(_replaced(json.loads(content[8 : 8 + length]), random)).encode()
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def _replaced(value: Any, random: Random) -> Any:
    """Replace, remove or add one value somewhere inside."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        match random.randrange(8):
            case 0:
                return {name: other for name, other in value.items() if name != key}
            case 1:
                return value | {random.choice(("", "a", "name", "text", key.upper())): random.choice(VALUES)}
            case _:
                return value | {key: _replaced(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        place = random.randrange(len(value))
        return [*value[:place], _replaced(value[place], random), *value[place + 1 :]]
    return random.choice(VALUES)


def _targets(house: Path) -> list[Target]:
    text = (house / "texts" / "0.txt").read_bytes()
    examples = (house / "examples.jsonl").read_bytes()
    index = house / "fuzzed.index"
    predictions = house / "fuzzed.jsonl"
    for arguments in (
        ["ask", house / "texts" / "0.txt", WORD, "--model", house / "model", "--index", index],
        ["predict", house / "model", "--input", house / "examples.jsonl", "--output", predictions],
        ["train", house / "train.yaml", "--output", house / "trained", "--set", "training.epochs=1"],
    ):
        ended = run(*arguments)
        assert ended.code == 0, ended.err
    read = f"ask {{path}} {WORD} --model {{house}}/model"
    known = f"ask {{house}}/texts/0.txt {WORD} --model "
    squad = {
        "version": "1.1",
        "data": [
            {
                "title": "t",
                "paragraphs": [
                    {
                        "context": text.decode(),
                        "qas": [
                            {
                                "id": "1",
                                "question": QUESTION,
                                "answers": [{"text": "the", "answer_start": text.decode().index("the")}],
                            }
                        ],
                    }
                ],
            }
        ],
    }
    hotpot = [
        {
            "_id": "1",
            "question": QUESTION,
            "answer": "fox",
            "type": "bridge",
            "level": "easy",
            "supporting_facts": [["t", 0]],
            "context": [["t", ["the fox. ", "the moon."]], ["u", ["noise."]]],
        }
    ]
    conll = b"-DOCSTART- O\n\nanna B-PER\nhas O\n. O\n\n" * 3
    resume = "train {house}/train.yaml --output {path} --set training.epochs=1 --resume"
    model = {str(path.relative_to(house / "model")): path.read_bytes() for path in _files(house / "model")}
    trained = {str(path.relative_to(house / "trained")): path.read_bytes() for path in _files(house / "trained")}
    return [
        *(Target(Path(name).suffix[1:], read, {name: content}) for name, content in documents(text.decode())),
        Target("text", read, {"a.txt": text}),
        Target("gzip", read, {"a.txt.gz": gzip.compress(text)}),
        Target("jsonl", "predict {house}/model --input {path} --output {house}/fuzzed/out", {"a.jsonl": examples}),
        Target(
            "squad", "prepare squad --source {path} --output {house}/fuzzed/out", {"a.json": json.dumps(squad).encode()}
        ),
        Target(
            "hotpotqa",
            "prepare hotpotqa --source {path} --output {house}/fuzzed/out",
            {"a.json": json.dumps(hotpot).encode()},
        ),
        Target("tagging", "prepare tagging --source {path} --output {house}/fuzzed/out", {"a.conll": conll}),
        Target(
            "yaml",
            "train {path} --output {house}/fuzzed/out --set data.train={house}/none",
            {"a.yaml": (house / "train.yaml").read_bytes()},
        ),
        Target(
            "mlm",
            "train {path} --output {house}/fuzzed/out --set data.train={house}/none",
            {"a.yaml": (house / "mlm.yaml").read_bytes()},
        ),
        Target("model", known + "{path}", model),
        Target("run", resume, {name: value for name, value in trained.items() if "tensorboard" not in name}),
        Target("index", known + "{house}/model --index {path}", {"a.index": index.read_bytes()}),
        Target(
            "predictions",
            "predict {house}/model --input {house}/examples.jsonl --output {path}",
            {"a.jsonl": predictions.read_bytes()},
        ),
    ]


def documents(text: str) -> list[tuple[str, bytes]]:
    """Make a file of each format of people, with a name."""
    return [
        ("a.pdf", _pdf(text)),
        ("a.docx", _docx(text)),
        ("a.epub", _epub(text)),
        ("a.html", f"<html><body><h1>A</h1><p>{text}</p><ul><li>a</ul></body>".encode()),
        ("a.md", f"# A\n\n{text}\n\n* a\n  * b\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".encode()),
    ]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _pdf(text: str) -> bytes:
    file = FPDF()
    file.set_font("Helvetica", size=12)
    for _ in range(2):
        file.add_page()
        file.multi_cell(0, text=text)
    return bytes(file.output())


def _docx(text: str) -> bytes:
    file, packed = docx.Document(), io.BytesIO()
    file.add_heading("Report", 1)
    file.add_paragraph(text)
    file.add_table(2, 2).cell(0, 0).text = "7"
    file.save(packed)
    return packed.getvalue()


def _epub(text: str) -> bytes:
    packed = io.BytesIO()
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="book.opf"/></rootfiles></container>'
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.xhtml"/></manifest>'
        '<spine><itemref idref="a"/></spine></package>'
    )
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", container)
        archive.writestr("book.opf", package)
        archive.writestr("a.xhtml", f"<html><body><h1>One</h1><p>{text}</p></body></html>")
    return packed.getvalue()
