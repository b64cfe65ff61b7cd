"""The HTML report: what is marked, folded and escaped."""

import re
import time
from html.parser import HTMLParser
from pathlib import Path

from fakes import reader

from cogltx import Document, MemRecall, Prediction
from cogltx.display import report
from cogltx.prediction import Answer, Evidence

TEXT = "The bridge is old. " * 100 + "Ilse Brandt designed it in 1911." + " Rain fell on the hills." * 100
START = TEXT.index("Ilse")


class Page(HTMLParser):
    """The text of a page's elements, and those that are open at its end."""

    VOID = ("meta", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.ids: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attributes if name == "id" and value]
        if tag not in self.VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            self.texts[tag][-1] += data


def evidence(start: int, end: int, text: str = TEXT, **values: object) -> Evidence:
    return Evidence(start, end, text[start:end], **{"score": 0.9, "step": 1, **values})


def prediction(answer: str = "Ilse Brandt", *blocks: Evidence, **values: object) -> Prediction:
    start = START if answer else None
    end = START + len(answer) if answer else None
    return Prediction(
        **{"id": "", "answer": answer, "start": start, "end": end, "confidence": 0.87, "evidence": blocks} | values
    )


def test_the_answer_and_the_key_blocks_are_marked() -> None:
    found = prediction("Ilse Brandt", evidence(START, START + 32), evidence(0, 18, score=0.3, step=2, kept=False))
    page = Page(found.to_html(Document(TEXT, "bridge.txt"), "Who designed it?"))
    assert page.open == []
    assert page.texts["strong"] == ["Ilse Brandt"]
    assert page.texts["mark"] == ["The bridge is old.", "Ilse Brandt designed it in 1911."]
    assert page.texts["h1"] == ["Who designed it?"]
    assert {"answer", "key-1", "key-2"} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert [re.sub(r"\s+", " ", text).strip() for text in page.texts["section"]] == [
        f"Step 1 of MemRecall 0.90 · characters {START:,}–{START + 32:,}Ilse Brandt designed it in 1911.",
        "Step 2 of MemRecall 0.30 · characters 0–18 · fills the windowThe bridge is old.",
    ]


def test_all_text_is_there_and_long_stretches_are_folded() -> None:
    page = Page(prediction("Ilse Brandt", evidence(START, START + 32)).to_html(TEXT))
    shown = page.texts["div"][-1]
    for summary in page.texts["summary"]:
        shown = shown.replace(summary, "", 1)
    assert shown == TEXT
    assert len(page.texts["details"]) == 2
    assert all(re.fullmatch(r"[\d,]+ characters without a key block", summary) for summary in page.texts["summary"])


def test_markup_in_a_text_stays_text() -> None:
    bad = '<script>alert("x")</script><img src=x onerror=alert(1)> & "quotes" ' * 3
    page = prediction("", evidence(0, 20, bad)).to_html(Document(bad, bad), bad)
    assert "<script" not in page
    assert "<img" not in page
    assert Page(page).texts["div"][-1] == bad


def test_an_answer_that_is_no_span_and_one_outside_the_key_blocks() -> None:
    assert "No answer in the text" in prediction("").to_html(TEXT)
    hidden = prediction("Ilse Brandt", confidence=0.4, no_answer_confidence=0.1).without_answer().to_html(TEXT)
    assert "No sure answer in the text" in hidden
    assert "not sure: 0 %" not in hidden
    assert "“Ilse Brandt” (not sure: 40 %)" in hidden
    page = Page(prediction("Ilse Brandt", evidence(0, 18)).to_html(TEXT))
    assert page.texts["strong"] == ["Ilse Brandt"]
    assert page.texts["mark"] == ["The bridge is old."]


def test_the_confidence_and_the_candidates() -> None:
    others = (Answer("Anna <Karlsson>", 0, 15, 0.1), Answer("the bridge", 0, 10, 0.004))
    page = prediction("Ilse Brandt", alternatives=others, no_answer_confidence=0.03).to_html(TEXT)
    assert "87 % sure" in page
    assert "Less probable: “Anna &lt;Karlsson&gt;” (not sure: 10 %)" in page
    assert "“the bridge”" not in page, "less than 1 %"
    none = prediction("", alternatives=others, confidence=0.4, no_answer_confidence=0.4).to_html(TEXT)
    assert "No answer in the text" in none
    assert "not sure: 40 %" in none
    assert "The nearest: “Anna &lt;Karlsson&gt;” (not sure: 10 %)" in none
    labelled = prediction("", alternatives=others).to_html(TEXT)
    assert "Anna" not in labelled, "labels that were not chosen are no candidates"


def test_several_documents() -> None:
    documents = [Document("The mill burned down in 1957.", "mill"), Document(TEXT, "bridge")]
    found = prediction(
        "Ilse Brandt",
        evidence(START, START + 32, document="bridge"),
        evidence(4, 8, "The mill burned", document="mill"),
        document="bridge",
    )
    page = Page(found.to_html(documents))
    assert page.texts["mark"] == ["mill", "Ilse Brandt designed it in 1911."]
    assert page.texts["strong"] == ["Ilse Brandt"]
    assert f"bridge, characters {START:,}" in page.texts["main"][0]


def test_without_the_document_there_are_no_links() -> None:
    page = prediction("Ilse Brandt", evidence(START, START + 32, page=3)).to_html()
    assert "href" not in page
    assert "page 3" in page


def test_notebooks_show_a_fragment(tiny_encoder: Path) -> None:
    found = reader(tiny_encoder).predict("The cat sat on the mat.", "Who sat?")
    assert found._repr_html_().lstrip().startswith("<style>")
    recall = MemRecall(judge="bm25", tokenizer=str(tiny_encoder)).recall(TEXT, "Who designed the bridge?")
    assert recall._repr_html_().lstrip().startswith("<style>")
    page = Page(recall.to_html())
    assert page.open == []
    assert len(page.texts["mark"]) == len(recall.key_blocks)
    assert page.texts["h1"] == ["Who designed the bridge?"]


def test_a_long_document_takes_no_long_time() -> None:
    text = "A sentence of a very long document. " * 120_000
    start = time.process_time()
    page = prediction("", *(evidence(n * 100_000, n * 100_000 + 35, text) for n in range(40))).to_html(text)
    assert time.process_time() - start < 5
    assert len(page) < 1.02 * len(text) + 100_000


def test_scores_of_any_size_are_shades() -> None:
    for scores in ((0.0, 0.0), (-2.0, -3.0), (12.0, 3.0)):
        shades = re.findall(
            r"--shade: ([\d.]+)\"", report({}, [evidence(0, 9, score=score).__dict__ for score in scores])
        )
        assert all(0 < float(shade) <= 1 for shade in shades)
        assert len(shades) == 2


def test_pages_have_numbers_or_names() -> None:
    named = [evidence(0, 18, page="slide 4"), evidence(START, START + 32, page=2)]
    page = prediction("Ilse Brandt", *named).to_html(TEXT)
    assert "slide 4" in page
    assert "page 2" in page
