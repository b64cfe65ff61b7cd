"""Baselines: alternatives to CogLTX with the same interface and, where possible, the same encoder and reasoner."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch

from cogltx._folders import model_folder
from cogltx.baselines.sliding_window import SlidingWindow, Truncation
from cogltx.baselines.words import BagOfWords, TextCNN, WordsReader
from cogltx.config import load_config
from cogltx.errors import ConfigError
from cogltx.pipeline import CogLTX, Reader

__all__ = [
    "READERS",
    "BagOfWords",
    "SlidingWindow",
    "TextCNN",
    "Truncation",
    "WindowReader",
    "WordsReader",
    "load_reader",
    "reader_class",
]

WindowReader: TypeAlias = CogLTX | SlidingWindow
"""A reader with a reasoner that reads windows."""

READERS: dict[str, type[Reader]] = {
    "cogltx": CogLTX,
    "sliding_window": SlidingWindow,
    "truncation": Truncation,
    "bag_of_words": BagOfWords,
    "text_cnn": TextCNN,
}


def reader_class(name: str) -> type[Reader]:
    """Look up a reader.

    Raises:
        ConfigError: there is no such reader.
    """
    if name not in READERS:
        raise ConfigError(f"reader: {name!r} is not a reader; use {', '.join(READERS)}")
    return READERS[name]


def load_reader(
    name: str | Path,
    *,
    changes: Mapping[str, Any] | None = None,
    device: torch.device | str | None = None,
    judge: Any = None,
) -> Reader:
    """Load a trained reader of any kind; arguments as in ``CogLTX.from_pretrained``.

    Raises:
        ModelError: the folder is missing or incomplete, or is not a model.
        ConfigError: the device is not available, or a change is invalid.
    """
    folder = model_folder(name)
    config = load_config(folder, changes)
    return reader_class(config.reader).load(folder, config, device=device, judge=judge)
