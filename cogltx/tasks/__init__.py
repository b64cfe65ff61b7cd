"""Tasks by name: files to Examples, and each data set's measure.

To add a task, write one module with a subclass of ``Task`` and add it to the table.
"""

from collections.abc import Mapping

from pydantic import ValidationError

from cogltx.errors import ConfigError, wrong_value
from cogltx.tasks.base import ReadReport, Split, Task, Unmapped
from cogltx.tasks.classification import Classification
from cogltx.tasks.hotpotqa import HotpotQA
from cogltx.tasks.jsonl import JsonLines
from cogltx.tasks.newsgroups import Newsgroups
from cogltx.tasks.newsqa import NewsQA
from cogltx.tasks.squad import Squad
from cogltx.tasks.tagging import Tagging

__all__ = ["TASKS", "ReadReport", "Split", "Task", "Unmapped", "make_task"]

TASKS: dict[str, type[Task]] = {
    "hotpotqa": HotpotQA,
    "newsqa": NewsQA,
    "squad": Squad,
    "jsonl": JsonLines,
    "classification": Classification,
    "newsgroups": Newsgroups,
    "tagging": Tagging,
}


def make_task(name: str, options: Mapping[str, object]) -> Task:
    """The task of that name with its options.

    Raises:
        ConfigError: there is no such task or option, or an option has a wrong value.

    >>> make_task("hotpotqa", {"supporting_facts": 3})
    HotpotQA(supporting_facts=3, fact_threshold=None, headings=True)
    """
    if name not in TASKS:
        raise ConfigError(f"task: expected one of {', '.join(TASKS)}, got {name!r}")
    try:
        return TASKS[name].model_validate(dict(options))
    except ValidationError as errors:
        raise ConfigError(_one_line(name, errors)) from None


def _one_line(name: str, errors: ValidationError) -> str:
    error = errors.errors()[0]
    key = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        known = ", ".join(TASKS[name].model_fields) or "no options"
        return f"task {name}: expected {known}, got the unknown option {key!r}"
    return f"task {name}: option {key!r}: {wrong_value(error)}"
