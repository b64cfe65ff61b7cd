"""Read a long document without a judge: overlapping windows over all of it, the first window, or both ends.

The windows hold the same blocks and headings as those of CogLTX, and the same reasoner reads them.
"""

from collections.abc import Sequence

from cogltx.document import Document, Query
from cogltx.encoding.layout import Layout, Window, pack
from cogltx.pipeline import Reader
from cogltx.prediction import Prediction


class SlidingWindow(Reader):
    """Windows of consecutive blocks that share about ``overlap`` tokens; the reasoner combines them."""

    def windows(self, layout: Layout) -> list[Window]:
        """Build all windows of a document, in order."""
        runs = _overlapping_runs(layout.blocks.sizes.tolist(), layout.room, self.config.overlap)
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


class HeadAndTail(SlidingWindow):
    """One window per document: its beginning and its end, half of the room each."""

    def windows(self, layout: Layout) -> list[Window]:
        """Build the window."""
        return [layout.window(_head_and_tail(layout.blocks.sizes.tolist(), layout.room))]


def _head_and_tail(sizes: Sequence[int], room: int) -> list[int]:
    """The first items that fill half of the room, and the last items that fill the rest.

    >>> _head_and_tail([2, 2, 2, 2, 2, 2], room=8)
    [0, 1, 4, 5]
    >>> _head_and_tail([2, 2, 2], room=8)
    [0, 1, 2]
    """
    if sum(sizes) <= room:
        return list(range(len(sizes)))
    head = pack(sizes, room // 2)[0] if sizes[0] <= room // 2 else [0]
    free = room - sum(sizes[index] for index in head)
    tail: list[int] = []
    for index in reversed(range(len(sizes))):
        if index in head or sizes[index] > free:
            break
        tail.insert(0, index)
        free -= sizes[index]
    return [*head, *tail]


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
