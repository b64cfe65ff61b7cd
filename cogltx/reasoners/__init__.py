"""Reasoners: what solves the task on a window of key blocks."""

from cogltx.reasoners.span import Reading, SpanReasoner, SpanReasonerConfig

__all__ = ["Reading", "SpanReasoner", "SpanReasonerConfig"]
