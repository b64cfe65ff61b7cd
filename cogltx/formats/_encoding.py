"""The character encoding of files: as they say it, else UTF-8, else as a detector is sure of.

A file says it by a byte order mark, HTML also by a ``meta`` element and XML by its first line. Of Western and Central
European encodings, that one is sure in which all letters belong to the alphabet of one language; of other scripts, the
choice of charset-normalizer from some length on.
"""

import codecs
import re
import unicodedata
from collections import Counter

from cogltx.errors import DataError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark begins it
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(
    rb"""(?:<meta\b[^<>]{0,300}?charset|<\?xml[^<>]{0,200}?encoding)\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE
)
_FIRST_BYTES = 4096  # that hold the declaration
_WIDER = {  # as browsers read these names
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "utf-16": "utf-8",
    "utf-16-le": "utf-8", "utf-16-be": "utf-8",
}  # fmt: skip
_ONE_BYTE = re.compile(r"cp(?:125|8)\d+|iso8859.*|mac.*|koi8.*")  # per character
_NAMES = re.compile(r"cp(?=125\d)")
_PUNCTUATION = frozenset("€‚„…†‡‰‘’“”•–—™¡§©«®°±¹²³´µ¶·»¼½¾¿×÷£¥¢ªº\xa0\xad")
_IN_WORDS = re.compile("(?<=[^\\W\\d_])[^\\w\\s·´’\xad](?=[^\\W\\d_])|(?<=[^\\W\\d_])[ªº¹²³](?=[^\\W\\d_])")
_CENTRAL = (("łąę", "ćńóśźż"), ("áí", "čďéěňóřšťúůýž"), ("áí", "äčďéĺľňóôŕšťúýž"), ("áé", "íóöőúüű"), ("ăşţ", "âî"),
            ("šž", "čćđ"))  # fmt: skip
_LANGUAGES = {  # per encoding, the letters of its languages beyond ASCII: common ones and others
    "cp1252": (("äöüß", ""), ("éèàç", "âæêëîïôœùûüÿ"), ("áéíóúñ", "ü"), ("áéíóúçã", "âàêôõü"), ("àèéìòù", "íîó"),
               ("äöå", "éü"), ("æøå", "éöäü"), ("áíóé", "ðúýþæö"), ("éëï", "öüèáóê"), ("àéèóíç", "ïòúü·")),
    "cp1250": _CENTRAL,
    "iso8859_2": _CENTRAL,
    "cp1254": (("ışğ", "çöüâîû"),),
}  # fmt: skip
_COMMON = 0.2  # least share of the common letters
_OTHER_SCRIPTS = "cp1251 koi8_r iso8859_5 cp1253 cp1255 cp1256 cp874 cp932 euc_jp gb18030 big5 cp949".split()
_SURE_BYTES = 80  # beyond ASCII; shorter texts in other scripts are taken for one another
_SURE_SHARE = 0.99
_DETECTED_BYTES = 100_000
_MANY = 10  # characters beyond ASCII for each wrong byte show that a text is UTF-8
_FEW = 0.001  # share of wrong bytes in a text that is read all the same


def decode(content: bytes, declared: str = "") -> tuple[str, str]:
    """Decode the bytes of a text file; also returns a note if the file does not state its encoding, else "".

    Args:
        content: the whole file.
        declared: an encoding that the file names; a byte order mark outranks it, and so does UTF-8 without a fault.

    Raises:
        DataError: the encoding is not stated, and no encoding is sure.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content.removeprefix(codecs.BOM_UTF8).decode(encoding, "replace"), ""
    is_one_byte = bool(declared) and _ONE_BYTE.fullmatch(codecs.lookup(declared).name)
    if is_one_byte and not content.isascii() and _fits(content, "utf-8"):
        return content.decode(), f"read as utf-8 (the file states {_name(declared)})"
    if declared:
        text = content.decode(declared, "replace")
        wrong = text.count("\ufffd") - content.count("\ufffd".encode())
        return text, f"{wrong:,} bytes are not {_name(declared)}, which the file states" if wrong > 0 else ""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        text = content.decode("utf-8", "replace")
        n_wrong, n_right = text.count("\ufffd"), sum(not character.isascii() for character in text)
        encoding = _detected(content) if n_right < _MANY * n_wrong else ""
        if encoding:
            return content.decode(encoding, "replace"), f"read as {_name(encoding)} (not stated in the file)"
        if n_right >= _MANY * n_wrong or n_wrong <= _FEW * len(text):
            return text, f"{n_wrong:,} bytes are not UTF-8; they are read as \ufffd"
        line, byte = 1 + content[: error.start].count(10), content[error.start]
        raise DataError(
            f"line {line}: not UTF-8 (byte 0x{byte:02x}), and no other encoding is sure; save it as UTF-8"
        ) from None
    seven_bits = "iso2022_jp" if b"\x1b$" in content and _fits(content, "iso2022_jp") else ""
    if encoding := seven_bits or (_wide(content[:_DETECTED_BYTES]) if "\0" in text else ""):
        return content.decode(encoding, "replace"), f"read as {_name(encoding)} (not stated in the file)"
    return text, ""


def decode_markup(content: bytes) -> tuple[str, str]:
    """Decode HTML or XML, which may state its encoding; see ``decode``."""
    stated = _DECLARED.search(content[:_FIRST_BYTES])
    try:
        encoding = codecs.lookup(stated[1].decode()).name if stated else ""
        b"".decode(encoding or "ascii")
    except LookupError:
        encoding = ""
    return decode(content, _WIDER.get(encoding, encoding))


def is_text(first: bytes) -> bool:
    """Check that the first bytes of a file are not those of a binary one, or of a document with markup of its own."""
    has_mark = any(first.startswith(mark) for mark, _ in _MARKS)
    return not first.startswith((b"{\\rtf", b"%PDF-")) and (has_mark or b"\0" not in first or bool(_wide(first)))


def _name(encoding: str) -> str:
    return _NAMES.sub("windows-", encoding.replace("_", "-"))


def _fits(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _detected(content: bytes) -> str:
    """The encoding of text that is not UTF-8; empty if none is sure."""
    start = content[:_DETECTED_BYTES]
    if b"\0" in start:
        return _wide(start)
    if start.isascii():
        first = next(re.finditer(rb"[\x80-\xff]", content)).start()
        start = content[first - _DETECTED_BYTES // 2 : first + _DETECTED_BYTES // 2]
    runs = re.findall(rb"[\x80-\xff]+", start)
    fitting = (
        [encoding for encoding in _LANGUAGES if _is_one_language(start, encoding)] if max(map(len, runs)) < 4 else []
    )
    if fitting:
        return fitting[0] if len({start.decode(encoding, "replace") for encoding in fitting}) == 1 else ""
    if sum(map(len, runs)) < _SURE_BYTES:
        return ""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return ""
    whole_lines = start[: start.rfind(b"\n") + 1] if len(start) < len(content) else start
    best = from_bytes(whole_lines or start, cp_isolation=_OTHER_SCRIPTS).best()
    return best.encoding if best is not None and _fits(content, best.encoding) else ""


def _is_one_language(content: bytes, encoding: str) -> bool:
    """All letters beyond ASCII belong to the alphabet of one language of the encoding."""
    text = content.decode(encoding, "replace").replace("İ", "i").lower()
    letters = Counter(c for c in text if not c.isascii() and c not in _PUNCTUATION)
    n_letters, n_signs = letters.total(), sum(not c.isascii() for c in _IN_WORDS.findall(text))

    def count(alphabet: str) -> int:
        return sum(letters[letter] for letter in alphabet)

    return any(
        count(common + others) >= _SURE_SHARE * n_letters + n_signs and count(common) >= _COMMON * n_letters
        for common, others in _LANGUAGES[encoding]
    )


def _wide(content: bytes) -> str:
    """UTF-16 without a byte order mark; empty if that is not sure."""
    for encoding in ("utf-16-le", "utf-16-be"):
        text = content[: len(content) // 2 * 2].decode(encoding, "replace")
        odd = sum(unicodedata.category(c) in ("Cn", "Co", "Cc", "Cs") and c not in "\t\r\n\f" for c in text)
        if odd + text.count("\ufffd") <= (1 - _SURE_SHARE) * len(text) and re.search("[ \n。、]", text):
            return encoding
    return ""
