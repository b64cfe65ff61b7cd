"""EPUB files: the chapters in reading order, each an HTML file in the archive (EbookLib's licence is AGPL)."""

import posixpath
from io import BytesIO
from urllib.parse import unquote
from xml.etree import ElementTree
from zipfile import ZipFile

from cogltx.errors import DataError
from cogltx.formats import _html as html
from cogltx.formats._sections import Sections

_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_PACKAGE = "{http://www.idpf.org/2007/opf}"


def read(content: bytes) -> Sections:
    """Read an EPUB file; raises DataError if it is encrypted."""
    sections = Sections()
    with ZipFile(BytesIO(content)) as archive:
        container = ElementTree.fromstring(archive.read("META-INF/container.xml"))
        package_path = container.find(f".//{_CONTAINER}rootfile").attrib["full-path"]  # type: ignore[union-attr]
        has_key = "META-INF/encryption.xml" in archive.namelist()
        encrypted = archive.read("META-INF/encryption.xml").decode(errors="replace") if has_key else ""
        package = ElementTree.fromstring(archive.read(package_path))
        files = {item.get("id"): item.get("href", "") for item in package.iter(f"{_PACKAGE}item")}
        for reference in package.iter(f"{_PACKAGE}itemref"):
            file = unquote(files[reference.get("idref")])
            name = posixpath.normpath(posixpath.join(posixpath.dirname(package_path), file))
            if name in encrypted:
                raise DataError("the EPUB file is encrypted (DRM)")
            html.add(archive.read(name), sections)
    return sections
