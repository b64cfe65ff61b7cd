"""The registry of tasks. To add one, write a module with a subclass of ``Task`` and add a line to the table."""

from collections.abc import Mapping

from pydantic import ValidationError

from cogltx.errors import ConfigError, describe, suggestion
from cogltx.tasks.base import ReadReport, Split, Task
from cogltx.tasks.classification import Classification
from cogltx.tasks.cloze import Cloze
from cogltx.tasks.cuad import Cuad
from cogltx.tasks.hotpotqa import HotpotQA
from cogltx.tasks.jsonl import JsonLines
from cogltx.tasks.newsgroups import Newsgroups
from cogltx.tasks.newsqa import NewsQA
from cogltx.tasks.squad import Squad
from cogltx.tasks.tagging import Tagging

__all__ = ["TASKS", "ReadReport", "Split", "Task", "make_task"]

TASKS: dict[str, type[Task]] = {
    "hotpotqa": HotpotQA,
    "newsqa": NewsQA,
    "squad": Squad,
    "cuad": Cuad,
    "jsonl": JsonLines,
    "classification": Classification,
    "newsgroups": Newsgroups,
    "tagging": Tagging,
    "cloze": Cloze,
}


def make_task(name: str, options: Mapping[str, object]) -> Task:
    """Create a task by name; raises ConfigError.

    >>> make_task("hotpotqa", {"supporting_facts": 3})
    HotpotQA(supporting_facts=3, paragraphs=None, fact_threshold=None)
    """
    if name not in TASKS:
        raise ConfigError(f"the task {name!r} is not known{suggestion(name, TASKS)}")
    try:
        return TASKS[name].model_validate(dict(options))
    except ValidationError as error:
        raise ConfigError(f"task {name}: {describe(error, TASKS[name])}") from None
