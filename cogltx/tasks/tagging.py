"""Tagging: documents with labelled spans, from CoNLL columns or JSON Lines, and the F1 of entities.

JSON Lines are the package's format (``entities``), LitBank's or CRAFT's. Entities are flat: an option decides which of
overlapping entities are kept; those left out are counted. Does not depend on tokens.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from cogltx.blocks.words import expand_to_words
from cogltx.document import Entity, Example
from cogltx.errors import DataError
from cogltx.files import read_json_lines, read_lines
from cogltx.prediction import Prediction
from cogltx.tasks.base import ReadReport, Split, Task, errors_at
from cogltx.tasks.craft import craft_example
from cogltx.tasks.iob2 import litbank_example, read_conll
from cogltx.tasks.jsonl import JsonLines
from cogltx.tasks.metrics import Fractions, Score, gold_and_predicted

Overlapping: TypeAlias = Literal["refuse", "outermost", "innermost"]
LEFT_OUT = "entities_left_out"
_OBJECT = re.compile(r'\s*\{\s*["}]')


class Tagging(Task):
    """Documents whose tokens have labels.

    Attributes:
        overlapping: treatment of entities that share characters or have several pieces: ``refuse`` the file, or keep
            the longest (``outermost``) or the shortest (``innermost``), and count the others.
        spaces: join the words of CoNLL and LitBank files by spaces; None: unless most words of a document are of
            scripts written without spaces.
    """

    name: ClassVar[str] = "tagging"
    main_metric: ClassVar[str] = "entity_f1"
    overlapping: Overlapping = "refuse"
    spaces: bool | None = None

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Yield the documents of a file; its first line decides between JSON Lines and CoNLL columns.

        Raises:
            DataError: also if entities overlap and ``overlapping`` is ``refuse``.
        """
        report = report or ReadReport()
        first = next((line for line in read_lines(path) if line.strip()), "")
        examples: Iterable[tuple[Example, list[str], str]]
        if _OBJECT.match(first):
            examples = self._json_lines(path, split)
        else:
            examples = ((one, [], f"{path}: document {one.id}") for one in read_conll(path, spaces=self.spaces))
        for example, broken, where in examples:
            report.count(example.id, where)
            yield self._flat(example, broken, where, report)

    def _json_lines(self, path: Path, split: Split) -> Iterator[tuple[Example, list[str], str]]:
        is_foreign = False
        read: tuple[Example, list[str]] | None
        for where, values in read_json_lines(path):
            with errors_at(where):
                if "sentences" in values:
                    read = (litbank_example(values, where, spaces=self.spaces), [])
                elif "split" in values or _has_pieces(values.get("entities")):
                    read = craft_example(values, split)
                elif is_foreign:
                    raise DataError("this line has another format than the lines before")
                else:
                    break
            is_foreign = True
            if read is not None:
                yield *read, where
        if not is_foreign:
            for example in JsonLines().read(path, split=split):
                yield example, [], f"{path}: example {example.id!r}"

    def _flat(self, example: Example, broken: list[str], where: str, report: ReadReport) -> Example:
        if example.entities is None:
            report.unmapped.append((example.id, "entities is missing; [] says that there are none"))
            return example
        if broken and self.overlapping == "refuse":
            raise DataError(
                f"{where}: an entity {broken[0]}, but only one piece is possible; set task.options.overlapping to "
                "outermost or innermost"
            )
        entities = _flat(example.entities, self.overlapping, where)
        total = len(dict.fromkeys(example.entities)) + len(broken)
        report.entities += total
        ends = [(entity.start, entity.end) for entity in entities]
        report.inside_words += sum(expand_to_words(example.document.text, *pair) != pair for pair in ends)
        if total == len(entities):
            return replace(example, entities=entities)
        report.left_out += total - len(entities)
        return replace(example, entities=entities, extra=example.extra | {LEFT_OUT: total - len(entities)})

    def fractions(self, pairs: Iterable[tuple[Example, Prediction]]) -> Iterator[tuple[str, Fractions]]:
        """See ``Task.fractions``: precision, recall and F1 of all entities together, and the mean F1 of documents.

        ``tokens_read`` counts the tokens that a reader read; ``entities_kept`` the gold entities that are not left out.
        """
        for example, prediction in pairs:
            n_read = float(prediction.n_tokens - prediction.n_unread)
            fractions = {"tokens_read": (n_read, float(prediction.n_tokens))}
            for _, gold, predicted in gold_and_predicted([(example, prediction)], entities=True):
                score = Score.of_sets(predicted, gold)
                hits, n_predicted, n_gold = float(len(gold & predicted)), float(len(predicted)), float(len(gold))
                left_out = example.extra.get(LEFT_OUT)
                n_all = len(example.entities or ()) + (left_out if isinstance(left_out, int) else 0)
                fractions |= {
                    "entity_precision": (hits, n_predicted),
                    "entity_recall": (hits, n_gold),
                    "entity_f1": (2 * hits, n_predicted + n_gold),
                    "document_f1": (max(score.f1, score.em), 1.0),
                    "entities_kept": (float(len(example.entities or ())), float(n_all)),
                }
            yield example.document.text, fractions

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        """Precision, recall and F1 of entities over all documents (micro, seqeval's), in percent.

        ``tokens_read`` is there if a reader did not read all of a document, ``entities_kept`` if gold entities were
        left out: the share of the gold entities that the scores are measured on.
        """
        every = list(pairs)
        incomplete = {"tokens_read": any(prediction.n_unread for _, prediction in every)}
        incomplete["entities_kept"] = any(LEFT_OUT in example.extra for example, _ in every)
        return {name: value for name, value in super().metrics(every).items() if incomplete.get(name, True)}


def _has_pieces(entities: object) -> bool:
    """Whether the entities of a line are in CRAFT's form."""
    return isinstance(entities, list) and any("spans" in one for one in entities if isinstance(one, dict))


def _flat(entities: Sequence[Entity], overlapping: Overlapping, where: str) -> tuple[Entity, ...]:
    """Distinct entities of which no two share a character, in document order; of equally long ones the first."""
    distinct = sorted(dict.fromkeys(entities))
    if overlapping == "refuse":
        for one, other in itertools.pairwise(distinct):
            if other.start < one.end:
                raise DataError(
                    f"{where}: the entities {one.label} {one.start}:{one.end} and {other.label} "
                    f"{other.start}:{other.end} overlap; set task.options.overlapping to outermost or innermost"
                )
        return tuple(distinct)
    sign = 1 if overlapping == "innermost" else -1
    taken = np.zeros(max((entity.end for entity in distinct), default=0), dtype=bool)
    kept = []
    for entity in sorted(dict.fromkeys(entities), key=lambda entity: sign * (entity.end - entity.start)):
        if not taken[entity.start : entity.end].any():
            taken[entity.start : entity.end] = True
            kept.append(entity)
    return tuple(sorted(kept))
