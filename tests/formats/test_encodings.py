"""Text and HTML in other encodings than UTF-8: as the file says, or as a detector is sure of."""

from pathlib import Path

import pytest

from cogltx.errors import DataError
from cogltx.formats import read_document

GERMAN = "Die Brücke über den Fluß wurde 1911 für die Stadt Köln gebaut."
FRENCH = "Le château, près de la forêt, a été vendu à la famille Lefèvre en été."
POLISH = "Żółta łódź płynie w górę rzeki, aż do źródła; święto będzie w środę."
CZECH = "Most přes řeku navrhl v zimě inženýr Ivan Dvořák, žák české školy; mlýn byl prodán a později zničen povodní."
TURKISH = "Köprü şehrin güneyindeki ırmağın üzerinde, Işık Ağaoğlu tarafından yapıldı."
RUSSIAN = "Мост через реку построил инженер Иван Петров в тысяча девятьсот одиннадцатом году, а мельницу продали."
JAPANESE = "この橋は千九百十一年に技師の田中さんが設計しました。水車小屋は川のほとりにあり、紙を作っていました。" * 2
CHINESE = "这座桥是工程师王先生在一九一一年设计的。河边的磨坊后来卖给了一家造纸的人家，他们在那里造纸直到洪水来临。" * 2
GREEK = "Η γέφυρα του λιμανιού σχεδιάστηκε από τον μηχανικό Νίκο Παππά το χειμώνα, και ο μύλος πουλήθηκε αργότερα."

DETECTED = [
    (GERMAN, "latin-1", "windows-1252"),
    (FRENCH, "cp1252", "windows-1252"),
    (POLISH, "cp1250", "windows-1250"),
    (CZECH, "iso8859-2", "iso8859-2"),
    (TURKISH, "iso8859-9", "windows-1254"),
    (RUSSIAN, "koi8-r", "koi8-r"),
    (RUSSIAN, "cp1251", "windows-1251"),
    (GREEK, "cp1253", "windows-1253"),
    (JAPANESE, "shift_jis", "cp932"),
    (JAPANESE, "euc-jp", "euc-jp"),
    (JAPANESE, "iso2022-jp", "iso2022-jp"),
    (CHINESE, "gb18030", "gb18030"),
    (f"{GERMAN} {RUSSIAN}", "utf-16-le", "utf-16-le"),
    (f"{CHINESE}\n", "utf-16-be", "utf-16-be"),
]


@pytest.mark.parametrize(("text", "encoding", "name"), DETECTED)
@pytest.mark.parametrize("ending", ["txt", "html", "md"])
def test_an_encoding_that_a_detector_is_sure_of(
    tmp_path: Path, text: str, encoding: str, name: str, ending: str
) -> None:
    (tmp_path / f"a.{ending}").write_bytes(text.encode(encoding))
    document = read_document(tmp_path / f"a.{ending}")
    assert document.text.strip() == text.strip()
    assert document.notes == (f"read as {name} (not stated in the file)",)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("ending", ["txt", "html", "md"])
def test_a_byte_order_mark(tmp_path: Path, encoding: str, ending: str) -> None:
    (tmp_path / f"a.{ending}").write_bytes(f"{GERMAN} {JAPANESE}".encode(encoding))
    document = read_document(tmp_path / f"a.{ending}")
    assert (document.text, document.notes) == (f"{GERMAN} {JAPANESE}", ())


@pytest.mark.parametrize(
    ("start", "encoding", "text"),
    [
        ("<meta charset=koi8-r>", "koi8-r", "Мост"),
        ("<head><meta http-equiv='Content-Type' content='text/html; charset=gb2312'>", "gb18030", "橋は"),
        ("<meta charset='ISO-8859-1'>", "cp1252", "“Köln”"),
        ("<?xml version='1.0' encoding='windows-1250'?><html xmlns='x'>", "cp1250", "łódź"),
        ("<meta charset=utf-16>", "utf-8", "Köln"),
        ("<meta charset=x-unknown>", "utf-8", "Köln"),
    ],
)
def test_an_encoding_that_the_file_states(tmp_path: Path, start: str, encoding: str, text: str) -> None:
    (tmp_path / "a.html").write_bytes(f"{start}<p>{text}</p></html>".encode(encoding))
    document = read_document(tmp_path / "a.html")
    assert (document.text, document.notes) == (text, ())


@pytest.mark.parametrize(
    ("stated", "note"), [("iso-8859-1", "windows-1252"), ("windows-1250", "windows-1250"), ("koi8-r", "koi8-r")]
)
def test_utf_8_that_states_another_encoding(tmp_path: Path, stated: str, note: str) -> None:
    (tmp_path / "a.html").write_bytes(f"<meta charset={stated}><p>{FRENCH}</p>".encode())
    document = read_document(tmp_path / "a.html")
    assert (document.text, document.notes) == (FRENCH, (f"read as utf-8 (the file states {note})",))
    (tmp_path / "a.eml").write_bytes(f"Subject: x\nContent-Type: text/plain; charset={stated}\n\n{FRENCH}".encode())
    assert FRENCH in read_document(tmp_path / "a.eml").text


def test_bytes_that_are_not_of_the_stated_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(b"<meta charset=utf-8><p>caf\xe9</p>")
    document = read_document(tmp_path / "a.html")
    assert document.text == "caf\ufffd"
    assert document.notes == ("1 bytes are not utf-8, which the file states",)


@pytest.mark.parametrize(
    "content",
    [
        "Мост через реку".encode("koi8-r"),  # too short to be sure
        "irmã, lã, maçã".encode("cp1252").replace(b"\xe7", b"c"),  # or Romanian
        "橋は千九百".encode("shift_jis"),
        bytes(range(128, 256)) * 3,
    ],
)
@pytest.mark.parametrize("ending", ["txt", "html", "md"])
def test_an_encoding_that_is_not_sure(tmp_path: Path, content: bytes, ending: str) -> None:
    (tmp_path / f"a.{ending}").write_bytes(b"A line.\n" + content)
    with pytest.raises(DataError, match=r"line 2: not UTF-8 \(byte 0x..\), and no other encoding is sure; save it as"):
        read_document(tmp_path / f"a.{ending}")


@pytest.mark.parametrize("text", ["The bridge of Århus is red. ", "The bridge is red. "])
def test_few_wrong_bytes_do_not_hide_a_text(tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str) -> None:
    (tmp_path / "a.txt").write_bytes(text.encode() * 100 + b"By Dan\x81el.")
    assert read_document(tmp_path / "a.txt").text == text * 100 + "By Dan\ufffdel."
    assert "a.txt: 1 bytes are not UTF-8; they are read as \ufffd" in caplog.text


@pytest.mark.parametrize("content", [b"a\0b", bytes(range(256)) * 20, b"{\\rtf1 x}", b"%PDF-1.7 x", b"\0\0\0\0"])
def test_a_binary_file_is_no_text(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match="a.txt: not a text file; known formats are "):
        read_document(tmp_path / "a.txt")
