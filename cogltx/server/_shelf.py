"""The documents that a server holds: uploaded once, asked any number of times; in memory, or in a folder to stay.

A folder has one folder per document: ``document.json`` with text, segments and places, ``about.json``, ``source.pdf``
of a PDF file, and the vectors of its blocks. A document that was acknowledged is on the disk.
"""

import io
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary, finalize

import numpy as np

from cogltx._languages import model_for
from cogltx._progress import logger
from cogltx.blocks import Blocks
from cogltx.document import Document, named_apart
from cogltx.server._work import Lane, Work

_JOINED = 16  # combinations of documents that are joined once
_NEW, _PDF, _TEXT, _ABOUT = ".new-", "source.pdf", "document.json", "about.json"
_VECTORS = "vectors-{}.npy"


class NotHeldError(Exception):
    """The document has never been uploaded, or was dropped; the text is its id."""


class ShelfFullError(Exception):
    """There is no room for another document; the text says why."""


@dataclass(eq=False)
class Held:
    """A document that the server holds.

    Attributes:
        client: who uploaded it.
        n_characters: size of its text.
        last_used: the time of its last use.
        loaded: the document, if it has been used.
        file: of the document; None if it is only in memory.
        folder: of its files; None if it has none.
        lock: is held by the thread that prepares the document for questions.
        work: the work that prepares it; None before and after.
        blocks: its blocks by the name of the model that they are prepared for, if they are still in memory.
    """

    id: str
    client: str
    n_characters: int
    last_used: float
    loaded: Document | None = None
    file: Path | None = None
    folder: Path | None = None
    lock: Any = field(default_factory=Lock)
    work: Work | None = None
    blocks: WeakValueDictionary[str, Blocks] = field(default_factory=WeakValueDictionary)

    @property
    def document(self) -> Document:
        """The document, read from its file when it is used first."""
        if self.loaded is None:
            assert self.file is not None
            self.loaded = Document.from_dict(json.loads(self.file.read_text(encoding="utf-8")))
        return self.loaded

    @cached_property
    def model(self) -> str:
        """The released model that knows the language of the document."""
        return model_for([self.document])

    @property
    def pdf(self) -> Path | None:
        """The file of a PDF, for pictures of its pages; None for other formats."""
        pdf = None if self.folder is None else self.folder / _PDF
        return pdf if pdf is not None and pdf.exists() else None

    @property
    def has_vectors(self) -> bool:
        """Whether the vectors of its blocks are on the disk."""
        return self.file is not None and any(self.file.parent.glob(_VECTORS.format("*")))

    def load_vectors(self, key: str, n_blocks: int) -> np.ndarray | None:
        """Read the vectors of its blocks, computed by the model that ``key`` names; None if they are not kept."""
        if self.file is None:
            return None
        try:
            vectors: np.ndarray = np.load(self.file.with_name(_VECTORS.format(key)), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return vectors if vectors.ndim == 2 and len(vectors) == n_blocks else None

    def save_vectors(self, key: str, vectors: np.ndarray) -> None:
        """Keep the vectors of its blocks, where documents are kept and the disk has room."""
        if self.file is None:
            return
        content, target = io.BytesIO(), self.file.with_name(_VECTORS.format(key))
        np.save(content, vectors, allow_pickle=False)
        with suppress(OSError):  # the document was removed meanwhile, or the disk is full: they are computed again
            unfinished = target.with_name(f"{_NEW}{target.name}")
            unfinished.unlink(missing_ok=True)
            _write(unfinished, content.getvalue())
            unfinished.replace(target)


class Shelf:
    """Documents by ids that cannot be guessed.

    One that has been unused for ``idle`` seconds makes room for a new one, unless they are kept in a folder. A client
    may have half of the documents and characters.

    Args:
        max_documents: number of documents.
        folder: keeps the documents when the server ends; None: they are forgotten.
        max_characters: of all documents.
        idle: seconds.
        clock: gives the time in seconds.
    """

    def __init__(
        self,
        max_documents: int,
        folder: Path | None = None,
        *,
        max_characters: int = 100_000_000,
        idle: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_documents, self.max_characters, self.idle, self.clock = max_documents, max_characters, idle, clock
        self.keeps = folder is not None
        self.folder = folder if folder is not None else Path(tempfile.mkdtemp(prefix="cogltx-"))
        self.close: Callable[[], object] = lambda: None
        """Removes the files of a shelf that does not keep its documents."""
        self._held: dict[str, Held] = {}  # least recently used first
        self._joined: dict[tuple[str, ...], Document] = {}  # least recently used first
        if self.keeps:
            self._open()
        else:
            self.close = finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def n_characters(self) -> int:
        """Number of characters held."""
        return sum(held.n_characters for held in self._held.values())

    def make_room(self, client: str, n_characters: int = 0) -> None:
        """Let a client add a document: drop what has been unused for long, first its own; raises ShelfFullError."""
        of_client = [held for held in self._held.values() if held.client == client]
        while len(of_client) >= max(1, self.max_documents // 2) or (
            of_client and sum(held.n_characters for held in of_client) + n_characters > self.max_characters // 2
        ):
            self._drop(of_client.pop(0), "you hold as many documents as one client may; remove some")
        while self._held and (
            len(self._held) >= self.max_documents or self.n_characters + n_characters > self.max_characters
        ):
            self._drop(next(iter(self._held.values())), "too many documents are held; try again later")

    def write(self, document: Document, client: str = "", pdf: bytes | None = None) -> Held:
        """Write the files of a new document, which ``add`` then holds; may run in another thread."""
        held = Held(secrets.token_urlsafe(12), client, len(document.text), self.clock(), loaded=document)
        files = {_PDF: pdf} if pdf is not None else {}
        if self.keeps:
            files[_TEXT] = json.dumps(document.to_dict()).encode()
            files[_ABOUT] = json.dumps({"client": client, "characters": len(document.text)}).encode()
        if files:
            held.folder = self.folder / f"{_NEW}{held.id}"
            held.folder.mkdir()
            for name, content in files.items():
                _write(held.folder / name, content)
            _sync(held.folder)
        return held

    def add(self, held: Held) -> Held:
        """Hold a document that was written; its place on the disk is final afterwards. Raises ShelfFullError."""
        try:
            self.make_room(held.client, held.n_characters)
        except ShelfFullError:
            if held.folder is not None:
                shutil.rmtree(held.folder, ignore_errors=True)
            raise
        if held.folder is not None:
            held.folder = held.folder.rename(self.folder / held.id)
            held.file = held.folder / _TEXT if self.keeps else None
            _sync(self.folder)
        self._held[held.id] = held
        return held

    def get(self, id: str) -> Held:
        """Return a document; raises NotHeldError."""
        if id not in self._held:
            raise NotHeldError(id)
        held = self._held.pop(id)
        held.last_used = self.clock()
        self._held[id] = held
        return held

    def together(self, ids: Sequence[str]) -> tuple[Document, list[Document], list[Held]]:
        """Return one document, joined from several, the documents under distinct names, and what holds them.

        Raises NotHeldError.
        """
        key = tuple(dict.fromkeys(ids))
        held = [self.get(id) for id in key]
        documents = named_apart([one.document for one in held])
        if len(documents) == 1:
            return documents[0], documents, held
        joined = self._joined.pop(key) if key in self._joined else Document.joined(documents)
        self._joined[key] = joined
        if len(self._joined) > _JOINED:
            del self._joined[next(iter(self._joined))]
        return joined, documents, held

    def remove(self, id: str) -> None:
        """Drop a document, its files too; raises NotHeldError."""
        held = self._held.pop(id, None)
        if held is None:
            raise NotHeldError(id)
        if held.work is not None and held.work.lane is Lane.BACKGROUND:  # nobody waits for it
            held.work.give_up()
        self._joined = {key: joined for key, joined in self._joined.items() if id not in key}
        folder = self.folder / id
        if folder.exists():
            gone = self.folder / f"{_NEW}{id}"  # a folder of this name is removed at the next start, too
            folder.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def _drop(self, held: Held, why_not: str) -> None:
        """Drop a document that has been unused for long."""
        if self.keeps or self.clock() - held.last_used < self.idle:
            raise ShelfFullError(why_not)
        self.remove(held.id)

    def _open(self) -> None:
        """Find the documents in the folder, and remove what was not finished."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for leftover in self.folder.glob(f"{_NEW}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for file in sorted(self.folder.glob(f"*/{_ABOUT}"), key=lambda file: file.stat().st_mtime):
            folder = file.parent
            try:
                about = json.loads(file.read_text(encoding="utf-8"))
                held = Held(
                    folder.name, str(about["client"]), int(about["characters"]), self.clock(),
                    file=folder / _TEXT, folder=folder,
                )  # fmt: skip
            except (OSError, ValueError, KeyError, TypeError):
                logger.warning(f"{folder}: not a document of this server; it is left alone")
                continue
            self._held[held.id] = held


def _write(path: Path, content: bytes) -> None:
    """Write a file to the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Write the names in a folder to the disk, where the system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
