"""Results as text and HTML, for terminals, browsers and notebooks, and model cards."""

from cogltx.display._report import report
from cogltx.display._templates import model_card
from cogltx.display._words import entities_text, passages_text, place, sureness, text_of

__all__ = ["entities_text", "model_card", "passages_text", "place", "report", "sureness", "text_of"]
