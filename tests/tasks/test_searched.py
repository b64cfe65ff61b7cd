"""What is found of a text that printing, or a person's typing, changed; and what is not."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogltx.document import Document
from cogltx.tasks._searched import SearchedDocument, _fold


def found(text: str, wanted: str) -> list[str]:
    return [text[span.start : span.end] for span in SearchedDocument(Document(text)).find(wanted)]


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("Anna met Ann, and Ann left", "Ann", ["Ann", "Ann"]),
        ("The engin-\neer Ilse\n  Brandt came", "engineer Ilse Brandt", ["engin-\neer Ilse\n  Brandt"]),
        ("a well-known man", "well known", ["well-known"]),
        ("a wellknown man", "well-known", ["wellknown"]),
        ("the café-\nbar is open", "cafébar", ["café-\nbar"]),
        ("the cafe\u0301-\nbar is open", "Cafébar", ["cafe\u0301-\nbar"]),
        ("the e\u0302\u0323 here", "ệ", ["e\u0302\u0323"]),
        ("die ﬁne Straße", "FINE STRASSE", ["ﬁne Straße"]),
        ("he said “It’s over”", '"it\'s over"', ["“It’s over”"]),
        ("« oui » dit-il", '"oui"', ["« oui »"]),
        ("at −5 °C", "-5 °C", ["−5 °C"]),
        ("pages 12–\n15 of", "12-15", ["12–\n15"]),
        ("and so on…", "so on...", ["so on…"]),
        ("co\u00adopera\u00adtion now", "cooperation", ["co\u00adopera\u00adtion"]),
        ("zero\u200bwidth", "zerowidth", ["zero\u200bwidth"]),
        ("ＡＢＣ４２ here", "abc42", ["ＡＢＣ４２"]),
        ("Ｔｅａ x² m", "tea x2", ["Ｔｅａ x²"]),
        ("İstanbul'da", "i̇stanbul", ["İstanbul"]),
        ("it is 30km away", "30", ["30"]),
        ("北京大学在北京。", "北京。", ["北京。"]),
        ("他在巴\n黎工作", "巴黎", ["巴\n黎"]),
        ("เขาอยู่ที่กรุงเทพมหานคร", "กรุงเทพ", ["กรุงเทพ"]),
        ("ab b b a", "b b", ["b b"]),  # it also begins inside a word
        ("人人人人人", "人人", ["人人", "人人"]),
        ("Paris and paris", "Paris", ["Paris"]),  # the exact form is preferred
        ("in 12 3 cases", "123", []),
        ("A BUS came", "us", []),
        ("A BUS came", "US", []),
        ("concatenate", "cat", []),
        ("only words", "-", []),
        ("only words", " ", []),
        ("-", "-\u00ad", []),
    ],
)
def test_places(text: str, wanted: str, expected: list[str]) -> None:
    assert found(text, wanted) == expected


WORDS = st.lists(st.text(st.sampled_from("abßéﬁüД你"), min_size=1, max_size=5), min_size=1, max_size=6)


@given(words=WORDS, before=WORDS, after=WORDS, form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]), data=st.data())
def test_whatever_printing_changed(
    words: list[str], before: list[str], after: list[str], form: str, data: st.DataObject
) -> None:
    """Line breaks, hyphens, soft hyphens, other normal forms and capitals: the slice folds to the wanted text."""
    wanted = " ".join(words)
    printed = unicodedata.normalize(form, wanted)  # type: ignore[arg-type]
    printed = printed.replace(" ", data.draw(st.sampled_from([" ", "\n", "\r\n  ", "\u00a0"])))
    printed = printed.upper() if data.draw(st.booleans()) else printed
    text = f"{' '.join(before)} {printed} {' '.join(after)}"
    slices = found(text, wanted)
    assert slices
    assert all(_fold(one).text == _fold(wanted).text for one in slices)


@given(st.text())
def test_each_character_keeps_its_place(text: str) -> None:
    folded = _fold(text)
    assert len(folded.text) == len(folded.origins)
    assert (folded.origins[1:] >= folded.origins[:-1]).all()
    assert all(folded.span(at, at + 1).end <= len(text) for at in range(len(folded.text)))


def test_the_places_nearest_to_the_question() -> None:
    text = "In 1990 the mill burned. " + "x " * 300 + "In 1990 the bridge was built. " + "y " * 300 + "It was 1990."
    searched = SearchedDocument(Document(text))
    spans = searched.find("1990")
    assert len(spans) == 3
    assert searched.nearest("When was the bridge built?", spans)[0] == (spans[1],)
    assert searched.nearest("When did the MILL burn?", spans)[0] == (spans[0],)
    assert searched.nearest("Wann?", spans) == (spans, 0.0)


def test_hints() -> None:
    document = Document("The engineer Ilse Brandt\nof Stockholm, Sweden, came.", pages=((0, 1), (25, "annex")))
    searched = SearchedDocument(document)
    assert searched.hint("Ilse Brand")[1] == "'Ilse Brandt' (page 1)"
    assert searched.hint("Stockholn Sweden")[1] == "'Stockholm, Sweden' (annex)"
    assert searched.hint("zzzzzz") == searched.hint(" ") == (0.0, "")


def test_a_long_document_takes_linear_time() -> None:
    text = "1" + " " * 100_000 + "2" + "a-" * 100_000 + "x" + " -" * 100_000 + "e" + "\u0301" * 100_000 + "z" * 100_000
    start = time.process_time()
    searched = SearchedDocument(Document(text))
    assert searched.find("B C") == ()
    assert searched.hint("B C") == (0.0, "")
    assert time.process_time() - start < 5
