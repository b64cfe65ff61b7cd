"""A corpus that a tiny encoder learns by heart: who has which thing, among others who have other things."""

import numpy as np

from cogltx.document import Document, Example, Query, Span

NAMES = ("anna", "bert", "carl", "dora", "emil", "fred", "gina", "hans", "ida", "jack", "kate", "lars")
OTHERS = ("mary", "nils", "olga", "paul", "ruth", "sven", "tina", "vera")
THINGS = (
    "boat",
    "cup",
    "drum",
    "egg",
    "flag",
    "goat",
    "hat",
    "key",
    "lamp",
    "map",
    "nut",
    "oar",
    "pen",
    "ring",
    "sack",
)
FILLER = (
    "the fox jumps over the lazy dog.",
    "a piece of noise in the film.",
    "the moon is a long way from the people.",
)
TEXTS = (" ".join(NAMES), " ".join(OTHERS), " ".join(THINGS), *FILLER, "who has what does have? the in a of.")


def make(count: int, *, seed: int = 0, others: int = 2, filler: int = 14, unanswered: bool = False) -> list[Example]:
    """Examples whose document is several windows of 64 tokens long; every third has no answer, if asked for.

    Some are asked about and others never are, which is what a tiny model can tell apart in seconds.
    """
    examples = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        names = [str(rng.choice(NAMES)), *rng.permutation(OTHERS)[:others].tolist()]
        things = rng.permutation(THINGS)[: 1 + others].tolist()
        facts = [f"{name} has the {thing}." for name, thing in zip(names, things, strict=True)]
        sentences = rng.permutation([*facts, *rng.choice(FILLER, filler).tolist()]).tolist()
        text = " ".join(sentences)
        absent = unanswered and number % 3 == 0
        name = next(other for other in NAMES if other not in names) if absent else names[0]
        start = text.index(facts[0])
        answer = Span(text.index(things[0], start), text.index(things[0], start) + len(things[0]))
        examples.append(
            Example(
                id=str(number),
                document=Document(text, str(number)),
                query=Query(f"what does {name} have?"),
                answers=() if absent else (things[0],),
                answer_spans=() if absent else (answer,),
                relevant=() if absent else (Span(start, start + len(facts[0])),),
            )
        )
    return examples
