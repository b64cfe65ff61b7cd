"""The blocks of joined documents are those of each."""

import numpy as np
import pytest

from cogltx.blocks import Blocks, split
from cogltx.document import Document, Segment

TEXTS = (
    Document("The bridge was built in 1932. Rain fell on the hills. " * 20, "a"),
    Document("Tower\n\nIt is high. " * 30, "b", (Segment(0, 5, "Tower"), Segment(40, 90, "Height"))),
    Document("塔は高い。雨が降った。" * 40, "c", (Segment(3, 50, "Tower"),)),
)


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (2, 1, 0), (0, 0, 1)])
def test_joining_blocks_is_splitting_what_is_joined(order: tuple[int, ...]) -> None:
    documents = [TEXTS[number] for number in order]
    joined = Document.joined(documents)
    whole, parts = split(joined), Blocks.joined(joined, [split(document) for document in documents])
    for name in ("starts", "cuts", "token_ids", "token_starts", "token_ends"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name), err_msg=name)
    assert [block.heading for block in parts] == [block.heading for block in whole]
    assert [parts.text(number) for number in range(len(parts))] == [whole.text(number) for number in range(len(whole))]
