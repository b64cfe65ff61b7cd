"""The documents that a server holds, in memory and in a folder."""

from pathlib import Path

import numpy as np
import pytest

from cogltx.document import Document, Line, Segment
from cogltx.server._shelf import NotHeldError, Shelf, ShelfFullError
from cogltx.server._work import Lane, Work


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def shelf(clock: Clock, documents: int = 4, characters: int = 100) -> Shelf:
    return Shelf(documents, max_characters=characters, idle=10.0, clock=clock)


def add(held: Shelf, text: str, name: str = "", client: str = "") -> str:
    return held.add(held.write(Document(text, name), client)).id


def test_the_document_that_is_longest_unused_makes_room() -> None:
    held = shelf(clock := Clock(), documents=2)
    first, second = add(held, "one", client="a"), add(held, "two", client="b")
    with pytest.raises(ShelfFullError, match="too many documents are held"):
        add(held, "three", client="c")
    clock.now = 9.0
    held.get(first)
    clock.now = 11.0
    third = add(held, "three", client="c")
    assert [held.get(id).document.text for id in (first, third)] == ["one", "three"]
    with pytest.raises(NotHeldError):
        held.get(second)


def test_a_client_cannot_fill_the_shelf() -> None:
    held = shelf(clock := Clock())
    first = add(held, "one", client="a")
    add(held, "two", client="a")
    with pytest.raises(ShelfFullError, match="as many documents as one client may"):
        add(held, "three", client="a")
    add(held, "four", client="b")
    clock.now = 11.0
    add(held, "five", client="a")
    with pytest.raises(NotHeldError):
        held.get(first)


def test_characters_are_limited_too() -> None:
    held = shelf(Clock(), documents=10, characters=20)
    add(held, "a" * 8)
    with pytest.raises(ShelfFullError):
        add(held, "b" * 3)
    add(held, "c" * 2)
    assert held.n_characters == 10


def test_a_single_document_may_exceed_them() -> None:
    held = shelf(Clock(), characters=5)
    assert held.get(add(held, "a" * 8)).document.text == "a" * 8


def test_a_removed_document_is_not_held() -> None:
    held = shelf(Clock())
    id = add(held, "one")
    held.remove(id)
    for method in (held.get, held.remove):
        with pytest.raises(NotHeldError):
            method(id)


def test_removing_a_document_ends_its_preparation_but_no_question() -> None:
    held = shelf(Clock())
    for lane in (Lane.BACKGROUND, Lane.LONG):
        one = held.get(add(held, "one"))
        work = one.work = Work(lane=lane)
        held.remove(one.id)
        assert work.is_given_up() is (lane is Lane.BACKGROUND)


def test_documents_are_joined_once_and_named_apart() -> None:
    held = shelf(Clock())
    ids = [add(held, "one", "a.txt"), add(held, "two", "a.txt")]
    joined, documents, parts = held.together([*ids, ids[0]])
    assert [document.id for document in documents] == ["a.txt", "a.txt (2)"]
    assert [id for id, _ in joined.parts] == ["a.txt", "a.txt (2)"]
    assert [part.id for part in parts] == ids
    assert held.together(ids)[0] is joined
    held.remove(ids[0])
    with pytest.raises(NotHeldError):
        held.together(ids)
    assert held.together(ids[1:])[0] is held.get(ids[1]).document


def test_a_folder_keeps_documents(tmp_path: Path) -> None:
    document = Document(
        "one two", "a.pdf", (Segment(0, 3, "One"),), pages=((0, 1),), lines=(Line(0, 7, 1, (1, 2, 3, 4)),)
    )
    held = Shelf(4, tmp_path)
    kept = held.add(held.write(document, "a", b"%PDF")).id
    gone = add(held, "two")
    held.remove(gone)
    unfinished = held.write(Document("three"))
    held.close()

    again = Shelf(4, tmp_path)
    assert again.get(kept).document == document
    pdf = again.get(kept).pdf
    assert pdf is not None
    assert pdf.read_bytes() == b"%PDF"
    assert again.get(kept).client == "a"
    assert len(again) == 1
    assert [path.name for path in tmp_path.iterdir()] == [kept], "what was not acknowledged is removed"
    assert unfinished.folder is not None


def test_a_full_folder_refuses(tmp_path: Path) -> None:
    held = Shelf(2, tmp_path, idle=0.0)
    first = add(held, "one")
    with pytest.raises(ShelfFullError):
        add(held, "two")
    held.remove(first)
    add(held, "two")


def test_a_broken_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "about.json").write_text("[]")
    assert len(Shelf(2, tmp_path)) == 0
    assert (tmp_path / "mine" / "about.json").exists()


def test_files_in_memory_are_removed_at_the_end() -> None:
    held = Shelf(4)
    pdf = held.add(held.write(Document("one"), pdf=b"%PDF")).pdf
    assert pdf is not None
    held.close()
    assert not pdf.exists()


def test_a_folder_keeps_vectors(tmp_path: Path) -> None:
    kept, in_memory = Shelf(4, tmp_path), Shelf(4)
    vectors = np.ones((3, 2), dtype=np.float32)
    id = add(kept, "one")
    for shelf in (kept, in_memory):
        held = shelf.get(id) if shelf is kept else shelf.get(add(in_memory, "one"))
        held.save_vectors("a", vectors)
        assert held.has_vectors == (shelf is kept)
    held = Shelf(4, tmp_path).get(id)
    read = held.load_vectors("a", 3)
    assert read is not None
    assert np.array_equal(read, vectors)
    assert held.load_vectors("other", 3) is None
    assert held.load_vectors("a", 4) is None, "of other blocks"
    (tmp_path / id / "vectors-a.npy").write_bytes(b"\x93NUMPY\x01")
    assert held.load_vectors("a", 3) is None, "cut off"
    kept.remove(id)
    held.save_vectors("a", vectors)
    assert list(tmp_path.iterdir()) == [], "nothing of a removed document comes back"
