"""Reading the objects of one long JSON list, one after another, without holding the file.

Knows nothing about what the objects mean.
"""

import codecs
import json
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path

from cogltx.errors import DataError
from cogltx.tasks.files import not_utf8, open_binary, refuse_half_characters
from cogltx.tasks.records import Record, expect, shorten, unique

_CHUNK = 1 << 18  # bytes read at once
_LONGEST_LITERAL = 16  # a value that breaks in the last so many characters may be a cut number, name or escape


def read_json_list(path: Path, key: str | None = None) -> Iterator[Record]:
    """The objects of a long JSON list, one after another; only one is held in memory.

    Takes time linear in the length of the file.

    Args:
        path: the file, plain or gzipped.
        key: None if the file is the list; else the file is an object, and the list its value under this key.

    Raises:
        DataError: as ``read_text``, or the file is not such JSON or ends early.
    """
    with open_binary(path) as file:
        cursor = _Cursor(path, file)
        if key is not None:
            cursor.take("{")
            cursor.go_to(key)
        yield from _list_items(cursor)
        if key is not None:
            cursor.skip_members()
        cursor.take("")


def _list_items(cursor: "_Cursor") -> Iterator[Record]:
    cursor.take("[")
    if cursor.peek() == "]":
        cursor.take("]")
        return
    while True:
        cursor.peek()
        where = f"{cursor.path}:{cursor.line}"
        yield Record(expect(cursor.value(), dict, where), where)
        if cursor.take(",", "]") == "]":
            return


class _Cursor:
    """A place in a JSON text that is read piece by piece.

    ``buffer[position:]`` is what has been read and not yet taken. When a value does not fit, as much again as
    is held is read before the next try, so that all tries together cost time linear in the text.
    """

    def __init__(self, path: Path, file: BufferedIOBase) -> None:
        self.path = path
        self.line = 1
        self._file = file
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder(object_pairs_hook=unique)
        self._buffer = ""
        self._position = 0
        self._ended = False

    def peek(self) -> str:
        """The next character after white space, "" at the end."""
        while True:
            rest = len(self._buffer)
            while self._position < rest and (char := self._buffer[self._position]) in " \t\r\n":
                self._position += 1
                self.line += char == "\n"
            if self._position < rest:
                return self._buffer[self._position]
            if not self._grow():
                return ""

    def take(self, *expected: str) -> str:
        """Goes past the next character, which must be one of these ("": the end)."""
        char = self.peek()
        if char not in expected:
            wanted = " or ".join(repr(choice) if choice else "the end of the file" for choice in expected)
            raise DataError(f"{self.path}:{self.line}: expected {wanted}, got {self._next()}")
        self._position += len(char)
        return char

    def value(self) -> object:
        """Goes past the next value, and returns it."""
        self.peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._buffer, self._position)
            except RecursionError:
                raise DataError(f"{self.path}:{self.line}: expected JSON, got too many brackets") from None
            except json.JSONDecodeError as error:
                if not self._is_cut(error) or not self._grow():
                    raise self._broken(error) from None
                continue
            except ValueError as error:
                raise DataError(f"{self.path}:{self.line}: expected JSON, got: {error}") from None
            if end < len(self._buffer) or not self._grow():
                break
        source = self._buffer[self._position : end]
        refuse_half_characters(value, source, f"{self.path}:{self.line}")
        self.line += source.count("\n")
        self._position = end
        return value

    def go_to(self, key: str) -> None:
        """From inside an object to the value of ``key``."""
        seen: list[str] = []
        while self.peek() == '"':
            name = str(self.value())
            self.take(":")
            if name == key:
                return
            self.value()
            seen.append(name)
            if self.take(",", "}") == "}":
                break
        found = ", ".join(map(repr, seen)) or self._next()
        raise DataError(f"{self.path}:{self.line}: expected an object with the field {key!r}, got {found}")

    def skip_members(self) -> None:
        """From behind a value of an object to behind the object."""
        while self.take(",", "}") == ",":
            self.value()
            self.take(":")
            self.value()

    def _grow(self) -> bool:
        """Reads on; False at the end of the file."""
        self._buffer = self._buffer[self._position :]
        self._position = 0
        raw = b"" if self._ended else self._file.read(max(_CHUNK, len(self._buffer)))
        if self._ended:
            return False
        self._ended = not raw
        try:
            self._buffer += self._utf8.decode(raw, final=self._ended)
        except UnicodeDecodeError as error:
            line = self.line + self._buffer.count("\n") + error.object[: error.start].count(b"\n")
            raise DataError(not_utf8(f"{self.path}:{line}", error)) from None
        return True

    def _is_cut(self, error: json.JSONDecodeError) -> bool:
        """Whether more text might mend the value."""
        return error.msg.startswith("Unterminated string") or error.pos + _LONGEST_LITERAL >= len(self._buffer)

    def _broken(self, error: json.JSONDecodeError) -> DataError:
        text = self._buffer
        line = self.line + text.count("\n", self._position, error.pos)
        if error.msg.startswith("Unterminated string") or not text[error.pos :].strip():
            return DataError(f"{self.path}:{line}: expected whole JSON, got a file that ends early")
        return DataError(f"{self.path}:{line}: expected JSON, got {shorten(text[error.pos : error.pos + 50])}")

    def _next(self) -> str:
        rest = self._buffer[self._position : self._position + 50]
        return shorten(rest) if rest else "the end of the file"
