"""The templates of this folder, and the model card: its purpose, use, training and quality."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, Template, select_autoescape

from cogltx.display._words import sureness
from cogltx.document import page_name

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=select_autoescape(["html"]),
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {"page_name": page_name, "sureness": sureness}


@cache
def template(name: str) -> Template:
    """Load a template; what it inserts into HTML is escaped."""
    return _ENVIRONMENT.get_template(name)


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
