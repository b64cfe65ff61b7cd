"""Tagging: documents with labelled spans, from CoNLL columns or JSON Lines, and the F1 of entities.

JSON Lines are the package's format (``entities``), LitBank's, or CRAFT's: ``{"id", "split", "text", "entities"}`` with
``{"type", "spans": [[start, end], …]}`` per entity. Does not depend on tokens.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, Field, StrictInt, StrictStr

from cogltx._files import read_json_lines, read_lines
from cogltx.blocks._script import expand_to_words
from cogltx.document import Document, Entity, Example
from cogltx.errors import DataError
from cogltx.prediction import Prediction
from cogltx.tasks._tagged import litbank_example, litbank_scheme, read_conll
from cogltx.tasks.base import Id, ReadReport, Split, Task, errors_at
from cogltx.tasks.jsonl import JsonLines
from cogltx.tasks.metrics import Fractions, Score, gold_and_predicted

_Overlapping: TypeAlias = Literal["refuse", "outermost", "innermost"]
_Read: TypeAlias = tuple[Example, list[str], str]  # example, descriptions of entities of several pieces, place
_LEFT_OUT = "entities_left_out"
_OBJECT = re.compile(r'\s*\{\s*["}]')
_SPLITS: dict[Split, tuple[str, ...]] = {"train": ("train",), "validation": ("validation", "dev"), "test": ("test",)}


class _CraftEntity(BaseModel):
    type: StrictStr
    spans: Annotated[list[tuple[StrictInt, StrictInt]], Field(min_length=1)]


class _CraftLine(BaseModel):
    id: Id
    split: StrictStr | None = None
    text: StrictStr
    entities: list[_CraftEntity]


class Tagging(Task):
    """Documents whose tokens have labels.

    Attributes:
        overlapping: treatment of entities that share characters or have several pieces: ``refuse`` the file, or keep
            the longest (``outermost``) or the shortest (``innermost``), and count the others.
    """

    name: ClassVar[str] = "tagging"
    main_metric: ClassVar[str] = "entity_f1"
    reads_json_lines: ClassVar[bool] = True
    overlapping: _Overlapping = "refuse"

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the documents of a file; its first line decides between JSON Lines and CoNLL columns."""
        report = report or ReadReport()
        first = next((line for line in read_lines(path) if line.strip()), "")
        columns: Iterator[_Read] = ((example, [], f"{path}: document {example.id}") for example in read_conll(path))
        for example, broken, where in _json_lines(path, split) if _OBJECT.match(first) else columns:
            report.count(example.id, where)
            if example.entities is None:
                report.unmapped.append((example.id, "entities is missing; [] says that there are none"))
                yield example
                continue
            if broken and self.overlapping == "refuse":
                raise DataError(
                    f"{where}: an entity {broken[0]}, but only one piece is possible; set task.options.overlapping to "
                    "outermost or innermost"
                )
            entities = _flat(example.entities, self.overlapping, where)
            ends = [(entity.start, entity.end) for entity in entities]
            report.inside_words += sum(expand_to_words(example.document.text, *pair) != pair for pair in ends)
            n_entities = len(set(example.entities)) + len(broken)
            report.entities += n_entities
            left_out = n_entities - len(entities)
            report.left_out += left_out
            extra = example.extra | ({_LEFT_OUT: left_out} if left_out else {})
            yield replace(example, entities=entities, extra=extra)

    def fractions(self, pairs: Iterable[tuple[Example, Prediction]]) -> Iterator[tuple[str, Fractions]]:
        """Yield precision, recall and F1 of all entities, and the mean F1 of documents; see ``Task.fractions``.

        ``tokens_read`` is the share of tokens that were read, ``entities_kept`` that of gold entities not left out.
        """
        for example, prediction in pairs:
            n_read = float(prediction.n_tokens - prediction.n_unread)
            fractions = {"tokens_read": (n_read, float(prediction.n_tokens))}
            for _, gold, predicted in gold_and_predicted([(example, prediction)], entities=True):
                score = Score.of_sets(predicted, gold)
                hits, n_predicted, n_gold = float(len(gold & predicted)), float(len(predicted)), float(len(gold))
                left_out, n_kept = example.extra.get(_LEFT_OUT), float(len(example.entities or ()))
                fractions |= {
                    "entity_precision": (hits, n_predicted),
                    "entity_recall": (hits, n_gold),
                    "entity_f1": (2 * hits, n_predicted + n_gold),
                    "document_f1": (max(score.f1, score.em), 1.0),
                    "entities_kept": (n_kept, n_kept + (left_out if isinstance(left_out, int) else 0)),
                }
            yield example.document.text, fractions

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        """Precision, recall and F1 of entities over all documents (micro, seqeval's), in percent.

        ``tokens_read`` and ``entities_kept`` are included only where they are below 100 %.
        """
        pairs = list(pairs)
        incomplete = {"tokens_read": any(prediction.n_unread for _, prediction in pairs)}
        incomplete["entities_kept"] = any(_LEFT_OUT in example.extra for example, _ in pairs)
        return {name: value for name, value in super().metrics(pairs).items() if incomplete.get(name, True)}


def _json_lines(path: Path, split: Split) -> Iterator[_Read]:
    is_foreign, scheme = False, None
    for where, values in read_json_lines(path):
        read: tuple[Example, list[str]] | None
        with errors_at(where):
            if "sentences" in values:
                scheme = scheme or litbank_scheme(path)
                read = (litbank_example(values, where, scheme), [])
            elif "split" in values or _has_pieces(values.get("entities")):
                read = _craft_example(values, split)
            elif is_foreign:
                raise DataError("this line has another format than the lines before")
            else:
                break
        is_foreign = True
        if read is not None:
            yield *read, where
    if not is_foreign:
        examples = JsonLines().read(path, split=split)
        yield from ((example, [], f"{path}: example {example.id!r}") for example in examples)


def _has_pieces(entities: object) -> bool:
    """Check whether the entities of a line are in CRAFT's form."""
    return isinstance(entities, list) and any("spans" in one for one in entities if isinstance(one, dict))


def _craft_example(values: Mapping[str, Any], split: Split) -> tuple[Example, list[str]] | None:
    """Convert a line of CRAFT; None if it belongs to another split."""
    line = _CraftLine.model_validate(values)
    if line.split is not None and line.split not in _SPLITS[split]:
        return None
    entities = tuple(Entity(*one.spans[0], one.type) for one in line.entities if len(one.spans) == 1)
    broken = [f"{one.type} of {len(one.spans)} pieces" for one in line.entities if len(one.spans) > 1]
    return Example(id=line.id, document=Document(line.text, line.id), entities=entities), broken


def _flat(entities: Sequence[Entity], overlapping: _Overlapping, where: str) -> tuple[Entity, ...]:
    """Distinct entities of which no two share a character, in document order; of equally long ones the first."""
    if overlapping == "refuse":
        distinct = sorted(set(entities))
        for one, other in itertools.pairwise(distinct):
            if other.start < one.end:
                raise DataError(
                    f"{where}: the entities {one.label} {one.start}:{one.end} and {other.label} "
                    f"{other.start}:{other.end} overlap; set task.options.overlapping to outermost or innermost"
                )
        return tuple(distinct)
    sign = 1 if overlapping == "innermost" else -1
    taken = np.zeros(max((entity.end for entity in entities), default=0), dtype=bool)
    kept = []
    for entity in sorted(entities, key=lambda entity: sign * (entity.end - entity.start)):
        if not taken[entity.start : entity.end].any():
            taken[entity.start : entity.end] = True
            kept.append(entity)
    return tuple(sorted(kept))
