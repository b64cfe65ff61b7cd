"""The character encoding of text files."""

from cogltx.errors import DataError


def decode(content: bytes) -> str:
    """Decode UTF-8, with or without a byte order mark; raises DataError with the line of the first wrong byte."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + content[: error.start].count(10)
        raise DataError(f"line {line}: not UTF-8 (byte 0x{content[error.start]:02x}); save it as UTF-8") from None
