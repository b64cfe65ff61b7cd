"""The generated corpus of the quickstart: long documents, and questions that need two distant facts.

"Where does the mentor of Alice live?" needs "The mentor of Alice is Robert." and, more than 512 tokens away,
"Robert lives in Vienna." Other people have facts of the same form (decoys), so a reader of one fact alone is at chance.
Distances are counted in white-space words, each of which is at least one word piece; no tokenizer is needed.

All chains of a document are drawn alike, and one of them is asked for afterwards. All first facts are on one side of a
gap and all second facts on the other, in either order: otherwise distances would reveal which facts belong together.
Some questions have no answer: they name a person who does not occur, ask for something the document does not tell of
its people, or are about something else.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from cogltx.bench.quickstart import words
from cogltx.bench.quickstart.words import Split
from cogltx.document import Document, Example, Query, Span

_GAP_WORDS = 521
_PIECES_PER_WORD = 1.13  # BERT word pieces, with punctuation, per white-space word; measured over 200 documents
_ROOM_WORDS = 40  # for each fact with the filler around it


@dataclass(frozen=True)
class _Chain:
    """Two facts that lead from a person over a second one to an answer, `offset` characters into the second fact."""

    subject: str
    bridge: str
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
    gap: int = _GAP_WORDS,
    unanswerable: float = 0.0,
) -> Iterator[Example]:
    """Generate examples; an example depends on the arguments and its number, not on `count`.

    The splits share no person and no answer. `relevant` holds the first and then the second fact of the asked chain, in
    whatever order they are in the text; `extra["kind"]` is the kind of question.

    Args:
        count: number of examples.
        seed: use another one with `split="train"` for a validation set.
        split: names and answers to use.
        tokens: length of a document in BERT word pieces, within about 5 %; None: the facts with little or no filler.
        chains: chains of two facts per document, or the fewest and the most; all but one are decoys.
        broken: share of the decoys that keep only one of their two facts.
        filler: share of the facts with a filler sentence before them, if `tokens` is None.
        gap: least number of words between any first fact and any second fact.
        unanswerable: share of the questions that the document does not answer.

    Raises:
        ValueError: the document is too short for facts so far apart, or there are too few names for so many chains.

    >>> example = next(generate(1, seed=0, split="train"))
    >>> span = example.answer_spans[0]
    >>> example.document.text[span.start : span.end] == example.answers[0]
    True
    """
    fewest, most = (chains, chains) if isinstance(chains, int) else chains
    least_tokens = round((gap + 2 * _ROOM_WORDS * most) * _PIECES_PER_WORD)
    if tokens is not None and tokens < least_tokens:
        raise ValueError(f"{most} chains need documents of at least {least_tokens} tokens, not {tokens}")
    n_words = None if tokens is None else round(tokens / _PIECES_PER_WORD)
    ids = (f"two-hop-{split}-{seed}-{number}" for number in range(count))
    return (_example(id, split, n_words, range(fewest, most + 1), broken, filler, gap, unanswerable) for id in ids)


def _example(
    id: str, split: Split, n_words: int | None, counts: range, broken: float, filler: float, gap: int,
    unanswerable: float,
) -> Example:  # fmt: skip
    """Generate one example; its id is the seed of everything in it."""
    rng = random.Random(id)
    kind, role = rng.choice(words.KINDS), rng.choice(words.ROLES)
    chains = _chains(rng, split, kind, role, rng.choice(counts))
    asked = rng.choice(chains)
    firsts, seconds = [asked.first], [asked.second]
    for decoy in chains:
        if decoy is not asked:
            kept = rng.choice("12") if rng.random() < broken else "both"
            firsts += [decoy.first] if kept != "2" else []
            seconds += [decoy.second] if kept != "1" else []
    text = _few(rng, firsts + seconds, filler) if n_words is None else _text(rng, firsts, seconds, n_words, gap)
    document = Document(text, id=id)
    who = rng.choice(words.WHO).format(role=role, subject=asked.subject)
    question = rng.choice(words.QUESTIONS[kind]).format(who=who)
    if rng.random() < unanswerable:
        question = _unanswerable(rng, split, kind, role, chains, who)
        return Example(id=id, document=document, query=Query(question), answers=(), relevant=(), extra={"kind": "none"})
    first, second = text.index(asked.first), text.index(asked.second)
    answer = second + asked.offset
    return Example(
        id=id,
        document=document,
        query=Query(question),
        answers=(asked.answer,),
        answer_spans=(Span(answer, answer + len(asked.answer)),),
        relevant=(Span(first, first + len(asked.first)), Span(second, second + len(asked.second))),
        extra={"kind": kind},
    )


def _unanswerable(
    rng: random.Random, split: Split, kind: str, role: str, chains: list[_Chain], who: str
) -> str:  # fmt: skip
    """Draw a question about a person, a kind of fact or a topic that the document does not have."""
    match rng.randrange(3):
        case 0:
            people = {name for chain in chains for name in (chain.subject, chain.bridge)}
            absent = rng.choice([name for name in words.NAMES[split] if name not in people])
            return rng.choice(words.QUESTIONS[kind]).format(who=rng.choice(words.WHO).format(role=role, subject=absent))
        case 1:
            return rng.choice(words.QUESTIONS[rng.choice([other for other in words.KINDS if other != kind])]).format(
                who=who
            )
        case _:
            return _filled(rng, rng.choice(words.OTHER_QUESTIONS[split]).replace("{who}", who))


def _chains(rng: random.Random, split: Split, kind: str, role: str, count: int) -> list[_Chain]:
    """Draw chains of one form in which no person and no answer occurs twice."""
    names = rng.sample(words.NAMES[split], 2 * count)
    answers = rng.sample(words.ANSWERS[kind][split], count)
    first, second = rng.choice(words.FIRST_FACTS), rng.choice(words.SECOND_FACTS[kind])
    before, after = second.split("{answer}")
    chains = []
    for subject, bridge, answer in zip(names[:count], names[count:], answers, strict=True):
        start = before.format(bridge=bridge)
        fact = first.format(role=role, subject=subject, bridge=bridge)
        sentence = start + answer + after.format(bridge=bridge)
        chains.append(_Chain(subject, bridge, fact, sentence, answer, len(start)))
    return chains


def _few(rng: random.Random, facts: list[str], filler: float) -> str:
    """Join the facts in any order, some with a filler sentence before them."""
    sentences: list[str] = []
    for fact in rng.sample(facts, len(facts)):
        sentences += [*(_filler(rng, 1, set()) if rng.random() < filler else []), fact]
    return _paragraphs(rng, sentences)


def _text(rng: random.Random, firsts: list[str], seconds: list[str], n_words: int, gap: int) -> str:
    """Join filler, the facts of one hop at random positions before the gap, and those of the other after it."""
    opening, closing = rng.sample([firsts, seconds], 2)
    room = n_words - gap - sum(len(fact.split()) for fact in firsts + seconds)
    before = round(room * rng.uniform(0.3, 0.7))
    used: set[str] = set()
    return _paragraphs(
        rng,
        _scatter(rng, opening, _filler(rng, before, used))
        + _filler(rng, gap, used)
        + _scatter(rng, closing, _filler(rng, room - before, used)),
    )


def _scatter(rng: random.Random, facts: list[str], filler: list[str]) -> list[str]:
    """Insert the facts at random positions of the filler, no two side by side."""
    positions = rng.sample(range(len(filler) + 1), len(facts))
    sentences = list(filler)
    for position, fact in sorted(zip(positions, facts, strict=True), reverse=True):
        sentences.insert(position, fact)
    return sentences


def _filler(rng: random.Random, n_words: int, used: set[str]) -> list[str]:
    """Draw sentences that are not in `used` until they have `n_words` words."""
    sentences: list[str] = []
    while n_words > 0:
        sentence = _filled(rng, rng.choice(words.FILLER))
        if sentence in used:
            continue
        used.add(sentence)
        sentences.append(sentence[0].upper() + sentence[1:])
        n_words -= len(sentence.split())
    return sentences


def _filled(rng: random.Random, template: str) -> str:
    """Replace each slot of a template by one of its phrases."""
    return re.sub(r"\{(\w+)\}", lambda slot: rng.choice(words.SLOTS[slot[1]]), template)


def _paragraphs(rng: random.Random, sentences: list[str]) -> str:
    """Join sentences to paragraphs of three to seven, one per line."""
    lines = []
    while sentences:
        length = rng.randint(3, 7)
        lines.append(" ".join(sentences[:length]))
        sentences = sentences[length:]
    return "\n".join(lines)
