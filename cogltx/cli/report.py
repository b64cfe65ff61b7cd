"""Predictions and recalls as a person, or ``--json``, is shown them."""

from typing import Any

from cogltx.memrecall import Recall


def recall_dict(found: Recall) -> dict[str, Any]:
    """Key blocks and steps as plain data for JSON."""
    blocks = found.blocks
    key_blocks = [
        {
            "index": index,
            "start": blocks[index].start,
            "end": blocks[index].end,
            "n_tokens": blocks[index].n_tokens,
            "text": blocks.text(index),
            "score": score,
            "step": step,
            "kept": index in found.kept,
        }
        for index, score, step in zip(found.key_blocks, found.scores, found.steps, strict=True)
    ]
    steps = [
        {"retrieved": step.retrieved, "fine": step.fine, "kept": step.kept, "decayed": step.decayed}
        for step in found.trace
    ]
    query = found.query.text if found.query else None
    return {
        "query": query, "n_tokens": blocks.n_tokens, "n_blocks": len(blocks), "key_blocks": key_blocks, "steps": steps,
    }  # fmt: skip


def recall_lines(found: Recall) -> str:
    """Key blocks, a line each."""
    lines = [f"{len(found.key_blocks)} key blocks of {len(found.blocks)}, * outlived the last decay"]
    for index, score, step in zip(found.key_blocks, found.scores, found.steps, strict=True):
        text = " ".join(found.blocks.text(index).split())
        lines.append(f"{index:6d}  {score:7.3f}  step {step} {'*' if index in found.kept else ' '} {text}")
    return "\n".join(lines)
