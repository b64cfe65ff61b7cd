"""Read a long document without a judge: overlapping windows over all of it, or the first window.

The windows hold the same blocks and headings as those of CogLTX, and the same reasoner reads them.
"""

from collections.abc import Sequence

from cogltx.document import Document, Query
from cogltx.encoding.layout import Layout, Window
from cogltx.pipeline import Reader
from cogltx.prediction import Prediction

_OVERLAP = 128  # tokens


class SlidingWindow(Reader):
    """Windows of consecutive blocks that share about 128 tokens; the reasoner combines them."""

    def windows(self, layout: Layout) -> list[Window]:
        """Build all windows of a document, in order."""
        runs = _overlapping_runs(layout.blocks.sizes.tolist(), layout.room, _OVERLAP)
        return list(map(layout.window, runs))

    def read(self, requests: Sequence[tuple[Document, Query | None]]) -> list[Prediction]:
        """Read all windows of each document and combine them."""
        layouts = [self.model.layout(document, query) for document, query in requests]
        windows = [self.windows(layout) for layout in layouts]
        outputs = self.model.reason(window for of_document in windows for window in of_document)
        return [
            self.model.reasoner.predict(layout, (next(outputs) for _ in of_document))
            for layout, of_document in zip(layouts, windows, strict=True)
        ]


class Truncation(SlidingWindow):
    """Only the first window of a document."""

    def windows(self, layout: Layout) -> list[Window]:
        """Build the first window."""
        return super().windows(layout)[:1]


def _overlapping_runs(sizes: Sequence[int], room: int, overlap: int) -> list[range]:
    """Runs of consecutive items that fill ``room`` and share at most ``overlap``; every run advances.

    >>> _overlapping_runs([2, 2, 2, 2, 2], room=6, overlap=2)
    [range(0, 3), range(2, 5)]
    """
    runs: list[range] = []
    start = end = used = 0
    while end < len(sizes):
        while end < len(sizes) and used + sizes[end] <= room:
            used += sizes[end]
            end += 1
        runs.append(range(start, end))
        if end == len(sizes):
            break
        previous_start, shared = start, 0
        start = end
        while start - 1 > previous_start and shared + sizes[start - 1] <= min(overlap, room - sizes[end]):
            start -= 1
            shared += sizes[start]
        used = shared
    return runs
