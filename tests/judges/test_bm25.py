"""BM25 finds the blocks that share rare words with the query."""

import builtins
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from fakes import sentences

from cogltx.blocks import Blocks, split
from cogltx.document import Document, Query
from cogltx.encoding.layout import Layout, WindowFormat
from cogltx.errors import ConfigError
from cogltx.judges import Memory
from cogltx.judges.bm25 import BM25Judge

pytest.importorskip("bm25s")
DOCUMENT = sentences("The fox jumps.", "Anna wrote the report.", "The dog sat.", "!!!", headings=("", "", "Zürich", ""))


def layout_of(query: Query | None, blocks: Blocks) -> Layout:
    return WindowFormat(tiny.make_tokenizer()).layout(query, blocks)


@pytest.fixture
def blocks() -> Blocks:
    return split(DOCUMENT, tiny.make_tokenizer())


def retrieve(blocks: Blocks, query: str, *kept: int) -> np.ndarray:
    return BM25Judge().retrieve([Memory(layout_of(Query(query), blocks), kept)])[0]


def test_the_block_with_the_rare_words_wins(blocks: Blocks) -> None:
    scores = retrieve(blocks, "Who wrote the report?")
    assert scores.shape == (4,)
    assert scores.argmax() == 1
    assert scores[1] > 2 * scores[0] > 0
    assert scores[3] == 0


def test_headings_count(blocks: Blocks) -> None:
    assert retrieve(blocks, "What about zürich?").argmax() == 2


def test_nothing_in_common(blocks: Blocks) -> None:
    assert retrieve(blocks, "quantum chromodynamics").tolist() == [0, 0, 0, 0]
    assert retrieve(blocks, "???").tolist() == [0, 0, 0, 0]


def test_the_words_of_a_long_document_stay_out_of_memory() -> None:
    words = " ".join(f"word{number % 3000}" for number in range(30_000))
    blocks = split(Document(words), tiny.make_tokenizer())
    judge = BM25Judge()
    tracemalloc.start()
    judge.text_scores("word7", blocks)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 30 * 30_000, "a number and a score per word"
    assert peak < 90 * 30_000


def test_blocks_in_z_are_not_candidates(blocks: Blocks) -> None:
    scores = retrieve(blocks, "the fox", 0, 2)
    assert np.isnan(scores[[0, 2]]).all()
    assert np.isfinite(scores[[1, 3]]).all()


def test_rehearsal_gives_the_same_scores(blocks: Blocks) -> None:
    judge = BM25Judge()
    query = Query("Who wrote the report?")
    (coarse,) = judge.retrieve([Memory(layout_of(query, blocks), ())])
    (fine,) = judge.rehearse([Memory(layout_of(query, blocks), (0, 1))])
    assert fine.tolist() == coarse[:2].tolist()


def test_another_query_of_the_same_document(blocks: Blocks) -> None:
    judge = BM25Judge()
    found = [
        judge.retrieve([Memory(layout_of(Query(query), blocks), ())])[0].argmax() for query in ("fox", "report", "fox")
    ]
    assert found == [0, 1, 0]


def test_scripts_without_spaces() -> None:
    document = sentences("巴黎是法国的首都。", "谁写了这份报告？", "猫坐着。")
    blocks = split(document, tiny.make_tokenizer())
    assert BM25Judge.terms("巴黎 Paris") == ["巴", "黎", "巴黎", "paris"]
    assert retrieve(blocks, "报告").argmax() == 1


def test_a_text_without_words() -> None:
    blocks = split(Document("!!! ??? ..."), tiny.make_tokenizer())
    assert retrieve(blocks, "anything").tolist() == [0.0] * len(blocks)


def test_without_a_query(blocks: Blocks) -> None:
    with pytest.raises(ConfigError, match='judge "bm25" needs a question'):
        BM25Judge().retrieve([Memory(layout_of(None, blocks), ())])


def test_not_installed(blocks: Blocks, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "bm25s":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match='judge "bm25": the package bm25s is not installed'):
        retrieve(blocks, "fox")


def test_jax_is_not_started(tmp_path: Path) -> None:
    """bm25s uses JAX where it finds it, and JAX reserves most of a GPU's memory as soon as it starts."""
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("print('jax was started')")
    (tmp_path / "jax" / "lax.py").write_text("def top_k(*arguments): ...")
    script = "from cogltx.judges.bm25 import _bm25s; _bm25s(); print('bm25s is ready'); import jax"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["bm25s is ready", "jax was started"]  # others may still import it
