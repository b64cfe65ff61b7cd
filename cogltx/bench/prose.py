"""Generated documents of any length that look like prose, to measure cost on."""

import random
from typing import Any

from cogltx.document import Document

QUESTION = "In which city did the author of the second report live before the new bridge was built?"
_WORDS = """
the the the the of of of and and to to in in a a was for on that with by as at from it is were his her this
city river bridge report author year school family house music company team film game water church road war
people member village history army court island station party law work life world day night line land book
king queen father mother child teacher doctor student soldier writer player singer minister president
north south east west first second last old new long small large early late major local public young great
built found made became wrote lived moved won lost played called known used began opened closed died born
after before during between under against near about into through since until while where when which who
also then later often again still only first once there here most many some several other another both
"""


def generated(n_tokens: int, tokenizer: Any, *, seed: int) -> Document:
    """Generate a document of `n_tokens` tokens, a few more or less if the tokenizer joins words across lines."""
    rng = random.Random(seed)
    paragraphs: list[str] = []
    missing = n_tokens
    while missing > 0:
        text = " ".join(_sentence(rng) for _ in range(rng.randint(2, 10)))
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = encoded["offset_mapping"]
        if len(offsets) > missing:
            text = text[: offsets[missing - 1][1]]
        paragraphs.append(text)
        missing -= len(offsets)
    return Document("\n".join(paragraphs), id=f"generated-{n_tokens}-{seed}")


def _sentence(rng: random.Random) -> str:
    """Join 6 to 50 words, mostly about 20, with commas."""
    words = rng.choices(_WORDS.split(), k=round(rng.triangular(6, 50, 14)))
    for index in range(len(words) - 2):
        if rng.random() < 0.06:
            words[index] += ","
    return f"{' '.join(words).capitalize()}."
