"""The documents that a server holds: uploaded once, asked any number of times, dropped when unused."""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cogltx.document import Document, named_apart

_JOINED = 16  # combinations of documents that keep their blocks


class NotHeldError(Exception):
    """The document has never been uploaded, or was dropped; the text is its id."""


class ShelfFullError(Exception):
    """All documents are in use."""


@dataclass
class Shelf:
    """Documents by ids that cannot be guessed; one unused for ``idle`` seconds makes room for a new one."""

    max_documents: int
    max_characters: int = 100_000_000
    idle: float = 600.0
    clock: Callable[[], float] = time.monotonic
    _held: dict[str, tuple[Document, float]] = field(default_factory=dict)  # with last use, least recently used first
    _joined: dict[tuple[str, ...], Document] = field(default_factory=dict)  # least recently used first

    def __len__(self) -> int:
        return len(self._held)

    @property
    def n_characters(self) -> int:
        """Number of characters held."""
        return sum(len(document.text) for document, _ in self._held.values())

    def add(self, document: Document) -> str:
        """Hold a document and return its id; raises ShelfFullError."""
        while self._held and (
            len(self._held) >= self.max_documents or self.n_characters + len(document.text) > self.max_characters
        ):
            oldest, (_, last_used) = next(iter(self._held.items()))
            if self.clock() - last_used < self.idle:
                raise ShelfFullError
            self.remove(oldest)
        id = secrets.token_urlsafe(12)
        self._held[id] = (document, self.clock())
        return id

    def get(self, id: str) -> Document:
        """Return a document; raises NotHeldError."""
        if id not in self._held:
            raise NotHeldError(id)
        document, _ = self._held.pop(id)
        self._held[id] = (document, self.clock())
        return document

    def together(self, ids: Sequence[str]) -> tuple[Document, list[Document]]:
        """Return one document, joined from several, and the documents under distinct names; errors as ``get``."""
        key = tuple(dict.fromkeys(ids))
        documents = named_apart([self.get(id) for id in key])
        if len(documents) == 1:
            return documents[0], documents
        joined = self._joined.pop(key) if key in self._joined else Document.joined(documents)
        self._joined[key] = joined
        if len(self._joined) > _JOINED:
            del self._joined[next(iter(self._joined))]
        return joined, documents

    def remove(self, id: str) -> None:
        """Drop a document; raises NotHeldError."""
        if self._held.pop(id, None) is None:
            raise NotHeldError(id)
        self._joined = {key: joined for key, joined in self._joined.items() if id not in key}
