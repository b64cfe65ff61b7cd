"""The model that comes with the package: it answers at once, offline, and says what it is."""

from pathlib import Path

import fakes
import pytest
import torch
from command_line import Call

import cogltx
from cogltx import CogLTX
from cogltx._folders import RELEASED
from cogltx.blocks import load_tokenizer
from cogltx.encoding.encoder import load_encoder
from cogltx.encoding.pretrained import EncoderConfig

ROOT = Path(__file__).parents[1]
FOLDER = RELEASED / "qa-minilm"


@pytest.fixture(scope="module")
def model() -> CogLTX:
    return CogLTX.from_pretrained("qa-minilm")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which engineer designed the Harbour Bridge?", "Ilse Brandt"),
        ("When was the bridge opened?", "12 October 1888"),
        ("Where did Ilse Brandt grow up?", "in Lübeck"),
        ("Who is the mayor of Paris?", ""),
    ],
)
def test_it_answers(model: CogLTX, question: str, answer: str) -> None:
    text = (ROOT / "data/samples/bridge.txt").read_text()
    prediction = model.open(text).ask(question)
    assert prediction.answer == answer
    if answer:
        assert text[prediction.start : prediction.end] == answer
        assert any(block.start <= (prediction.start or 0) < block.end for block in prediction.evidence)


@pytest.fixture(scope="module")
def multilingual() -> CogLTX:
    return CogLTX.from_pretrained("qa-multilingual")


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        ("Die Hafenbrücke wurde von der Ingenieurin Ilse Brandt entworfen. Die Brücke ist 340 Meter lang.",
         "Wer entwarf die Hafenbrücke?", "Ilse Brandt"),
        ("El puente fue diseñado por la ingeniera Ilse Brandt. El puente mide 340 metros.",
         "¿Quién diseñó el puente?", "Ilse Brandt"),
        ("Мост был спроектирован инженером Ильзе Брандт. Длина моста составляет 340 метров.",
         "Какова длина моста?", "340 метров"),
        ("这座桥由工程师伊尔莎·布兰特设计，于1888年10月12日通车。桥长340米。", "这座桥是哪一年通车的？", "1888年"),
    ],
)  # fmt: skip
def test_it_answers_in_many_languages(multilingual: CogLTX, text: str, question: str, answer: str) -> None:
    prediction = multilingual.predict(f"{text}\n\n" + "1, 2, 3.\n\n" * 3, question)
    assert answer in prediction.answer
    assert text[prediction.start : prediction.end] == prediction.answer
    assert prediction.confidence > (prediction.no_answer_confidence or 0)


def test_ask_takes_the_model_that_knows_the_language(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "bruecke.txt"
    file.write_text("Die Hafenbrücke wurde von der Ingenieurin Ilse Brandt entworfen und im Jahr 1888 eröffnet. " * 4)
    done = call("ask", file, "Wer entwarf die Hafenbrücke?", "--json")
    assert done.json["answer"].endswith("Ilse Brandt"), done.err


def test_its_parts_hold_the_word_embeddings_once(multilingual: CogLTX) -> None:
    parts = multilingual.model.modules.values()
    tables = {part.encoder.model.get_input_embeddings().weight.data_ptr() for part in parts}  # type: ignore[union-attr]
    assert (len(parts), len(tables)) == (3, 1)


def test_its_encoder_is_one_to_train_from(multilingual: CogLTX) -> None:
    encoder = load_encoder(EncoderConfig(name="qa-multilingual"), layers=2)
    expected = multilingual.model.reasoner.encoder.state_dict()
    assert all(torch.equal(one, expected[name]) for name, one in encoder.state_dict().items())
    assert len(load_tokenizer("qa-multilingual")) == len(multilingual.model.tokenizer)


SAYS_NOTHING = (
    "|", "The", "??", "—", "a", "Yes", "OK", "🙂", "12", "1.", "Table 3", "of the", "History", "* * *", "| | |", "Page 7 of 9",
    "https://example.org", "All rights reserved.", "See also", "[1]", "-" * 30, ". . . . . . . .", "the the the the",
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who built the lighthouse?", "Clara Voss built the lighthouse."),
        ("Who built the lighthouse?", "Builder: Clara Voss"),
        ("When was the bakery founded?", "Founded: 1887"),
        ("How many people live in the town?", "Population | 48,112"),
        ("How deep is the lake?", "It is 214 metres deep."),
        ("What does a ticket cost?", "Price: 14 euros"),
    ],
)
def test_texts_that_say_nothing_come_last(model: CogLTX, question: str, answer: str) -> None:
    other = "The committee met twice in the spring and decided to postpone all further work until the next year."
    scores = model.relevance(question, [answer, other, *SAYS_NOTHING])
    assert scores[0] == max(scores)
    assert max(scores[2:]) < scores[0] / 2
    lines = "\n\n".join([*SAYS_NOTHING[:10], answer, *SAYS_NOTHING[10:]])
    assert answer in model.recall(lines, question).evidence[0].text


def test_a_question_about_a_pdf(call: Call) -> None:
    done = call("ask", ROOT / "data/samples/bridge.pdf", "Which engineer designed the Harbour Bridge?")
    assert not done.code, done.err
    assert done.out.startswith("Ilse Brandt (")
    assert "  page 1, The Harbour Bridge of Vesterby: " in done.out
    assert "The Harbour Bridge was designed by the engineer Ilse Brandt." in done.out


def test_a_text_gets_shorter_and_keeps_the_answer() -> None:
    text = (ROOT / "data/samples/bridge.txt").read_text()
    short = cogltx.compress(text, "Which engineer designed the Harbour Bridge?", budget=0.2)
    assert "Ilse Brandt" in short
    assert len(short) < 0.3 * len(text)


ENGINEERS = {
    "Ilse Brandt": "Lübeck", "Karl Weber": "Bremen", "Anna Holm": "Kiel", "Peter Lind": "Rostock", "Maria Stern": "Emden",
    "Jonas Falk": "Husum", "Clara Voss": "Stade", "Emil Roth": "Wismar", "Greta Kern": "Celle", "Otto Blum": "Goslar",
    "Lena Graf": "Minden", "Hugo Dahl": "Uelzen", "Nora Beck": "Verden", "Felix Horn": "Soest", "Ida Wolf": "Hameln",
    "Max Lorenz": "Plön",
}  # fmt: skip
BRIDGES = dict(zip(("Harbour Bridge", "North Bridge", "Castle Bridge", "Mill Bridge"), ENGINEERS, strict=False))


@pytest.mark.parametrize("bridge", ["Harbour Bridge", "North Bridge"])
def test_it_finds_the_paragraph_that_another_one_names(model: CogLTX, bridge: str) -> None:
    paragraphs = [
        (name, f"The {name} crosses the river. It was designed by the engineer {engineer}.")
        for name, engineer in BRIDGES.items()
    ]
    paragraphs += [
        (
            engineer,
            "A German engineer of the nineteenth century who worked for the railways. The childhood was spent in "
            f"{town}, and the studies in Berlin were followed by travels to England and France.",
        )
        for engineer, town in ENGINEERS.items()
    ]
    headings, texts = zip(*paragraphs, strict=True)
    document = fakes.sentences(*(f"{text}\n" for text in texts), headings=headings)
    prediction = model.predict(document, f"Where did the engineer who designed the {bridge} spend the childhood?")
    town = ENGINEERS[BRIDGES[bridge]]
    assert prediction.answer == town
    assert any(town in block.text for block in prediction.evidence)


def test_it_is_small_and_names_its_data() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 50e6
    other = RELEASED / "qa-multilingual"
    assert sum(path.stat().st_size for path in other.rglob("*") if path.is_file()) < 75e6
    for words in ("XQuAD", "DRCD", "CC BY-SA 3.0", "MIT", "configs/qa-multilingual.yaml", "trim_vocabulary"):
        assert words in (other / "README.md").read_text()
    card = (FOLDER / "README.md").read_text()
    for words in ("SQuAD", "HotpotQA", "CUAD", "CC BY-SA 4.0", "CC BY 4.0", "Apache 2.0", "configs/qa-minilm.yaml"):
        assert words in card
