"""Results as HTML, for browsers and notebooks, and model cards."""

from cogltx.display.card import model_card
from cogltx.display.report import report

__all__ = ["model_card", "report"]
