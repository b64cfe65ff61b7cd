"""Questions that need two passages of five: who built something, and where did that person come from?"""

import numpy as np

from cogltx.document import Document, Example, Query, Segment, Span

NAMES = ("Anna", "Bert", "Cleo", "Dora", "Emil", "Fritz", "Greta", "Hans")
TOWNS = ("Arles", "Brest", "Cadiz", "Dover", "Essen", "Fano", "Ghent", "Hull")
WORKS = ("bridge", "castle", "garden", "harbour", "library", "mill", "palace", "tower")


def document_of(*passages: tuple[str, str]) -> Document:
    """A document of passages, each a heading and a text."""
    text, segments = "", []
    for heading, passage in passages:
        segments.append(Segment(len(text), len(text) + len(passage), heading))
        text += f"{passage}\n\n"
    return Document(text, segments=tuple(segments))


def question(rng: np.random.Generator) -> Example:
    """One question; the passages are in random order."""
    names, towns, works = rng.permutation(NAMES)[:3], rng.permutation(TOWNS)[:3], rng.permutation(WORKS)[:2]
    passages = [
        (f"The {works[0]}", f"The old {works[0]} was built by {names[0]}."),
        (str(names[0]), f"{names[0]} came from {towns[0]}."),
        (str(names[1]), f"{names[1]} came from {towns[1]}."),
        (f"The {works[1]}", f"The old {works[1]} was built by a king."),
        (str(names[2]), f"{names[2]} saw {towns[2]} and {works[1]}."),
    ]
    document = document_of(*(passages[place] for place in rng.permutation(len(passages))))
    spans = [Span(start, start + len(text)) for _, text in passages[:2] if (start := document.text.index(text)) >= 0]
    answer = document.text.index(f"from {towns[0]}") + len("from ")
    return Example(
        id=f"{names[0]} {works[0]}",
        document=document,
        query=Query(f"Where did the one who built the {works[0]} come from?"),
        answers=(str(towns[0]),),
        answer_spans=(Span(answer, answer + len(towns[0])),),
        relevant=tuple(sorted(spans)),
    )


def questions(count: int, seed: int = 0) -> list[Example]:
    """Different questions."""
    rng = np.random.default_rng(seed)
    return [question(rng) for _ in range(count)]
