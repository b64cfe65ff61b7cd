"""Question answering models of transformers: cogltx must read with them as transformers does."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from command_line import Call
from safetensors.torch import load_file
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from cogltx import CogLTX, train
from cogltx.baselines import load_reader
from cogltx.blocks._script import expand_to_words
from cogltx.document import Document, Example, Query, Span
from cogltx.encoding.encoder import load_encoder
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError, ModelError
from cogltx.reasoners import ClassificationConfig, ClassificationReasoner
from cogltx.reasoners.checkpoints import load_checkpoint

ARCHITECTURES = [name for name in tiny.ARCHITECTURES if name != "modernbert"]  # which has more than one layer
QUESTION = "Who wrote the report?"
TEXT = "Anna Karlsson wrote the report in Stockholm, on 3 May 2014. Paris is the capital of France."
LONG = " ".join(f"{TEXT} The dog of number {number} does not mind." for number in range(40))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make_question_answering(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make_question_answering(tmp_path_factory.mktemp("checkpoint"))


def by_transformers(folder: Path) -> tuple[list[int], tuple[int, int], float]:
    """Token ids, the best span of characters, and how much no answer is above it, by transformers alone."""
    model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    encoded = AutoTokenizer.from_pretrained(folder)(QUESTION, TEXT, return_tensors="pt", return_offsets_mapping=True)
    offsets, in_text = encoded.pop("offset_mapping")[0].tolist(), np.array(encoded.sequence_ids(0)) == 1
    with torch.no_grad():
        outputs = model(**encoded)
    start, end = outputs.start_logits[0].numpy(), outputs.end_logits[0].numpy()
    spans = {
        (first, last): float(start[first] + end[last])
        for first in np.flatnonzero(in_text)
        for last in range(first, min(first + 30, len(start)))
        if in_text[last]
    }
    first, last = max(spans, key=spans.__getitem__)
    margin = float(start[0] + end[0]) - spans[first, last]
    return encoded["input_ids"][0].tolist(), (offsets[first][0], offsets[last][1]), margin


def test_windows_and_scores_are_those_of_transformers(checkpoint: Path) -> None:
    ids, (start, end), margin = by_transformers(checkpoint)
    changes = {"max_block_tokens": 200, "encoder.precision": "float32"}
    reader = CogLTX.from_pretrained(checkpoint, judge="bm25", changes=changes)
    layout = reader.model.layout(Document(TEXT), Query(QUESTION))
    [window] = layout.windows()
    [(_, outputs)] = reader.model.reason([window])
    assert window.token_ids.tolist() == ids
    assert reader.memrecall.form is reader.model.form
    candidates, log_no_answer = reader.model.reasoner._decode(window, outputs, layout.blocks)
    best = max(candidates, key=lambda answer: answer.confidence)
    start, end = expand_to_words(TEXT, start, end)
    assert best.text == TEXT[start:end].strip()
    assert log_no_answer - math.log(best.confidence) == pytest.approx(margin, abs=1e-3)
    prediction = reader.predict(TEXT, QUESTION)
    assert prediction.answer == TEXT[prediction.start : prediction.end] != ""
    assert prediction.confidence >= best.confidence - 1e-6, "spans that overlap are one answer"
    assert prediction.no_answer_confidence == pytest.approx(math.exp(log_no_answer))


def test_a_long_text_is_read_with_the_released_judge(bert: Path, tmp_path: Path) -> None:
    reader = CogLTX.from_pretrained(bert)
    assert reader.config.judge.name == "qa-minilm"
    prediction = reader.predict(LONG, QUESTION)
    assert prediction.start is not None
    assert prediction.answer == LONG[prediction.start : prediction.end]
    assert all("Anna Karlsson wrote" in block.text for block in prediction.evidence if block.kept)
    reader.save_pretrained(tmp_path / "model")
    again = CogLTX.from_pretrained(tmp_path / "model")
    assert again.config == reader.config
    assert again.predict(LONG, QUESTION) == prediction
    window = load_reader(bert, changes={"reader": "sliding_window"}).predict(LONG, QUESTION)
    assert (window.evidence, window.n_tokens) == ((), prediction.n_tokens)


def test_the_loss_is_that_of_the_span_and_of_the_first_token(bert: Path) -> None:
    model = CogLTX.from_pretrained(bert, judge="bm25", changes={"encoder.precision": "float32"}).model
    layout = model.layout(Document(TEXT), Query(QUESTION))
    [window] = layout.windows()
    none = Example(id="1", document=layout.blocks.document, query=Query(QUESTION), answers=())
    answered = replace(none, answers=("Anna Karlsson",), answer_spans=(Span(0, 13),))
    outputs = model.reasoner(model.runner.tensors([window]))
    places = outputs[0, :, :2].double()
    tokens = np.flatnonzero(window.document_token >= 0)
    first, last = tokens[0], tokens[layout.blocks.token_ends[: len(tokens)].tolist().index(13)]
    total = torch.logaddexp(places[tokens].logsumexp(dim=0).sum(), places[0].sum())
    expected = [total - places[first, 0] - places[last, 1], total - places[0].sum()]
    targets = [model.reasoner.target(example, layout.blocks, window) for example in (answered, none)]
    losses = model.reasoner.losses(outputs.expand(2, -1, -1), [window, window], targets)
    torch.testing.assert_close(losses.double(), torch.stack(expected), atol=1e-4, rtol=1e-5)


def test_training_starts_from_it(bert: Path, tmp_path: Path) -> None:
    rows = [
        {"text": f"{LONG} It was number {number}.", "question": QUESTION, "answers": ["Anna Karlsson"]}
        for number in range(8)
    ]
    rate = {"reasoner": {"learning_rate": 1e-9}, "epochs": 1}
    config = {"init_from": str(bert), "training": rate, "encoder": {"precision": "float32"}}
    trained = train(config, rows, validation=rows[:2], output=tmp_path / "run", report=lambda line: None)
    assert trained.config.reasoner.kinds == "first_token"
    before = CogLTX.from_pretrained(bert, changes={"encoder.precision": "float32"}).predict(LONG, QUESTION)
    after = trained.predict(LONG, QUESTION)
    assert (after.start, after.end) == (before.start, before.end)
    assert after.confidence == pytest.approx(before.confidence, rel=1e-3)


def test_the_command_line(bert: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(LONG)
    done = call("ask", tmp_path / "text.txt", QUESTION, "--model", bert)
    assert not done.code
    assert "line 1: " in done.out
    tiny.make_encoder(tmp_path / "encoder")
    done = call("ask", tmp_path / "text.txt", QUESTION, "--model", tmp_path / "encoder")
    assert done.code == 2
    assert done.err.endswith(
        "encoder: BertModel of transformers, without a question answering head (…ForQuestionAnswering)\n"
    )


def test_a_model_with_another_head_is_refused(tmp_path: Path) -> None:
    tiny.make_question_answering(tmp_path, "modernbert")
    with pytest.raises(ModelError, match="ModernBertForQuestionAnswering has no layer qa_outputs for start and end"):
        CogLTX.from_pretrained(tmp_path)


def test_a_pickle_is_not_loaded(bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "model")
    state = load_file(tmp_path / "model" / "model.safetensors")
    torch.save(state, tmp_path / "model" / "pytorch_model.bin")
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="model'?: no encoder that transformers can load from safetensors"):
        CogLTX.from_pretrained(tmp_path / "model")


def test_only_span_reasoners_start_from_it(bert: Path) -> None:
    reasoner = ClassificationReasoner(
        load_encoder(EncoderConfig(name=str(bert))), ClassificationConfig(name="classification", labels=("a", "b"))
    )
    with pytest.raises(ModelError, match="a question answering model cannot start a ClassificationReasoner"):
        load_checkpoint(reasoner, bert)


def test_settings_of_another_tool_without_a_class(bert: Path, tmp_path: Path) -> None:
    settings = json.loads((bert / "config.json").read_text())
    del settings["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="a model of transformers, without a question answering head"):
        CogLTX.from_pretrained(tmp_path)


def test_a_folder_without_a_tokenizer(bert: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        shutil.copy(bert / name, tmp_path)
    with pytest.raises(ModelError, match="no tokenizer; its folder needs a tokenizer.json"):
        CogLTX.from_pretrained(tmp_path, judge="bm25")


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("head for yes and no", {"reasoner.kinds": "learned"}),
        ("judge", {"judge.name": "encoder"}),
        ("retriever", {"memrecall.shortlist": 8, "memrecall.retriever": "trained"}),
    ],
)
def test_what_it_does_not_have(bert: Path, part: str, changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"this Hugging Face model has no trained {part}. To train one, set init_fr"):
        CogLTX.from_pretrained(bert, changes=changes)


def test_it_answers_neither_yes_nor_no(bert: Path) -> None:
    model = CogLTX.from_pretrained(bert, judge="bm25").model
    layout = model.layout(Document(TEXT), Query(QUESTION))
    [window] = layout.windows()
    example = Example(id="1", document=layout.blocks.document, query=Query(QUESTION), answers=("yes",))
    assert model.reasoner.target(example, layout.blocks, window) is None
    assert CogLTX.from_pretrained("qa-minilm").model.reasoner.target(example, layout.blocks, window) is not None


def test_it_has_no_judge_to_start_from(bert: Path) -> None:
    config = {"judge": {"name": "encoder", "init_from": str(bert)}, "training": {"epochs": 1}}
    rows = [{"text": LONG, "question": QUESTION, "answers": ["Anna Karlsson"]}] * 4
    with pytest.raises(ModelError, match="judge.init_from: .*: this Hugging Face model has no trained judge"):
        train(config, rows, report=lambda line: None)
