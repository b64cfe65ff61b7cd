"""Tables of contents of plain text are left out; all other lines, offsets and line numbers stay."""

from pathlib import Path
from textwrap import fill

import pytest

from cogltx import read_document
from cogltx.formats._contents import without_contents

TITLES = [
    "1. Timber", "1.1. Oak and other hard woods of the northern and the middle forests", "1.2. Elm", "1.3. Ash", "2. Stone",
    "2.1. Slate", "2.2. Marble", "A. Tables", "A.1. Weights",
]  # fmt: skip


def book(titles: list[str] = TITLES) -> str:
    return "".join(f"{title}\n\n{title.split()[-1]} is a material.\nIt is used in building.\n\n" for title in titles)


def with_dots(title: str) -> str:
    return (
        f"   {title} {'.' * (60 - len(title))} 7" if len(title) < 50 else f"   {title[:40]}\n        {title[40:]} ... 7"
    )


CONTENTS = {
    "plain": "\n".join(TITLES),
    "indented": "\n".join("  " * title.count(".") + title for title in TITLES),
    "with pages, one title in two lines": "\n".join(map(with_dots, TITLES)),
    "over two pages": "\n".join([*TITLES[:3], "Smith   [Page 2]", "\f", "RFC 1   Materials", *TITLES[3:]]),
    "a line between entries": "\n\n".join(TITLES),
    "a list": "\n\n".join(f"{'  ' * title.count('.')}* {title}" for title in TITLES),
}


@pytest.mark.parametrize("contents", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_the_entries_are_spaces(contents: str, line_break: str) -> None:
    before, after = "Materials\n\nContents\n\n", "\n\n" + book()
    text, head = (one.replace("\n", line_break) for one in (before + contents + after, before))
    read = without_contents(text)
    assert len(read) == len(text)
    assert read.count(line_break) == text.count(line_break)
    assert read.startswith(head)
    assert read.endswith(after.replace("\n", line_break))
    assert not read[len(head) : len(read) - len(after.replace("\n", line_break))].strip()


def test_long_titles_that_the_text_breaks_elsewhere() -> None:
    titles = [
        f"{number} Why is {word.lower()} used so often, and what else could a builder take in place of {word.lower()}?"
        for number, word in (title.split()[:2] for title in TITLES)
    ]
    contents = "".join(
        fill(title, 45, initial_indent="    ", subsequent_indent="    ") + " ... 7\n" for title in titles
    )
    text = "".join(f"{fill(title, 70)}\n\nNobody knows.\nIt is old.\n\n" for title in titles)
    assert (
        without_contents(contents + text) == "".join(letter if letter.isspace() else " " for letter in contents) + text
    )
    other = contents.replace("builder", "carpenter")  # another text under the same numbers
    assert without_contents(other + text) == other + text


def test_contents_of_a_book_and_of_its_chapters() -> None:
    woods, stones = "Oak Elm Ash Fir Yew".split(), "Slate Marble Flint Chalk Tuff".split()
    chapters = [
        [f"{number}. {title}", *(f"{number}.{one} {name}" for one, name in enumerate(names, start=1))]
        for number, (title, names) in enumerate([("Timber", woods), ("Stone", stones)], start=1)
    ]
    whole = "\n".join(title for titles in chapters for title in titles)
    parts = ["\n".join(titles[1:]) for titles in chapters]
    text = f"{whole}\n\n" + "".join(
        f"Chapter {titles[0]}\n\n{part}\n\n{book(titles[1:])}" for titles, part in zip(chapters, parts, strict=True)
    )
    text = text.replace("It is used", "It is old.\nIt is hard.\nIt is used")
    read = without_contents(text)
    assert not read[: len(whole)].replace("1. Timber", "").replace("2. Stone", "").strip()
    assert all(read.count(title) == 1 for titles in chapters for title in titles[1:])


STEPS = "1. Cut the wood.\n2. Dry it.\n3. Plane it.\n4. Oil it.\n5. Wait.\n"
STAYS = {
    "a book without contents": book(),
    "steps, twice": STEPS + "\nAnd again:\n\n" + STEPS,
    "clauses, and a schedule with numbers of its own": "".join(
        f"{number} The {party} shall deliver {what} to the other party.\n"
        for party in ("supplier", "customer")
        for number, what in zip(("1.1", "1.2", "1.3", "2.1", "2.2"), "wood oil stone slate tar".split(), strict=True)
    ),
    "a table of versions": "1.1 may\n1.2 june\n1.3 july\n1.4 august\n2.1 may\n2.2 june\n",
    "clauses that begin with the same words": "".join(
        f"{number} The supplier shall deliver {what}.\n{'It is paid for.' * 20}\nAnd taken.\n"
        for goods in ("wood oil stone slate tar", "wool silk hemp felt jute")
        for number, what in zip(("1.1", "1.2", "1.3", "2.1", "2.2"), goods.split(), strict=True)
    ),
    "sections of one line, then a list of them": "".join(f"{title}\nIt is hard.\n" for title in TITLES)
    + "\n".join(TITLES),
    "a quiz and its answers": "".join(f"{title}\nA) yes\nB) no\n" for title in TITLES) + book(),
    "two days": "9.00 Opening\n9.30 Talk\n10.00 Coffee\n10.30 Talk\n11.00 Lunch\n\n" * 2,
    "signs in two tables": "0.1  -\n0.2  -\n0.3  +\n0.4  -\n0.5  +\n\n0.1  +\n0.2  +\n0.3  +\n0.4  +\n0.5  +\n",
    "few entries": "\n".join(TITLES[:3]) + "\n\n" + book(TITLES[:3]),
    "the same titles in another order": "\n".join(TITLES) + "\n\n" + book(TITLES[::-1]),
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_other_texts_stay(text: str) -> None:
    assert without_contents(text) == text


def test_a_file_gives_spans_of_the_file(tmp_path: Path) -> None:
    text = CONTENTS["plain"] + "\n\n" + book()
    path = tmp_path / "book.txt"
    path.write_text(text, encoding="utf-8")
    document = read_document(path)
    start = document.text.index("Slate is a material.")
    assert text[start:].startswith("Slate is a material.")
    assert document.text.count("2.1. Slate") == 1


def test_lines_around_the_entries_stay() -> None:
    before, after = "May 2026\nby Ann Smith\nContents\n", "\nThis book is free.\nISBN 12345\nJ. Smith, Rome\n\n"
    read = without_contents(before + "\n".join(TITLES) + after + book())
    assert read.startswith(before)
    assert read.endswith(after + book())
    assert not read[len(before) : -len(after + book())].strip()
