"""Results as HTML, for browsers and notebooks."""

from cogltx.display.report import report

__all__ = ["report"]
