"""The quickstart with a tiny encoder that learns nothing: files, table, explanation, the printed command, a second call."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
from command_line import invoke
from measured import in_this_process

from cogltx.bench import _quality as quality
from cogltx.bench.quickstart import _run as quickstart
from cogltx.bench.quickstart._corpus import generate
from cogltx.bench.quickstart._run import _Sizes, run
from cogltx.errors import ConfigError
from cogltx.tasks import make_task

SIZES = {
    "train": 4, "train_long": 2, "validation": 2, "test": 3, "test_unanswerable": 2, "unanswerable": 0.5,
    "chains": 2, "tokens": 800,
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _in_this_process() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quality, "run_command", in_this_process)
        patch.setattr(quickstart, "run_command", in_this_process)
        yield


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> _Sizes:
    texts = [example.document.text for split in ("train", "test") for example in generate(2, seed=0, split=split)]
    encoder = tiny.make_encoder(tmp_path_factory.mktemp("encoder"), texts=texts)
    return _Sizes(encoder=str(encoder), **SIZES)


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return []


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("a folder") / "quick start"


@pytest.fixture(scope="module")
def outcome(output: Path, sizes: _Sizes, lines: list[str]) -> str:
    return run(output, seed=1, sizes=sizes, report=lines.append)


@pytest.mark.usefixtures("outcome")
def test_corpora_share_no_document_and_keep_their_gold(output: Path) -> None:
    texts = set()
    for split, count in (("train", 6), ("validation", 2), ("test", 5)):
        examples = list(make_task("jsonl", {}).read(output / f"{split}.jsonl", split="test"))
        assert len(examples) == count
        texts |= {example.document.text for example in examples}
        for example in examples:
            if not example.answers:
                assert example.relevant == ()
                continue
            (span,) = example.answer_spans
            assert example.answers == (example.document.text[span.start : span.end],)
            assert len(example.relevant or ()) == 2
    assert len(texts) == 13


def test_the_table_is_printed_and_kept(outcome: str, output: Path, lines: list[str]) -> None:
    printed = "\n".join(lines)
    assert (output / "results.txt").read_text() == outcome
    assert outcome in printed
    rows = [row.strip("| ").split(" | ") for row in outcome.splitlines()[2:7]]
    assert [row[0] for row in rows] == [
        "guessing one of 2 answers", "CogLTX, as configured", "BM25 as judge", "sliding window", "truncation"
    ]  # fmt: skip
    assert rows[0][1:] == ["50.0 %", "–", "–"]
    assert [row[2] == "–" for row in rows] == [True, False, False, True, True]
    assert all(re.fullmatch(r"\d+\.\d %", row[1]) for row in rows)
    assert "both facts found: both are in the key blocks" in outcome


def test_the_explanation_shows_the_steps(outcome: str) -> None:
    assert re.search(r"^\w.*\? Two facts answer it: (none|\w.*\. \w.*\.)$", outcome, re.MULTILINE)
    steps = re.findall(r"^ +\d+ +\d\.\d{3} +(\d)  [* ] \S.*$", outcome, re.MULTILINE)
    assert set(steps) == {"1", "2"}


def test_the_printed_commands_answer(outcome: str, capsys: pytest.CaptureFixture[str]) -> None:
    recall, ask = re.findall(r"^  (cogltx .*)$", outcome, re.MULTILINE)
    assert invoke(*shlex.split(recall)[1:]) == 0
    assert capsys.readouterr().out.strip() in outcome
    assert invoke(*shlex.split(ask)[1:]) == 0
    (answer,) = re.findall(r"^The reasoner reads these blocks: (.*) \(\d+%; the right", outcome, re.MULTILINE)
    assert capsys.readouterr().out.casefold().startswith(answer.strip("()").casefold()[:5])


@pytest.mark.usefixtures("outcome")
def test_the_written_configuration_trains(output: Path, tmp_path: Path) -> None:
    assert invoke("train", output / "run.yaml", "--output", tmp_path / "again") == 0
    assert (tmp_path / "again" / "run.json").is_file()


@pytest.mark.usefixtures("outcome")
def test_a_finished_quickstart_is_named(output: Path, sizes: _Sizes) -> None:
    with pytest.raises(ConfigError, match=r"results\.txt: this quickstart is finished; choose another folder"):
        run(output, seed=1, sizes=sizes)


@pytest.mark.parametrize(
    "missing",
    [
        ["results.txt"],
        ["results.txt", "runs/sliding_window-1", "results/sliding_window-1.trained.json", "results/truncation-1.json"],
    ],
)
def test_an_interrupted_one_goes_on(
    missing: list[str], outcome: str, output: Path, sizes: _Sizes, tmp_path: Path
) -> None:
    """As if it had been killed late, or between the two trainings: what was done is not done again."""
    moved = tmp_path / "moved"
    output.rename(moved)
    try:
        shutil.copytree(moved, output)
        for name in missing:
            path = output / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        trained = (output / "runs" / "cogltx-1" / "log.jsonl").read_text()
        again = run(output, seed=1, sizes=sizes, report=lambda _: None)
        assert again == outcome
        assert (output / "runs" / "cogltx-1" / "log.jsonl").read_text() == trained
    finally:
        shutil.rmtree(output)
        moved.rename(output)


@pytest.mark.usefixtures("outcome")
def test_another_seed_is_refused(output: Path, sizes: _Sizes, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    shutil.copy(output / "quickstart.json", begun)
    with pytest.raises(ConfigError, match=r"was started with seed 1, not 2; choose"):
        run(begun, seed=2, sizes=sizes)
