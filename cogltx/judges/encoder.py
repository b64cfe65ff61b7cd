"""The judge of the paper: an encoder with a small head, one relevance per token of a window (CogLTX §3.2)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from cogltx.encoding.encoder import Batch, BatchRunner, Encoder, relevance_head
from cogltx.encoding.layout import Layout, Window, pack
from cogltx.judges.base import Judge, Memory, judge_error

BlockMeans: TypeAlias = tuple[Int[np.ndarray, " blocks"], Float[np.ndarray, " blocks"]]
_NEAR = 16  # tokens after the question, separators included


class EncoderJudge(nn.Module):
    """Relevance logits per token, ``MLP(encoder(z+))`` (CogLTX eq. 3); ``WindowJudge`` applies the sigmoid."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = relevance_head(encoder.width)

    def forward(
        self,
        input_ids: Int[Tensor, "windows tokens"],
        attention_mask: Bool[Tensor, "windows tokens"],
        token_type_ids: Int[Tensor, "windows tokens"],
    ) -> Float[Tensor, "windows tokens"]:
        """Compute a relevance logit per token."""
        hidden = self.encoder(Batch(input_ids, attention_mask, token_type_ids))
        logits: Tensor = self.head(hidden).squeeze(-1)
        return logits


class WindowJudge(Judge):
    """Scores blocks with a model over windows; the score of a block is the mean over its tokens.

    A model takes a word next to the question for a part of it, which is relevant (CogLTX eq. 4). So blocks within the
    first 16 tokens after the question are scored again, in a window where a neutral text separates them from it.

    Args:
        model: returns a relevance logit per token of a batch of windows.
        runner: runs windows through the model.
    """

    probabilities = True

    def __init__(self, model: nn.Module, runner: BatchRunner) -> None:
        self.model = model
        self.runner = runner

    @staticmethod
    def logits(model: nn.Module, batch: Batch) -> Float[Tensor, "windows tokens"]:
        """Run a judge model and check its output.

        Raises:
            ModelError: a user's model fails, or does not return one logit per token, with a gradient in training.
        """
        try:
            logits = model(
                input_ids=batch.input_ids, attention_mask=batch.attention_mask, token_type_ids=batch.token_type_ids
            )
        except Exception as error:
            if isinstance(model, EncoderJudge):
                raise
            raise judge_error(model, "forward failed", error) from error
        expected = tuple(batch.input_ids.shape)
        if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
            actual = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"type {type(logits).__name__}"
            raise judge_error(model, f"logits have {actual}, not shape {expected} (windows, tokens)")
        if torch.is_grad_enabled() and not logits.requires_grad:
            raise judge_error(model, "logits have no gradient in training")
        return logits

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """Score blocks next to z: as many consecutive blocks per window as fit. See ``Judge.retrieve``."""
        means = self._block_means((memory.layout, order) for memory in memories for order in _retrieval_orders(memory))
        retrieved = []
        for memory in memories:
            scores, candidates = np.full(len(memory.blocks), np.nan), memory.candidates
            while np.isnan(scores[candidates]).any():
                blocks, block_means = next(means)
                scores[blocks] = block_means
            scores[list(memory.kept)] = np.nan
            retrieved.append(scores)
        return retrieved

    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """Score all of z in one window. See ``Judge.rehearse``."""
        return [means for _, means in self._block_means((memory.layout, memory.kept) for memory in memories)]

    def _block_means(self, orders: Iterable[tuple[Layout, Sequence[int]]]) -> Iterator[BlockMeans]:
        """The blocks of each window, given by its layout and blocks, and their mean relevance."""
        shown = [(layout, order, _near_question(layout, order)) for layout, order in orders]
        total = sum((len(near) < len(order)) + bool(near) for _, order, near in shown)
        means = self._window_means((window for one in shown for window in _windows(*one)), total)
        for _, order, near in shown:
            blocks, block_means = next(means)
            if 0 < len(near) < len(order):
                block_means[np.searchsorted(blocks, sorted(near))] = next(means)[1]
            yield blocks, block_means
        assert next(means, None) is None, "every window was scored"

    def _window_means(self, windows: Iterable[Window], total: int) -> Iterator[BlockMeans]:
        """Run windows through the model; yields the blocks of each and their mean relevance."""
        self.model.eval()
        for window, relevance in self.runner.run(
            windows, lambda batch: torch.sigmoid(self.logits(self.model, batch).float()), title="judge", total=total
        ):
            if not np.isfinite(relevance).all():
                raise judge_error(self.model, "a logit is NaN; logits must be finite")
            yield window.block_means(relevance)


def _retrieval_orders(memory: Memory) -> Iterator[list[int]]:
    """``[z+ [SEP] x_i [SEP] x_(i+1) …]``: all blocks outside z, in the fewest windows that keep their order."""
    layout, candidates = memory.layout, memory.candidates
    room = layout.room - layout.blocks.total_size(memory.kept)
    for run in pack(layout.blocks.sizes[candidates].tolist(), room):
        yield [*memory.kept, *(candidates[i] for i in run)]


def _windows(layout: Layout, order: Sequence[int], near: Sequence[int]) -> Iterator[Window]:
    """Build the window of some blocks, and another one for those of them that are near the question."""
    if len(near) < len(order):
        yield layout.window(order)
    if near:
        yield layout.window(near, neutral=True)


def _near_question(layout: Layout, order: Sequence[int]) -> list[int]:
    """Find the blocks of a window that end within the first tokens after a question."""
    if layout.query is None:
        return []
    ends = layout.blocks.sizes[list(order)].cumsum()
    return list(order[: int(np.searchsorted(ends, _NEAR, side="right"))])
