"""Lines about the examples of a run before it trains: gold labels that are left out, and numbers that are too small."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cogltx._messages import counted, some
from cogltx._progress import first_of
from cogltx.document import Example
from cogltx.errors import DataError, shorten
from cogltx.training._data import Source

_FEWEST_TEXTS, _FEWEST_ENTITIES, _FEWEST_VALIDATION = 5, 10, 20
_LARGEST_SHARE = 0.9
_SLICE = (
    "an answer must be an exact slice of its text: copy it from there, or let cogltx train TABLE --documents find it"
)
_MOST_NAMED, _MOST_CHARACTERS = 20, 120


def left_out(unmapped: Sequence[tuple[str, str]], examples: Sequence[Example], task: str, source: Source) -> list[str]:
    """Describe the gold labels without a place in their text: how many, five of them, and how to list all.

    Raises:
        DataError: no answer occurs in its text, and no evidence is marked from which the judge could learn.
    """
    asked = {example.id: example.query.text for example in examples if example.query}
    n_answers = sum(len(example.answers or ()) for example in examples)
    answers, others = list[str](), list[str]()
    for id, reason in unmapped:
        question = f"{shorten(asked[id])}: " if id in asked else ""
        reason = reason if len(reason) <= _MOST_CHARACTERS else f"{reason[:_MOST_CHARACTERS]}…"
        (answers if "the answer" in reason and id in asked else others).append(f"{id}: {question}{reason}")
    file = str(source) if isinstance(source, str | Path) else ""
    how = f"cogltx prepare {task} --source {shlex.quote(file)} --output data.jsonl" if file else ""
    lines = list[str]()
    if answers:
        head = f"{len(answers):,} of {n_answers:,} answers do not occur in their text"
        lines += first_of(f"{head}; the reasoner does not learn from them", answers, how)
    if answers and len(answers) >= n_answers and not any(example.has_relevance for example in examples):
        raise DataError(f"none of the {n_answers:,} answers occurs in its text; {answers[0]}; {_SLICE}")
    if len(answers) > n_answers / 2:
        lines.append(f"warning: more than half of the answers are missing; {_SLICE}")
    return lines + (first_of(f"{len(others):,} gold labels are left out", others, how) if others else [])


def counts(train: Sequence[Example], validation: Sequence[Example]) -> Iterator[str]:
    """Describe the numbers of labels and entities, and those that are too small to learn from."""
    labelled = [example.labels for example in train if example.labels is not None]
    labels = Counter(label for of_text in labelled for label in of_text)
    if rare := {label: n for label, n in labels.items() if n < _FEWEST_TEXTS}:
        yield (
            f"labels with fewer than {_FEWEST_TEXTS} training examples: {_named(rare)}; add examples, or join labels"
        )
    is_single = all(len(of_text) == 1 for of_text in labelled) and all(example.query is None for example in train)
    for label, n in labels.most_common(1) if is_single else ():
        if n > _LARGEST_SHARE * len(labelled):
            share = f"{100 * n / len(labelled):.0f} %"
            yield (
                f"warning: {share} of the training texts have the label {label!r}: a model that always says {label!r} "
                f"is right for {share}, so accuracy alone does not show whether this one learns; compare macro_f1"
            )
    types, validated = (
        Counter(one.label for example in part for one in example.entities or ()) for part in (train, validation)
    )
    if types:
        both = {name: f"{n:,} and {validated[name]:,}" for name, n in types.items()}
        yield f"entities in training and validation: {_named(both)}"
    if rare := {name: n for name, n in types.items() if n < _FEWEST_ENTITIES}:
        yield f"warning: types with fewer than {_FEWEST_ENTITIES} training entities, too few to learn: {_named(rare)}"


def choice_of_epoch(validation: Sequence[Example]) -> Iterator[str]:
    """Describe a choice of the best epoch by too few examples."""
    if max(len(validation), sum(len(example.entities or ()) for example in validation)) < _FEWEST_VALIDATION:
        yield (
            f"the best epoch is chosen by {counted(len(validation), 'validation example')}: chance decides; use more, "
            "or --set training.kept_epoch=last"
        )


def _named(numbers: Mapping[str, object]) -> str:
    """Format names with their numbers, at most 20."""
    return some([f"{name} ({number})" for name, number in sorted(numbers.items())], _MOST_NAMED)
