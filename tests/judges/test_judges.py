"""Judges by name: the built-in ones, classes of a user's own, and each mistake with its one line."""

import sys
from pathlib import Path

import pytest
import torch
from fakes import Counting, NoJudge, WordOverlap

from cogltx.encoding.encoder import Precision, load_encoder
from cogltx.encoding.layout import WindowFormat
from cogltx.encoding.pretrained import EncoderConfig, tokenizer_of
from cogltx.errors import ConfigError, ModelError
from cogltx.judges import (
    EncoderJudge,
    JudgeConfig,
    LexicalJudge,
    ScoredBlocks,
    WindowJudge,
    as_judge,
    import_class,
    judge_model,
    make_judge,
)


def made(name: str, **args: object) -> object:
    return judge_model(JudgeConfig(name=name, args=args), None)


def test_built_in_judges(tiny_encoder: Path) -> None:
    assert isinstance(made("bm25"), LexicalJudge)
    judge = judge_model(JudgeConfig(), load_encoder(EncoderConfig(name=str(tiny_encoder))))
    assert isinstance(judge, EncoderJudge)


def test_classes_of_a_users_own() -> None:
    scoring = made("fakes:WordOverlap")
    assert isinstance(scoring, ScoredBlocks)
    assert isinstance(scoring.scorer, WordOverlap)
    model = made("fakes:Counting", width=16)
    assert isinstance(model, Counting)
    assert model.embed.embedding_dim == 16
    assert isinstance(made("fakes:Fussy", weight=2.0), ScoredBlocks)


def test_a_class_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_judge.py").write_text("class Mine:\n    def score(self, query, kept, candidates): return []\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert isinstance(made("my_own_judge:Mine"), ScoredBlocks)
    assert import_class("my_own_judge:Mine").__name__ == "Mine"


@pytest.mark.parametrize(
    ("name", "args", "error", "wording"),
    [
        ("encoder", {}, ConfigError, r'judge\.name: expected "bm25", "embedding" or package\.module:Class, got "encoder", which needs'),
        ("bm26", {}, ConfigError, r"judge\.name: expected \"encoder\", \"bm25\", \"embedding\" or package\.module:Class, got 'bm26'"),
        ("nowhere:Judge", {}, ModelError, "judge nowhere:Judge: expected a class that can be imported, got ModuleNotFound"),
        ("fakes:Missing", {}, ModelError, "judge fakes:Missing: expected a class that can be imported, got AttributeError"),
        (":Judge", {}, ModelError, "judge :Judge: expected a class that can be imported, got ValueError"),
        ("fakes:words", {}, ModelError, "judge fakes:words: expected a class, got function"),
        ("fakes:NoJudge", {}, ModelError, r"expected an nn\.Module or a method score\(query, kept, candidates\), got nei"),
        ("fakes:NotCallable", {}, ModelError, r"an nn\.Module or a method score\(query, kept, candidates\), got neither"),
        ("fakes:Fussy", {}, ModelError, r"judge fakes:Fussy: expected to be made with {}, got TypeError: .*weight"),
        ("fakes:Counting", {"size": 3}, ModelError, r"expected to be made with {'size': 3}, got TypeError: .*size"),
        ("fakes:OtherArguments", {}, ModelError, r"judge fakes:OtherArguments: expected forward\(input_ids, attention_ma"),
        ("fakes:NoForward", {}, ModelError, r"judge fakes:NoForward: expected forward\(input_ids, attention_mask, token_"),
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
    with pytest.raises(ModelError, match=f"^judge {module}:A: expected a class that can be imported, got {got}$"):
        made(f"{module}:A")


def test_a_judge_passed_as_an_object() -> None:
    judge = LexicalJudge()
    assert make_judge(judge) is judge
    own = WordOverlap()
    wrapped = make_judge(own)
    assert isinstance(wrapped, ScoredBlocks)
    assert wrapped.scorer is own
    wording = r"judge: expected an object with a method score\(query, kept, candidates\), got NoJudge"
    with pytest.raises(ModelError, match=wording):
        make_judge(NoJudge())
    with pytest.raises(ModelError, match="got the class WordOverlap"):
        make_judge(WordOverlap)


def test_models_and_judges_for_memrecall(tiny_encoder: Path) -> None:
    form = WindowFormat(tokenizer_of(tiny_encoder), 64)
    precision = Precision(torch.device("cpu"), bfloat16=False)
    assert isinstance(as_judge(Counting(), form, precision, 256), WindowJudge)
    judge = LexicalJudge()
    assert as_judge(judge, form, precision, 256) is judge
