"""Predictions and recalls as a person, or ``--json``, is shown them."""

from typing import Any

from cogltx.memrecall import Recall
from cogltx.prediction import Prediction


def answer_lines(prediction: Prediction) -> str:
    """An answer with its place, its labels if there are any, and the evidence that outlived the last decay."""
    place = f", characters {prediction.start}-{prediction.end}" if prediction.start is not None else ""
    lines = [
        f"{prediction.answer or '(no answer)'}   [{prediction.score:.0%}{place}]",
        "",
        f"evidence, of {prediction.n_blocks} block{'s' * (prediction.n_blocks != 1)} ({prediction.n_tokens} tokens):",
    ]
    if prediction.labels:
        likely = [f"  {label.score:5.2f}  {'*' if label.chosen else ' '} {label.name}" for label in prediction.labels]
        lines[1:1] = ["", "labels, * chosen:", *likely[:10]]
    for evidence in prediction.evidence:
        holds = prediction.start is not None and evidence.start <= prediction.start < evidence.end
        if evidence.kept or holds:
            mark, text = ">" if holds else " ", " ".join(evidence.text.split())
            lines.append(f"  {evidence.score:5.2f}  step {evidence.step}  {mark} {text}")
    return "\n".join(lines)


def entity_lines(prediction: Prediction) -> str:
    """Entities, a line each."""
    lines = [f"{len(prediction.entities)} entities in {prediction.n_tokens} tokens:"]
    if prediction.n_unread:
        lines[0] += f" the last {prediction.n_unread} were not read"
    for entity in prediction.entities:
        text = " ".join(entity.text.split())
        lines.append(f"  {entity.score:5.2f}  {entity.start:>7}-{entity.end:<7} {entity.label}  {text}")
    return "\n".join(lines)


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
