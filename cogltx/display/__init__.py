"""Results as HTML, for browsers and notebooks, and model cards."""

from cogltx.display._card import model_card
from cogltx.display._report import report

__all__ = ["model_card", "report"]
