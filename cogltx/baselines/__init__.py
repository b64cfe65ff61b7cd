"""What a user would do instead of CogLTX: with the same interface and, where it has them, encoder and reasoner."""

from cogltx.baselines.bag_of_words import BagOfWords
from cogltx.baselines.sliding_window import HeadAndTail, SlidingWindow, Truncation
from cogltx.errors import ConfigError
from cogltx.pipeline import CogLTX
from cogltx.reader import Reader

__all__ = ["READERS", "BagOfWords", "HeadAndTail", "SlidingWindow", "Truncation", "reader_class"]

READERS: dict[str, type[Reader]] = {
    "cogltx": CogLTX,
    "sliding_window": SlidingWindow,
    "truncation": Truncation,
    "head_and_tail": HeadAndTail,
    "bag_of_words": BagOfWords,
}


def reader_class(name: str) -> type[Reader]:
    """The reader of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in READERS:
        raise ConfigError(f"reader: expected one of {', '.join(READERS)}, got {name!r}")
    return READERS[name]
