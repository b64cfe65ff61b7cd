"""Office files are XML parts in a zip archive, which name each other by relationships; some have notes and comments.

Names are compared without namespaces, so files of the strict standard are read, too.
"""

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from zipfile import ZipFile

from lxml import etree

from cogltx.errors import DataError
from cogltx.formats import _xml as xml
from cogltx.formats._tables import Block

_OLD = b"\xd0\xcf\x11\xe0"


def open_zip(content: bytes) -> ZipFile:
    """Open the archive of an office file; raises DataError for old formats and encrypted files, which are none."""
    if content.startswith(_OLD):
        raise DataError("it has a password, or a format of before 2007; save it anew without a password")
    return ZipFile(BytesIO(content))


class Package:
    """The parts of an office file."""

    def __init__(self, content: bytes) -> None:
        self._archive = open_zip(content)
        self._names = {name.lower(): name for name in self._archive.namelist()}
        main = self.related("", "officeDocument")
        if not main:
            raise DataError("it has no main part of an office file")
        self.main = main[0]

    def part(self, name: str) -> etree._Element:
        """Parse a part."""
        return xml.parse(self._archive.read(self._names[name.lower()]))

    def relationships(self, name: str) -> dict[str, tuple[str, str]]:
        """Kind and target of each relationship of a part, by its id; kinds as in the last part of their URL."""
        folder, _, file = name.rpartition("/")
        path = posixpath.join(folder, "_rels", f"{file}.rels")
        if path.lower() not in self._names:
            return {}
        return {
            one.get("Id", ""): (
                one.get("Type", "").rpartition("/")[2],
                posixpath.normpath(posixpath.join("/", folder, one.get("Target", ""))).lstrip("/"),
            )
            for one in self.part(path).iter("{*}Relationship")
            if one.get("TargetMode") != "External"
        }

    def related(self, name: str, kind: str) -> list[str]:
        """The parts of a kind that a part names and that exist."""
        targets = (target for one, target in self.relationships(name).values() if one == kind)
        return [target for target in dict.fromkeys(targets) if target.lower() in self._names]


class Notes:
    """Notes and comments, which follow the paragraph that cites them, or the table or note around it."""

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
