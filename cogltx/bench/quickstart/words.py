"""The words of `words.yaml`: names, roles, templates of facts and questions, answers, and filler."""

from importlib.resources import files
from typing import Any, Literal, TypeAlias

import yaml

Split: TypeAlias = Literal["train", "test"]


def _by_split(text: str) -> dict[Split, tuple[str, ...]]:
    """Divide words: every fourth one is for the test split.

    >>> _by_split("Ada Bea Cleo Dora Eve")
    {'train': ('Ada', 'Bea', 'Cleo', 'Eve'), 'test': ('Dora',)}
    """
    words = text.split()
    return {"train": tuple(word for index, word in enumerate(words) if index % 4 != 3), "test": tuple(words[3::4])}


_words: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("words.yaml").read_text(encoding="utf-8"))
NAMES = _by_split(_words["names"])
ROLES: list[str] = _words["roles"].split()
WHO: list[str] = _words["who"]
FIRST_FACTS: list[str] = _words["first_facts"]
KINDS: list[str] = list(_words["kinds"])
QUESTIONS: dict[str, list[str]] = {name: kind["questions"] for name, kind in _words["kinds"].items()}
SECOND_FACTS: dict[str, list[str]] = {name: kind["facts"] for name, kind in _words["kinds"].items()}
ANSWERS = {name: _by_split(kind["answers"]) for name, kind in _words["kinds"].items()}
OTHER_QUESTIONS: dict[Split, list[str]] = _words["other_questions"]
FILLER: list[str] = _words["filler"]
SLOTS: dict[str, list[str]] = {name: phrases.split(", ") for name, phrases in _words["slots"].items()}
