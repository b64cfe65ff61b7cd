"""Two systems on the same examples: differences with intervals, a verdict, and the results question by question."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from cogltx._files import write_file
from cogltx._folders import model_folder
from cogltx._messages import counted, some
from cogltx._progress import logger
from cogltx.cli._options import KeyBlocks
from cogltx.cli._predictions import OTHER_INPUT, Pair, Predictor, digest, saved_predictions, task_of
from cogltx.config import ModelConfig, load_config
from cogltx.display._differences import differences
from cogltx.document import Example
from cogltx.errors import ConfigError, DataError
from cogltx.reasoners.base import ReasonerConfig
from cogltx.tasks import Task, make_task
from cogltx.tasks.metrics import Fraction, paired_bootstrap, sums_by_document

_MOST_LABELS = 5  # in a message
_FEWEST_QUESTIONS = 20  # for a verdict
_FEWEST_DOCUMENTS = 10  # for a bootstrap over documents
_FEWEST_CHANGED = 6  # in one direction are unlikely by chance: 2 / 2**6 < 0.05
_FILES = (".jsonl", ".parquet", ".json", ".gz")
_INTERVAL = {"difference": "mean_difference", "low": "low", "high": "high"}
_KINDS = {
    "question-answering": "answers questions",
    "text-classification": "labels texts",
    "token-classification": "finds entities",
}


@dataclass(frozen=True)
class System:
    """A name, and the predictions for all examples with the task that measures them."""

    name: str
    task: Task
    pairs: Sequence[Pair]

    def sums(self, *, by_document: bool = True) -> dict[str, dict[str, Fraction]]:
        """Numerator and denominator of each metric in every document, or in every example."""
        fractions = self.task.fractions(self.pairs)
        numbered = ((document if by_document else str(number), one) for number, (document, one) in enumerate(fractions))
        return sums_by_document(numbered)

    def scores(self, metric: str) -> list[float | None]:
        """The metric of each example in [0, 1]; None without a gold answer."""
        return [self._score(metric, pair) for pair in self.pairs]

    def _score(self, metric: str, pair: Pair) -> float | None:
        found = [one[metric] for _, one in self.task.fractions([pair]) if metric in one]
        numerator, denominator = (sum(column) for column in zip(*found, strict=True)) if found else (0.0, 0.0)
        return (numerator / denominator if denominator else 1.0) if found else None


class Against:
    """The other system of a comparison: a model, or a file of predictions.

    Raises:
        ModelError: there is no such model.
        DataError: the file is missing, or does not hold predictions.
    """

    def __init__(self, name: str) -> None:
        path, self.name = Path(name), name
        is_file = path.is_file() or (path.suffix in _FILES and not path.is_dir())
        self._file = path if is_file else None
        self._saved = {one.id: (one, made_from) for one, made_from in saved_predictions(path)} if is_file else {}
        self._config = None if is_file else load_config(model_folder(name))

    def check(self, run: str, config: ModelConfig, examples: Sequence[Example]) -> None:
        """Check that the system can answer the examples of a run; raises ConfigError or DataError."""
        if self._file is not None:
            for example in examples:
                if example.id not in self._saved:
                    raise DataError(f"{self.name}: no prediction for example {example.id!r}")
                if self._saved[example.id][1] not in (None, digest(example)):
                    raise DataError(f"{self.name}: {OTHER_INPUT.format(example.id)}")
            return
        assert self._config is not None
        kinds = [_kind(one) for one in (config, self._config)]
        if kinds[0] != kinds[1]:
            raise ConfigError(f"--against: {run} {kinds[0]}, but {self.name} {kinds[1]}; compare models of one kind")
        check_labels(self.name, self._config.reasoner, examples)

    def answer(self, task: Task, examples: Sequence[Example], device: str | None, blocks: KeyBlocks) -> System:
        """Answer the examples, which ``task`` has read."""
        if self._file is not None:
            pairs = [(example, self._saved[example.id][0]) for example in examples]
            return System(self.name, task_of(self._file, task), pairs)
        predictor = Predictor(self.name, device=device, key_blocks=blocks)
        own = predictor.reader.config.task
        task = make_task(own.name, own.options) if own.name == task.name else task
        return System(self.name, task, predictor.answer(task, examples, title=self.name))


def _kind(config: ModelConfig) -> str:
    """Describe in words what a model does."""
    asks = " one label at a time" * bool(config.task.options.get("label_queries"))
    return _KINDS.get(config.reasoner.pipeline_tag, config.reasoner.pipeline_tag) + asks


def check_labels(name: str, reasoner: ReasonerConfig, examples: Sequence[Example]) -> None:
    """Warn of gold labels that a model was not trained on, which it misses.

    Raises:
        DataError: there are no others.
    """
    unknown = [reasoner.unknown_labels(example) for example in examples]
    labels = sorted(set(chain.from_iterable(unknown)))
    listed = some(labels, _MOST_LABELS)
    if labels and sum(map(len, unknown)) == sum(len(example.labels or example.entities or ()) for example in examples):
        raise DataError(f"{name} was not trained on the labels of the data: {listed}")
    if labels:
        of_all = f"{sum(map(bool, unknown)):,} of {len(examples):,} examples"
        logger.warning(f"warning: {name} was not trained on labels of {of_all}, which it misses: {listed}")


def compare(ours: System, theirs: System) -> dict[str, Any]:
    """Compare two systems in each metric that both have, in points, with 95 % intervals, and give a verdict.

    Documents are resampled, because the questions about one are not independent; questions if there are few documents.
    """
    both, metric = (ours, theirs), _main_metric((ours, theirs))
    n_documents = len(ours.sums().get(metric, {}))
    by_document = n_documents >= _FEWEST_DOCUMENTS
    sums = [system.sums(by_document=by_document) for system in both]
    values = [system.task.metrics(system.pairs) for system in both]
    rows: list[dict[str, Any]] = []
    for name in (name for name in values[0] if name in values[1]):
        value, other = values[0][name], values[1][name]
        row: dict[str, Any] = {"metric": name, "value": value, "other": other, "difference": value - other}
        row |= {"low": None, "high": None}
        if name in sums[0] and sums[0][name].keys() == sums[1].get(name, {}).keys():
            interval = paired_bootstrap([sums[0][name]], [sums[1][name]])
            row |= {key: 100 * interval[of] for key, of in _INTERVAL.items()}
        rows.append(row)
    main = next((row for row in rows if row["metric"] == metric and row["low"] is not None), None)
    if main is None:
        return {"against": rows, "verdict": None}
    noun = "questions" if any(example.answers is not None for example, _ in ours.pairs) else "texts"
    unit = "documents" if by_document else noun
    n_questions = len(ours.sums(by_document=False)[metric])
    changed = sum(sums[0][metric][key] != sums[1][metric][key] for key in sums[0][metric])
    scope = f" on {_these(n_documents)}" if unit == "questions" else ""
    result, text = _verdict(both, main, scope, _count(n_questions, noun), n_questions, changed, unit)
    verdict: dict[str, Any] = {"result": result, "text": text, "note": _note(n_documents, unit), "metric": metric}
    verdict |= {"resampled": unit, "documents": n_documents, "questions": n_questions, "changed": changed}
    return {"against": rows, "verdict": verdict}


def _main_metric(systems: Sequence[System]) -> str:
    """The task's main metric; that of readers without evidence if a system has none."""
    task, sums = systems[0].task, [system.sums() for system in systems]
    has_evidence = all(any(prediction.evidence for _, prediction in system.pairs) for system in systems)
    metrics = [task.answer_metric or task.main_metric, task.main_metric]
    ordered = reversed(metrics) if has_evidence else metrics
    return next((metric for metric in ordered if all(metric in one for one in sums)), task.main_metric)


def _verdict(
    both: Sequence[System], row: Mapping[str, Any], scope: str, counted: str, n_questions: int, changed: int, unit: str
) -> tuple[str, str]:
    """The result in a word and in a sentence."""
    if not changed:
        return "same", f"No difference: {row['metric']} is the same, {counted}."
    interval = f"95 %: {row['low']:+.1f} to {row['high']:+.1f}"
    points = f"{row['metric']} {row['difference']:+.1f} points ({interval}), {counted}."
    if n_questions < _FEWEST_QUESTIONS:
        return "too few", f"Too few to tell, at least {_FEWEST_QUESTIONS} are needed: {points}"
    if changed < _FEWEST_CHANGED:
        return "same", f"No difference beyond chance{scope}: {points} Only {_count(changed, unit)} changed."
    if row["low"] <= 0 <= row["high"]:
        return "same", f"No difference beyond chance{scope}: {points}"
    result = "better" if row["low"] > 0 else "worse"
    return result, f"{both[0].name} is {result} than {both[1].name}{scope}: {points}"


def _note(n_documents: int, unit: str) -> str:
    """Describe what was resampled for the intervals."""
    if unit != "questions":
        return f"Paired bootstrap over {_count(n_documents, unit)}."
    few = "one document" if n_documents == 1 else f"{n_documents} documents"
    further = f"further questions on {_these(n_documents)}, not other documents"
    return f"With only {few}, the bootstrap is over questions: the interval covers {further}."


def _these(n_documents: int) -> str:
    return "this document" if n_documents == 1 else f"these {n_documents} documents"


def _count(number: int, noun: str) -> str:
    return counted(number, noun.removesuffix("s"))


def write_page(html: Path, systems: Sequence[System], result: Mapping[str, Any], data: str) -> None:
    """Write the page of the answers of one system, or of the differences between two, question by question."""
    metric = systems[0].task.answer_metric or _main_metric(systems)
    scores = [system.scores(metric) for system in systems]
    cases = [
        {
            "question": example.query.text if example.query is not None else "", "document": example.document,
            "answers": example.answers, "labels": example.labels,
            "spans": list(map(astuple, example.answer_spans)),
            "entities": None if example.entities is None else [astuple(one) for one in example.entities],
            "predictions": [system.pairs[number][1].to_dict() for system in systems],
            "scores": [of_system[number] for of_system in scores],
        }
        for number, (example, _) in enumerate(systems[0].pairs)
    ]  # fmt: skip
    verdict = result["verdict"]
    metrics = result["against"] or [{"metric": name, "value": value} for name, value in result["metrics"].items()]
    page = differences(
        [system.name for system in systems], cases, data=data, metrics=metrics,
        verdict=[verdict["text"], verdict["note"]] if verdict else [], result=verdict["result"] if verdict else "",
    )  # fmt: skip
    write_file(html, page)
