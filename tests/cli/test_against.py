"""``cogltx evaluate --against`` and ``--html``: two models, the verdict, and the page of their differences."""

import json
import re
import shutil
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import corpus
import pytest
from axe_playwright_python.sync_playwright import Axe
from command_line import COUNT, Call, Files
from playwright.sync_api import sync_playwright

from cogltx.cli._comparison import System, compare
from cogltx.display._differences import differences
from cogltx.document import Document, Example, Query
from cogltx.prediction import Answer, Prediction
from cogltx.tasks import make_task
from cogltx.tasks.jsonl import write_examples

CHROMIUM = shutil.which("chromium")
HOSTILE = "<script>alert('x')</script>"


def systems(ours: Sequence[bool], theirs: Sequence[bool], n_documents: int) -> tuple[System, System]:
    """Two systems that answer right where they say so; question i is about document i modulo ``n_documents``."""

    def system(name: str, is_right: Sequence[bool]) -> System:
        pairs = []
        for number, right in enumerate(is_right):
            document = Document(f"anna has the boat {number % n_documents} .", f"d{number % n_documents}")
            example = Example(id=str(number), document=document, query=Query("what?"), answers=("boat",))
            pairs.append(
                (example, Prediction(id=str(number), answer="boat" * right, start=None, end=None, confidence=1))
            )
        return System(name, make_task("jsonl", {}), pairs)

    return system("ours", ours), system("theirs", theirs)


@pytest.mark.parametrize(
    ("ours", "theirs", "n_documents", "result", "expected"),
    [
        ([True] * 40, [False] * 40, 20, "better", r"ours is better than theirs: f1 \+100.0 points \(95 %: \+100.0 to \+100.0\), 40 questions."),
        ([False] * 30 + [True] * 10, [True] * 40, 40, "worse", r"ours is worse than theirs: f1 -75.0 points \(95 %: -\d+.\d to -\d+.\d\), 40 questions."),
        ([True, False] * 20, [False, True] * 20, 40, "same", r"No difference beyond chance: f1 \+0.0 points .*"),
        ([True] * 100, [True] * 95 + [False] * 5, 100, "same", r"No difference beyond chance: .* Only 5 documents changed."),
        ([True] * 30, [True] * 30, 30, "same", "No difference: f1 is the same, 30 questions."),
        ([True] * 12, [False] * 12, 12, "too few", r"Too few to tell, at least 20 are needed: f1 \+100.0 points .*, 12 questions."),
        ([True] * 40, [False] * 40, 1, "better", r"ours is better than theirs on this document: .*"),
        ([True] * 40, [False] * 40, 3, "better", r"ours is better than theirs on these 3 documents: .*"),
    ],
)  # fmt: skip
def test_the_verdict(ours: list[bool], theirs: list[bool], n_documents: int, result: str, expected: str) -> None:
    verdict = compare(*systems(ours, theirs, n_documents))["verdict"]
    assert verdict["result"] == result
    assert re.fullmatch(expected, verdict["text"])
    assert verdict["resampled"] == ("documents" if n_documents >= 10 else "questions")
    assert ("not other documents" in verdict["note"]) is (n_documents < 10)


def test_one_document_has_an_interval_of_its_questions() -> None:
    """A bootstrap over its only document would have no spread."""
    found = compare(*systems([True] * 30, [True, False] * 15, 1))
    row = next(row for row in found["against"] if row["metric"] == "f1")
    assert row["low"] < row["difference"] == 50 < row["high"]


def test_two_models(files: Files, call: Call, tmp_path: Path) -> None:
    """The other model has another task in its configuration, and reads the same."""
    other = tmp_path / "other"
    assert not call("export", files.run, "--output", other).code
    config = json.loads((other / "config.json").read_text())
    config["task"] = {"name": "squad", "options": {}}
    (other / "config.json").write_text(json.dumps(config))
    command = ["evaluate", files.run, "--data", files.data, "--against", other]
    found = call(*command, "--json").json
    assert found["systems"] == [str(files.run), str(other)]
    rows = {row["metric"]: row for row in found["against"]}
    assert rows["f1"]["value"] == rows["f1"]["other"] == found["metrics"]["f1"]
    assert (found["verdict"]["result"], found["verdict"]["documents"]) == ("same", COUNT)
    back = call("evaluate", other, "--data", files.data, "--against", files.run, "--json")
    assert (back.code, back.json["task"]) == (0, "squad")
    changed = call(*command, "--set", "reasoner.always_answers=true", "--judge", "bm25")
    assert "…s_answers=true, judge=bm25)  " in changed.out


def test_what_cannot_be_compared_is_one_line(files: Files, tagged: Path, call: Call, tmp_path: Path) -> None:
    def failure(*arguments: object) -> str:
        done = call("evaluate", *arguments)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        return done.err

    data = ["--data", files.data, "--against"]
    assert "qa-minilmm: no such folder; did you mean qa-minilm?" in failure(files.run, *data, "qa-minilmm")
    assert "nothing/p.jsonl: file not found" in failure(files.run, *data, "nothing/p.jsonl")
    kinds = failure(tagged / "run", "--data", tagged / "data.conll", "--against", "qa-minilm")
    assert "run finds entities, but qa-minilm answers questions; compare models of one kind" in kinds
    others, written = tmp_path / "others.jsonl", tmp_path / "p.jsonl"
    write_examples(others, corpus.make(COUNT, seed=1))
    assert not call("evaluate", files.run, "--data", others, "--predictions", written).code
    assert "'0' was made from another text or question" in failure(files.run, *data, written)
    written.write_text(written.read_text().partition("\n")[0] + "\n")
    assert "p.jsonl: no prediction for example '1'" in failure(files.run, "--data", others, "--against", written)
    assert "is a folder" in failure(files.run, "--data", others, "--html", tmp_path)


def test_labels_that_a_model_does_not_know_count_as_missed(classified: Path, call: Call, tmp_path: Path) -> None:
    run = tmp_path / "model"
    assert not call("export", classified / "run", "--output", run).code
    config = json.loads((run / "config.json").read_text())
    config["reasoner"]["labels"] = ["boat", "egg"]
    (run / "config.json").write_text(json.dumps(config))
    done = call("evaluate", classified / "run", "--data", classified / "data", "--against", run, "--json")
    assert done.code == 0, done.err
    assert f"{run} was not trained on labels of 3 of 6 examples, which it misses: cup" in done.err
    assert {one["metric"]: one["other"] <= 50 for one in done.json["against"]}["accuracy"]
    done = call("evaluate", run, "--data", classified / "data", "--json")
    assert done.code == 0, done.err
    assert done.json["labels"]["cup"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "texts": 3}


class Page(HTMLParser):
    """Checks that elements are nested, and collects the text of each tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert not [
            name for name, value in attributes if name in ("src", "onclick") or (value or "").startswith("http")
        ]
        self.texts.setdefault(tag, []).append("")
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            self.texts[tag][-1] += data


def test_the_page_of_labels_and_of_entities(classified: Path, tagged: Path, call: Call, tmp_path: Path) -> None:
    page = tmp_path / "pages" / "page.html"
    for run, data in ((classified / "run", classified / "data"), (tagged / "run", tagged / "data.conll")):
        for against in ([], ["--against", run]):
            done = call("evaluate", run, "--data", data, "--html", page, *against)
            assert done.code == 0, done.err
            assert done.err == f"page: {page}\n"
            texts = Page(page.read_text()).texts
            assert texts["h1"] == [f"{run} against {run}" if against else str(run)]
            assert len(texts["h3"]) == (6 if run == classified / "run" else 3)
            assert "script" not in texts


def case(number: int, ours: str, theirs: str, scores: tuple[float, float], **values: object) -> dict[str, object]:
    text = f"{HOSTILE} anna has the boat . " + "a piece of noise . " * 60 + "bert has the cup ."
    document = Document(text, f"document {number % 2}")

    def prediction(answer: str) -> dict[str, object]:
        start = text.index(answer) if answer else None
        end = start + len(answer) if start is not None else None
        others = (Answer("cup", text.index("cup"), text.index("cup") + 3, 0.2),)
        return Prediction(
            id="", answer=answer, start=start, end=end, confidence=0.9, no_answer_confidence=0.1, alternatives=others
        ).to_dict()  # fmt: skip

    span = (text.index("boat"), text.index("boat") + 4)
    return {
        "question": f"{HOSTILE} what does anna have, {number}?", "document": document, "answers": ("boat",),
        "spans": [span], "labels": None, "entities": None, "scores": scores,
        "predictions": [prediction(ours), prediction(theirs)],
    } | values  # fmt: skip


CASES = [
    case(0, "boat", "boat", (1.0, 1.0)),
    case(1, "boat", "", (1.0, 0.0)),
    case(2, "cup", "boat", (0.0, 1.0)),
    case(3, "the boat", "has the boat", (1.0, 0.8)),
    case(4, "cup", "", (0.0, 0.0)),
]


def test_the_page_is_grouped_and_escaped() -> None:
    page = differences(["a", "b"], CASES, data="mine.jsonl", verdict=["a is better than b."], result="better")
    texts = Page(page).texts
    assert "script" not in texts
    assert texts["h2"] == [
        "Now right 1 question", "Now wrong 1 question", "Better 1 question",
        "Another answer, the same score 1 question", "No change 1 question",
    ]  # fmt: skip
    assert [title[-2] for title in texts["h3"]] == ["1", "2", "3", "4", "0"]
    assert len(texts["details"]) == 2, "what did not change is folded"
    assert "Better: 2 (1 now right). Worse: 1 (1 now wrong). The same score: 2." in texts["div"][0]
    assert "Not found in the text" in texts["dd"][2]
    assert texts["strong"] == ["the gold answer", *["boat"] * 5]
    assert texts["b"][3:] == ["cup", "has ", "the ", "cup"], "where the answers differ from the gold answer"


def test_a_long_page_is_folded_and_cut() -> None:
    cases = [case(number, "cup", "boat", (0.0, 1.0)) for number in range(400)]
    texts = Page(differences(["a", "b"], cases, data="mine.jsonl")).texts
    assert len(texts["h3"]) == 300
    assert texts["summary"] == ["280 more questions"]
    assert "The page has the first 300 of them; --predictions FILE writes all answers of a." in texts["section"][0]


def test_the_page_of_one_model_begins_with_wrong_answers(files: Files, call: Call, tmp_path: Path) -> None:
    assert not call("evaluate", files.run, "--data", files.data, "--html", tmp_path / "page.html").code
    texts = Page((tmp_path / "page.html").read_text()).texts
    assert texts["h2"][0].startswith("Wrong ")
    assert "Better" not in texts["main"][0]


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian's package chromium)")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 1000), ("light", 360)])
def test_the_page_in_a_browser(tmp_path: Path, scheme: Literal["light", "dark"], width: int) -> None:
    rows = [{"metric": "f1", "value": 60.0, "other": 50.0, "difference": 10.0, "low": -1.0, "high": 20.0}]
    page = differences(["runs/" + "my" * 20, "b"], CASES, data="mine.jsonl", verdict=["Better."], metrics=rows)
    (tmp_path / "page.html").write_text(page)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
        requests: list[str] = []
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto((tmp_path / "page.html").as_uri())
        assert len(requests) == 1
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        hidden = tab.get_by_text("what does anna have, 0?")
        assert not hidden.is_visible()
        tab.locator("summary").last.focus()
        tab.keyboard.press("Enter")
        assert hidden.is_visible()
        found = Axe().run(tab)
        assert not found.violations_count, found.generate_report()
        browser.close()
