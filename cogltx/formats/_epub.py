"""EPUB files: the chapters in reading order, each an HTML file in the archive (EbookLib's licence is AGPL)."""

import posixpath
import re
from collections.abc import Iterator
from io import BytesIO
from urllib.parse import unquote
from zipfile import BadZipFile, ZipFile
from zlib import error as zlib_error

from lxml import etree

from cogltx._messages import some
from cogltx.errors import DataError
from cogltx.formats import _html as html
from cogltx.formats import _xml as xml
from cogltx.formats._encoding import decode_markup
from cogltx.formats._sections import Sections

_UNREADABLE = (BadZipFile, zlib_error, EOFError, RuntimeError, NotImplementedError, OSError)
_PICTURES = ("image/", "audio/", "video/")
_CONTAINER = re.compile(r"((?:[^/]+/)?)META-INF/container\.xml")
_NAMED = 3  # chapters that a note names


def read(content: bytes) -> Sections:
    """Read an EPUB file; raises DataError if no chapter is readable."""
    sections, problems = Sections(), list[str]()
    with ZipFile(BytesIO(content)) as archive:
        top = _top(archive)
        container = xml.parse(archive.read(f"{top}META-INF/container.xml"))
        package_path = top + next(container.iter("{*}rootfile")).attrib["full-path"]
        package, folder = xml.parse(archive.read(package_path)), posixpath.dirname(package_path)
        chapters, titles = _chapters(package, folder), _titles(archive, package, folder)
        encrypted = _encrypted(archive, top)
        for name in chapters:
            try:
                if name in encrypted:
                    raise DataError("encrypted")
                text, _ = decode_markup(archive.read(name))
                html.add(text, sections, is_xml=True, titles=titles.get(name, ()))
            except KeyError:
                problems.append(f"{name} (missing)")
            except DataError as error:
                problems.append(f"{name} ({error})")
            except _UNREADABLE:
                problems.append(f"{name} (damaged)")
    if problems and len(problems) == len(chapters):
        is_encrypted = all(name in encrypted for name in chapters)
        raise DataError(
            "the EPUB file is encrypted (DRM)" if is_encrypted else f"no chapter can be read: {problems[0]}"
        )
    if problems:
        sections.note(f"{len(problems)} of {len(chapters)} chapters cannot be read: {some(problems, _NAMED)}")
    return sections


def _top(archive: ZipFile) -> str:
    """The folder that holds the book, with a slash; empty if that is the archive itself."""
    matches = map(_CONTAINER.fullmatch, archive.namelist())
    return min((match[1] for match in matches if match), default="")


def _path(folder: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(link.partition("#")[0])))


def _chapters(package: etree._Element, folder: str) -> list[str]:
    """Files of the chapters, each once; those beside the reading order come last."""
    files, main, beside = {item.get("id"): item for item in package.iter("{*}item")}, list[str](), list[str]()
    for reference in package.iter("{*}itemref"):
        id = reference.get("idref", "")
        item = files.get(id)
        if item is None or not item.get("media-type", "").startswith(_PICTURES):
            link = id if item is None else item.get("href", "")
            (beside if reference.get("linear") == "no" else main).append(_path(folder, link))
    return list(dict.fromkeys(main + beside))


def _encrypted(archive: ZipFile, top: str) -> set[str]:
    """Files that are encrypted; fonts often are, in free books too."""
    name = f"{top}META-INF/encryption.xml"
    if name not in archive.namelist():
        return set()
    references = xml.parse(archive.read(name)).iter("{*}CipherReference")
    return {_path(top, reference.get("URI", "")) for reference in references}


def _titles(archive: ZipFile, package: etree._Element, folder: str) -> dict[str, set[str]]:
    """Titles in the table of contents, by file: those of EPUB 3 (HTML) and EPUB 2 (NCX)."""
    titles: dict[str, set[str]] = {}
    for item in package.iter("{*}item"):
        if "nav" in item.get("properties", "").split() or item.get("media-type") == "application/x-dtbncx+xml":
            path = _path(folder, item.get("href", ""))
            try:
                contents = xml.parse(archive.read(path))
            except (KeyError, DataError, etree.XMLSyntaxError, *_UNREADABLE):
                continue
            for link, title in _entries(contents):
                titles.setdefault(_path(posixpath.dirname(path), link), set()).add(" ".join(title.split()))
    return titles


def _entries(contents: etree._Element) -> Iterator[tuple[str, str]]:
    yield from ((link.get("href", ""), "".join(link.itertext())) for link in contents.iter("{*}a"))
    for point in contents.iter("{*}navPoint"):
        for target in point.iterfind("{*}content"):
            yield target.get("src", ""), "".join(point.findtext("{*}navLabel/{*}text") or "")
