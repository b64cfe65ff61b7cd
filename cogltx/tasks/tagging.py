"""Tagging: documents with labelled spans, from CoNLL's columns or JSON Lines, and the F1 of entities.

JSON Lines are the package's own (``entities``), LitBank's or CRAFT's. Entities are flat here: an option says what
becomes of those that overlap or stand in several pieces, and what is left out is counted. Knows nothing about tokens.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from cogltx.document import Example
from cogltx.errors import DataError
from cogltx.prediction import Prediction
from cogltx.tasks.base import ReadReport, Split, Task, Unmapped
from cogltx.tasks.conll import read_conll
from cogltx.tasks.craft import craft_example, is_craft, of_split
from cogltx.tasks.entities import Overlapping, flat
from cogltx.tasks.files import read_json_lines, read_lines
from cogltx.tasks.jsonl import JsonLines
from cogltx.tasks.litbank import litbank_example
from cogltx.tasks.metrics import EntityScores, entity_scores
from cogltx.tasks.records import note_id

LEFT_OUT = "entities_left_out"
_OBJECT = re.compile(r'\s*\{\s*["}]')


class Tagging(Task):
    """Documents whose tokens have labels.

    Attributes:
        overlapping: what becomes of entities that share characters, or stand in several pieces: ``refuse`` the file;
            or keep the longest (``outermost``) or the shortest (``innermost``) and leave the others out, counted.
        spaces: whether the words of CoNLL's and LitBank's files are parted by spaces in the text; None: unless most
            words of a document are of scripts written without.
    """

    name: ClassVar[str] = "tagging"
    main_metric: ClassVar[str] = "entity_f1"
    overlapping: Overlapping = "refuse"
    spaces: bool | None = None

    def read(self, path: Path, *, split: Split, report: ReadReport | None = None) -> Iterator[Example]:
        """Reads a file whose first line tells JSON Lines from CoNLL's columns.

        Raises:
            DataError: the file is missing or not in the format, tags are no IOB2 or of another number than words, an id
                comes twice, or entities overlap and ``overlapping`` refuses that; names the file and line.
        """
        report = report if report is not None else ReadReport()
        first = next((line for line in read_lines(path) if line.strip()), "")
        examples = self._json_lines(path, split) if _OBJECT.match(first) else self._columns(path)
        seen: dict[str, str] = {}
        for example, broken, where in examples:
            report.examples += 1
            note_id(example.id, where, seen)
            yield self._flat(example, broken, where, report)

    def _columns(self, path: Path) -> Iterator[tuple[Example, list[str], str]]:
        for example in read_conll(path, spaces=self.spaces):
            yield example, [], f"{path}: document {example.id}"

    def _json_lines(self, path: Path, split: Split) -> Iterator[tuple[Example, list[str], str]]:
        foreign = False
        for record in read_json_lines(path):
            if "sentences" in record.fields:
                yield litbank_example(record, spaces=self.spaces), [], record.where
            elif is_craft(record):
                if of_split(record, split):
                    yield *craft_example(record), record.where
            else:
                break
            foreign = True
        else:
            return
        if foreign:
            raise DataError(f"{record.where}: expected a line of the same format as those before, got another")
        for example in JsonLines().read(path, split=split):
            yield example, [], f"{path}: example {example.id!r}"

    def _flat(self, example: Example, broken: list[str], where: str, report: ReadReport) -> Example:
        if example.entities is None:
            report.unmapped.append(Unmapped(example.id, "the text has no entities, not even an empty list"))
            return example
        if broken and self.overlapping == "refuse":
            raise DataError(
                f"{where}: expected entities in one piece, got {broken[0]}; set task.options.overlapping to outermost "
                "or innermost"
            )
        entities = flat(example.entities, self.overlapping, where)
        total = len(dict.fromkeys(example.entities)) + len(broken)
        report.entities += total
        if total == len(entities):
            return replace(example, entities=entities)
        lost = total - len(entities)
        report.left_out += lost
        return replace(example, entities=entities, extra=example.extra | {LEFT_OUT: lost})

    def per_example(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """``document_f1``, the F1 of one document's entities; 1 where it has none and none is found.

        ``tokens_read``, where a reader did not read all.
        """
        read = {"tokens_read": 1 - prediction.n_unread / prediction.n_tokens} if prediction.n_unread else {}
        if example.entities is None:
            return read
        score = entity_scores([_spans(example)], [_found(prediction)]).micro
        return {"document_f1": max(score.f1, score.em)} | read

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        """Precision, recall and F1 of entities over all documents (micro, seqeval's), in percent.

        ``tokens_read`` appears where a reader did not read all of some document, ``entities_kept`` where gold
        entities had to be left out: the share of those that the others are measured on.
        """
        every = list(pairs)
        known = [(example, prediction) for example, prediction in every if example.entities is not None]
        unread = sum(prediction.n_unread for _, prediction in every)
        read = {"tokens_read": 100 * (1 - unread / sum(p.n_tokens for _, p in every))} if unread else {}
        if not known:
            return read
        micro = entity_results(known).micro
        found = {"entity_precision": micro.precision, "entity_recall": micro.recall, "entity_f1": micro.f1}
        scores = {key: 100 * value for key, value in found.items()}
        scores["document_f1"] = 100 * sum(self.per_example(*pair)["document_f1"] for pair in known) / len(known)
        kept = sum(len(example.entities or ()) for example, _ in known)
        lost = sum(left for example, _ in known if isinstance(left := example.extra.get(LEFT_OUT), int))
        return scores | read | ({"entities_kept": 100 * kept / (kept + lost)} if lost else {})


def entity_results(pairs: Iterable[tuple[Example, Prediction]]) -> EntityScores:
    """The scores of all entities of the examples whose gold is known, and of each type."""
    known = [(example, prediction) for example, prediction in pairs if example.entities is not None]
    return entity_scores([_spans(example) for example, _ in known], [_found(prediction) for _, prediction in known])


def _spans(example: Example) -> list[tuple[int, int, str]]:
    return [(entity.start, entity.end, entity.label) for entity in example.entities or ()]


def _found(prediction: Prediction) -> list[tuple[int, int, str]]:
    return [(entity.start, entity.end, entity.label) for entity in prediction.entities]
