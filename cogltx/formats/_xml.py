"""Parsing of XML from files of people, by lxml: without network, bounded in depth and size."""

from lxml import etree

from cogltx.errors import DataError

MOST_TAGS = 2_000_000  # of a file inside a document; 1,000 pages of Word have about 500,000


def parse(content: bytes) -> etree._Element:
    """Parse XML; raises DataError if it has too many tags, ``XMLSyntaxError`` if it is broken."""
    check_size(content)
    parser = etree.XMLParser(
        resolve_entities="internal", no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    return etree.fromstring(content, parser)


def check_size(content: bytes) -> None:
    """Raise DataError if markup has too many tags to be read in seconds."""
    if content.count(b"<") > 2 * MOST_TAGS:
        raise DataError(f"a part has more than {MOST_TAGS:,} elements")


def local(name: str) -> str:
    """Name of an element or attribute without its namespace."""
    return name.rpartition("}")[2]


def attribute(element: etree._Element, name: str, default: str = "") -> str:
    """Attribute by its name without namespace or prefix."""
    if name in element.attrib:
        return str(element.get(name))
    return next((str(value) for key, value in element.attrib.items() if local(key).rpartition(":")[2] == name), default)
