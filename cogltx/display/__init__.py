"""Results as HTML, for browsers and notebooks, and model cards."""

from cogltx.display._card import model_card
from cogltx.display._report import LOWEST_SHOWN, report, sureness

__all__ = ["LOWEST_SHOWN", "model_card", "report", "sureness"]
