"""The judge of another model: scores are those that it gives itself, whatever the tokenizer of the reader."""

from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from command_line import Call
from fakes import reader, sentences
from pydantic import ValidationError

from cogltx import CogLTX, MemRecall
from cogltx.blocks import split
from cogltx.document import Document, Query, Segment
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.judges import JudgeConfig, Memory, ModelJudge

QUESTION = "Who wrote the report?"
TEXT = "The quick brown fox jumps over the lazy dog. Anna Karlsson wrote the report in Stockholm, on 3 May 2014. " * 8


@pytest.fixture(scope="module")
def judging(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with an encoder as judge."""
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("judging") / "model"
    reader(tiny_encoder).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with another tokenizer, and with longer blocks and windows."""
    folder = tmp_path_factory.mktemp("other")
    tiny.make_encoder(folder / "encoder", "roberta")
    reader(folder / "encoder", judge="bm25", capacity=256, max_block_tokens=40).save_pretrained(folder / "model")
    return folder / "model"


def judge_of(model: CogLTX) -> ModelJudge:
    judge = model.memrecall.judge
    assert isinstance(judge, ModelJudge)
    return judge


def test_a_model_with_its_own_judge_as_that_of_another_predicts_the_same(judging: Path) -> None:
    own, same = CogLTX.from_pretrained(judging), CogLTX.from_pretrained(judging, judge=str(judging))
    assert judge_of(same).probabilities
    assert same.predict(TEXT, QUESTION) == own.predict(TEXT, QUESTION)
    assert same.predict("Anna wrote it.", QUESTION) == own.predict("Anna wrote it.", QUESTION)


def test_scores_are_those_of_the_other_model_for_the_same_texts(judging: Path, other: Path) -> None:
    model, own = CogLTX.from_pretrained(other, judge=str(judging)), CogLTX.from_pretrained(judging)
    layout = model.model.layout(Document(TEXT), Query(QUESTION))
    segments = tuple(Segment(block.start, block.end) for block in layout.blocks)
    pieces = split(Document(TEXT, segments=segments), own.model.tokenizer, max_tokens=16)
    assert len(pieces) > len(layout.blocks) > 4, "blocks are too long for the other model"
    of_block = [pieces.overlapping(block.start, block.end) for block in layout.blocks]
    [scores] = judge_of(model).retrieve([Memory(layout, (1,))])
    [expected] = own.memrecall.judge.retrieve(
        [Memory(own.model.form.layout(Query(QUESTION), pieces), tuple(of_block[1]))]
    )
    assert np.flatnonzero(np.isnan(scores)).tolist() == [1]
    known = [expected[list(indices)].max() for block, indices in enumerate(of_block) if block != 1]
    np.testing.assert_allclose(np.delete(scores, 1), known, atol=1e-6)


def test_more_blocks_than_fit_a_window_of_the_other_model_are_rehearsed_in_several(judging: Path, other: Path) -> None:
    judge = judge_of(CogLTX.from_pretrained(other, judge=str(judging)))
    model = CogLTX.from_pretrained(other)
    layout = model.model.layout(Document(TEXT), Query(QUESTION))
    kept = tuple(range(5))
    assert judge._pieces_of(layout.blocks).pieces.total_size(judge._pieces_of(layout.blocks).of(kept)) > 64
    [together], [alone] = judge.rehearse([Memory(layout, kept)]), judge.rehearse([Memory(layout, (4,))])
    assert together.shape == (5,)
    assert ((together > 0) & (together < 1)).all()
    assert alone.shape == (1,)
    [scores] = judge.retrieve([Memory(layout, kept)])
    assert not np.isnan(np.delete(scores, kept)).any(), "a full z leaves room for the others"


def test_a_block_without_a_token_of_the_other_model_is_not_relevant(judging: Path, other: Path) -> None:
    model = CogLTX.from_pretrained(other, judge=str(judging))
    document = sentences("Anna wrote the report.", "\x01\x02\x03", "A dog sat.")
    layout = model.model.layout(document, Query(QUESTION))
    [scores] = judge_of(model).retrieve([Memory(layout)])
    assert np.isnan(scores).tolist() == [False, True, False]
    [fine] = judge_of(model).rehearse([Memory(layout, (0, 1, 2))])
    assert fine[1] == 0
    assert (fine[[0, 2]] > 0).all()
    assert model.predict(document, QUESTION).n_blocks == 3


def test_an_index_holds_the_vectors_of_the_other_model(other: Path, tmp_path: Path) -> None:
    model = CogLTX.from_pretrained(other, judge="qa-minilm")
    document, judge = model.open(TEXT * 4), judge_of(model)
    expected = document.ask(QUESTION)
    document.save(tmp_path / "one.index")
    again = CogLTX.from_pretrained(other, judge="qa-minilm")
    opened = again.open(index=tmp_path / "one.index")
    layouts = model.model.layout(document.document, None), again.model.layout(opened.document, None)
    np.testing.assert_array_equal(judge.vectors(layouts[0]), judge_of(again).vectors(layouts[1]))
    assert opened.ask(QUESTION) == expected
    CogLTX.from_pretrained(other).open(TEXT * 4).save(tmp_path / "plain.index")
    with pytest.raises(DataError, match="made for a model with another retriever"):
        again.open(index=tmp_path / "plain.index")


def test_a_model_keeps_the_name_of_its_judges_model(judging: Path, other: Path, tmp_path: Path) -> None:
    model = CogLTX.from_pretrained(other, judge=str(judging))
    model.save_pretrained(tmp_path / "saved")
    card = (tmp_path / "saved" / "README.md").read_text()
    assert f"| encoder | {model.config.encoder.name} |\n| judge | {judging}, another model, with its" in card
    assert CogLTX.from_pretrained(tmp_path / "saved").predict(TEXT, QUESTION) == model.predict(TEXT, QUESTION)
    with pytest.raises(ModelError, match="saved: the model has no judge of its own"):
        CogLTX.from_pretrained(other, judge=str(tmp_path / "saved"))


def test_the_command_line(judging: Path, other: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    options = ("ask", tmp_path / "text.txt", QUESTION, "--model", other, "--json")
    done, plain = call(*options, "--judge", judging), call(*options)
    assert not done.code
    assert done.out != plain.out
    done = call(*options, "--judge", "runs/nothing")
    assert (done.code, done.err) == (2, "cogltx: judge runs/nothing: no such folder; train it first\n")
    done = call(*options, "--judge", "bm52")
    assert done.code == 2
    assert "'bm52' is not a judge; use encoder, bm25, embedding, linear, a model or package.module:Class" in done.err


def test_memrecall_alone_has_no_models() -> None:
    with pytest.raises(ConfigError, match=r'load it with CogLTX.from_pretrained\("qa-minilm"\), which has recall()'):
        MemRecall("qa-minilm")


def test_without_a_question(other: Path) -> None:
    with pytest.raises(ConfigError, match="give a question, which the shortlist needs"):
        CogLTX.from_pretrained(other, judge="qa-minilm").predict(TEXT)


def test_recall_and_export(judging: Path, other: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    options = ("--document", tmp_path / "text.txt", "--question", QUESTION, "--json")
    assert call("recall", "--judge", judging, *options).out == call("recall", judging, *options).out
    done = call("export", other, "--judge", judging, "--output", tmp_path / "exported")
    assert f"its judge is that of {judging}, which is not part of the folder" in done.err
    assert "its judge is that of" not in call("export", judging, "--output", tmp_path / "own").err


def test_a_model_takes_no_arguments(judging: Path) -> None:
    with pytest.raises(ValidationError, match="args: the judge .* takes none"):
        JudgeConfig(name=str(judging), args={"a": 1})
