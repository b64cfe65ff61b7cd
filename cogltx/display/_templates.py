"""The templates of this folder."""

from functools import cache
from pathlib import Path

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
