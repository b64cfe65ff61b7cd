"""The model card: what a model is for, how to use it, what it was trained on and how well it does."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cogltx.display._templates import template


def model_card(
    name: str,
    config: Any,
    *,
    data: Sequence[str] = (),
    training: Mapping[str, Any] | None = None,
    metrics: Mapping[str, float] | None = None,
    about: str = "",
) -> str:
    """Write the model card in Markdown, with the metadata of the Hugging Face hub.

    Args:
        name: the title.
        config: the ``ModelConfig``.
        data: names of the training files.
        training: the settings of the training.
        metrics: validation metrics in percent.
        about: more to say, such as licences of the data and measured quality.
    """
    started = {config.reasoner.init_from, config.judge.init_from} - {None, "judge", "reasoner"}
    return template("card.md").render(
        name=name,
        config=config,
        pipeline_tag=config.reasoner.pipeline_tag,
        data=data,
        training={key: json.dumps(value) for key, value in (training or {}).items()},
        metrics=metrics or {},
        parents=sorted(started),
        about=about.strip(),
    )
