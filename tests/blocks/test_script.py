"""One rule of words and terms, in every script: what belongs together stays together, and what readers equate is equal."""

import itertools
import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from cogltx.blocks._script import WORD, expand_to_words, folded, joined, kind, spaced, terms

A_WORD = regex.compile(f"(?V1){WORD}")
PIECES = (
    "Haus", "cafe\u0301", "İl", "don’t", "2011", "m²", "_", " ", "\n", "-", "हिन्दी", "מֶלֶךְ", "شَمْس", "می\u200cروم", "Tiếng", "서울은",
    "猫", "東京", "スキー", "ﾎﾟﾁ", "เมือง", "น้ำ", "ເຮືອນ", "ភ្នំ", "မြန်မာ", "Ｔｏｋｙｏ", "👩\u200d🚀", "…", "。",
)  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("GROSSE Straße", "große strasse"),
        ("İzmir", "izmir"),
        ("ISPARTA", "ısparta"),
        ("Москва́ ёлка", "Москва елка"),
        ("cafe\u0301", "CAFÉ"),
        ("of\ufb01ce", "office"),
        ("Donau\u00adschiff", "Donauschiff"),
        ("Ｔｏｋｙｏ", "tokyo"),
        ("ﾎﾟﾁ", "ポチ"),
        ("\u1112\u1161\u11ab", "한"),
        ("ΑΘΗΝΑ", "Αθήνα"),
        ("λόγος", "ΛΟΓΟΣ"),
        ("ὁδός", "οδος"),
        ("مُحَمَّد", "محمد"),
        ("محـــمد", "محمد"),
        ("أحمد", "احمد"),
        ("كتاب ي", "کتاب ی"),
        ("والكتاب", "كتاب"),
        ("שָׁלוֹם", "שלום"),
        ("\ufb2aלום", "שלום"),
        ("Timişoara", "Timișoara"),
        ("Vie\u0323\u0302t", "Việt"),
        ("می\u200cروم", "میروم"),
        ("क्\u200dष", "क्ष"),
        ("ក\u200bខ", "កខ"),
        ("葛\U000e0100", "葛"),
    ],
)
def test_terms_that_readers_do_not_tell_apart(one: str, other: str) -> None:
    assert terms(one) == terms(other)
    assert terms(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("schon", "schön"),
        ("má", "mà"),
        ("दिन", "दीन"),
        ("ไป", "ใป"),
        ("мир", "мира"),
        ("край", "краи"),
        ("カ", "ガ"),
        ("1.5", "15"),
        ("ñ", "n"),
    ],
)
def test_terms_that_readers_tell_apart(one: str, other: str) -> None:
    assert terms(one) != terms(other)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat's hat_3, 1.5!", ["the", "cat", "s", "hat", "3", "1", "5"]),
        ("L’été à Łódź", ["l", "été", "à", "łódź"]),
        ("हिन्दी में", ["हिन्दी", "हिन्द", "में"]),
        ("Москва́", ["москва", "москв"]),
        ("巴黎, 猫", ["巴", "黎", "巴黎", "猫"]),
        ("Tokyoの2011年", ["tokyo", "の", "2011", "年"]),
        ("น้ำเย็น", ["น้ำ", "เย็", "น", "น้ำเย็", "เย็น"]),
        ("ភ្នំ", ["ភ្នំ"]),
        ("မန္တ", ["မ", "န္တ", "မန္တ"]),
        ("ເຮືອນ", ["ເຮື", "ອ", "ນ", "ເຮືອ", "ອນ"]),
        ("서울은", ["서", "울", "은", "서울", "울은"]),
        ("NATO는", ["nato", "는"]),
        ("👩\u200d🚀 …", []),
    ],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert sorted(terms(text)) == sorted(map(folded, expected))


@given(st.text(st.characters(max_codepoint=0x7F)))
def test_terms_of_ascii_are_its_runs_of_letters_and_digits(text: str) -> None:
    assert terms(text) == re.findall("[a-z0-9]+", text.lower())


@given(st.text())
def test_terms_hold_letters_and_are_stable(text: str) -> None:
    found = terms(text)
    assert all(any(character.isalnum() for character in term) or not term.isascii() for term in found)
    assert folded(folded(text)) == folded(text)


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_the_pattern_of_a_word_agrees_with_where_words_go_on(text: str) -> None:
    cuts = {0, len(text)} | {
        place for place, pair in enumerate(itertools.pairwise(text), start=1) if not joined(*map(kind, pair))
    }
    for match in A_WORD.finditer(text):
        assert {match.start(), match.end()} <= cuts
        assert not any(match.start() < cut < match.end() for cut in cuts)


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_spaces_are_put_only_around_scripts_without_them(text: str) -> None:
    assert "".join(spaced(text).split()) == "".join(text.split())
    assert spaced("Haus 서울은 हिन्दी") == "Haus 서울은 हिन्दी"
    assert spaced("東京はTokyo").split() == ["東", "京", "は", "Tokyo"]


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        ("서울은 크다", "서울", "서울"),
        ("서울에서는", "서울", "서울"),
        ("서울대학교", "서울", "서울대학교"),
        ("NATO는", "NATO", "NATO"),
        ("1932년에", "1932", "1932"),
        ("1932년에", "932년", "1932년"),
        ("وبغداد", "بغداد", "بغداد"),
        ("العراق", "عراق", "العراق"),
        ("בירושלים", "ירושלים", "ירושלים"),
        ("ירושלמי", "ירושל", "ירושלמי"),
        ("Ankara'da", "Ankara", "Ankara"),
        ("Helsinkiin", "Helsinki", "Helsinkiin"),
        ("ประเทศไทยคือ", "ไทย", "ไทย"),
        ("น้ำ", "น", "น้ำ"),
        ("เมือง", "ม", "เมื"),
        ("ភ្នំពេញ", "ភ", "ភ្នំ"),
        ("Tokyoの寺", "Tokyo", "Tokyo"),
        ("2011年", "2011", "2011"),
        ("می\u200cروم", "روم", "می\u200cروم"),
        ("👩\u200d🚀", "👩", "👩\u200d🚀"),
        ("👍🏽", "👍", "👍🏽"),
        ("Donau\u00adschiff", "schiff", "Donau\u00adschiff"),
    ],
)
def test_answers_end_where_words_do_or_beside_what_is_written_onto_them(text: str, span: str, expected: str) -> None:
    start = text.index(span)
    first, last = expand_to_words(text, start, start + len(span))
    assert text[first:last] == expected
