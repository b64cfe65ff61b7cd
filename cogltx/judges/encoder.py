"""The judge of the paper: an encoder with a small head, one relevance per token of a window (CogLTX §3.2).

``WindowJudge`` runs any model that gives a relevance logit per token; ``EncoderJudge`` is the built-in model.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from cogltx.encoding.encoder import Batch, BatchRunner, Encoder, relevance_head
from cogltx.encoding.layout import Window, pack
from cogltx.errors import ModelError
from cogltx.judges.base import Judge, Memory, judge_name, one_line


class EncoderJudge(nn.Module):
    """Relevance logits per token, ``MLP(encoder(z+))`` (CogLTX eq. 3); ``WindowJudge`` applies the sigmoid.

    Args:
        encoder: the pretrained encoder.
    """

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


def relevance_logits(model: nn.Module, batch: Batch) -> Float[Tensor, "windows tokens"]:
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
        raise ModelError(f"{judge_name(model)}: forward failed: {one_line(error)}") from error
    expected = tuple(batch.input_ids.shape)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
        actual = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"type {type(logits).__name__}"
        raise ModelError(f"{judge_name(model)}: logits have {actual}, not shape {expected} (windows, tokens)")
    if torch.is_grad_enabled() and not logits.requires_grad:
        raise ModelError(f"{judge_name(model)}: logits have no gradient in training")
    return logits


class WindowJudge(Judge):
    """Scores blocks with a model over windows; the score of a block is the mean over its tokens.

    Args:
        model: returns a relevance logit per token of a batch of windows.
        runner: runs windows through the model.
    """

    probabilities = True

    def __init__(self, model: nn.Module, runner: BatchRunner) -> None:
        self.model = model
        self.runner = runner

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """Score blocks next to z: as many consecutive blocks per window as fit. See ``Judge.retrieve``."""
        scores = [np.full(len(memory.blocks), np.nan) for memory in memories]
        owners: list[int] = []

        def windows() -> Iterator[Window]:
            for owner, memory in enumerate(memories):
                for window in _retrieval_windows(memory):
                    owners.append(owner)
                    yield window

        for number, (window, relevance) in enumerate(self._relevance(windows())):
            blocks, means = window.block_means(relevance)
            scores[owners[number]][blocks] = means
        for memory, block_scores in zip(memories, scores, strict=True):
            block_scores[list(memory.kept)] = np.nan
        return scores

    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """Score all of z in one window. See ``Judge.rehearse``."""
        windows = (memory.layout.window(memory.kept) for memory in memories)
        return [window.block_means(relevance)[1] for window, relevance in self._relevance(windows)]

    def _relevance(self, windows: Iterable[Window]) -> Iterator[tuple[Window, Float[np.ndarray, " tokens"]]]:
        self.model.eval()
        for window, relevance in self.runner.run(
            windows, lambda batch: torch.sigmoid(relevance_logits(self.model, batch).float()), title="judge"
        ):
            if not np.isfinite(relevance).all():
                raise ModelError(f"{judge_name(self.model)}: a logit is NaN; logits must be finite")
            yield window, relevance


def _retrieval_windows(memory: Memory) -> Iterator[Window]:
    """``[z+ [SEP] x_i [SEP] x_(i+1) …]``: all blocks outside z, in the fewest windows that keep their order."""
    layout, candidates = memory.layout, memory.candidates
    room = layout.room - layout.blocks.total_size(memory.kept)
    for run in pack(layout.blocks.sizes[candidates].tolist(), room):
        yield layout.window([*memory.kept, *(candidates[i] for i in run)])
