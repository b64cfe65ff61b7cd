"""The small generated corpus: long documents, and questions whose two facts share no window of 512 tokens.

"Where does the mentor of Alice live?" needs "The mentor of Alice is Robert." and, far from it,
"Robert lives in Vienna." Other people have facts of exactly the same form (decoys), so a reader of one fact
alone is at chance. Knows nothing about tokens: distances are counted in white-space words, each of which is
at least one word piece.

Balanced by construction: all chains of a document are drawn alike, and only then one of them is asked for.
Training documents can make a beginning easier: with fewer chains, or with decoys that have lost one of their facts.
All first facts stand on one side of a gap and all second facts on the other, or the distance of a second fact
from the first would tell which chain it belongs to; either side may come first.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from cogltx.bench.quickstart.words import FILLER, FIRST_FACTS, KINDS, NAMES, ROLES, SLOTS, WHO, Kind, Split
from cogltx.document import Document, Example, Query, Span
from cogltx.errors import ConfigError

GAP_WORDS = 521
"""White-space words, at least, between any first fact and any second fact."""

PIECES_PER_WORD = 1.13
"""BERT word pieces, punctuation included, for each white-space word; measured over 200 documents."""

ROOM_WORDS = 40
"""White-space words, at least, for each fact with the filler around it."""


@dataclass(frozen=True)
class Chain:
    """Two facts that lead from a person over another to an answer.

    Attributes:
        subject: the person whom the question names.
        first: the sentence that leads to the second person.
        second: the sentence that leads to the answer.
        answer: the answer, a word of ``second``.
        offset: the answer's first character in ``second``.
    """

    subject: str
    first: str
    second: str
    answer: str
    offset: int


def generate(
    count: int,
    *,
    seed: int,
    split: Split,
    tokens: int | None = 1500,
    chains: int | tuple[int, int] = 4,
    broken: float = 0.0,
    filler: float = 0.0,
    gap: int = GAP_WORDS,
) -> Iterator[Example]:
    """Generate examples: the same arguments give the same ones, and no example depends on ``count``.

    The splits share no person and no answer. ``relevant`` holds the first fact and then the second, whichever
    stands first in the text; ``extra["kind"]`` is the kind of question.

    Args:
        count: how many examples.
        seed: any number; use another one with ``split="train"`` for a development set.
        split: whose names and answers to use, "train" or "test".
        tokens: the length of a document in BERT word pieces, to within about five per cent; None: hardly more than the
            facts, in any order, so few that they are read whole.
        chains: chains of two facts in a document; all but one are decoys, so chance is ``1 / chains``. A pair: the
            fewest and the most, each number as likely.
        broken: share of the decoys that keep only one of their two facts, in [0, 1].
        filler: where ``tokens`` is None, the share of the facts beside which a sentence of filler stands, in [0, 1].
        gap: white-space words, at least, between any first fact and any second fact.

    Raises:
        ConfigError: the split is unknown, the words do not suffice for so many chains, or the document is too
            short to hold the facts so far apart.

    >>> example = next(generate(1, seed=0, split="train"))
    >>> span = example.answer_spans[0]
    >>> example.document.text[span.start : span.end] == example.answers[0]
    True
    """
    if split not in ("train", "test"):
        raise ConfigError(f"split: expected 'train' or 'test', got {split!r}")
    fewest, most = (chains, chains) if isinstance(chains, int) else chains
    limit = min(len(NAMES[split]) // 2, *(len(kind.answers[split]) for kind in KINDS))
    if not 1 <= fewest <= most <= limit:
        raise ConfigError(f"chains: expected 1 to {limit}, the fewest first, got {chains}")
    for name, share in (("broken", broken), ("filler", filler)):
        if not 0 <= share <= 1:
            raise ConfigError(f"{name}: expected a share in [0, 1], got {share}")
    least = round((gap + 2 * ROOM_WORDS * most) * PIECES_PER_WORD)
    if tokens is not None and tokens < least:
        raise ConfigError(f"tokens: expected at least {least} for {most} chains, got {tokens}")
    words = None if tokens is None else round(tokens / PIECES_PER_WORD)
    ids = (f"two-hop-{split}-{seed}-{number}" for number in range(count))
    return (_example(id, split, words, range(fewest, most + 1), broken, filler, gap) for id in ids)


def _example(
    id: str, split: Split, words: int | None, counts: range, broken: float, filler: float, gap: int
) -> Example:
    """One example; its id is the seed of everything in it."""
    rng = random.Random(id)
    kind, role = rng.choice(KINDS), rng.choice(ROLES)
    chains = _chains(rng, split, kind, role, rng.choice(counts))
    asked = rng.choice(chains)
    firsts, seconds = [asked.first], [asked.second]
    for decoy in chains:
        if decoy is not asked:
            kept = rng.choice("12") if rng.random() < broken else "both"
            firsts += [decoy.first] if kept != "2" else []
            seconds += [decoy.second] if kept != "1" else []
    text = _few(rng, firsts + seconds, filler) if words is None else _text(rng, firsts, seconds, words, gap)
    who = rng.choice(WHO).format(role=role, subject=asked.subject)
    first, second = text.index(asked.first), text.index(asked.second)
    answer = second + asked.offset
    return Example(
        id=id,
        document=Document(text, id=id),
        query=Query(rng.choice(kind.questions).format(who=who)),
        answers=(asked.answer,),
        answer_spans=(Span(answer, answer + len(asked.answer)),),
        relevant=(Span(first, first + len(asked.first)), Span(second, second + len(asked.second))),
        extra={"kind": kind.name},
    )


def _chains(rng: random.Random, split: Split, kind: Kind, role: str, count: int) -> list[Chain]:
    """Chains of one form with no person and no answer twice."""
    names = rng.sample(NAMES[split], 2 * count)
    answers = rng.sample(kind.answers[split], count)
    first, second = rng.choice(FIRST_FACTS), rng.choice(kind.facts)
    before, after = second.split("{answer}")
    chains = []
    for subject, bridge, answer in zip(names[:count], names[count:], answers, strict=True):
        start = before.format(bridge=bridge)
        chains.append(
            Chain(
                subject=subject,
                first=first.format(role=role, subject=subject, bridge=bridge),
                second=start + answer + after.format(bridge=bridge),
                answer=answer,
                offset=len(start),
            )
        )
    return chains


def _few(rng: random.Random, facts: list[str], filler: float) -> str:
    """The facts in any order, some with a sentence of filler before them."""
    sentences: list[str] = []
    for fact in rng.sample(facts, len(facts)):
        sentences += [*(_filler(rng, 1, set()) if rng.random() < filler else []), fact]
    return _paragraphs(rng, sentences)


def _text(rng: random.Random, firsts: list[str], seconds: list[str], words: int, gap: int) -> str:
    """Filler with the facts of one hop at random places before the gap and those of the other after it."""
    opening, closing = rng.sample([firsts, seconds], 2)
    room = words - gap - sum(len(fact.split()) for fact in firsts + seconds)
    before = round(room * rng.uniform(0.3, 0.7))
    used: set[str] = set()
    return _paragraphs(
        rng,
        _scatter(rng, opening, _filler(rng, before, used))
        + _filler(rng, gap, used)
        + _scatter(rng, closing, _filler(rng, room - before, used)),
    )


def _scatter(rng: random.Random, facts: list[str], filler: list[str]) -> list[str]:
    """The filler's sentences with the facts among them in random order, no two side by side."""
    places = rng.sample(range(len(filler) + 1), len(facts))
    sentences = list(filler)
    for place, fact in sorted(zip(places, facts, strict=True), reverse=True):
        sentences.insert(place, fact)
    return sentences


def _filler(rng: random.Random, words: int, used: set[str]) -> list[str]:
    """Sentences that together have at least so many white-space words, none of them used before."""
    sentences: list[str] = []
    while words > 0:
        template = rng.choice(FILLER)
        sentence = re.sub(r"\{(\w+)\}", lambda slot: rng.choice(SLOTS[slot[1]]), template)
        if sentence in used:
            continue
        used.add(sentence)
        sentences.append(sentence[0].upper() + sentence[1:])
        words -= len(sentence.split())
    return sentences


def _paragraphs(rng: random.Random, sentences: list[str]) -> str:
    """Paragraphs of three to seven sentences, each on a line of its own."""
    lines = []
    while sentences:
        length = rng.randint(3, 7)
        lines.append(" ".join(sentences[:length]))
        sentences = sentences[length:]
    return "\n".join(lines)
