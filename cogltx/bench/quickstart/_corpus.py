"""Generated documents of any length, and questions that need two distant facts.

"Where does the mentor of Alice live?" needs "The mentor of Alice is Robert." and, at least `gap` words away, "Robert
lives in Vienna." Other people have facts of the same form (decoys), so a reader of one fact alone is at chance. All
first facts are on one side of the gap and all second facts on the other, in either order: otherwise distances would
reveal which facts belong together.
"""

import random
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias

import yaml

from cogltx.document import Document, Example, Query, Span

Split: TypeAlias = Literal["train", "test"]
WORDS: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("words.yaml").read_text(encoding="utf-8"))
_SLOTS = {name: phrases.split(", ") for name, phrases in WORDS["slots"].items()}
_PIECES_PER_WORD = 1.13  # BERT word pieces, with punctuation, per white-space word; measured over 200 documents


class _Chain(NamedTuple):
    """Two facts that lead from a person over a second one to an answer, `offset` characters into the second fact."""

    subject: str
    bridge: str
    first: str
    second: str
    answer: str
    offset: int


def part(text: str, split: Split) -> list[str]:
    """Return the words of a split: every fourth one is for testing.

    >>> part("Ada Bea Cleo Dora Eve", "train"), part("Ada Bea Cleo Dora Eve", "test")
    (['Ada', 'Bea', 'Cleo', 'Eve'], ['Dora'])
    """
    return [word for index, word in enumerate(text.split()) if (index % 4 == 3) == (split == "test")]


def generate(
    count: int, *, seed: int, split: Split, tokens: int | None = 1500, chains: tuple[int, int] = (4, 4),
    broken: float = 0.0, gap: int = 521, unanswerable: float = 0.0,
) -> Iterator[Example]:  # fmt: skip
    """Generate examples, whose `relevant` holds the first and then the second fact of the asked chain.

    Args:
        count: number of examples, each of which depends on the other arguments and its number.
        seed: use another one with `split="train"` for a validation set.
        split: names and answers to use; the splits share none.
        tokens: length of a document in BERT word pieces, within about 5 %; None: the facts with little filler.
        chains: the fewest and the most chains of two facts per document; all but one are decoys.
        broken: share of the decoys that keep only one of their two facts.
        gap: least number of words between any first fact and any second fact.
        unanswerable: share of the questions that name a person who does not occur in the document.
    """
    for number in range(count):
        rng = random.Random(id := f"two-hop-{split}-{seed}-{number}")
        kind, role = rng.choice(sorted(WORDS["kinds"])), rng.choice(WORDS["roles"].split())
        drawn = _chains(rng, split, kind, role, rng.randint(*chains))
        asked = rng.choice(drawn)
        kept = {chain: "12" if chain is asked or rng.random() >= broken else rng.choice("12") for chain in drawn}
        firsts = [chain.first for chain in drawn if "1" in kept[chain]]
        seconds = [chain.second for chain in drawn if "2" in kept[chain]]
        sentences = _few(rng, firsts + seconds) if tokens is None else _many(rng, firsts, seconds, tokens, gap)
        text = _paragraphs(rng, sentences)
        answers: tuple[str, ...] = (asked.answer,)
        subject, spans = asked.subject, list[Span]()
        if rng.random() < unanswerable:
            answers = ()
            subject = rng.choice([name for name in part(WORDS["names"], split) if name not in text])
        else:
            first, second = text.index(asked.first), text.index(asked.second)
            parts = {second + asked.offset: asked.answer, first: asked.first, second: asked.second}
            spans = [Span(start, start + len(of)) for start, of in parts.items()]
        who = rng.choice(WORDS["who"]).format(role=role, subject=subject)
        query = Query(rng.choice(WORDS["kinds"][kind]["questions"]).format(who=who))
        yield Example(
            id=id, document=Document(text, id=id), query=query, answers=answers, answer_spans=tuple(spans[:1]),
            relevant=tuple(spans[1:]),
        )  # fmt: skip


def _chains(rng: random.Random, split: Split, kind: str, role: str, count: int) -> list[_Chain]:
    """Draw chains of one form in which no person and no answer occurs twice."""
    words = WORDS["kinds"][kind]
    names = rng.sample(part(WORDS["names"], split), 2 * count)
    answers = rng.sample(part(words["answers"], split), count)
    first, second = rng.choice(WORDS["first_facts"]), rng.choice(words["facts"])
    chains = []
    for subject, bridge, answer in zip(names[:count], names[count:], answers, strict=True):
        names_of = {"role": role, "subject": subject, "bridge": bridge, "answer": answer}
        offset = len(second.partition("{answer}")[0].format(bridge=bridge))
        chains.append(_Chain(subject, bridge, first.format(**names_of), second.format(**names_of), answer, offset))
    return chains


def _few(rng: random.Random, facts: list[str]) -> list[str]:
    """Return the facts in any order, two of five with a filler sentence before them, as in key blocks."""
    shuffled = rng.sample(facts, len(facts))
    return [one for fact in shuffled for one in (*(_filler(rng, 1, set()) if rng.random() < 0.4 else []), fact)]


def _many(rng: random.Random, firsts: list[str], seconds: list[str], tokens: int, gap: int) -> list[str]:
    """Return filler with the facts of one hop at random positions before the gap, and those of the other after it."""
    opening, closing = rng.sample([firsts, seconds], 2)
    room = round(tokens / _PIECES_PER_WORD) - gap - sum(len(fact.split()) for fact in firsts + seconds)
    before, used = round(room * rng.uniform(0.3, 0.7)), set[str]()
    start = _scatter(rng, opening, _filler(rng, before, used)) + _filler(rng, gap, used)
    return start + _scatter(rng, closing, _filler(rng, room - before, used))


def _scatter(rng: random.Random, facts: list[str], filler: list[str]) -> list[str]:
    """Insert the facts at random positions of the filler, no two side by side."""
    sentences, positions = list(filler), rng.sample(range(len(filler) + 1), len(facts))
    for position, fact in sorted(zip(positions, facts, strict=True), reverse=True):
        sentences.insert(position, fact)
    return sentences


def _filler(rng: random.Random, n_words: int, used: set[str]) -> list[str]:
    """Draw sentences that are not in `used` until they have `n_words` words."""
    sentences: list[str] = []
    while n_words > 0:
        sentence = re.sub(r"\{(\w+)\}", lambda slot: rng.choice(_SLOTS[slot[1]]), rng.choice(WORDS["filler"]))
        if sentence not in used:
            used.add(sentence)
            sentences.append(sentence[0].upper() + sentence[1:])
            n_words -= len(sentence.split())
    return sentences


def _paragraphs(rng: random.Random, sentences: list[str]) -> str:
    """Join sentences to paragraphs of three to seven, one per line."""
    lines = []
    while sentences:
        length = rng.randint(3, 7)
        lines.append(" ".join(sentences[:length]))
        sentences = sentences[length:]
    return "\n".join(lines)
