"""Rows with masked places, as BERT was trained: 15 % of the tokens are predicted, most of them hidden.

Knows a tokenizer's special tokens; no model, and no torch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from cogltx.encoding.layout import NONE, Window
from cogltx.errors import ModelError
from cogltx.training.rows import Row

SHARE = 0.15  # of a row's tokens are predicted (BERT's)
_MASKED, _REPLACED = 0.8, 0.9  # of those, 80 % are shown as the mask, 10 % as any token, 10 % as they are


@dataclass(frozen=True)
class MaskedRow:
    """A row as the model sees it.

    Attributes:
        window: the row with some tokens masked or replaced.
        places: of the tokens to predict, ascending.
        targets: those tokens.
    """

    window: Window
    places: Int[np.ndarray, " masked"]
    targets: Int[np.ndarray, " masked"]


class Masking:
    """Chooses tokens to predict, and hides them.

    Args:
        tokenizer: tells which tokens are special: they are never predicted.
        share: of a row's other tokens that are predicted, in (0, 1).

    Raises:
        ModelError: the tokenizer has no mask.
    """

    def __init__(self, tokenizer: Any, share: float = SHARE) -> None:
        if tokenizer.mask_token_id is None:
            raise ModelError("encoder: expected a tokenizer with a mask token, got one without")
        self.share = share
        self.mask_id = int(tokenizer.mask_token_id)
        self.special = np.array(sorted(tokenizer.all_special_ids))
        self.ordinary = np.setdiff1d(np.arange(len(tokenizer)), self.special)

    def apply(self, row: Row, rng: np.random.Generator) -> MaskedRow:
        """The row with its share of tokens hidden, at least one if there is one, as BERT was trained."""
        candidates = np.flatnonzero(~np.isin(row, self.special))
        count = max(1, round(self.share * len(candidates))) if len(candidates) else 0
        places = np.sort(rng.choice(candidates, size=count, replace=False))
        dice = rng.random(count)
        shown = row.copy()
        shown[places[dice < _MASKED]] = self.mask_id
        replaced = places[(dice >= _MASKED) & (dice < _REPLACED)]
        shown[replaced] = rng.choice(self.ordinary, size=len(replaced))
        nothing = np.full(len(row), NONE, dtype=np.int32)
        return MaskedRow(Window(shown, nothing, nothing, len(row)), places, row[places])
