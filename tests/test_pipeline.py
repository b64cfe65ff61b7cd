"""The whole flow: predictions are exact slices with their evidence, and a saved model gives the same ones."""

import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import Checksums, Counting, WordOverlap, config, reader, sentences

from cogltx.baselines import SlidingWindow
from cogltx.config import load_config
from cogltx.document import Document, Example, Query
from cogltx.errors import ConfigError, DataError, ModelError, TrainingError
from cogltx.judges import _ScoringJudgeAdapter as ScoringJudgeAdapter
from cogltx.model import _TOKENS_PER_DOCUMENT, Model
from cogltx.pipeline import CogLTX, batches_of_examples
from cogltx.prediction import Answer, PredictedEntity, Prediction
from cogltx.reasoners._confidence import Calibration
from cogltx.tasks.metrics import is_right

TEXT = "The quick brown fox jumps over the lazy dog. Anna Karlsson wrote the report in Stockholm, on 3 May 2014.\n" * 4
QUESTION = "Who wrote the report?"


def examples(count: int = 4) -> list[Example]:
    return [
        Example(
            id=str(number),
            document=Document(TEXT[number * 7 :], f"d{number}"),
            query=Query(QUESTION) if number % 2 else None,
        )
        for number in range(count)
    ]


def same(first: Prediction, second: Prediction) -> bool:
    def plain(prediction: Prediction) -> object:
        return json.loads(json.dumps(prediction.to_dict()), parse_float=lambda text: round(float(text), 5))

    return plain(first) == plain(second)


def set_reasoner(model: CogLTX, **changes: Any) -> None:
    reasoner = model.model.reasoner
    reasoner.config = reasoner.config.model_copy(update=changes)


def test_save_and_load_give_equal_predictions(architecture_encoder: Path, tmp_path: Path) -> None:
    torch.manual_seed(5)
    first = reader(architecture_encoder)
    calibration = Calibration(sharpness=0.5, relevance=0.25, no_answer=-1.5, wrong=0.125)
    set_reasoner(first, calibration=calibration)
    first.save_pretrained(tmp_path / "model")
    torch.manual_seed(6)
    second = CogLTX.from_pretrained(tmp_path / "model", device="cpu")
    assert second.config == first.config
    assert second.config.reasoner.calibration == calibration
    before, after = list(first.predict_many(examples())), list(second.predict_many(examples()))
    assert before == after
    for example, prediction in zip(examples(), before, strict=True):
        assert prediction.id == example.id
        assert prediction.n_blocks > 4
        if prediction.start is not None:
            assert prediction.answer == example.document.text[prediction.start : prediction.end]


def test_a_saved_model_is_config_safetensors_and_tokenizer(tiny_encoder: Path, tmp_path: Path) -> None:
    reader(tiny_encoder).save_pretrained(tmp_path / "model")
    names = {str(path.relative_to(tmp_path / "model")) for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert {"config.json", "judge.safetensors", "reasoner.safetensors", "encoder/config.json", "README.md"} <= names
    assert not [name for name in names if not name.endswith((".json", ".safetensors", ".txt", ".md"))]
    shutil.rmtree(tiny_encoder.parent / "gone", ignore_errors=True)
    moved = (tmp_path / "model").rename(tmp_path / "moved")
    assert CogLTX.from_pretrained(moved).predict(TEXT, QUESTION).answer is not None


def test_saving_again_replaces(tiny_encoder: Path, tmp_path: Path) -> None:
    model = reader(tiny_encoder)
    for calibration in (None, Calibration(wrong=1.5)):
        set_reasoner(model, calibration=calibration)
        model.save_pretrained(tmp_path / "model")
        assert load_config(tmp_path / "model").reasoner.calibration == calibration
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_saving_where_nothing_can_be_written(tiny_encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"file/model: cannot be saved: "):
        reader(tiny_encoder).save_pretrained(tmp_path / "file" / "model")


def test_evidence_is_exact_and_sorted(tiny_encoder: Path) -> None:
    torch.manual_seed(5)
    model = reader(tiny_encoder)
    prediction = model.predict(Document(TEXT, "x"), QUESTION)
    assert prediction.id == "x"
    assert prediction.evidence
    assert [item.score for item in prediction.evidence] == sorted((e.score for e in prediction.evidence), reverse=True)
    for evidence in prediction.evidence:
        assert evidence.text == TEXT[evidence.start : evidence.end] == evidence.text.strip() != ""
        assert evidence.step in (1, 2)
        assert 0 < evidence.score < 1
    assert 1 <= sum(evidence.kept for evidence in prediction.evidence) <= 3
    assert len(prediction.alternatives) + bool(prediction.answer) == 3
    if prediction.start is not None:
        assert any(e.start <= prediction.start < e.end for e in prediction.evidence)


def test_a_short_document_is_read_whole(tiny_encoder: Path) -> None:
    model = reader(tiny_encoder)
    prediction = model.predict("Anna wrote the report. The fox jumps.", QUESTION)
    assert [evidence.step for evidence in prediction.evidence] == [0] * prediction.n_blocks
    assert model.predict("x").answer is not None


@pytest.mark.parametrize("document", ["", " \n"])
def test_an_empty_document(tiny_encoder: Path, document: str) -> None:
    with pytest.raises(DataError, match="document '': the text is"):
        reader(tiny_encoder).predict(document, QUESTION)


def test_an_empty_question(tiny_encoder: Path) -> None:
    with pytest.raises(DataError, match="the question is empty"):
        reader(tiny_encoder).predict(TEXT, " ")


def test_a_question_longer_than_the_window(tiny_encoder: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"the question has 60 tokens; at most \d+ fit, because a window of 64 tokens must also hold a block",
    ):
        reader(tiny_encoder).predict(TEXT, "fox " * 60)


def test_a_reasoner_that_gives_nan(tiny_encoder: Path) -> None:
    model = reader(tiny_encoder)
    with torch.no_grad():
        next(iter(model.model.reasoner.encoder.parameters())).fill_(float("nan"))
    with pytest.raises(ModelError, match="reasoner: an output is NaN"):
        model.predict(TEXT, QUESTION)


def test_a_stream_is_answered_as_it_comes(tiny_encoder: Path) -> None:
    model = reader(tiny_encoder)
    taken = []

    def stream() -> Iterator[Example]:
        for number in range(100):
            taken.append(number)
            yield Example(id=str(number), document=Document("Anna wrote the report."), query=Query(QUESTION))

    predictions = model.predict_many(stream())
    assert taken == []
    assert [next(predictions).id for _ in range(32)] == [str(number) for number in range(32)]
    assert len(taken) == 33
    assert next(predictions).id == "32"
    assert len(taken) == 65


def test_batches_of_a_stream_are_bounded() -> None:
    def lengths(*characters: int) -> list[int]:
        made = (Example(id="", document=Document("x" * count)) for count in characters)
        return [len(batch) for batch in batches_of_examples(made)]

    assert lengths(*[10] * 70) == [32, 32, 6]
    assert lengths(1_500_000, 400_000, 200_000, 10) == [2, 2]
    assert lengths(3_000_000, 10) == [1, 1]
    assert lengths() == []


def test_a_stream_of_something_else() -> None:
    given: Any = iter(["a text"])
    with pytest.raises(DataError, match="examples: str is not an Example"):
        list(batches_of_examples(given))


def test_predictions_do_not_depend_on_the_batch(architecture_encoder: Path) -> None:
    torch.manual_seed(5)
    model = reader(architecture_encoder)
    items = examples(5)
    together = list(model.predict_many(items))
    backwards = list(model.predict_many(items[::-1]))[::-1]
    alone = [model.predict(item.document, item.query) for item in items]
    for first, second, third in zip(together, backwards, alone, strict=True):
        assert same(first, second)
        assert first.answer == third.answer
        assert [(e.start, e.step) for e in first.evidence] == [(e.start, e.step) for e in third.evidence]


def test_the_name_of_a_file_is_no_text(tiny_encoder: Path, tmp_path: Path) -> None:
    model, file = reader(tiny_encoder), tmp_path / "report.txt"
    file.write_text(TEXT)
    for read in (model.open, model.predict, model.recall):
        with pytest.raises(
            DataError, match=r"report\.txt: the name of a file, not a text; read the file with cogltx\."
        ):
            read(str(file))


def test_no_answer_is_shown_where_it_is_most_probable(tiny_encoder: Path) -> None:
    model = reader(tiny_encoder)
    document = examples(1)[0].document
    set_reasoner(model, always_answers=True)
    expected = model.predict(document)
    assert expected.no_answer_confidence is not None
    margin = math.log(expected.no_answer_confidence / expected.confidence)
    set_reasoner(model, always_answers=False, calibration=Calibration(no_answer=-margin - 0.01))
    assert model.predict(document).answer == expected.answer
    set_reasoner(model, calibration=Calibration(no_answer=-margin + 0.01))
    prediction = model.predict(document)
    assert (prediction.answer, prediction.start, prediction.end) == ("", None, None)
    assert prediction.confidence == prediction.no_answer_confidence
    assert [one.text for one in prediction.alternatives] == [
        expected.answer,
        *(one.text for one in expected.alternatives),
    ]
    assert prediction.evidence == expected.evidence


def test_the_configuration_shows_a_fitted_calibration(tiny_encoder: Path, tmp_path: Path) -> None:
    model = reader(tiny_encoder)
    items, reasoner = examples(20), model.model.reasoner
    items = [
        *(replace(item, answers=()) for item in items[:15]),
        *(replace(item, answers=("no",)) for item in items[15:]),
    ]
    calibration = Calibration(wrong=0.25)
    set_reasoner(model, calibration=calibration)
    assert model.config.reasoner.calibration == model.model.config.reasoner.calibration == calibration
    reasoner.config = reasoner.config.without_thresholds()
    assert model.config.reasoner.calibration is None
    predictions = list(model.predict_many(items))
    [reasoner.config] = reasoner.config.threshold_candidates(items, predictions, is_right)
    assert model.config.reasoner.calibration == reasoner.config.calibration is not None
    thresholded = list(map(model.config.reasoner.apply_thresholds, predictions))
    assert thresholded == list(model.predict_many(items))
    assert "" in [prediction.answer for prediction in thresholded]
    model.save_pretrained(tmp_path / "model")
    assert load_config(tmp_path / "model") == model.config


def test_an_open_document_answers_as_predict_does(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = reader(tiny_encoder)
    expected = [model.predict(TEXT, question) for question in (QUESTION, "Where was the report written?", None)]
    document = model.open(TEXT)
    first = document.ask(QUESTION)

    def fail(*args: object, **options: object) -> None:
        raise AssertionError("the document is split again")

    monkeypatch.setattr("cogltx.model.split", fail)
    assert [first, document.ask(Query("Where was the report written?")), document.ask()] == expected
    assert model.open(document.document).ask(QUESTION) == first


def test_recall_is_what_the_reasoner_reads(tiny_encoder: Path) -> None:
    model = reader(tiny_encoder)
    recall = model.recall(TEXT, QUESTION)
    assert recall.evidence == model.predict(TEXT, QUESTION).evidence
    (prediction,) = model.reason_over([recall])
    assert prediction == model.predict(TEXT, QUESTION)


def test_changes_of_a_saved_model(tiny_encoder: Path, tmp_path: Path) -> None:
    reader(tiny_encoder).save_pretrained(tmp_path / "model")
    changes = {"memrecall.strides": [8], "reasoner.max_answer_tokens": 1}
    model = CogLTX.from_pretrained(tmp_path / "model", device="cpu", changes=changes)
    assert (model.config.memrecall.strides, model.config.reasoner.max_answer_tokens) == ((8,), 1)
    prediction = model.predict(TEXT, QUESTION)
    assert {evidence.step for evidence in prediction.evidence} == {1}
    assert load_config(tmp_path / "model").memrecall.strides == (1, 2), "the saved model is not changed"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("memrecall.stride", [8], "stride is not a setting of memrecall; did you mean strides?"),
        ("memrecal.strides", [8], "memrecal is not a setting; did you mean memrecall?"),
        ("memrecall.capacity", 8, "memrecall.capacity must be greater than or equal to 32, but is 8"),
        ("memrecall.capacity", 600, "memrecall.capacity is 600, but the encoder has 512 positions"),
        ("max_block_tokens.most", 8, "max_block_tokens must be an integer, but is {'most': 8}"),
        ("reasoner.name", "spam", "'spam'"),
    ],
)
def test_wrong_changes(tiny_encoder: Path, tmp_path: Path, key: str, value: object, message: str) -> None:
    reader(tiny_encoder).save_pretrained(tmp_path / "model")
    with pytest.raises(ConfigError, match=re.escape(message)):
        CogLTX.from_pretrained(tmp_path / "model", changes={key: value})


def test_blocks_of_documents_are_cached(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = reader(tiny_encoder)
    documents = [Document(TEXT[number:]) for number in range(9)]
    first = [model.model.split(document) for document in documents]
    assert all(model.model.split(document) is own for document, own in zip(documents, first, strict=True))
    monkeypatch.setattr("cogltx.model._CACHED_TOKENS", 2 * (first[0].n_tokens + _TOKENS_PER_DOCUMENT))
    assert model.model.split(documents[8]) is first[8]
    assert model.model.split(documents[7]) is first[7]
    assert model.model.split(documents[6]) is not first[6]
    monkeypatch.setattr("cogltx.model._CACHED_TOKENS", 1)
    assert model.model.split(documents[0]) is model.model.split(documents[0])


def test_many_short_texts_leave_the_cache(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogltx.model._CACHED_TOKENS", 10 * _TOKENS_PER_DOCUMENT)
    model, texts = reader(tiny_encoder), [f"A dog sat {number} times." for number in range(40)]
    assert len(model.relevance("Who sat?", texts)) == 40
    assert len(model.model._blocks) < 10


def test_a_scoring_judge_as_an_object(tiny_encoder: Path, tmp_path: Path) -> None:
    trained = reader(tiny_encoder)
    trained.save_pretrained(tmp_path / "model")
    judge = WordOverlap()
    model = CogLTX.from_pretrained(tmp_path / "model", judge=judge)
    document = sentences("The fox.", *["A dog sat."] * 12, "Anna wrote the report.", *["In the film."] * 12)
    prediction = model.predict(document, QUESTION)
    assert prediction.evidence[0].text == "Anna wrote the report."
    assert prediction.evidence[0].score == 3
    assert judge.calls[0][0] == QUESTION


def test_a_scoring_judge_by_name(tiny_encoder: Path, tmp_path: Path) -> None:
    model = reader(tiny_encoder, judge="fakes:Checksums")
    judge = model.memrecall.judge
    assert isinstance(judge, ScoringJudgeAdapter)
    assert isinstance(judge.scorer, Checksums)
    model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model" / "judge.safetensors").exists()
    again = CogLTX.from_pretrained(tmp_path / "model", judge="fakes:Checksums")
    assert list(again.predict_many(examples())) == list(model.predict_many(examples()))


def test_bm25_by_name(tiny_encoder: Path, tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    model = reader(tiny_encoder, judge="bm25")
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(ConfigError, match="the model has no trained encoder as judge; to train one, set init_from"):
        CogLTX.from_pretrained(tmp_path / "model", judge="encoder")
    asked = [example for example in examples() if example.query]
    assert list(CogLTX.from_pretrained(tmp_path / "model").predict_many(asked)) == list(model.predict_many(asked))


def test_a_judge_model_of_a_users_own(tiny_encoder: Path, tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = reader(tiny_encoder, judge="fakes:Counting")
    assert isinstance(model.model.judge, Counting)
    model.save_pretrained(tmp_path / "model")
    again = CogLTX.from_pretrained(tmp_path / "model", judge="fakes:Counting")
    assert isinstance(again.model.judge, Counting)
    assert torch.equal(again.model.judge.embed.weight, model.model.judge.embed.weight)
    assert list(again.predict_many(examples())) == list(model.predict_many(examples()))


@pytest.mark.parametrize(
    ("name", "arguments"), [("subprocess:Popen", {"args": ["touch", "ran"]}), ("runs_code:Judge", {})]
)
def test_a_strangers_model_runs_no_code(
    name: str, arguments: dict[str, Any], tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader(tiny_encoder, judge="bm25").save_pretrained(tmp_path)
    (tmp_path / "runs_code.py").write_text("open('ran', 'w')")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "judge": {"name": name, "args": arguments}}))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=f"its judge is the class {name}, whose code would run; .*--judge {name}"):
        CogLTX.from_pretrained(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_headings_that_leave_no_room_for_the_question(tiny_encoder: Path) -> None:
    model = reader(tiny_encoder, capacity=32)
    document = sentences(
        "fox " * 15, headings=("The quick brown fox jumps over the lazy dog and the dog does not mind at all",)
    )
    with pytest.raises(ConfigError, match="capacity is 32; blocks of up to 32 tokens need at least 35"):
        model.predict(document, "Who?")


def test_cogltx_needs_a_judge(tiny_encoder: Path) -> None:
    with pytest.raises(ModelError, match="the model has no judge, which CogLTX needs"):
        CogLTX(Model.create(config(tiny_encoder), with_judge=False))


def test_a_baseline_has_none(tiny_encoder: Path) -> None:
    model = SlidingWindow(Model.create(config(tiny_encoder), with_judge=False))
    assert model.model.judge is None
    assert model.predict(TEXT, QUESTION).evidence == ()


def test_an_answer_is_plain_data() -> None:
    prediction = Prediction(id="1", answer="a", start=0, end=1, confidence=0.5, alternatives=(Answer("b", 1, 2, 0.1),))
    assert Prediction.from_dict(json.loads(json.dumps(prediction.to_dict()))) == prediction


def test_texts_that_are_opened_together_are_told_apart(tiny_encoder: Path) -> None:
    texts = ["The cat sat on the mat. " * 3, "The dog barked at Anna. " * 3]
    model = reader(tiny_encoder)
    opened = model.open(texts)
    assert opened.ask(QUESTION) == model.open([Document(text) for text in texts]).ask(QUESTION)
    prediction = opened.ask(QUESTION)
    sources = {"document 1": texts[0], "document 2": texts[1]}
    assert {block.document for block in prediction.evidence} == set(sources)
    for block in prediction.evidence:
        assert sources[block.document][block.start : block.end] == block.text
    assert "document 2" in prediction.to_html(texts)
    assert prediction.to_html(opened.document) == prediction.to_html(texts)
    with pytest.raises(DataError, match="the documents are not those that were read"):
        prediction.to_html(texts[::-1])
    with pytest.raises(DataError, match="give a document, or an index"):
        model.open()


def test_entities_of_documents_that_are_opened_together() -> None:
    joined = Document.joined([Document("Anna met", "a"), Document("Bert there", "b")])
    entity = PredictedEntity(10, 14, "Bert", "PER", 0.9)
    found = Prediction(id="1", answer="", start=None, end=None, confidence=0.9, entities=(entity,)).within(joined)
    assert found.entities == (PredictedEntity(0, 4, "Bert", "PER", 0.9, "b"),)


def test_key_blocks_have_pages(tiny_encoder: Path) -> None:
    document = Document("The cat sat. " * 40 + "The dog barked. " * 40, pages=((0, 1), (13 * 40, 2)))
    evidence = reader(tiny_encoder).recall(document, QUESTION).evidence
    assert {block.page for block in evidence} <= {1, 2}
    assert all(block.page == (1 if block.start < 13 * 40 else 2) for block in evidence)
