"""Labels that a model was not trained on."""

from collections.abc import Sequence

_MOST_NAMED = 10


def unknown_label(id: str, label: str, labels: Sequence[str]) -> str:
    """Say that a label of a training example is not among those of the model."""
    known = ", ".join(labels[:_MOST_NAMED]) + (", …" if len(labels) > _MOST_NAMED else "")
    return f"example {id!r}: the model was not trained on the label {label!r}, only on {known}"
