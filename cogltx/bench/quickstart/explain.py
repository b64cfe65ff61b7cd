"""One answer told step by step: what MemRecall retrieved, what it kept, and what the reasoner made of it.

Knows nothing about how the model was trained.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from cogltx.blocks import relevance_labels
from cogltx.document import Example
from cogltx.memrecall import Recall, Step
from cogltx.prediction import Prediction

_RUNNERS_UP = 2


def tell(example: Example, recall: Recall, prediction: Prediction, capacity: int) -> str:
    """The story of one answer; ``*`` marks the blocks that hold a gold fact.

    Args:
        example: the question with its gold.
        recall: what MemRecall found for it.
        prediction: the reader's answer.
        capacity: tokens that a window holds.
    """
    teller = _Teller(example, recall)
    question = example.query.text if example.query else "(none)"
    lines = [
        f"question  {question}",
        f"document  {recall.blocks.n_tokens} tokens in {len(recall.blocks)} blocks; a window holds {capacity} tokens",
        "          * marks a gold fact",
    ]
    for number, step in enumerate(recall.trace, start=1):
        lines += ["", *teller.step(number, step, recall.trace[number - 2].kept if number > 1 else ())]
    if not recall.trace:
        lines += ["", "The document fits the window and is read whole."]
    return "\n".join([*lines, "", *_ending(example, recall, prediction)])


class _Teller:
    """Puts the steps of one recall into words."""

    def __init__(self, example: Example, recall: Recall) -> None:
        self.recall = recall
        self.gold = _gold(example, recall)

    def step(self, number: int, step: Step, before: Sequence[int]) -> Iterator[str]:
        """The lines of one step; ``before`` are the blocks that the step before kept."""
        last = number == len(self.recall.trace)
        beside = f"the question and {_blocks(len(before))} kept so far" if before else "the question alone"
        yield f"Step {number}: the judge reads all blocks, beside {beside}."
        yield f"  retrieved, the best coarse scores, until the window is full ({len(step.retrieved)}):"
        yield from (self.line(float(step.coarse[block]), block) for block in step.retrieved)
        yield "  and left outside, best first:"
        yield from (self.line(float(step.coarse[block]), block) for block in self.outside(step)[:_RUNNERS_UP])
        stay = "stay" if last else "stay for the next step"
        yield f"  rehearsed together, the best fine scores {stay} ({len(step.kept)}):"
        yield from (self.line(step.fine[block], block) for block in step.kept)
        yield f"  decayed, {'only fill the rest of the window' if last else 'leave it'} ({len(step.decayed)}):"
        yield from (self.line(step.fine[block], block) for block in step.decayed)

    def outside(self, step: Step) -> list[int]:
        """The blocks that lost the retrieval competition, best first."""
        lost = [block for block in range(len(step.coarse)) if block not in step.fine]
        return sorted(lost, key=lambda block: -step.coarse[block])

    def line(self, score: float, block: int) -> str:
        """A block with its score."""
        return f"    {score:5.3f} {'*' if block in self.gold else ' '} [{block}] {_text(self.recall, block)}"


def _ending(example: Example, recall: Recall, prediction: Prediction) -> Iterator[str]:
    for block in sorted(_gold(example, recall) - set(recall.key_blocks)):
        yield f"Missed, a gold fact that is not in the window: [{block}] {_text(recall, block)}"
    answer = prediction.answer or "(no answer)"
    yield f"The reasoner reads these {_blocks(len(recall.key_blocks))}: {answer!r} ({prediction.score:.0%})"
    if prediction.start is not None and prediction.end is not None:
        holds = recall.blocks.overlapping(prediction.start, prediction.end)[0]
        yield f"  characters {prediction.start}-{prediction.end} of the document, in block [{holds}]"
    if example.answers:
        right = prediction.answer.lower() in {answer.lower() for answer in example.answers}
        yield f"  gold answer: {example.answers[0]!r}, so this is {'right' if right else 'wrong'}"


def _gold(example: Example, recall: Recall) -> frozenset[int]:
    labels = relevance_labels(example, recall.blocks)
    return frozenset() if labels is None else frozenset(np.flatnonzero(labels).tolist())


def _text(recall: Recall, block: int) -> str:
    return " ".join(recall.blocks.text(block).split())


def _blocks(count: int) -> str:
    return f"{count} block" if count == 1 else f"{count} blocks"
