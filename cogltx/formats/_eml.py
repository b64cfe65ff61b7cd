"""E-mails: subject, sender, receivers and date, the text, and the attachments of known formats."""

from email import message_from_bytes, policy
from importlib import import_module
from pathlib import Path
from typing import Any

from cogltx._messages import some
from cogltx.errors import DataError
from cogltx.formats import FORMATS
from cogltx.formats import _html as html
from cogltx.formats._encoding import decode, decode_markup
from cogltx.formats._sections import Sections

_HEADERS = ("Subject", "From", "To", "Cc", "Date")
_MOST_MESSAGES = 20  # within each other
_NAMED = 5  # attachments that a note names


def read(content: bytes) -> Sections:
    """Read an e-mail file."""
    sections = Sections()
    unread = list[str]()
    _add(message_from_bytes(content, policy=policy.default), sections, unread, depth=0)
    if unread:
        sections.note(f"attachments that are not read: {some(unread, _NAMED)}")
    return sections


def _add(message: Any, sections: Sections, unread: list[str], depth: int) -> None:
    headers = [f"{name}: {_header(message, name)}" for name in _HEADERS if _header(message, name)]
    if not headers:
        raise DataError("it has no header of an e-mail")
    sections.heading(_header(message, "Subject"))
    sections.paragraph("\n".join(headers))
    body = message.get_body(("plain", "html"))
    if body is not None:
        _add_text(body, sections)
    for part in message.iter_attachments():
        _add_attachment(part, sections, unread, depth)


def _header(message: Any, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except (ValueError, LookupError, IndexError, AttributeError):  # faults of the standard library with broken headers
        return ""


def _add_text(part: Any, sections: Sections) -> None:
    content, charset = _content(part), part.get_param("charset")
    try:
        declared = charset if isinstance(charset, str) and b"".decode(charset) == "" else ""
    except LookupError:
        declared = ""
    is_html = part.get_content_subtype() == "html"
    text, note = decode(content, declared) if declared or not is_html else decode_markup(content)
    sections.note(note)
    if is_html:
        html.add(text, sections)
    else:
        for paragraph in text.replace("\r\n", "\n").split("\n\n"):
            sections.paragraph(paragraph)


def _content(part: Any) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _add_attachment(part: Any, sections: Sections, unread: list[str], depth: int) -> None:
    """Read an attachment of a known format; the names of others are collected."""
    name = part.get_filename() or ""
    module, _ = FORMATS.get(Path(name).suffix.lower(), ("", ""))
    try:
        if part.get_content_type() == "message/rfc822" and depth < _MOST_MESSAGES:
            for inner in part.iter_parts():
                _add(inner, sections, unread, depth + 1)
        elif module and module != "eml":
            sections.heading(name)
            sections.take(import_module(f"cogltx.formats._{module}").read(_content(part)))
        elif part.get_content_maintype() == "text":
            sections.heading(name)
            _add_text(part, sections)
        else:
            unread.append(name or part.get_content_type())
    except MemoryError:
        raise
    except Exception:  # whatever the libraries raise for a broken file
        unread.append(f"{name or part.get_content_type()} (damaged)")
