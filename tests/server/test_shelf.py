"""The documents that a server holds."""

import pytest

from cogltx.document import Document
from cogltx.server._shelf import NotHeldError, Shelf, ShelfFullError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def shelf(clock: Clock, documents: int = 2, characters: int = 100) -> Shelf:
    return Shelf(documents, characters, idle=10.0, clock=clock)


def test_the_document_that_is_longest_unused_makes_room() -> None:
    held = shelf(clock := Clock())
    first, second = held.add(Document("one")), held.add(Document("two"))
    with pytest.raises(ShelfFullError):
        held.add(Document("three"))
    clock.now = 9.0
    held.get(first)
    clock.now = 11.0
    third = held.add(Document("three"))
    assert [held.get(id).text for id in (first, third)] == ["one", "three"]
    with pytest.raises(NotHeldError):
        held.get(second)


def test_characters_are_limited_too() -> None:
    held = shelf(Clock(), documents=10, characters=10)
    held.add(Document("a" * 8))
    with pytest.raises(ShelfFullError):
        held.add(Document("b" * 3))
    held.add(Document("c" * 2))
    assert held.n_characters == 10


def test_a_single_document_may_exceed_them() -> None:
    held = shelf(Clock(), characters=5)
    assert held.get(held.add(Document("a" * 8))).text == "a" * 8


def test_a_removed_document_is_not_held() -> None:
    held = shelf(Clock())
    id = held.add(Document("one"))
    held.remove(id)
    for method in (held.get, held.remove):
        with pytest.raises(NotHeldError):
            method(id)


def test_documents_are_joined_once_and_named_apart() -> None:
    held = shelf(Clock())
    ids = [held.add(Document("one", "a.txt")), held.add(Document("two", "a.txt"))]
    joined, documents = held.together([*ids, ids[0]])
    assert [document.id for document in documents] == ["a.txt", "a.txt (2)"]
    assert [id for id, _ in joined.parts] == ["a.txt", "a.txt (2)"]
    assert held.together(ids)[0] is joined
    held.remove(ids[0])
    with pytest.raises(NotHeldError):
        held.together(ids)
    assert held.together(ids[1:])[0] is held.get(ids[1])
