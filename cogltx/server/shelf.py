"""The documents that a server holds: uploaded once, asked any number of times, and forgotten when unused."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cogltx.document import Document, named_apart

_JOINED = 16  # combinations of documents that keep their blocks


class NotHeldError(Exception):
    """The document has never been uploaded, or has been forgotten; the text is its id."""


class ShelfFullError(Exception):
    """All documents are in use."""


@dataclass
class _Held:
    document: Document
    last_used: float


@dataclass
class Shelf:
    """Documents by id. An id cannot be guessed, so that only who uploaded a document can ask about it.

    Attributes:
        max_documents: number of documents held at most.
        max_characters: characters held at most.
        idle: seconds after which an unused document makes room for a new one.
        clock: the time in seconds.
    """

    max_documents: int
    max_characters: int
    idle: float
    clock: Callable[[], float] = time.monotonic
    _held: "OrderedDict[str, _Held]" = field(default_factory=OrderedDict)  # least recently used first
    _joined: "OrderedDict[tuple[str, ...], Document]" = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def n_characters(self) -> int:
        """Number of characters held."""
        return sum(len(held.document.text) for held in self._held.values())

    def add(self, document: Document) -> str:
        """Hold a document and return its id; raises ShelfFullError."""
        while not self._has_room(document):
            oldest = next(iter(self._held), None)
            if oldest is None or self.clock() - self._held[oldest].last_used < self.idle:
                raise ShelfFullError
            self.remove(oldest)
        id = secrets.token_urlsafe(12)
        self._held[id] = _Held(document, self.clock())
        return id

    def get(self, id: str) -> Document:
        """Return a document; raises NotHeldError."""
        if id not in self._held:
            raise NotHeldError(id)
        self._held[id].last_used = self.clock()
        self._held.move_to_end(id)
        return self._held[id].document

    def together(self, ids: Sequence[str]) -> tuple[Document, list[Document]]:
        """Return what is searched for one or several documents, and the documents, each with a name of its own.

        Raises:
            NotHeldError: there is no such document.
        """
        key = tuple(dict.fromkeys(ids))
        documents = named_apart([self.get(id) for id in key])
        if len(documents) == 1:
            return documents[0], documents
        joined = self._joined.pop(key, None) or Document.joined(documents)
        self._joined[key] = joined
        if len(self._joined) > _JOINED:
            self._joined.popitem(last=False)
        return joined, documents

    def remove(self, id: str) -> None:
        """Forget a document; raises NotHeldError."""
        if self._held.pop(id, None) is None:
            raise NotHeldError(id)
        for key in [key for key in self._joined if id in key]:
            del self._joined[key]

    def _has_room(self, document: Document) -> bool:
        fits = self.n_characters + len(document.text) <= self.max_characters
        return not self._held or (fits and len(self._held) < self.max_documents)
