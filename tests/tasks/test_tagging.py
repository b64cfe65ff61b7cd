"""Documents with labelled spans: CoNLL, LitBank, CRAFT and JSON Lines; what is refused; F1 by seqeval's definition."""

import gzip
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cogltx.document import Document, Entity, Example
from cogltx.errors import ConfigError, DataError
from cogltx.prediction import PredictedEntity, Prediction
from cogltx.tasks import ReadReport, make_task
from cogltx.tasks._tagged import Scheme, _join
from cogltx.tasks.jsonl import JsonLines, write_examples
from cogltx.tasks.metrics import Score, count_labels
from cogltx.tasks.tagging import _flat

HERE = Path(__file__).parents[1] / "data"
CONLL = """-DOCSTART- -X- -X- O

Anna NNP B-NP B-PER
Karlsson NNP I-NP I-PER
went VBD B-VP O
to TO B-PP O
Paris NNP B-NP B-LOC
. . O O

Bert NNP B-NP B-PER
Carl NNP B-NP B-PER
too RB B-ADVP O

-DOCSTART- -X- -X- O

Nothing NN B-NP O
"""


def write(folder: Path, text: str, name: str = "a.conll") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def lines(folder: Path, *values: dict[str, object]) -> Path:
    return write(folder, "".join(json.dumps(value) + "\n" for value in values), "a.jsonl")


def read(path: Path, **options: object) -> list[Example]:
    return list(make_task("tagging", options).read(path, split="train"))


def shown(example: Example) -> list[tuple[str, str]]:
    return [(example.document.text[own.start : own.end], own.label) for own in example.entities or ()]


def test_columns(tmp_path: Path) -> None:
    first, second = read(write(tmp_path, CONLL))
    assert first.document.text == "Anna Karlsson went to Paris .\nBert Carl too"
    assert shown(first) == [("Anna Karlsson", "PER"), ("Paris", "LOC"), ("Bert", "PER"), ("Carl", "PER")]
    assert (first.id, second.id, second.entities) == ("1", "2", ())


def test_columns_by_tabs_gzipped_and_without_a_document_start(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"New York\tB-LOC\r\nis\tO\r\n\r\n\r\nbig\tO"))
    (example,) = read(path)
    assert example.document.text == "New York is\nbig"
    assert shown(example) == [("New York", "LOC")]


def test_a_brace_is_a_word(tmp_path: Path) -> None:
    (example,) = read(write(tmp_path, "{ O\n} O\nAnna B-PER\n"))
    assert shown(example) == [("Anna", "PER")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Anna B-PER\nsat\n", "a.conll:2: 1 column, but line 1 has 2"),
        ("Anna B-PER\nsat X O\n", "a.conll:2: 3 columns, but line 1 has 2"),
        ("Anna\n", "a.conll:1: 1 column, but a word and its tag are needed"),
        ("Bo B-PER\nsat O\nAnna I-PER\n", "a.conll:3: I-PER follows O, but in this file B begins an entity"),
        ("Anna B-LOC\nsat I-PER\n", "a.conll:2: I-PER follows B-LOC, but in this file B begins an entity"),
        (
            "Anna B-PER\n\nsat I-PER\n",
            "a.conll:3: I-PER follows the beginning of a sentence, but in this file B begins",
        ),
        ("Anna S-PER\n\nBo E-PER\n", "a.conll:3: E-PER follows the beginning of a sentence, but in this file B begins"),
        (
            "Anna U-PER\nsat O\nBo B-PER\nis O\n",
            "a.conll:3: B-PER is the last word of an entity, which in this file has",
        ),
        (
            "Anna B-PER\nBo I-PER\nsat O\nBo B-PER\nCarl L-PER\n",
            "a.conll:2: I-PER is the last word of an entity, which",
        ),
        ("Anna B-PER\nBo L-PER\nCarl I-PER\n", "a.conll:3: I-PER follows L-PER, but in this file B begins an entity"),
        ("Anna PER\n", "a.conll:1: the tag 'PER' is not O, or B, I, E, S, L or U with a type, such as B-PER"),
        ("Anna X-PER\n", "a.conll:1: the tag 'X-PER' is not O, or B, I, E, S, L or U with a type"),
        ("Anna B-\n", "a.conll:1: the tag 'B-' is not O, or B, I, E, S, L or U with a type"),
        ("Anna B\n", "a.conll:1: the tag 'B' is not O, or B, I, E, S, L or U with a type"),
    ],
)
def test_wrong_columns(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(DataError) as error:
        read(write(tmp_path, text))
    assert expected in str(error.value)


def test_chinese_is_joined_without_spaces() -> None:
    first, second = read(HERE / "chinese.conll")
    assert first.document.text.splitlines()[0] == "李明在北京大学读书。"
    assert shown(first) == [
        ("李明", "人名"),
        ("北京大学", "机构"),
        ("上海", "地名"),
        ("王小红", "人名"),
        ("2018年", "时间"),
    ]
    assert shown(second) == [("巴黎", "地名"), ("法国", "地名")]


WORD = st.text(st.sampled_from("abcé猫"), min_size=1, max_size=4)


@settings(max_examples=200)
@given(sentences=st.lists(st.lists(WORD, min_size=1, max_size=6), min_size=1, max_size=5))
def test_words_keep_their_places(sentences: list[list[str]]) -> None:
    text, starts = _join(sentences)
    for words, own in zip(sentences, starts, strict=True):
        for word, start in zip(words, own, strict=True):
            assert text[start : start + len(word)] == word
    assert text.count("\n") == len(sentences) - 1


def encode(pieces: list[tuple[int, str]], scheme: str) -> list[str]:
    """The tags of a sentence whose pieces, entities or O, have so many words."""
    first, last, single = {"BILOU": "BLU", "BMES": "BES"}.get(scheme, "BES")
    inside = "M" if scheme == "BMES" else "I"
    tags, before = list[str](), "O"
    for length, label in pieces:
        if label == "O":
            tags += ["O"] * length
        elif scheme in ("IOB1", "IOB2"):
            start = "B" if scheme == "IOB2" or before == label else "I"
            tags += [f"{start}-{label}", *[f"I-{label}"] * (length - 1)]
        elif length == 1:
            tags.append(f"{single}-{label}")
        else:
            tags += [f"{first}-{label}", *[f"{inside}-{label}"] * (length - 2), f"{last}-{label}"]
        before = label
    return tags


def decode(*sentences: list[str]) -> list[list[tuple[int, int, str]]]:
    words = [[("x", tag, "a:1") for tag in tags] for tags in sentences]
    scheme = Scheme.of(words)
    return [scheme.entities(sentence) for sentence in words]


PIECES = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["O", "PER", "LOC", "E-MAIL"])), max_size=8)
SCHEMES = ["IOB1", "IOB2", "BIOES", "BILOU", "BMES"]


@settings(max_examples=200)
@given(sentences=st.lists(PIECES, min_size=1, max_size=4), separator=st.sampled_from("-_"), lower=st.booleans())
def test_each_scheme_says_what_it_was_made_from(
    sentences: list[list[tuple[int, str]]], separator: str, lower: bool
) -> None:
    gold = []
    for pieces in sentences:
        ends = list(itertools.accumulate(length for length, _ in pieces))
        gold.append(
            [(end - size, end - 1, label) for end, (size, label) in zip(ends, pieces, strict=True) if label != "O"]
        )
    for scheme in SCHEMES:
        tags = [encode(pieces, scheme) for pieces in sentences]
        tags = [[tag.replace("-", separator, 1) for tag in own] for own in tags]
        tags = [[tag[0].lower() + tag[1:] if lower else tag for tag in own] for own in tags]
        assert decode(*tags) == gold, scheme


SAMPLES = {
    "IOB1": "Anna I-PER\nKarl I-PER\nBo B-PER\nin O\nOslo I-LOC\n",
    "IOB2": "Anna B-PER\nKarl I-PER\nBo B-PER\nin O\nOslo B-LOC\n",
    "BIOES": "Anna B-PER\nKarl E-PER\nBo S-PER\nin O\nOslo S-LOC\n",
    "BILOU": "Anna B-PER\nKarl L-PER\nBo U-PER\nin O\nOslo U-LOC\n",
    "BMEWO": "Anna B-PER\nKarl E-PER\nBo W-PER\nin O\nOslo W-LOC\n",
    "IOE2": "Anna I-PER\nKarl E-PER\nBo E-PER\nin O\nOslo E-LOC\n",
    "IOE1": "Anna I-PER\nKarl E-PER\nBo I-PER\nin O\nOslo I-LOC\n",
    "IOBE": "Anna B-PER\nKarl E-PER\nBo B-PER\nin O\nOslo B-LOC\n",
    "tabs, underscores and small letters": "Anna\tb_PER\nKarl\ti_PER\nBo\tb_PER\nin\to\nOslo\tb_LOC\n",
}


@pytest.mark.parametrize("scheme", SAMPLES)
def test_a_file_of_each_scheme(tmp_path: Path, scheme: str) -> None:
    (example,) = read(write(tmp_path, SAMPLES[scheme]))
    assert shown(example) == [("Anna Karl", "PER"), ("Bo", "PER"), ("Oslo", "LOC")]


def test_the_scheme_is_that_of_the_whole_file(tmp_path: Path) -> None:
    first = SAMPLES["IOB1"].replace("Oslo I-LOC", "-DOCSTART- O\n\nOslo I-LOC")
    assert [shown(one) for one in read(write(tmp_path, first))] == [
        [("Anna Karl", "PER"), ("Bo", "PER")],
        [("Oslo", "LOC")],
    ]
    broken = "Anna I-PER\n\n-DOCSTART- O\n\nsat O\nBo B-PER\n"  # IOB2 whose first tag is wrong
    with pytest.raises(DataError, match=r"a\.conll:1: I-PER follows the beginning of a sentence, but in this file B"):
        read(write(tmp_path, broken))
    rows = [
        {"id": 0, "sentences": [["a", "b"]], "tags": [["I-X", "B-X"]]},
        {"id": 7, "sentences": [["c"]], "tags": [["I-X"]]},
    ]
    one, other = read(lines(tmp_path, *rows))
    assert (one.id, shown(one), other.id, shown(other)) == ("0", [("a", "X"), ("b", "X")], "7", [("c", "X")])
    with pytest.raises(DataError, match=r"a\.jsonl:1: tags\[0\]\[0\]\[0\]: I-X follows the beginning"):
        read(lines(tmp_path, *rows, {"sentences": [[], ["d", "e"]], "tags": [[], ["O", "B-X"]]}))


LITBANK = {
    "id": "1",
    "sentences": [["the", "house", "of", "the", "man"], ["He", "left"]],
    "tags": [
        [["O", "O", "O", "B-PER", "I-PER"], ["O", "O"]],
        [["B-FAC", "I-FAC", "I-FAC", "I-FAC", "I-FAC"], ["O", "O"]],
    ],
}


def test_entities_inside_words_are_counted(tmp_path: Path) -> None:
    text = "Annabel, 东京大学"
    entities = [[0, 4, "PER"], [4, 7, "PER"], [7, 8, "MARK"], [9, 11, "LOC"], [11, 13, "ORG"]]
    path, report = lines(tmp_path, {"id": "1", "text": text, "entities": entities}), ReadReport()
    list(make_task("tagging", {}).read(path, split="train", report=report))
    note = "2 of 5 entities begin or end inside a word, which predicted ones never do; offsets count characters"
    assert report.notes() == [note]


def test_nested_layers(tmp_path: Path) -> None:
    path = lines(tmp_path, LITBANK)
    with pytest.raises(DataError) as error:
        read(path)
    assert str(error.value) == (
        f"{path}:1: the entities FAC 0:20 and PER 13:20 overlap; set task.options.overlapping to outermost or innermost"
    )
    report = ReadReport()
    (inner,) = make_task("tagging", {"overlapping": "innermost"}).read(path, split="train", report=report)
    assert shown(inner) == [("the man", "PER")]
    assert inner.extra == {"entities_left_out": 1}
    assert report.notes() == ["1 of 2 entities overlap others or have several pieces; left out"]
    assert shown(read(path, overlapping="outermost")[0]) == [("the house of the man", "FAC")]
    assert make_task("tagging", {}).metrics([(inner, said("1"))])["entities_kept"] == 50
    one_layer = LITBANK | {"tags": LITBANK["tags"][0]}  # type: ignore[index]
    assert shown(read(lines(tmp_path, one_layer))[0]) == [("the man", "PER")]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"tags": [[["O"] * 4, ["O"] * 2]]}, ":1: tags[0][0] has 4 tags for 5 words"),
        ({"tags": [[["O"] * 5]]}, ":1: tags[0] has 1 sentences, but sentences has 2"),
        ({"tags": [[["B-X", "O", "O", "O", "I-X"], ["O"] * 2]]}, ":1: tags[0][0][4]: I-X follows O"),
        ({"tags": [3]}, ":1: tags[0] must be a list, but is 3"),
        ({"sentences": [["a", 3]]}, ":1: sentences[0][1] must be a string, but is 3"),
        ({"sentences": [], "tags": []}, ":1: document '1': "),
    ],
)
def test_wrong_layers(tmp_path: Path, change: dict[str, object], expected: str) -> None:
    with pytest.raises(DataError) as error:
        read(lines(tmp_path, LITBANK | change))
    assert expected in str(error.value)


def test_standoff_in_pieces(tmp_path: Path) -> None:
    text = "alpha and beta cells in mice"
    whole = {"type": "CL", "spans": [[10, 20]], "concept": "CL:1"}
    broken = {"type": "CL", "spans": [[0, 5], [15, 20]], "concept": "CL:2"}
    record = {"id": "1", "split": "train", "text": text, "entities": [whole, broken], "copyright": "-"}
    path = lines(tmp_path, record, record | {"id": "2", "split": "dev", "entities": []})
    with pytest.raises(
        DataError, match=r":1: an entity CL of 2 pieces, but only one piece is possible; set task\.options"
    ):
        read(path)
    (train,) = read(path, overlapping="outermost")
    assert shown(train) == [("beta cells", "CL")]
    assert train.extra == {"entities_left_out": 1}
    (validation,) = make_task("tagging", {}).read(path, split="validation")
    assert (validation.id, validation.entities) == ("2", ())
    (numbered,) = read(lines(tmp_path, record | {"id": 7, "entities": [whole]}))
    assert numbered.id == "7"
    wrong = lines(tmp_path, record | {"entities": [{"type": "CL", "spans": [3]}]})
    with pytest.raises(DataError, match=r":1: entities\[0\]\.spans\[0\] must be a list, but is 3"):
        read(wrong)


def test_json_lines(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        {"id": "1", "text": "Anna in Paris", "entities": [[0, 4, "PER"], {"start": 8, "end": 13, "label": "LOC", "text": "Paris"}]},
        {"id": "2", "text": "nothing", "entities": []},
        {"id": "3", "text": "unknown"},
    )  # fmt: skip
    report = ReadReport()
    first, second, third = make_task("tagging", {}).read(path, split="test", report=report)
    assert first.entities == (Entity(0, 4, "PER"), Entity(8, 13, "LOC"))
    assert (second.entities, third.entities) == ((), None)
    assert [id for id, _ in report.unmapped] == ["3"]
    again = tmp_path / "b.jsonl"
    write_examples(again, [first])
    assert list(JsonLines().read(again, split="test")) == [first]


@pytest.mark.parametrize(
    ("entities", "expected"),
    [
        ([[0, 4]], ":1: entities[0] must be [start, end, label], but is [0, 4]"),
        ([[0, 99, "PER"]], ":1: example '1': the span 0:99 leaves the document of 13 characters"),
        ([[4, 4, "PER"]], ":1: entity: start 4 and end 4 must be integers"),
        ([[0, 4, " "]], ":1: entity 0:4: the label ' ' is not a name"),
        (
            [{"start": 0, "end": 4, "label": "PER", "text": "Bert"}],
            ":1: entities[0]: the text at 0 is 'Anna', not 'Bert'",
        ),
        ([[0, 4, "PER"], [2, 7, "LOC"]], "example '1': the entities PER 0:4 and LOC 2:7 overlap"),
    ],
)
def test_wrong_spans(tmp_path: Path, entities: list[object], expected: str) -> None:
    with pytest.raises(DataError) as error:
        read(lines(tmp_path, {"id": "1", "text": "Anna in Paris", "entities": entities}))
    assert expected in str(error.value)


def test_wrong_files(tmp_path: Path) -> None:
    twice = lines(tmp_path, LITBANK | {"tags": [[["O"] * 5, ["O"] * 2]]}, LITBANK | {"tags": [[["O"] * 5, ["O"] * 2]]})
    with pytest.raises(DataError, match=r"a\.jsonl:2: the id '1' is already used at .*a\.jsonl:1"):
        read(twice)
    mixed = lines(tmp_path, LITBANK | {"tags": [[["O"] * 5, ["O"] * 2]]}, {"id": "2", "text": "x", "entities": []})
    with pytest.raises(DataError, match=r"a\.jsonl:2: this line has another format than the lines before"):
        read(mixed)
    with pytest.raises(ConfigError, match="task tagging: overlapping must be 'refuse', 'outermost' or 'inn"):
        make_task("tagging", {"overlapping": "all"})


SPAN = st.builds(
    lambda start, length, label: Entity(start, start + length, label),
    st.integers(0, 20),
    st.integers(1, 8),
    st.sampled_from("AB"),
)


@settings(max_examples=200)
@given(entities=st.lists(SPAN, max_size=10), how=st.sampled_from(["outermost", "innermost"]))
def test_flat_entities_share_no_character(entities: list[Entity], how: str) -> None:
    kept = _flat(entities, how, "a")  # type: ignore[arg-type]
    assert set(kept) <= set(entities)
    assert all(one.end <= other.start for one, other in itertools.pairwise(kept))
    length = max if how == "outermost" else min
    for entity in set(entities) - set(kept):
        rivals = [own for own in kept if own.start < entity.end and entity.start < own.end]
        sizes = [own.end - own.start for own in rivals]
        assert rivals, "only what overlaps is left out"
        assert length(*sizes, entity.end - entity.start) in sizes
    assert _flat(kept, "refuse", "a") == kept


def said(id: str, *entities: tuple[int, int, str], n_unread: int = 0) -> Prediction:
    found = tuple(PredictedEntity(start, end, "", label, 0.9) for start, end, label in entities)
    return Prediction(
        id=id, answer="", start=None, end=None, confidence=1, entities=found, n_tokens=10, n_unread=n_unread
    )


def test_f1_of_entities() -> None:
    gold = [{(0, 3, "PER"), (5, 6, "LOC")}, {(0, 2, "PER")}, set()]
    found = [{(0, 3, "PER"), (5, 6, "PER")}, {(0, 2, "PER")}, {(1, 2, "ORG")}]
    counts = count_labels([("", one, other) for one, other in zip(gold, found, strict=True)])
    types = {label: Score.of_counts(*numbers) for label, numbers in counts.items()}
    assert (types["PER"].precision, types["PER"].recall, types["PER"].f1) == pytest.approx((2 / 3, 1, 0.8))
    assert types["LOC"] == types["ORG"] == Score(0.0, 0.0, 0.0, 0.0)
    assert {label: n_gold for label, (_, _, n_gold) in counts.items()} == {"LOC": 1, "ORG": 0, "PER": 2}
    assert list(counts) == ["LOC", "ORG", "PER"]
    examples = [Example(id=str(n), document=Document("0123456"), entities=tuple(Entity(*one) for one in entities))
                for n, entities in enumerate(gold)]  # fmt: skip
    metrics = make_task("tagging", {}).metrics(
        (example, said(example.id, *entities)) for example, entities in zip(examples, found, strict=True)
    )
    expected = {"entity_precision": 100 / 2, "entity_recall": 200 / 3, "entity_f1": 400 / 7}
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert make_task("tagging", {}).metrics([(examples[2], said("2"))])["entity_f1"] == 0


def test_metrics() -> None:
    task = make_task("tagging", {})
    document = Document("0123456789")
    first = Example(id="1", document=document, entities=(Entity(0, 3, "PER"), Entity(5, 6, "LOC")))
    second = Example(id="2", document=document, entities=())
    unknown = Example(id="3", document=document)
    pairs = [(first, said("1", (0, 3, "PER"))), (second, said("2")), (unknown, said("3", (0, 1, "PER")))]
    assert task.metrics(pairs) == {
        "entity_precision": 100, "entity_recall": 50, "entity_f1": pytest.approx(200 / 3),
        "document_f1": pytest.approx(100 * (2 / 3 + 1) / 2),
    }  # fmt: skip
    assert task.metrics(pairs[2:]) == {}
    assert task.metrics([(first, said("1", n_unread=4))])["tokens_read"] == 60


def test_an_unseen_type_counts_as_missed() -> None:
    example = Example(id="1", document=Document("0123456789"), entities=(Entity(0, 3, "NEW"),))
    assert make_task("tagging", {}).metrics([(example, said("1"))])["entity_recall"] == 0


def test_older_predictions_have_no_entities() -> None:
    values = said("1", (0, 3, "PER")).to_dict()
    assert Prediction.from_dict(values) == said("1", (0, 3, "PER"))
    del values["entities"], values["n_unread"]
    assert Prediction.from_dict(values).entities == ()


@pytest.mark.parametrize(("split", "documents"), [("train", 60), ("dev", 10), ("test", 15)])
def test_the_real_novels(data_folder: Path, split: str, documents: int) -> None:
    path = data_folder / "litbank" / f"{split}.jsonl.gz"
    examples = read(path, overlapping="innermost")
    assert len(examples) == documents
    with gzip.open(path, "rt") as file:
        first_layer = sum(tag.startswith("B") for line in file for row in json.loads(line)["tags"][0] for tag in row)
    assert sum(len(example.entities or ()) for example in examples) == first_layer, "the innermost are layer 0"
    with pytest.raises(DataError, match="overlap; set"):
        read(path)


def test_the_real_articles(data_folder: Path) -> None:
    task = make_task("tagging", {"overlapping": "outermost"})
    path = data_folder / "craft" / "concepts.jsonl.gz"
    counts = {split: sum(1 for _ in task.read(path, split=split)) for split in ("train", "validation", "test")}
    assert counts == {"train": 60, "validation": 7, "test": 30}
