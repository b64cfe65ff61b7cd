"""The paper's judge: an encoder with a small head, one relevance a token of a window (§3.2).

``WindowJudge`` runs any model that gives a relevance logit for every token; ``EncoderJudge`` is the built-in one.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from cogltx.encoding.encoder import Batch, Encoder, Precision, relevance_head, run_windows
from cogltx.encoding.layout import Window, WindowFormat, pack
from cogltx.errors import ModelError
from cogltx.judges.base import Judge, Memory, named, told


class EncoderJudge(nn.Module):
    """``judge(z+) = sigmoid(MLP(encoder(z+)))`` before the sigmoid.

    Args:
        encoder: the pre-trained encoder.
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
        """A relevance logit for every token."""
        hidden = self.encoder(Batch(input_ids, attention_mask, token_type_ids))
        logits: Tensor = self.head(hidden).squeeze(-1)
        return logits


def relevance_logits(model: nn.Module, batch: Batch) -> Float[Tensor, "windows tokens"]:
    """Runs a judge model and checks what it gives.

    Raises:
        ModelError: a user's own model fails, or does not give one logit a token, with a gradient in training.
    """
    try:
        logits = model(
            input_ids=batch.input_ids, attention_mask=batch.attention_mask, token_type_ids=batch.token_type_ids
        )
    except Exception as error:
        if isinstance(model, EncoderJudge):
            raise
        raise ModelError(f"{named(model)}: expected logits, got {told(error)}") from error
    expected = tuple(batch.input_ids.shape)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ModelError(f"{named(model)}: expected logits of shape {expected} (windows, tokens), got {got}")
    if torch.is_grad_enabled() and not logits.requires_grad:
        raise ModelError(f"{named(model)}: expected logits with a gradient in training, got {logits.dtype} without one")
    return logits


class WindowJudge(Judge):
    """Scores the blocks of many documents with a model over windows; the score of a block is the mean over its tokens.

    Args:
        model: gives a relevance logit for every token of a batch of windows.
        form: how windows are laid out.
        precision: device and arithmetic.
        batch_tokens: most tokens in a batch.
    """

    probabilities = True

    def __init__(self, model: nn.Module, form: WindowFormat, precision: Precision, batch_tokens: int) -> None:
        self.model = model
        self.form = form
        self.precision = precision
        self.batch_tokens = batch_tokens

    def retrieve(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " blocks"]]:
        """See ``Judge.retrieve``: runs of consecutive blocks are packed behind z, as many as fit a window."""
        scores = [np.full(len(memory.blocks), np.nan) for memory in memories]
        owners: deque[int] = deque()

        def windows() -> Iterator[Window]:
            for owner, memory in enumerate(memories):
                for window in retrieval_windows(self.form, memory):
                    owners.append(owner)
                    yield window

        for window, relevance in self._relevance(windows()):
            owner = owners.popleft()
            shown, means = window.block_means(relevance)
            scores[owner][shown] = means
        for memory, found in zip(memories, scores, strict=True):
            found[list(memory.kept)] = np.nan
        return scores

    def rehearse(self, memories: Sequence[Memory]) -> list[Float[np.ndarray, " kept"]]:
        """See ``Judge.rehearse``: one window holds all of z."""
        windows = (rehearsal_window(self.form, memory) for memory in memories)
        return [window.block_means(relevance)[1] for window, relevance in self._relevance(windows)]

    def _relevance(self, windows: Iterator[Window]) -> Iterator[tuple[Window, Float[np.ndarray, " tokens"]]]:
        self.model.eval()
        for window, logits in run_windows(
            windows,
            lambda batch: torch.sigmoid(relevance_logits(self.model, batch).float()),
            padding_id=self.form.padding_id,
            precision=self.precision,
            batch_tokens=self.batch_tokens,
        ):
            if not np.isfinite(logits).all():
                raise ModelError(f"{named(self.model)}: expected finite logits, got NaN")
            yield window, logits


def retrieval_windows(form: WindowFormat, memory: Memory) -> Iterator[Window]:
    """``[z+ [SEP] x_i [SEP] x_(i+1) …]``: all blocks outside z, in the fewest windows that packing in order allows."""
    blocks = memory.blocks
    prefix = form.prefix(memory.query, int(blocks.sizes.max()))
    room = form.room(prefix) - int(blocks.sizes[list(memory.kept)].sum())
    candidates = memory.candidates
    for run in pack([int(size) for size in blocks.sizes[candidates]], room):
        yield form.window(prefix, blocks, [*memory.kept, *(candidates[i] for i in run)])


def rehearsal_window(form: WindowFormat, memory: Memory) -> Window:
    """``z+``: the query and all blocks of z."""
    return form.window(form.prefix(memory.query, int(memory.blocks.sizes.max())), memory.blocks, memory.kept)
