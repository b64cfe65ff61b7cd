"""Reading a long document without choosing: overlapping windows over all of it, the first window, or both ends.

The windows hold the same blocks and headings as CogLTX's, and the same reasoner reads them.
"""

from collections.abc import Sequence

from cogltx.blocks import Blocks
from cogltx.document import Example, Query
from cogltx.encoding.layout import Window, pack
from cogltx.pipeline import WindowReader
from cogltx.reader import ReadDocument


class SlidingWindow(WindowReader):
    """Windows of consecutive blocks, each sharing about ``overlap`` tokens with the one before.

    The reasoner reads every window and merges what it made of them (``Reasoner.merged``).
    """

    def windows(self, query: Query | None, blocks: Blocks) -> list[Window]:
        """All windows of a document, in order."""
        prefix = self.form.prefix(query, int(blocks.sizes.max()))
        runs = overlapping_runs([int(size) for size in blocks.sizes], self.form.room(prefix), self.config.overlap)
        return [self.form.window(prefix, blocks, run) for run in runs]

    def read(self, examples: Sequence[Example]) -> list[ReadDocument]:
        """Reads all windows of each document and merges their answers."""
        documents = [self.split(example.document) for example in examples]
        windows = [self.windows(example.query, blocks) for example, blocks in zip(examples, documents, strict=True)]
        flat = [(window, blocks) for own, blocks in zip(windows, documents, strict=True) for window in own]
        readings = iter(self.reason((window for window, _ in flat), [blocks for _, blocks in flat]))
        return [
            ReadDocument(self.reasoner.merged([next(readings) for _ in own]), blocks)
            for own, blocks in zip(windows, documents, strict=True)
        ]  # fmt: skip


class Truncation(SlidingWindow):
    """Only the first window of a document."""

    def windows(self, query: Query | None, blocks: Blocks) -> list[Window]:
        """The first window alone."""
        return super().windows(query, blocks)[:1]


class HeadAndTail(SlidingWindow):
    """One window a document: its beginning and its end, half of the room each."""

    def windows(self, query: Query | None, blocks: Blocks) -> list[Window]:
        """The window."""
        sizes = [int(size) for size in blocks.sizes]
        prefix = self.form.prefix(query, max(sizes))
        return [self.form.window(prefix, blocks, head_and_tail(sizes, self.form.room(prefix)))]


def head_and_tail(sizes: Sequence[int], room: int) -> list[int]:
    """The first items that fill half of the room, and the last that fill the rest.

    >>> head_and_tail([2, 2, 2, 2, 2, 2], room=8)
    [0, 1, 4, 5]
    >>> head_and_tail([2, 2, 2], room=8)
    [0, 1, 2]
    """
    places = range(len(sizes))
    if sum(sizes) <= room:
        return list(places)
    (head, *_) = pack(sizes, room // 2) if sizes[0] <= room // 2 else ([0],)
    left = room - sum(sizes[place] for place in head)
    tail: list[int] = []
    for place in reversed(places):
        if place in head or sizes[place] > left:
            break
        tail.insert(0, place)
        left -= sizes[place]
    return [*head, *tail]


def overlapping_runs(sizes: Sequence[int], room: int, overlap: int) -> list[range]:
    """Runs of consecutive items that fill ``room`` and share at most ``overlap``; every run moves on.

    >>> overlapping_runs([2, 2, 2, 2, 2], room=6, overlap=2)
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
        before, shared = start, 0
        start = end
        while start - 1 > before and shared + sizes[start - 1] <= min(overlap, room - sizes[end]):
            start -= 1
            shared += sizes[start]
        used = shared
    return runs
