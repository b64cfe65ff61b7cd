"""Explain one answer step by step: the blocks that MemRecall retrieved and kept, and the reasoner's answer."""

from collections.abc import Iterator, Sequence

import numpy as np

from cogltx.document import Example
from cogltx.memrecall import Recall, Step
from cogltx.prediction import Prediction

_RUNNERS_UP = 2


def explain(example: Example, recall: Recall, prediction: Prediction, capacity: int) -> str:
    """Explain an answer; `*` marks the blocks that hold a gold fact.

    Args:
        example: the question with its gold.
        recall: its key blocks, with the trace of MemRecall's steps.
        prediction: the reader's answer.
        capacity: tokens per window.
    """
    labels = recall.blocks.relevance_labels(example)
    gold = frozenset[int]() if labels is None else frozenset(np.flatnonzero(labels).tolist())
    question = example.query.text if example.query else "(none)"
    lines = [
        f"question  {question}",
        f"document  {recall.blocks.n_tokens:,} tokens in {len(recall.blocks)} blocks; a window holds {capacity} tokens",
        "          * marks a gold fact",
    ]
    kept: Sequence[int] = ()
    for number, step in enumerate(recall.trace, start=1):
        lines += ["", *_step_lines(recall, gold, number, step, kept)]
        kept = step.kept
    if not recall.trace:
        lines += ["", "The document fits one window and is read whole."]
    return "\n".join([*lines, "", *_answer_lines(example, recall, gold, prediction)])


def _step_lines(
    recall: Recall, gold: frozenset[int], number: int, step: Step, kept_before: Sequence[int]
) -> Iterator[str]:
    last = number == len(recall.trace)
    beside = f"the question and the {_blocks(len(kept_before))} kept so far" if kept_before else "the question alone"

    def line(score: float, block: int) -> str:
        return f"    {score:5.3f} {'*' if block in gold else ' '} [{block}] {_text(recall, block)}"

    lost = [block for block in range(len(step.coarse)) if block not in step.fine]
    lost.sort(key=lambda block: -step.coarse[block])
    yield f"Step {number}: the judge scores all blocks, each next to {beside}."
    yield f"  retrieved: the best coarse scores, until the window is full ({len(step.retrieved)})"
    yield from (line(float(step.coarse[block]), block) for block in step.retrieved)
    yield "  not retrieved: the next best"
    yield from (line(float(step.coarse[block]), block) for block in lost[:_RUNNERS_UP])
    yield f"  kept {'' if last else 'for the next step '}after rehearsal: the best fine scores ({len(step.kept)})"
    yield from (line(step.fine[block], block) for block in step.kept)
    fate = "these only fill the rest of the window" if last else "these leave the window"
    yield f"  decayed: {fate} ({len(step.decayed)})"
    yield from (line(step.fine[block], block) for block in step.decayed)


def _answer_lines(example: Example, recall: Recall, gold: frozenset[int], prediction: Prediction) -> Iterator[str]:
    for block in sorted(gold - set(recall.key_blocks)):
        yield f"Missed: a gold fact that is not in the window: [{block}] {_text(recall, block)}"
    answer = prediction.answer or "(no answer)"
    yield f"The reasoner reads these {_blocks(len(recall.key_blocks))}: {answer!r} ({prediction.score:.0%})"
    if prediction.start is not None and prediction.end is not None:
        block = recall.blocks.overlapping(prediction.start, prediction.end)[0]
        yield f"  characters {prediction.start:,}-{prediction.end:,} of the document, in block [{block}]"
    if example.answers:
        right = prediction.answer.lower() in {answer.lower() for answer in example.answers}
        yield f"  gold answer: {example.answers[0]!r}, so this is {'right' if right else 'wrong'}"


def _text(recall: Recall, block: int) -> str:
    return " ".join(recall.blocks.text(block).split())


def _blocks(count: int) -> str:
    return f"{count} block" if count == 1 else f"{count} blocks"
