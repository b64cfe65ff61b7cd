"""Judges by name: built-in judges and users' classes; every mistake is one line."""

import sys
from pathlib import Path

import pytest
import torch
from fakes import Counting, NoJudge, WordOverlap
from pydantic import ValidationError

from cogltx.encoding.encoder import BatchRunner, Precision, load_encoder
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError, ModelError
from cogltx.judges import EncoderJudge, JudgeConfig, make_judge, with_runner
from cogltx.judges import _ScoringJudgeAdapter as ScoringJudgeAdapter
from cogltx.judges.bm25 import BM25Judge
from cogltx.judges.encoder import WindowJudge

RUNNER = BatchRunner(Precision(torch.device("cpu"), bfloat16=False), 256, padding_id=0)


def made(name: str, **args: object) -> object:
    return make_judge(JudgeConfig(name=name, args=args))


def test_built_in_judges(tiny_encoder: Path) -> None:
    assert isinstance(made("bm25"), BM25Judge)
    judge = make_judge(JudgeConfig(), encoder=lambda: load_encoder(EncoderConfig(name=str(tiny_encoder))))
    assert isinstance(judge, EncoderJudge)


def test_users_classes() -> None:
    scoring = made("fakes:WordOverlap")
    assert isinstance(scoring, ScoringJudgeAdapter)
    assert isinstance(scoring.scorer, WordOverlap)
    model = made("fakes:Counting", width=16)
    assert isinstance(model, Counting)
    assert model.embed.embedding_dim == 16
    assert isinstance(made("fakes:Fussy", weight=2.0), ScoringJudgeAdapter)


def test_a_class_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_judge.py").write_text("class Mine:\n    def score(self, query, kept, candidates): return []\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert isinstance(made("my_own_judge:Mine"), ScoringJudgeAdapter)


@pytest.mark.parametrize(
    ("name", "args", "error", "wording"),
    [
        ("encoder", {}, ConfigError, r'judge "encoder" needs a trained run; use "bm25", "embedding" or package\.module:Class'),
        ("nowhere:Judge", {}, ModelError, "judge nowhere:Judge: cannot be imported: ModuleNotFound"),
        ("fakes:Missing", {}, ModelError, "judge fakes:Missing: cannot be imported: AttributeError"),
        (":Judge", {}, ModelError, "judge :Judge: cannot be imported: ValueError"),
        ("fakes:words", {}, ModelError, "judge fakes:words: is not a class but a function"),
        ("fakes:NoJudge", {}, ModelError, r"judge: NoJudge is not a judge; pass an nn\.Module or an object with score\("),
        ("fakes:NotCallable", {}, ModelError, r"judge: NotCallable is not a judge; pass an nn\.Module"),
        ("fakes:Fussy", {}, ModelError, r"judge fakes:Fussy: cannot be created with {}: TypeError: .*weight"),
        ("fakes:Counting", {"size": 3}, ModelError, r"cannot be created with {'size': 3}: TypeError: .*size"),
        ("fakes:OtherArguments", {}, ModelError, r"judge fakes:OtherArguments: forward must accept input_ids, attention_ma"),
        ("fakes:NoForward", {}, ModelError, r"judge fakes:NoForward: forward must accept input_ids, attention_mask and token_"),
    ],
)  # fmt: skip
def test_mistakes(name: str, args: dict[str, object], error: type[Exception], wording: str) -> None:
    with pytest.raises(error, match=wording) as caught:
        made(name, **args)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("module", "code", "got"),
    [("broken_judge", "1 / 0", "ZeroDivisionError: division by zero"), ("ending_judge", "exit(0)", "SystemExit: 0")],
)
def test_a_module_that_fails_to_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, code: str, got: str
) -> None:
    (tmp_path / f"{module}.py").write_text(f"{code}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelError, match=f"^judge {module}:A: cannot be imported: {got}$"):
        made(f"{module}:A")


def test_a_judge_passed_as_an_object() -> None:
    judge = BM25Judge()
    assert with_runner(make_judge(judge), RUNNER) is judge
    own = WordOverlap()
    wrapped = with_runner(make_judge(own), RUNNER)
    assert isinstance(wrapped, ScoringJudgeAdapter)
    assert wrapped.scorer is own
    wording = r"judge: NoJudge is not a judge; pass an nn\.Module or an object with score\(query, kept, candidates\)"
    with pytest.raises(ModelError, match=wording):
        with_runner(make_judge(NoJudge()), RUNNER)
    with pytest.raises(ModelError, match="the class WordOverlap is not a judge"):
        with_runner(make_judge(WordOverlap), RUNNER)


def test_a_judge_model_reads_windows() -> None:
    assert isinstance(with_runner(make_judge(Counting()), RUNNER), WindowJudge)


def test_an_unknown_name() -> None:
    with pytest.raises(ValidationError, match="'bm26' is not a judge; use encoder, bm25, embedding, linear, a model"):
        JudgeConfig(name="bm26")
