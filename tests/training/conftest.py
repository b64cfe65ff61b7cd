"""Encoders that know the words of the small corpus."""

from dataclasses import replace
from pathlib import Path

import corpus
import pytest
import tiny


@pytest.fixture(scope="session")
def corpus_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT."""
    return tiny.make_encoder(tmp_path_factory.mktemp("corpus"), texts=corpus.TEXTS)


@pytest.fixture(scope="session")
def wide_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that is wide enough to learn twenty examples by heart."""
    bert = tiny.ARCHITECTURES["bert"]
    wide = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tiny.ARCHITECTURES, "wide", replace(bert, config=bert.config | wide))
        return tiny.make_encoder(tmp_path_factory.mktemp("wide"), "wide", texts=corpus.TEXTS)
