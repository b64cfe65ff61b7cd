"""Notes and comments of office files, which follow the paragraph that cites them, outside tables and other notes."""

from collections.abc import Iterator
from contextlib import contextmanager

from cogltx.formats._tables import Block


class Notes:
    """Collects the texts of notes until the paragraph, or the table around it, has ended."""

    def __init__(self) -> None:
        self._depth = 0  # of cells and notes around the paragraph
        self._cited: list[str] = []

    def cite(self, mark: str, text: str) -> None:
        """Add a note with its mark."""
        self._cited.append(f"[{mark}] {text}")

    def comment(self, author: str | None, text: str) -> None:
        """Add a comment."""
        self._cited.append(f"Comment{f' by {author}' if author else ''}: {text}")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Read a cell or a note, whose own notes wait for its end."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def take(self) -> list[Block]:
        """Return the collected notes as paragraphs; none within a cell or a note."""
        if self._depth:
            return []
        cited, self._cited = self._cited, []
        return [(False, text) for text in cited]
