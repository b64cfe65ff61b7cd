"""Training learns, survives whatever stops it, and gives the same weights however it got there."""

import errno
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import corpus
import fakes
import pytest
import torch
from torch import Tensor, nn

from cogltx.baselines import SlidingWindow, Truncation, WindowReader, load_reader
from cogltx.config import ModelConfig
from cogltx.document import Document, Example, Query
from cogltx.encoding._weights import load_tensors
from cogltx.errors import ConfigError, DataError, TrainingError
from cogltx.judges import Memory
from cogltx.judges.bm25 import BM25Judge
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction
from cogltx.reasoners._confidence import Calibration
from cogltx.tasks import Task, make_task
from cogltx.tasks.jsonl import JsonLines
from cogltx.training._relevance import RelevanceConfig
from cogltx.training._thresholds import main_metric, tuned
from cogltx.training.config import TrainingConfig
from cogltx.training.optimizer import OptimizerConfig
from cogltx.training.trainer import Progress, Trainer

JSONL = make_task("jsonl", {})
FAST = OptimizerConfig(learning_rate=1e-3)


def quiet(line: str) -> None:
    pass


def reader(
    encoder: Path, *, init_from: str | None = None, kind: type[WindowReader] = CogLTX, **options: Any
) -> WindowReader:  # fmt: skip
    torch.manual_seed(0)
    values = fakes.config(encoder, **options).model_dump(mode="json")
    values["reasoner"] |= {"init_from": init_from}
    parts = Model.create(ModelConfig.model_validate(values), with_judge=kind.uses_judge, device="cpu")
    return kind(parts)


def train(
    made: WindowReader, output: Path, *, examples: list[Example] | None = None, validation: list[Example] | None = None,
    task: Task = JSONL, resume: bool = False, **options: Any,
) -> Progress:  # fmt: skip
    examples = examples or corpus.make(8)
    validation = validation or examples[:4]
    defaults = {
        "epochs": 1,
        "batch_size": 2,
        "judge": FAST,
        "reasoner": FAST,
        "judge_epochs": None,
        "ranking_weight": 0,
    }
    settings = TrainingConfig.model_validate(defaults | {"judge_windows": "both"} | options)
    trainer = Trainer(made, settings, train=examples, validation=validation, output=output, task=task, report=quiet)
    return trainer.run(resume=resume)


def weights(model: nn.Module | object) -> dict[str, Tensor]:
    assert isinstance(model, nn.Module)
    return {name: value.clone() for name, value in model.state_dict().items()}


def equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Whether all numbers are the same, bit by bit; scores that are not a number too."""
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype and first[name].numpy().tobytes() == second[name].numpy().tobytes()
        for name in first
    )


def test_twenty_examples_are_learned_by_heart(wide_encoder: Path, tmp_path: Path) -> None:
    torch.manual_seed(2)
    examples = corpus.make(20, others=1)
    learner = OptimizerConfig(learning_rate=2e-3)
    made = reader(wide_encoder, batch_tokens=1024)
    assert all(len(made.model.split(example.document)) >= 8 for example in examples), "a document that is read whole"
    recipe = {"ranking_weight": 1, "judge_windows": "rehearsal", "kept_epoch": "last"}
    summary = train(made, tmp_path, examples=examples, epochs=16, judge=learner, reasoner=learner, **recipe)
    best = load_reader(tmp_path, device="cpu")
    pairs = list(zip(examples, best.predict_many(examples), strict=True))
    assert [example.id for example, found in pairs if (found.answer,) != example.answers] == []
    for example, found in pairs:
        (span,) = example.answer_spans
        assert (found.start, found.end) == (span.start, span.end)
        assert found.evidence[0].step > 0
    assert len(summary.history) == 16
    assert JSONL.metrics(pairs)["exact_match"] == 100


def test_the_judges_loss_is_a_mean_per_token(corpus_encoder: Path, tmp_path: Path) -> None:
    train(reader(corpus_encoder), tmp_path)
    first, *_ = fakes.logged(tmp_path, "judge/loss")
    assert first == pytest.approx(math.log(2), rel=0.5), "the cross-entropy of an untrained judge"


def final(run: Path) -> dict[str, dict[str, Tensor]]:
    (checkpoint,) = [path for path in (run / "checkpoints").iterdir() if path.name.isdigit()]
    return {path.name: load_tensors(path) for path in checkpoint.glob("*.safetensors")}


def test_killed_and_resumed_equals_undisturbed(corpus_encoder: Path, tmp_path: Path) -> None:
    """Three epochs of 4 judge steps, 4 reasoner steps and a validation, killed in the middle of most of them."""

    def run(name: str, *steps: int) -> list[str]:
        command = [
            sys.executable,
            str(Path(__file__).with_name("killed.py")),
            "joint",
            str(corpus_encoder),
            str(tmp_path / name),
        ]
        result = subprocess.run(
            [*command, *map(str, steps)],
            env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        return result.stdout.split("\n")[:-1]

    assert run("undisturbed", 0) == ["ended 0"]
    assert run("killed", 3, 4, 9, 6, 0) == ["killed"] * 4 + ["ended 0"]
    expected, found = final(tmp_path / "undisturbed"), final(tmp_path / "killed")
    assert {
        "judge.safetensors",
        "reasoner.safetensors",
        "judge.optimizer.safetensors",
        "scores.arrays.safetensors",
    } <= set(expected)
    for name in expected:
        assert equal(expected[name], found[name]), name
    runs = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("undisturbed", "killed")]
    assert runs[0] == runs[1]
    assert len(runs[0]["history"]) == 3
    logs = [(tmp_path / name / "log.jsonl").read_text() for name in ("undisturbed", "killed")]
    assert logs[0] == logs[1]
    for name in ("judge.safetensors", "reasoner.safetensors", "config.json"):
        best = [(tmp_path / run / runs[0]["best"] / name).read_bytes() for run in ("undisturbed", "killed")]
        assert best[0] == best[1], name
    left = {path.name for path in (tmp_path / "killed").iterdir() if not path.name.startswith(".")}
    assert left - {"tensorboard"} == {"checkpoints", "log.jsonl", "run.json", runs[0]["best"]}


def test_a_finished_run_that_is_resumed_stays_as_it_is(corpus_encoder: Path, tmp_path: Path) -> None:
    first = train(reader(corpus_encoder), tmp_path)
    before = final(tmp_path)
    again = train(reader(corpus_encoder), tmp_path, resume=True)
    assert again.history == first.history
    assert all(equal(before[name], found) for name, found in final(tmp_path).items())


def test_a_run_killed_before_its_last_checkpoint_has_a_model(corpus_encoder: Path, tmp_path: Path) -> None:
    """What a run leaves is in order at every moment: the best epoch's model is there before the checkpoint says so."""
    made = reader(corpus_encoder)
    trainer = Trainer(
        made,
        TrainingConfig(epochs=1, batch_size=2),
        train=corpus.make(8),
        validation=corpus.make(4),
        output=tmp_path,
        report=quiet,
    )
    real = trainer.loop.save

    def die() -> None:
        if trainer.loop.progress.epoch == 1:
            raise KeyboardInterrupt
        real()

    trainer.loop.save = die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert load_reader(tmp_path).predict("Anna has the pen.", "what does anna have?").n_blocks == 1


def test_a_loss_that_is_not_a_number_stops_the_run(corpus_encoder: Path, tmp_path: Path) -> None:
    made = reader(corpus_encoder, judge="fakes:Exploding")
    model = made.model.judge
    assert isinstance(model, fakes.Exploding)
    wording = "^judge: the loss is nan at step 6; the last checkpoint is kept$"
    with pytest.raises(TrainingError, match=wording):
        train(made, tmp_path, epochs=3)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert all(tensor.isfinite().all() for tensor in final(tmp_path)["judge.safetensors"].values())
    assert load_reader(tmp_path, judge="fakes:Exploding").predict("Anna has the pen.").n_blocks == 1, (
        "the best epoch so far is kept"
    )
    again = reader(corpus_encoder, judge="fakes:Exploding")
    with pytest.raises(TrainingError, match="is nan at step 10"):
        train(again, tmp_path, epochs=3, resume=True)
    assert not equal(weights(again.model.judge), weights(reader(corpus_encoder, judge="fakes:Exploding").model.judge))


def test_a_full_disk_keeps_the_last_checkpoint(
    corpus_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cogltx.training._loop.CHECKPOINT_SECONDS", 0)
    undisturbed = reader(corpus_encoder)
    train(undisturbed, tmp_path / "undisturbed")
    real, files = Path.write_bytes, []

    def write_bytes(path: Path, content: bytes) -> int:
        files.extend([path] * (path.suffix == ".safetensors"))
        if len(files) > 9:
            real(path, b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, content)

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write_bytes)
        with pytest.raises(TrainingError, match=r"checkpoints/000001: cannot be saved: .*No space left on device"):
            train(reader(corpus_encoder), run)
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["000000"]
    resumed = reader(corpus_encoder)
    train(resumed, run, resume=True)
    assert equal(weights(resumed.model.reasoner), weights(undisturbed.model.reasoner))
    assert equal(weights(resumed.model.judge), weights(undisturbed.model.judge))


def test_a_log_that_cannot_be_written(corpus_encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(TrainingError, match=r"log\.jsonl: cannot be written: Is a directory; the last checkpoint is"):
        train(reader(corpus_encoder), tmp_path)


def test_what_a_run_leaves(corpus_encoder: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    examples = corpus.make(6)
    settings = TrainingConfig(epochs=2, batch_size=3, judge=FAST, reasoner=FAST, judge_epochs=None)
    summary = Trainer(
        reader(corpus_encoder), settings, train=examples, validation=examples, output=tmp_path, report=lines.append
    ).run()
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["history"] == list(summary.history)
    assert run["best"] == f"epoch-{summary.best_epoch}"
    assert [path.name for path in tmp_path.glob("epoch-*")] == [run["best"]]
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if "judge/loss" in line] == [1, 2, 3, 4]
    assert [line["step"] for line in log if "reasoner/loss" in line] == [1, 2, 3, 4]
    assert [line["validation/f1"] for line in log if "validation/f1" in line] == [
        epoch["f1"] for epoch in summary.history
    ]
    assert [line.split(":")[0] for line in lines[:2]] == ["epoch 1/2", "epoch 2/2"]
    heading, names, first, second = lines[2].split("\n")
    assert heading == "6 validation examples; metrics in percent, losses of the training:"
    assert names.split()[:2] == ["f1", "exact"]
    kept = summary.best_epoch
    assert [row.split("  ")[0].strip() for row in (first, second)] == [
        f"epoch {number}{' *' * (number == kept)}" for number in (1, 2)
    ]
    tie = summary.history[0]["f1"] == summary.history[1]["f1"]
    assert lines[3] == f"* epoch {kept} is kept: {'no other f1 is higher' if tie else 'its f1 is the highest'}"


def test_tensorboard_has_all_numbers(corpus_encoder: Path, tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train(reader(corpus_encoder), tmp_path)
    found = events.EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert {"judge/loss", "reasoner/loss", "validation/f1"} <= set(found.Tags()["scalars"])
    assert [event.step for event in found.Scalars("judge/loss")] == [1, 2, 3, 4]


class Scripted(JsonLines):
    """Gives the metrics of a script, whatever the predictions are."""

    script: ClassVar[list[float]] = []

    def metrics(self, pairs: Iterable[tuple[Example, Prediction]]) -> dict[str, float]:
        list(pairs)
        return {"f1": self.script.pop(0)}


@pytest.mark.parametrize(("script", "best"), [([1, 2, 3, 4], 4), ([4, 3, 2, 1], 1), ([3, 2, 4, 1], 3), ([3, 3, 3], 1)])
def test_the_best_epoch_is_kept(corpus_encoder: Path, tmp_path: Path, script: list[float], best: int) -> None:
    Scripted.script = [0.0, *script]
    made = reader(corpus_encoder, judge="fakes:Checksums")
    summary = train(made, tmp_path, examples=corpus.make(2), task=Scripted(), epochs=len(script))
    assert [epoch["f1"] for epoch in summary.history] == script
    assert summary.before == {}, "a new model is not measured before it has learned"
    assert summary.best_epoch == best
    assert [path.name for path in tmp_path.glob("epoch-*")] == [f"epoch-{best}"]


def test_the_last_epoch_is_kept(corpus_encoder: Path, tmp_path: Path) -> None:
    Scripted.script = [0.0, 3, 2, 1]
    made = reader(corpus_encoder, judge="fakes:Checksums")
    summary = train(made, tmp_path, examples=corpus.make(2), task=Scripted(), epochs=3, kept_epoch="last")
    assert summary.best_epoch == 3
    assert [path.name for path in tmp_path.glob("epoch-*")] == ["epoch-3"]


def calibrated(
    corpus_encoder: Path, read: Sequence[tuple[tuple[str, ...] | None, float]]
) -> tuple[Calibration | None, list[Prediction]]:
    """The calibration for examples that were all read as "cup", with the given relevance, and what is shown by it."""
    config, document = reader(corpus_encoder).config.reasoner, Document("cup")
    examples = [
        Example(id=str(number), document=document, query=Query("?"), answers=answers)
        for number, (answers, _) in enumerate(read)
    ]
    predictions = [
        Prediction(
            id="", answer="cup", start=0, end=3, confidence=0.5, no_answer_confidence=0.4, relevance=relevance
        )
        for _, relevance in read
    ]  # fmt: skip
    config, _ = tuned(config, JSONL, examples, predictions, "f1")
    return config.calibration, [config.apply_thresholds(prediction) for prediction in predictions]


def test_answers_and_no_answer_are_calibrated(corpus_encoder: Path) -> None:
    """Of four questions with a relevant block, three have the answer; without such a block, there is none."""
    calibration, shown = calibrated(corpus_encoder, [*[(("cup",), 0.9)] * 3, ((), 0.9), ((), 0.1)] * 20)
    assert calibration is not None
    assert [one.answer for one in shown] == ["cup", "cup", "cup", "cup", ""] * 20
    assert shown[0].confidence == pytest.approx(0.75, abs=0.1)
    assert shown[4].confidence > 0.8


def test_no_calibration_without_twenty_known_answers(corpus_encoder: Path) -> None:
    calibration, shown = calibrated(corpus_encoder, [*[((), 0.5)] * 19, (None, 0.5)])
    assert calibration is None
    assert {(one.answer, one.confidence) for one in shown} == {("cup", 0.5)}, "as the reader says"


def test_never_an_answer_where_none_is_right(corpus_encoder: Path) -> None:
    _, shown = calibrated(corpus_encoder, [((), 0.9)] * 30)
    assert {one.answer for one in shown} == {""}


def test_training_calibrates_the_saved_model(corpus_encoder: Path, tmp_path: Path) -> None:
    examples = corpus.make(4, unanswered=True)
    train(reader(corpus_encoder), tmp_path, examples=examples, validation=corpus.make(20, seed=1, unanswered=True))
    saved = load_reader(tmp_path).config.reasoner
    assert saved.calibration is not None
    assert not saved.always_answers
    train(reader(corpus_encoder), tmp_path / "few", examples=examples)
    assert load_reader(tmp_path / "few").config.reasoner.calibration is None


def test_training_tunes_the_task_of_the_saved_model(corpus_encoder: Path, tmp_path: Path) -> None:
    class Tunable(JsonLines):
        """Notes on how many predictions it was tuned."""

        tuned_on: int = 0

        def tuned(self, pairs: Sequence[tuple[Example, Prediction]]) -> Self:
            return self.model_copy(update={"tuned_on": len(pairs)})

    train(reader(corpus_encoder), tmp_path, task=Tunable())
    (saved,) = tmp_path.glob("epoch-1/config.json")
    assert json.loads(saved.read_text())["task"] == {"name": "jsonl", "options": {"tuned_on": 4}}


def test_windows_do_not_depend_on_the_batch(corpus_encoder: Path, tmp_path: Path) -> None:
    seen = []
    for batch_size in (1, 3, 8):
        made = reader(corpus_encoder, judge="fakes:Recording")
        train(made, tmp_path / str(batch_size), batch_size=batch_size)
        assert isinstance(made.model.judge, fakes.Recording)
        seen.append(sorted(made.model.judge.seen))
    assert len(seen[0]) == 16
    assert seen[0] == seen[1] == seen[2]


def test_every_epoch_has_windows_of_its_own(corpus_encoder: Path, tmp_path: Path) -> None:
    made = reader(corpus_encoder, judge="fakes:Recording")
    train(made, tmp_path, epochs=4)
    assert isinstance(made.model.judge, fakes.Recording)
    passes = [set(made.model.judge.seen[first : first + 16]) for first in range(0, 64, 16)]
    assert len(passes) == 4
    assert all(passes[0] != other for other in passes[1:])


def test_the_same_seed_gives_the_same_weights(corpus_encoder: Path, tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate((0, 0, 1)):
        made = reader(corpus_encoder, hidden_dropout=0.2)
        train(made, tmp_path / str(number), seed=seed)
        found.append((weights(made.model.reasoner), weights(made.model.judge)))
    assert all(equal(one, two) for one, two in zip(found[0], found[1], strict=True))
    assert not any(equal(one, two) for one, two in zip(found[0], found[2], strict=True))


@pytest.mark.parametrize("ranking_weight", [0, 1])
def test_gradients_of_several_passes_are_those_of_one(
    corpus_encoder: Path, tmp_path: Path, ranking_weight: float
) -> None:
    found = []
    for batch_tokens in (64, 100_000):
        made = reader(corpus_encoder, batch_tokens=batch_tokens)
        train(made, tmp_path / str(batch_tokens), batch_size=8, ranking_weight=ranking_weight)
        found.append((weights(made.model.reasoner), weights(made.model.judge)))
    for name in ("reasoner/loss", "judge/loss"):
        several, one = (fakes.logged(tmp_path / run, name) for run in ("64", "100000"))
        assert several == pytest.approx(one, rel=1e-4)
    for one, two in zip(*found, strict=True):
        for name in set(one) - {"start_end.bias"}:  # no place gains by it on another: its gradient is rounding alone
            torch.testing.assert_close(one[name], two[name], atol=1e-4, rtol=1e-3)


def test_a_judge_model_of_a_users_own_is_trained_saved_and_loaded(corpus_encoder: Path, tmp_path: Path) -> None:
    made = reader(corpus_encoder, judge="fakes:Counting")
    before = weights(made.model.judge)
    train(made, tmp_path)
    assert not equal(weights(made.model.judge), before)
    again = load_reader(tmp_path, judge="fakes:Counting")
    assert isinstance(again.model.judge, fakes.Counting)
    assert equal(weights(again.model.judge), weights(made.model.judge))
    example = corpus.make(1)[0]
    assert again.predict(example.document, example.query) == made.predict(example.document, example.query)


@pytest.mark.parametrize("judge", ["fakes:WordOverlap", "bm25"])
def test_a_judge_that_is_not_trained(corpus_encoder: Path, tmp_path: Path, judge: str) -> None:
    if judge == "bm25":
        pytest.importorskip("bm25s")
    made = reader(corpus_encoder, judge=judge)
    before = weights(made.model.reasoner)
    train(made, tmp_path)
    assert not equal(weights(made.model.reasoner), before)
    assert set(final(tmp_path)) == {"reasoner.safetensors", "reasoner.optimizer.safetensors", "scores.arrays.safetensors"}  # fmt: skip
    assert "judge/loss" not in (tmp_path / "log.jsonl").read_text()


def test_a_reader_without_evidence_is_chosen_by_its_answers(corpus_encoder: Path) -> None:
    hotpotqa = make_task("hotpotqa", {})
    examples, sliding = corpus.make(2), reader(corpus_encoder, kind=SlidingWindow)
    facts = [
        replace(example, extra={"supporting_facts": [["a", 0]], "sentences": [["a", 0, 0, 1]]}) for example in examples
    ]
    assert main_metric(hotpotqa, reader(corpus_encoder), facts, facts) == "joint_f1"
    assert main_metric(hotpotqa, sliding, facts, facts) == "answer_f1"
    assert main_metric(JSONL, sliding, examples, examples) == "f1"


@pytest.mark.parametrize("kind", [SlidingWindow, Truncation])
def test_baselines_train_with_the_same_trainer(corpus_encoder: Path, tmp_path: Path, kind: type[WindowReader]) -> None:
    made = reader(corpus_encoder, kind=kind)
    before = weights(made.model.reasoner)
    summary = train(made, tmp_path, examples=corpus.make(8, unanswered=True))
    assert not equal(weights(made.model.reasoner), before)
    assert summary.skipped == 0


def test_the_reasoner_can_start_from_the_judge(corpus_encoder: Path, tmp_path: Path) -> None:
    made = reader(corpus_encoder, init_from="judge")
    still = OptimizerConfig(learning_rate=1e-12)
    train(made, tmp_path, reasoner=still)
    assert isinstance(made.model.judge, nn.Module)
    judge = made.model.judge.get_submodule("encoder").state_dict()
    for name, value in made.model.reasoner.encoder.state_dict().items():
        torch.testing.assert_close(value, judge[name], atol=1e-6, rtol=0)
    with pytest.raises(ConfigError, match=r'reasoner\.init_from is "judge", which needs judge\.name "encoder"'):
        train(reader(corpus_encoder, init_from="judge", judge="fakes:Checksums"), tmp_path / "other")


def test_random_blocks_for_the_reasoner(corpus_encoder: Path, tmp_path: Path) -> None:
    made = reader(corpus_encoder)
    train(made, tmp_path, reasoner_blocks="random")
    assert final(tmp_path)["scores.arrays.safetensors"] == {}


def test_the_judges_scores_are_part_of_a_checkpoint(corpus_encoder: Path, tmp_path: Path) -> None:
    made = reader(corpus_encoder)
    examples = corpus.make(5)
    train(made, tmp_path, examples=examples)
    scores = final(tmp_path)["scores.arrays.safetensors"]
    assert {name: len(values) for name, values in scores.items()} == {
        str(index): len(made.model.split(example.document)) for index, example in enumerate(examples)
    }


def test_a_judge_that_has_learned_stays_as_it_is(corpus_encoder: Path, tmp_path: Path) -> None:
    found = []
    for epochs in (1, 3):
        made = reader(corpus_encoder)
        train(made, tmp_path / str(epochs), epochs=epochs, judge_epochs=1)
        found.append(final(tmp_path / str(epochs))["judge.safetensors"])
    once, thrice = found
    assert equal(once, thrice)


@pytest.mark.parametrize("source", ["data", "interventions"])
def test_a_judge_that_has_learned_scores_documents_once(
    corpus_encoder: Path, tmp_path: Path, source: Literal["data", "interventions"]
) -> None:
    """Unless interventions change which blocks of a training document are in z."""
    relevance, calls = RelevanceConfig(source=source, initial="bm25"), []
    for epochs in (1, 2):
        made = reader(corpus_encoder, judge="fakes:Asked")
        train(made, tmp_path / str(epochs), epochs=epochs, judge_epochs=1, relevance=relevance)
        assert isinstance(made.model.judge, fakes.Asked)
        calls.append(made.model.judge.n_asked)
    once, twice = calls
    assert (twice == once) == (source == "data")


def test_key_blocks_of_validation_that_are_kept_are_the_models(corpus_encoder: Path, tmp_path: Path) -> None:
    made, examples = reader(corpus_encoder), corpus.make(8)
    summary = train(made, tmp_path, examples=examples, epochs=3, judge_epochs=2)
    predictions = made.predict_many(examples[:4])
    assert JSONL.metrics(zip(examples[:4], predictions, strict=True)) == summary.history[-1]


def unlabelled(example: Example) -> Example:
    return Example(id=example.id, document=example.document, query=example.query, answers=example.answers)


def test_examples_that_cannot_be_trained_on(corpus_encoder: Path, tmp_path: Path) -> None:
    examples = corpus.make(4)
    made = reader(corpus_encoder)

    def trainer(train: list[Example], validation: list[Example]) -> Trainer:
        return Trainer(made, TrainingConfig(), train=train, validation=validation, output=tmp_path, report=quiet)

    with pytest.raises(DataError, match="training: there are 0 training and 4 validation examples"):
        trainer([], examples)
    with pytest.raises(DataError, match="training: there are 4 training and 0 validation examples"):
        trainer(examples, [])
    with pytest.raises(
        DataError, match=r"no example has relevance labels or an answer that occurs in its text, which the judge"
    ):
        trainer([unlabelled(example) for example in examples], examples)
    unknown = [Example(id=example.id, document=example.document, query=example.query) for example in examples]
    with pytest.raises(DataError, match="training: no validation example has a known answer, which f1 needs"):
        trainer(examples, unknown)
    with pytest.raises(DataError, match="f1 needs; no example has any$"):
        trainer(unknown, unknown)
    labelled = [replace(example, labels=("boat",)) for example in unknown]
    with pytest.raises(DataError, match=r"f1 needs; for this data set reasoner\.name: classification$"):
        trainer(examples, labelled)
    made = reader(corpus_encoder, judge="fakes:NoParameters")
    with pytest.raises(ConfigError, match="judge_epochs is 1.0, but the judge has no parameters to train"):
        trainer(examples, examples)


@pytest.mark.parametrize(("epochs", "judge_epochs", "says"), [(2, None, True), (4, 1, False), (4, None, False)])
def test_a_judge_that_waits_in_vain_is_named(
    corpus_encoder: Path, tmp_path: Path, epochs: int, judge_epochs: int | None, says: bool
) -> None:
    """Without initial labels the first interventions of epoch 2 teach the judge from epoch 3 on, in all epochs."""
    lines, examples = list[str](), corpus.make(6)
    relevance = {"source": "interventions"}
    config = TrainingConfig(epochs=epochs, judge_epochs=judge_epochs, relevance=relevance, batch_size=6)
    made = reader(corpus_encoder)
    trainer = Trainer(made, config, train=examples, validation=examples[:1], output=tmp_path, report=lines.append)
    trainer.run()
    assert any("the judge does not learn" in line for line in lines) == says
    assert ("judge/loss" in (tmp_path / "log.jsonl").read_text()) != says


@pytest.mark.parametrize("shortlist", [None, 4])
def test_a_trained_retriever_needs_a_shortlist(corpus_encoder: Path, tmp_path: Path, shortlist: int | None) -> None:
    values = fakes.config(corpus_encoder).model_dump(mode="json")
    values["memrecall"] |= {"retriever": "trained", "shortlist": shortlist}
    made = CogLTX(Model.create(ModelConfig.model_validate(values), with_judge=True, device="cpu"))
    with (
        nullcontext() if shortlist else pytest.raises(ConfigError, match=r"trained proposes a shortlist; set memrecall")
    ):
        train(made, tmp_path)


def test_examples_without_a_known_place_are_counted(corpus_encoder: Path, tmp_path: Path) -> None:
    examples = corpus.make(6)
    mixed = [*examples[:4], *map(unlabelled, examples[4:])]
    assert train(reader(corpus_encoder), tmp_path, examples=mixed).skipped == 2


def test_a_run_is_not_overwritten(corpus_encoder: Path, tmp_path: Path) -> None:
    train(reader(corpus_encoder), tmp_path)
    before = final(tmp_path)
    with pytest.raises(ConfigError, match="has a run; resume it, or choose another folder"):
        train(reader(corpus_encoder), tmp_path, examples=corpus.make(4))
    assert all(equal(before[name], found) for name, found in final(tmp_path).items())


def test_a_judge_that_does_not_learn_scores_documents_once(
    corpus_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[int]()
    real = BM25Judge.retrieve

    def retrieve(self: BM25Judge, memories: list[Memory]) -> list[Any]:
        calls[-1] += len(memories)
        return real(self, memories)

    monkeypatch.setattr(BM25Judge, "retrieve", retrieve)
    for epochs in (1, 3):
        calls.append(0)
        train(reader(corpus_encoder, judge="bm25"), tmp_path / str(epochs), epochs=epochs)
    assert calls[0] == calls[1] > 0


def test_the_retrievers_blocks_for_the_reasoner_cost_no_pass_of_the_judge(corpus_encoder: Path, tmp_path: Path) -> None:
    judges = []
    for blocks in ("recall", "retriever"):
        made = reader(corpus_encoder, judge="fakes:Asked")
        train(made, tmp_path / blocks, reasoner_blocks=blocks)
        assert isinstance(made.model.judge, fakes.Asked)
        judges.append(made.model.judge)
    by_recall, in_all = (judge.n_asked for judge in judges)
    list(made.predict_many(corpus.make(8)[:4]))
    assert by_recall > in_all == judges[-1].n_asked - in_all, "only validation asks the judge"
    assert final(tmp_path / "retriever")["scores.arrays.safetensors"] == {}


@pytest.mark.parametrize(
    ("judge_epochs", "n_steps"),
    [(0.375, [2, 0, 0]), (1, [4, 0, 0]), (1.5, [4, 2, 0]), (None, [4, 4, 4]), (9, [4, 4, 4])],
)
def test_how_long_the_judge_learns(
    corpus_encoder: Path, tmp_path: Path, judge_epochs: float | None, n_steps: list[int]
) -> None:
    """Of 8 examples with a batch size of 2; the learning rate falls to a tenth in exactly these steps."""
    made, examples = reader(corpus_encoder), corpus.make(8)
    settings = TrainingConfig(epochs=3, batch_size=2, judge=FAST, judge_epochs=judge_epochs)
    trainer = Trainer(made, settings, train=examples, validation=examples[:2], output=tmp_path, report=quiet)
    trainer.run()
    assert trainer.optimizers["judge"].steps == trainer.optimizers["judge"].step == sum(n_steps)
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    by_epoch = [sum("judge/loss" in line and line["epoch"] == epoch for line in log) for epoch in (1, 2, 3)]
    assert by_epoch == n_steps
    assert len(fakes.logged(tmp_path, "reasoner/loss")) == 12


def test_a_judge_that_is_frozen(corpus_encoder: Path, tmp_path: Path) -> None:
    made = reader(corpus_encoder)
    before = weights(made.model.judge)
    train(made, tmp_path, judge_epochs=0)
    assert equal(weights(made.model.judge), before)
    assert fakes.logged(tmp_path, "judge/loss") == []


def test_the_retrievers_blocks_need_questions(corpus_encoder: Path, tmp_path: Path) -> None:
    examples = [replace(example, query=None) for example in corpus.make(4)]
    with pytest.raises(ConfigError, match=r"^training\.reasoner_blocks: retriever needs a question in every example; "):
        train(reader(corpus_encoder), tmp_path, examples=examples, reasoner_blocks="retriever")
