"""The HTML report: what is marked, linked, folded and escaped."""

import re
import time
from html.parser import HTMLParser
from pathlib import Path

from fakes import reader

from cogltx import Document, MemRecall, Prediction, Segment
from cogltx.display import report
from cogltx.prediction import Answer, Evidence, Label, PredictedEntity

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


def test_the_answer_and_the_passages_are_marked() -> None:
    blocks = evidence(0, 18, score=0.9), evidence(START, START + 32, score=0.3, step=2, kept=False)
    page = Page(prediction("Ilse Brandt", *blocks).to_html(Document(TEXT, "bridge.txt"), "Who designed it?"))
    assert page.open == []
    assert page.texts["strong"] == ["Ilse Brandt"]
    assert page.texts["mark"] == ["The bridge is old.", "Ilse Brandt designed it in 1911."]
    assert page.texts["h1"] == ["Who designed it?"]
    assert {"answer", "passage-1", "passage-2"} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert page.texts["h2"][0] == "Passages that were found"
    assert page.texts["li"] == ["line 1Ilse Brandt designed it in 1911.", "line 1The bridge is old."], "the best first"


def test_no_words_of_the_method_and_no_offsets() -> None:
    for found in (prediction("Ilse Brandt", evidence(0, 18), evidence(START, START + 32)), prediction("")):
        shown = Page(found.to_html(TEXT, "Who?")).texts["main"][0].partition("</style>")[0].lower()
        assert not re.search(r"key block|memrecall|step|score|0\.90|window|–", shown)
        assert str(START) not in shown.replace(",", "")


def test_all_text_is_there_and_long_stretches_are_folded() -> None:
    page = Page(prediction("Ilse Brandt", evidence(START, START + 32)).to_html(TEXT))
    shown = page.texts["div"][-1]
    for summary in page.texts["summary"]:
        shown = shown.replace(summary, "", 1)
    assert shown == TEXT
    assert len(page.texts["details"]) == 2
    assert all(re.fullmatch(r"[\d,]+ characters without a passage", summary) for summary in page.texts["summary"])


def test_markup_in_a_text_stays_text() -> None:
    bad = '<script>alert("x")</script><img src=x onerror=alert(1)> & "quotes" ' * 3
    page = prediction("", evidence(0, 20, bad)).to_html(Document(bad, bad), bad)
    assert "<script" not in page
    assert "<img" not in page
    assert Page(page).texts["div"][-1] == bad


def test_an_answer_that_is_no_span_and_one_outside_the_passages() -> None:
    assert "Not found in the text" in prediction("", no_answer_confidence=0.87).to_html(TEXT)
    hidden = prediction("Ilse Brandt", confidence=0.4, no_answer_confidence=0.1).without_answer().to_html(TEXT)
    assert "No sure answer in the text" in hidden
    assert "not sure, 0 %" not in hidden
    assert "The nearest is “Ilse Brandt” (not sure, 40 %), <a" in hidden
    page = Page(prediction("Ilse Brandt", evidence(0, 18)).to_html(TEXT))
    assert page.texts["strong"] == ["Ilse Brandt"]
    assert page.texts["mark"] == ["The bridge is old."]
    crossing = evidence(START - 19, START + 4), evidence(START + 4, START + 32)
    page = Page(prediction("Ilse Brandt", *crossing).to_html(TEXT))
    assert page.texts["strong"] == ["Ilse", " Brandt"]
    assert page.ids.count("answer") == 1


def test_the_confidence_and_the_candidates() -> None:
    bridge = START - 15
    others = (Answer("Anna <Karlsson>", None, None, 0.1), Answer("bridge", bridge, bridge + 6, 0.02))
    few = (*others, Answer("the bridge", 0, 10, 0.004))
    page = prediction("Ilse Brandt", alternatives=few, no_answer_confidence=0.03).to_html(TEXT)
    assert "sure, 87 %" in page
    assert "Less probable: “Anna &lt;Karlsson&gt;” (not sure, 10 %)" in page
    assert "“the bridge”" not in page, "less than 1 %"
    blocks = evidence(0, 18), evidence(bridge - 3, bridge + 7, score=0.2)
    none = prediction("", *blocks, alternatives=few, confidence=0.4, no_answer_confidence=0.4)
    shown = Page(none.to_html(Document(TEXT, "bridge.txt")))
    assert shown.texts["p"][:2] == ["Not found in bridge.txt", "not sure, 40 %"]
    assert shown.texts["li"][:2] == [
        "The nearest is “Anna <Karlsson>” (not sure, 10 %)", "Then “bridge” (not sure, 2 %), line 1",
    ]  # fmt: skip
    assert shown.texts["b"] == ["bridge", "bridge"], "in its passage, which is first, and in the text"
    assert "candidate-2" in shown.ids
    labelled = prediction("", alternatives=others).to_html(TEXT)
    assert "Anna" not in labelled, "labels that were not chosen are no candidates"


def test_labels_and_entities() -> None:
    labels = (Label("boat", 0.92, chosen=True), Label("cup", 0.08, chosen=False))
    labelled = Page(prediction("boat", start=None, end=None, labels=labels).to_html(TEXT))
    assert labelled.texts["li"] == ["92 % boat", "8 % cup"]
    none = Page(prediction("", labels=(Label("cup", 0.08, chosen=False),)).to_html(TEXT))
    assert none.texts["p"] == ["No label", "sure, 87 %"]
    entity = PredictedEntity(START, START + 11, "Ilse Brandt", "person", 0.993)
    page = Page(prediction("", entities=(entity,)).to_html(TEXT))
    assert page.texts["h2"][0] == "1 entity"
    assert page.texts["li"] == ["person: Ilse Brandt (sure, 99 %), line 1"]
    assert page.texts["b"] == ["Ilse Brandt"]
    assert "entity-1" in page.ids


def test_several_documents() -> None:
    documents = [Document("The mill burned down in 1957.", "mill"), Document(TEXT, "bridge")]
    found = prediction(
        "Ilse Brandt",
        evidence(START, START + 32, document="bridge"),
        evidence(4, 8, "The mill burned", document="mill"),
        document="bridge",
    )
    page = Page(found.to_html(documents))
    assert page.texts["mark"] == ["Ilse Brandt designed it in 1911.", "mill"]
    assert page.texts["strong"] == ["Ilse Brandt"]
    assert page.texts["li"] == ["bridge, line 1Ilse Brandt designed it in 1911.", "mill, line 1mill"]
    assert [heading.split()[0] for heading in page.texts["h2"]] == ["Passages", "bridge", "mill"]


def test_places_lead_to_the_pages_of_a_pdf() -> None:
    sections = (Segment(0, START, "History"), Segment(START, len(TEXT), "Design"))
    bridge = Document(TEXT, "bridge.pdf", sections, pages=((0, 1), (START - 30, 2)))
    documents = [bridge, Document("The mill burned down in 1957.", "mill.txt")]
    found = prediction(
        "Ilse Brandt",
        evidence(START, START + 32, document="bridge.pdf", page=2),
        evidence(4, 8, "The mill burned", document="mill.txt"),
        document="bridge.pdf", page=2,
    )  # fmt: skip
    page = found.to_html(documents, links={"bridge.pdf": "../a%20b/bridge.PDF", "mill.txt": "mill.txt"})
    links = re.findall(r'href="([^"#][^"]*)"', page)
    assert links == ["../a%20b/bridge.PDF#page=2"] * 2 + ["../a%20b/bridge.PDF", "mill.txt"]
    assert page.count('href="#answer"') == 2, "in the result, and in the bar"
    shown = Page(page)
    assert shown.texts["li"][0].startswith("bridge.pdf, page 2, Design PDF")
    assert 'data-page="page 2"' in page
    assert 'href="../' not in found.to_html(documents)


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
            r"--shade: ([\d.]+)\"", report([], [evidence(0, 9, score=score).__dict__ for score in scores])
        )
        assert all(0 < float(shade) <= 1 for shade in shades)
        assert len(shades) == 2


def test_pages_have_numbers_or_names() -> None:
    named = [evidence(0, 18, page="slide 4"), evidence(START, START + 32, page=2)]
    page = prediction("Ilse Brandt", *named).to_html()
    assert "slide 4" in page
    assert "page 2" in page
    assert "#page" not in prediction("Ilse Brandt", named[0]).to_html(TEXT, links={"": "a.pdf"})


def test_a_heading_is_shown_once() -> None:
    text = "Maintenance\n\nClean the filter. Replace the seal."
    document = Document(text, "pump.md", (Segment(0, len(text), "Maintenance"),))
    page = Page(prediction("", evidence(0, 30, text)).to_html(document))
    assert page.texts["li"] == ["MaintenanceClean the filter."]
    alone = Page(prediction("", evidence(0, 11, text)).to_html(document))
    assert alone.texts["li"] == ["MaintenanceMaintenance"]
