"""The quickstart with a tiny encoder that learns nothing: files, table, story, the next command, the second call."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import tiny
from typer.testing import CliRunner

from cogltx.bench.cli import app
from cogltx.bench.quickstart.corpus import generate
from cogltx.bench.quickstart.run import Outcome, QuickstartConfig, run
from cogltx.errors import ConfigError
from cogltx.tasks import make_task

SIZES = {
    "train": 4, "train_long": 2, "validation": 2, "held_out": 3, "epochs": 1, "batch_size": 4,
    "chains": 2, "tokens": 800, "train_tokens": 300,
}  # fmt: skip


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> QuickstartConfig:
    texts = [example.document.text for split in ("train", "test") for example in generate(2, seed=0, split=split)]
    encoder = tiny.make_encoder(tmp_path_factory.mktemp("encoder"), texts=texts)
    return QuickstartConfig(encoder=str(encoder), **SIZES)


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return []


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("a folder") / "quick start"


@pytest.fixture(scope="module")
def outcome(output: Path, config: QuickstartConfig, lines: list[str]) -> Outcome:
    return run(output, seed=1, config=config, report=lines.append)


@pytest.mark.usefixtures("outcome")
def test_corpora_share_no_document_and_keep_their_gold(output: Path) -> None:
    texts = set()
    for split, count in (("train", 6), ("validation", 2), ("test", 3)):
        examples = list(make_task("jsonl", {}).read(output / f"{split}.jsonl", split="test"))
        assert len(examples) == count
        texts |= {example.document.text for example in examples}
        for example in examples:
            (span,) = example.answer_spans
            assert example.answers == (example.document.text[span.start : span.end],)
            assert len(example.relevant or ()) == 2
    assert len(texts) == 11


def test_the_table_is_printed_and_kept(outcome: Outcome, output: Path, lines: list[str]) -> None:
    assert [row.system for row in outcome.rows] == ["CogLTX", "sliding window", "truncation"]
    assert [row.complete is None for row in outcome.rows] == [False, True, True]
    printed = "\n".join(lines)
    for text in (printed, (output / "results.txt").read_text()):
        for row in outcome.rows:
            assert re.search(rf"{row.system} +{row.exact_match:.1f} %", text)
        assert outcome.story in text
        assert outcome.command in text


def test_the_story_tells_both_steps(outcome: Outcome) -> None:
    assert re.search(r"^question  \w.*\?$", outcome.story, re.MULTILINE)
    assert "Step 1: the judge reads all blocks, beside the question alone." in outcome.story
    assert re.search(r"^Step 2: .* beside the question and \d blocks kept so far\.$", outcome.story, re.MULTILINE)
    assert re.search(r"^    [01]\.\d{3}   \[\d+\] \S.*$", outcome.story, re.MULTILINE)
    assert re.search(r"^  gold answer: '\w+', so this is (right|wrong)$", outcome.story, re.MULTILINE)


def test_the_printed_command_gives_the_same_answer(outcome: Outcome) -> None:
    program, *arguments = shlex.split(outcome.command)
    assert program == "cogltx"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    told = re.search(r"^The reasoner reads these \d+ blocks: '(.*)' \(\d+%\)$", outcome.story, re.MULTILINE)
    assert told is not None
    assert result.output.startswith(f"{told[1]} ")


@pytest.mark.usefixtures("outcome")
def test_the_written_configurations_train(output: Path, tmp_path: Path) -> None:
    for name in ("cogltx", "sliding-window"):
        result = CliRunner().invoke(app, ["train", str(output / f"{name}.yaml"), "--output", str(tmp_path / name)])
        assert result.exit_code == 0, result.output
        assert (tmp_path / name / "run.json").is_file()


@pytest.mark.usefixtures("outcome")
def test_a_finished_quickstart_is_named(output: Path, config: QuickstartConfig) -> None:
    with pytest.raises(ConfigError, match=r"expected a new folder, got a finished quickstart \(see .*results\.txt\)"):
        run(output, seed=1, config=config)


@pytest.mark.parametrize(
    "missing", [["results.txt"], ["results.txt", "sliding-window", "truncation.predictions.jsonl"]]
)
def test_an_interrupted_one_goes_on(
    missing: list[str], outcome: Outcome, output: Path, config: QuickstartConfig, tmp_path: Path
) -> None:
    """As if it had been killed late, or between the two trainings: what was done is not done again."""
    moved = tmp_path / "moved"
    output.rename(moved)
    try:
        shutil.copytree(moved, output)
        for name in missing:
            path = output / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        trained = (output / "cogltx" / "log.jsonl").read_text()
        again = run(output, seed=1, config=config, report=lambda _: None)
        assert again.rows == outcome.rows
        assert again.story == outcome.story
        assert (output / "cogltx" / "log.jsonl").read_text() == trained
    finally:
        shutil.rmtree(output)
        moved.rename(output)


@pytest.mark.usefixtures("outcome")
def test_another_seed_or_other_files_are_refused(output: Path, config: QuickstartConfig, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    shutil.copy(output / "quickstart.json", begun)
    with pytest.raises(ConfigError, match=r"expected seed 1, with which it began, got 2; choose"):
        run(begun, seed=2, config=config)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    with pytest.raises(ConfigError, match="expected a new or empty folder, got one that holds other files; choose"):
        run(tmp_path / "other", config=config)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.txt"]
