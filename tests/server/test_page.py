"""The web page in a real Chromium, with the released model."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from command_line import invoke
from fpdf import FPDF
from playwright.sync_api import Browser, Locator, Page, Route, expect, sync_playwright
from served import running

from cogltx.display._words import sureness
from cogltx.pipeline import CogLTX
from cogltx.server._service import ServerConfig
from cogltx.tasks.jsonl import JsonLines

QUESTION = "Which engineer designed the Harbour Bridge?"
SENTENCE = "The Harbour Bridge was designed by the engineer Ilse Brandt."
CHROMIUM = shutil.which("chromium")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]
HOLD = """
(() => {  // while window.holding, the test writes the events of answers
  const real = window.fetch;
  window.holding = sessionStorage.getItem("holding") === "yes";
  window.asked = [];
  window.fetch = (path, options) => {
    if (!window.holding || path !== "/answer") return real(path, options);
    let events;
    const stream = new ReadableStream({ start: (controller) => (events = controller) });
    const bytes = new TextEncoder();
    const send = (event, data) => events.enqueue(bytes.encode(`event: ${event}\\ndata: ${JSON.stringify(data)}\\n\\n`));
    window.asked.push({ body: JSON.parse(options.body), send, end: () => events.close(), signal: options.signal });
    options.signal.addEventListener("abort", () => events.error(options.signal.reason));
    return Promise.resolve(new Response(stream, { headers: { "Content-Type": "text/event-stream" } }));
  };
})();
"""

expect.set_options(timeout=15_000)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian's package chromium)")


@dataclass
class Visitor:
    """A page of a fresh browser, what it requested, and its complaints, but for failed requests."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(20_000)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self._hear(message.type, message.text))
        self.page.add_init_script(HOLD)

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error" and not text.startswith("Failed to load resource"):
            self.complaints.append(text)

    def upload(self, *paths: Path) -> None:
        """Choose files, and wait until they are read."""
        count = self.documents.count()
        self.page.locator("#file").set_input_files(paths)
        expect(self.documents).to_have_count(count + len(paths))
        expect(self.page.locator("#documents .arriving")).to_have_count(0)

    def paste(self, text: str, name: str = "note") -> None:
        self.page.get_by_role("button", name="Paste text").locator("visible=true").click()
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Text to ask about").fill(text)
        self.page.get_by_role("button", name="Use this text").click()
        expect(self.documents.filter(has_text=name)).to_contain_text("characters")

    def ask(self, question: str = QUESTION) -> Locator:
        """Ask, wait for the answer, and return its card."""
        self.question.fill(question)
        self.question.press("Enter")
        expect(self.card).to_contain_text(question)
        expect(self.card).to_have_class(re.compile("answered"))
        return self.card

    def hold(self) -> None:
        """Let the test write the events of the answers from now on, also after a reload."""
        self.page.evaluate("sessionStorage.setItem('holding', 'yes'); window.holding = true")

    def send(self, event: str, data: dict[str, Any]) -> None:
        """Write an event of the newest answer."""
        self.wait_for_requests(1)
        self.page.evaluate("([event, data]) => window.asked.at(-1).send(event, data)", [event, data])

    def wait_for_requests(self, count: int) -> None:
        """Wait until so many answers were asked for since the page was loaded, while the test writes them."""
        for _ in range(500):
            if self.page.evaluate("window.asked.length") >= count:
                return
            self.page.wait_for_timeout(20)
        raise AssertionError("no question was sent")

    @property
    def question(self) -> Locator:
        return self.page.get_by_label("Question", exact=True)

    @property
    def documents(self) -> Locator:
        return self.page.locator("#documents li")

    @property
    def card(self) -> Locator:
        """The newest question."""
        return self.page.locator("#conversation > li").last

    @property
    def announced(self) -> list[str]:
        return self.page.locator("#announcer p").all_inner_texts()


def prediction(text: str = "", answer: str = "", confidence: float = 0.9, **others: Any) -> dict[str, Any]:
    """The event with an answer about one text."""
    start = text.index(answer) if answer else None
    span = {"start": start, "end": None if start is None else start + len(answer)}
    same = {"evidence": [], "alternatives": [], "no_answer_confidence": 0.1, "document": "", "page": None, "names": {}}
    return {"id": "", "answer": answer, "confidence": confidence, **span, **same, **others}


def part(text: str, slice: str, **others: Any) -> dict[str, Any]:
    """A passage or an alternative of a text."""
    start = text.index(slice)
    return {"text": slice, "start": start, "end": start + len(slice), "document": "", "page": None, **others}


def violations(page: Page) -> str:
    results = Axe().run(page)
    return results.generate_report() if results.violations_count else ""


@pytest.fixture(scope="module")
def released() -> CogLTX:
    return CogLTX.from_pretrained("qa-minilm")


@pytest.fixture(scope="module")
def address(released: CogLTX) -> Iterator[str]:
    with running(released) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """Open a page in a fresh browser; at the end, check that nothing came from elsewhere or was complained about."""
    visitors: list[tuple[Visitor, str]] = []

    def open_page(address: str, **options: Any) -> Visitor:
        visitor = Visitor(browser.new_context(**options).new_page())
        visitors.append((visitor, address))
        visitor.page.goto(address)
        expect(visitor.page.locator("#promise")).not_to_have_text("Nothing leaves this server.")
        return visitor

    yield open_page
    for visitor, address in visitors:
        visitor.page.context.close()
        assert all(url.startswith((address, "data:", "blob:")) for url in visitor.requests), "nothing from elsewhere"
        assert visitor.complaints == []


@pytest.fixture
def visitor(visit: Callable[..., Visitor], address: str) -> Visitor:
    return visit(address)


@pytest.fixture(scope="module")
def pdf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample about the bridge, one page per paragraph: the title on page 1, the engineer on page 5."""
    path = tmp_path_factory.mktemp("page") / "bridge.pdf"
    file = FPDF()
    file.set_font("Helvetica", size=12)
    for paragraph in Path("data/samples/bridge.txt").read_text().split("\n\n"):
        file.add_page()
        file.multi_cell(0, 7, paragraph)
    file.output(str(path))
    return path


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Markdown file with headings, and characters of two UTF-16 units before the answer."""
    path = tmp_path_factory.mktemp("page") / "guide.md"
    path.write_text(
        f"# Guide 😀𝄞\n\nWelcome 😀.\n\n## History\n\n{SENTENCE}\n\n## Prices\n\nA ticket costs 9 crowns.\n"
    )
    return path


def test_an_answer_is_marked_on_the_page_of_a_pdf(visitor: Visitor, pdf: Path) -> None:
    page = visitor.page
    visitor.upload(pdf)
    expect(visitor.documents).to_contain_text("12 pages")
    expect(visitor.documents).not_to_contain_text("prepared", timeout=30_000)
    card = visitor.ask()
    expect(card.locator("p.verdict")).to_have_text("Ilse Brandt")
    expect(card.locator(".badge")).to_have_text(re.compile(r"^(sure|probably|not sure), \d+ %$"))
    expect(card.locator(".place")).to_have_text("page 5")
    expect(card.locator(".passages li").first).to_contain_text("designed by the engineer Ilse Brandt")
    mark = page.locator(".sheet mark.answer")
    expect(mark).to_have_text("Ilse Brandt")
    expect(mark).to_be_in_viewport()
    expect(page.locator("#match-label")).to_have_text("Answer · page 5")

    sheet = page.get_by_role("group", name="page 5", exact=True)
    expect(sheet).to_have_class(re.compile("drawn"))
    assert page.locator(".sheet.drawn").count() < 6, "pages are drawn when they come near"
    line, around = mark.locator("xpath=ancestor::p").bounding_box(), sheet.bounding_box()
    assert line is not None
    assert around is not None
    id = page.evaluate("JSON.parse(localStorage['cogltx-page-1']).documents[0].id")
    lines = page.request.get(f"{page.url}documents/{id}/pages/5/lines").json()
    left, top, right, bottom = next(one["box"] for one in lines if "Ilse Brandt" in one["text"])
    scale = around["width"] / page.request.get(f"{page.url}documents/{id}/pages").json()[4]["width"]
    measured = [line["x"] - around["x"], line["y"] - around["y"], line["width"], line["height"]]
    assert measured == pytest.approx([scale * one for one in (left, top, right - left, bottom - top)], abs=2.5)


def test_text_on_a_page_can_be_selected(visitor: Visitor, pdf: Path) -> None:
    page = visitor.page
    visitor.upload(pdf)
    visitor.ask()
    box = page.locator(".sheet mark.answer").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 1, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] + 2, middle, steps=4)
    page.mouse.up()
    expect(page.locator("#correction-quote")).to_have_text(re.compile("^“?Ilse Brandt[.]?”$"))
    page.mouse.click(box["x"], box["y"] - 60)
    expect(page.locator("#correction")).to_be_hidden()


def test_how_far_a_document_is_prepared(visitor: Visitor) -> None:
    shares = [0.4, 0.75, 1.0]

    def prepare(route: Route) -> None:
        if route.request.method != "GET" or route.request.url.count("/") > 4:
            return route.fallback()
        held = {**route.fetch().json(), "prepared": shares.pop(0) if len(shares) > 1 else shares[0]}
        return route.fulfill(json=held)

    visitor.page.route(re.compile("/documents/"), prepare)
    visitor.paste(SENTENCE)
    expect(visitor.documents).to_contain_text("prepared 40 %")
    expect(visitor.documents).to_contain_text("prepared 75 %")
    expect(visitor.documents).not_to_contain_text("prepared")


def test_the_browser_keeps_a_bounded_conversation(visitor: Visitor) -> None:
    count, size = visitor.page.evaluate(
        """async () => {
          const { state, save } = await import("/page/store.js");
          const item = (key) => ({ key, question: "?".repeat(30000), asked: "", documents: [], state: "cancelled" });
          state.items = Array.from({ length: 300 }, (_, number) => item(number));
          save();
          const text = localStorage["cogltx-page-1"];
          return [JSON.parse(text).items.map((item) => item.key), text.length];
        }"""
    )
    assert count == list(range(250, 300)), "the newest"
    assert size < 2_100_000


def test_places_one_by_one(visitor: Visitor, pdf: Path) -> None:
    page = visitor.page
    visitor.upload(pdf)
    card = visitor.ask("When was the bridge opened?")
    expect(page.locator(".sheet mark.answer")).to_have_text("12 October 1888")
    count = page.locator("#match-count")
    expect(count).to_have_text(re.compile(r"^1 of \d+$"))
    total = int(count.inner_text().split()[-1])
    assert total >= 4
    page.get_by_role("button", name="Next place").click()
    expect(count).to_have_text(f"2 of {total}")
    page.keyboard.press("Alt+ArrowUp")
    page.keyboard.press("Alt+ArrowUp")
    expect(count).to_have_text(f"{total} of {total}")
    expect(page.locator("mark.current").first).to_be_in_viewport()
    expect(page.locator("#announcer p").last).to_contain_text(f"{total} of {total}: Passage, page ")

    passage = card.locator("button.passage").nth(2)
    passage.press("Enter")
    expect(page.locator("mark.current").first).to_be_focused()
    before = count.inner_text()
    page.keyboard.press("n")
    expect(count).not_to_have_text(before)
    page.keyboard.press("Escape")
    expect(passage).to_be_focused()


def test_several_documents_with_names_and_colours(visitor: Visitor, pdf: Path, guide: Path) -> None:
    page = visitor.page
    visitor.upload(pdf, guide)
    assert len({one.get_attribute("data-color") for one in visitor.documents.all()}) == 2
    card = visitor.ask("What does a ticket cost?")
    expect(card.locator("p.verdict")).to_contain_text("9 crowns")
    expect(card.locator(".place")).to_have_text("guide.md, Prices")
    expect(page.locator(".text mark.answer")).to_contain_text("9 crowns")
    expect(page.locator(".text h3", has_text="Prices")).to_be_visible()

    page.get_by_label("Search in").select_option("guide.md")
    card = visitor.ask()
    expect(card.locator(".asked")).to_have_text("in guide.md")
    expect(card.locator(".place")).to_have_text("guide.md, History")
    expect(page.locator(".text mark.answer")).to_have_text("Ilse Brandt")

    visitor.documents.first.locator(".choose").click()
    expect(page.locator(".sheet").first).to_be_visible()
    page.get_by_role("button", name="Remove guide.md").click()
    expect(visitor.documents).to_have_count(1)
    expect(visitor.documents.locator(".choose")).to_be_focused()
    expect(card.locator("p.verdict")).to_have_text("Ilse Brandt")
    expect(card.locator("button.passage")).to_have_count(0)


def test_broken_files_have_a_message_each(visitor: Visitor, tmp_path: Path, pdf: Path) -> None:
    page = visitor.page
    broken = [tmp_path / "broken.pdf", tmp_path / "broken.docx"]
    for path in broken:
        path.write_bytes(b"%PDF-1.7 broken")
    page.locator("#file").set_input_files([broken[0], pdf, broken[1]])
    messages = page.locator("#messages .message")
    expect(messages).to_have_count(2)
    assert sorted(text.split(":")[0] for text in messages.locator("p").all_inner_texts()) == [
        "broken.docx",
        "broken.pdf",
    ]
    expect(visitor.documents).to_have_count(1)
    expect(visitor.documents).to_contain_text("bridge.pdf")
    page.get_by_role("button", name="Dismiss: broken.pdf").click()
    expect(messages).to_have_count(1)
    expect(messages).to_contain_text("broken.docx: not a readable Word file")


def test_progress_first_passages_and_cancel(visitor: Visitor) -> None:
    page = visitor.page
    text = f"It rained. {SENTENCE} It was opened in 1888. Nobody knows the colour."
    visitor.paste(text)
    visitor.hold()
    visitor.question.fill("Who?")
    visitor.question.press("Enter")
    expect(visitor.card.locator(".stage")).to_have_text("Waiting for its turn")
    visitor.send("progress", {"stage": "searching", "share": 0.4, "seconds_left": 6.2})
    expect(visitor.card.locator(".stage")).to_have_text("Searching for passages")
    expect(visitor.card.locator(".left")).to_have_text("about 6 s left")
    assert visitor.card.get_by_role("progressbar").get_attribute("value") == "0.4"
    visitor.send("evidence", {"preliminary": True, "evidence": [part(text, SENTENCE)], "names": {}})
    expect(visitor.card.locator("h4")).to_have_text("First passagespreliminary: the search goes on")
    expect(page.locator(".text mark.passage")).to_have_text(SENTENCE)
    nearest = part(text, "1888", confidence=0.04)
    visitor.send(
        "answer", prediction(text, "Ilse Brandt", 0.92, evidence=[part(text, SENTENCE)], alternatives=[nearest])
    )
    expect(visitor.card.locator(".source")).to_contain_text("sure, 92 %")
    expect(visitor.card.locator(".source")).to_contain_text("line 1")
    assert visitor.announced[1:] == ["The answer is being looked for.", "Answer: Ilse Brandt (sure, 92 %), line 1"]

    visitor.question.fill("Which colour?")
    visitor.question.press("Enter")
    expect(visitor.card).to_contain_text("Which colour?")
    expect(visitor.card).not_to_contain_text("Ilse Brandt")
    expect(page.locator("#viewer mark")).to_have_count(0)
    visitor.send("answer", prediction(confidence=0.61, alternatives=[part(text, "1888", confidence=0.31)]))
    expect(visitor.card.locator("p.verdict")).to_have_text("Not found in note")
    expect(visitor.card.locator(".badge")).to_have_text("probably, 61 %")
    expect(visitor.card.locator(".nearest")).to_have_text("The nearest is “1888” (not sure, 31 %), line 1.")
    expect(visitor.card).to_be_in_viewport()

    visitor.question.fill("Why?")
    visitor.question.press("Enter")
    visitor.wait_for_requests(3)
    visitor.card.get_by_role("button", name="Cancel").press("Enter")
    expect(visitor.card).to_contain_text("Cancelled.")
    assert page.evaluate("window.asked[2].signal.aborted")
    expect(visitor.card.get_by_role("button").nth(0)).to_be_focused()
    visitor.card.get_by_role("button", name="Ask again").click()
    visitor.wait_for_requests(4)
    visitor.send("error", {"error": {"type": "internal", "message": "the server failed"}})
    expect(visitor.card).to_contain_text("The server failed.")
    visitor.card.get_by_role("button", name="Ask again").click()
    visitor.wait_for_requests(5)
    page.evaluate("window.asked[4].end()")
    expect(visitor.card).to_contain_text("The connection ended before the answer came.")


def test_documents_and_answers_survive_a_reload(visitor: Visitor, address: str, guide: Path) -> None:
    page = visitor.page
    visitor.upload(guide)
    visitor.ask()
    visitor.question.fill("A question that is not asked yet")
    page.wait_for_timeout(400)  # typing is saved when it pauses
    page.reload()
    expect(visitor.documents).to_contain_text("guide.md")
    expect(visitor.card.locator("p.verdict")).to_have_text("Ilse Brandt")
    expect(page.locator(".text mark.answer")).to_have_text("Ilse Brandt")
    expect(visitor.question).to_have_value("A question that is not asked yet")

    visitor.hold()
    visitor.question.fill("In the middle?")
    visitor.question.press("Enter")
    visitor.wait_for_requests(1)
    page.reload()
    expect(visitor.card).to_contain_text("In the middle?")
    visitor.send("answer", prediction(confidence=0.7))
    expect(visitor.card.locator("p.verdict")).to_have_text("Not found in guide.md")

    visitor.question.fill("Once more?")
    visitor.question.press("Enter")
    visitor.wait_for_requests(2)
    page.goto(f"{address}/")
    expect(visitor.card).to_contain_text("Once more?")
    expect(visitor.card.get_by_role("button", name="Ask again")).to_be_visible()
    page.get_by_text("Export").click()
    page.get_by_role("button", name="Clear the conversation").click()
    expect(page.locator("#conversation > li")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#conversation > li")).to_have_count(3)


def test_two_tabs_share_documents_and_answers(visitor: Visitor, address: str) -> None:
    visitor.paste(SENTENCE)
    second = Visitor(visitor.page.context.new_page())
    second.page.goto(address)
    expect(second.documents).to_contain_text("note")
    visitor.ask()
    expect(second.card.locator("p.verdict")).to_have_text("Ilse Brandt")
    second.paste("It rained.", "weather")
    expect(visitor.documents).to_have_count(2)
    second.page.get_by_role("button", name="Remove note").click()
    expect(visitor.documents).to_have_count(1)
    visitor.page.reload()
    expect(visitor.documents).to_have_text(re.compile("^weather"))
    assert second.complaints == []


def test_after_a_restart_lost_documents_are_named(visit: Callable[..., Visitor], released: CogLTX, guide: Path) -> None:
    with running(released) as address:
        visitor = visit(address)
        visitor.upload(guide)
        visitor.ask()
        visitor.question.fill("What does a ticket cost?")
    with running(released, port=int(address.rpartition(":")[2])):
        visitor.question.press("Enter")
        sentence = "The server no longer has guide.md. It was restarted, and it does not keep documents."
        expect(visitor.card).to_contain_text(sentence)
        expect(visitor.page.locator("#messages")).to_contain_text(sentence)
        expect(visitor.documents).to_contain_text("no longer on the server")
        visitor.question.fill("What is it?")
        visitor.question.press("Enter")
        expect(visitor.page.locator("#ask-problem")).to_contain_text("Add the file again")
        expect(visitor.question).to_have_value("What is it?")
        visitor.page.wait_for_timeout(400)
        visitor.page.reload()
        expect(visitor.question).to_have_value("What is it?")
        expect(visitor.page.locator("#viewer")).to_contain_text("guide.md is no longer on the server.")
        expect(visitor.page.locator("#conversation > li").first.locator("p.verdict")).to_have_text("Ilse Brandt")

        visitor.page.locator("#file").set_input_files(guide)
        expect(visitor.documents).to_have_count(1)
        expect(visitor.documents).not_to_contain_text("no longer on the server")
        expect(visitor.page.locator("#messages .message")).to_have_count(0)
        visitor.card.get_by_role("button", name="Ask again").click()
        expect(visitor.card.locator("p.verdict")).to_contain_text("9 crowns")


def test_with_a_store_a_restart_loses_nothing(
    visit: Callable[..., Visitor], released: CogLTX, guide: Path, tmp_path: Path
) -> None:
    config = ServerConfig(store=tmp_path / "store")
    with running(released, config) as address:
        visitor = visit(address)
        visitor.upload(guide)
        visitor.ask()
    visitor.page.evaluate("fetch('/health').catch(() => {})")
    visitor.question.fill("What does a ticket cost?")
    visitor.question.press("Enter")
    expect(visitor.card).to_contain_text("The server does not answer.")
    with running(released, config, port=int(address.rpartition(":")[2])):
        visitor.card.get_by_role("button", name="Ask again").click()
        expect(visitor.card.locator("p.verdict")).to_contain_text("9 crowns")
        visitor.page.reload()
        expect(visitor.page.locator(".text mark.answer")).to_contain_text("9 crowns")
        expect(visitor.documents).not_to_contain_text("no longer")


def saved(visitor: Visitor, name: str) -> str:
    """Save something of the menu, and return its text."""
    visitor.page.get_by_text("Export").click()
    with visitor.page.expect_download() as download:
        visitor.page.get_by_role("button", name=name).click()
    return Path(download.value.path()).read_text()


def test_corrections_are_training_data(
    visitor: Visitor, guide: Path, pdf: Path, tmp_path: Path, tiny_encoder: Path
) -> None:
    page = visitor.page
    visitor.upload(guide)
    visitor.ask("What does a ticket cost?")
    page.evaluate(
        """() => {
          const nodes = document.createTreeWalker(document.querySelector(".text"), NodeFilter.SHOW_TEXT);
          while (nodes.nextNode() && !nodes.currentNode.data.includes("Ilse Brandt"));
          const at = nodes.currentNode.data.indexOf("Ilse Brandt");
          getSelection().setBaseAndExtent(nodes.currentNode, at, nodes.currentNode, at + 12);
        }"""
    )
    expect(page.locator("#correction-quote")).to_have_text("“Ilse Brandt.”")
    page.get_by_role("button", name="This is the answer").click()
    expect(visitor.card.locator(".corrected")).to_contain_text("You corrected it: “Ilse Brandt.”, History")
    expect(page.locator(".text mark.answer")).to_have_text("Ilse Brandt.")

    visitor.ask(QUESTION)
    visitor.card.get_by_role("button", name="That is right").click()
    visitor.ask("Who wrote the report?")
    visitor.card.get_by_role("button", name="Correct it").click()
    page.get_by_role("button", name="There is no answer").click()
    expect(visitor.card.locator(".corrected")).to_contain_text("You said that there is no answer.")
    visitor.upload(pdf)
    page.get_by_label("Search in").select_option("bridge.pdf")
    visitor.ask("What was lost?")
    visitor.card.get_by_role("button", name="Correct it").click()
    page.get_by_label("Or type it").fill("a piano and the only copy")
    expect(page.locator("#correction-quote")).to_have_text("“a piano and the only copy”")
    page.keyboard.press("Enter")
    expect(visitor.card.locator(".corrected")).to_contain_text("page 4")

    path = tmp_path / "corrections.jsonl"
    path.write_text(saved(visitor, "Corrections"))
    examples = list(JsonLines().read(path, split="train"))
    assert [(one.query.text, one.answers) for one in examples if one.query] == [
        ("What does a ticket cost?", ("Ilse Brandt.",)),
        (QUESTION, ("Ilse Brandt",)),
        ("Who wrote the report?", ()),
        ("What was lost?", ("a piano and the only copy",)),
    ]
    for example in examples:
        for span, answer in zip(example.answer_spans, example.answers or (), strict=True):
            assert example.document.text[span.start : span.end] == answer
    assert [one.document.id for one in examples] == ["guide.md"] * 3 + ["bridge.pdf"]
    assert [segment.heading for segment in examples[0].document.segments][1:] == ["History", "Prices"]
    assert examples[3].document.page(examples[3].answer_spans[0].start) == 4
    settings = ("init_from=null", f"encoder.name={tiny_encoder}", "training.epochs=1")
    changes = [word for setting in settings for word in ("--set", setting)]
    assert invoke("train", path, "--output", tmp_path / "run", *changes) == 0
    visitor.card.get_by_role("button", name="Undo").click()
    expect(visitor.card.locator(".corrected")).to_have_count(0)


def test_the_conversation_is_exported(visitor: Visitor, guide: Path) -> None:
    visitor.upload(guide)
    visitor.ask()
    visitor.ask("What does *a ticket* cost?")
    markdown = saved(visitor, "Conversation Markdown")
    assert f"## {QUESTION}\n\n**Ilse Brandt (" in markdown
    assert r"## What does \*a ticket\* cost?" in markdown
    assert "> — guide.md, History" in markdown
    exported = json.loads(saved(visitor, "Conversation with offsets"))
    id = visitor.page.evaluate("JSON.parse(localStorage['cogltx-page-1']).documents[0].id")
    text = visitor.page.request.get(f"{visitor.page.url}documents/{id}/text").text()
    first = exported["conversation"][0]
    assert (first["question"], first["answer"]["document"]) == (QUESTION, "guide.md")
    for place in (first["answer"], *first["alternatives"], *first["passages"]):
        if place["start"] is not None:  # else yes or no
            assert text[place["start"] : place["end"]] == place["text"]


def test_the_words_are_those_of_reports(visitor: Visitor) -> None:
    confidences = [number / 100 for number in range(101)]
    said = visitor.page.evaluate(
        "async (confidences) => confidences.map((await import('/page/words.js')).sureness)", confidences
    )
    assert said == [sureness(confidence) for confidence in confidences]


def test_browsers_ask_for_a_newer_page(visitor: Visitor) -> None:
    for path in ("", "page/page.js"):
        headers = visitor.page.request.get(visitor.page.url + path).headers
        assert headers["cache-control"] == "no-cache"
        assert "etag" in headers
    assert "unsafe" not in visitor.page.request.get(visitor.page.url).headers["content-security-policy"]


def test_markup_in_a_text_is_only_text(visitor: Visitor) -> None:
    page = visitor.page
    attack = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    visitor.paste(f"The Harbour Bridge was designed by {attack} Ilse Brandt. It rained.", attack)
    visitor.ask(f"Who designed the Harbour Bridge {attack}?")
    expect(page.locator(".text")).to_contain_text("<script>")
    assert page.locator("main img, main script").count() == 0
    assert page.title() != "taken"


def test_a_question_waits_for_its_text(visitor: Visitor) -> None:
    held: list[Route] = []
    visitor.page.route("**/documents", lambda route: held.append(route))
    visitor.page.get_by_role("button", name="Paste text").locator("visible=true").click()
    visitor.page.get_by_label("Text to ask about").fill(SENTENCE)
    visitor.page.get_by_role("button", name="Use this text").click()
    visitor.question.fill(QUESTION)
    visitor.question.press("Enter")
    expect(visitor.card.locator(".stage")).to_have_text("Waiting until the documents are read")
    held.pop().continue_()
    visitor.page.unroute("**/documents")
    expect(visitor.card.locator("p.verdict")).to_have_text("Ilse Brandt")


def test_a_question_without_a_document_is_kept(visitor: Visitor) -> None:
    visitor.question.fill(QUESTION)
    visitor.question.press("Enter")
    expect(visitor.page.locator("#ask-problem")).to_contain_text("Add a document first")
    expect(visitor.question).to_have_value(QUESTION)
    visitor.page.get_by_role("button", name="Try it with a short sample").click()
    expect(visitor.documents).to_contain_text("The lighthouse of Skarholm")
    visitor.question.press("Enter")
    expect(visitor.card.locator("p.verdict")).to_contain_text("Tobias Lindqvist")


def test_by_keyboard_on_a_narrow_dark_screen(visit: Callable[..., Visitor], address: str) -> None:
    visitor = visit(address, viewport={"width": 360, "height": 640}, color_scheme="dark")
    page = visitor.page
    page.get_by_role("button", name="Paste text").locator("visible=true").focus()
    page.keyboard.press("Enter")
    page.keyboard.type(SENTENCE)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(visitor.documents).to_contain_text("characters")
    expect(visitor.question).to_be_focused()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    expect(visitor.card.locator("p.verdict")).to_have_text("Ilse Brandt")
    assert violations(page) == ""
    visitor.card.locator(".verdict button").press("Enter")
    expect(page.locator(".text mark.answer")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360, "no scrolling sideways"
    assert violations(page) == ""
    page.get_by_role("button", name="Answers", exact=True).click()
    expect(visitor.card).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_violations_of_accessibility(
    visit: Callable[..., Visitor], address: str, pdf: Path, guide: Path, tmp_path: Path, scheme: str
) -> None:
    visitor = visit(address, color_scheme=scheme)
    page = visitor.page
    assert violations(page) == "", "empty"
    (tmp_path / "broken.pdf").write_bytes(b"junk")
    visitor.upload(pdf, guide)
    page.locator("#file").set_input_files(tmp_path / "broken.pdf")
    expect(page.locator("#messages .message")).to_have_count(1)
    visitor.ask()
    expect(page.locator(".sheet.drawn").first).to_be_visible()
    visitor.card.get_by_role("button", name="Correct it").click()
    page.get_by_text("Export").click()
    assert violations(page) == "", "answered in a PDF, correction, menu"
    visitor.hold()
    page.get_by_label("Search in").select_option("guide.md")
    visitor.question.fill("What does a ticket cost?")
    visitor.question.press("Enter")
    text = guide.read_text().replace("#", "").strip()
    visitor.send("evidence", {"preliminary": True, "evidence": [], "names": {}})
    assert violations(page) == "", "asking"
    visitor.documents.last.locator(".choose").click()
    visitor.send("answer", prediction(confidence=0.3, alternatives=[part(text, "9", confidence=0.6)]))
    expect(visitor.card.locator(".nearest")).to_be_visible()
    expect(page.locator(".text")).to_be_visible()
    assert violations(page) == "", "not found, in a text"
    page.get_by_role("button", name="Paste text").locator("visible=true").click()
    assert violations(page) == "", "pasting"


def test_at_200_percent_the_page_can_be_used(visit: Callable[..., Visitor], address: str, pdf: Path) -> None:
    visitor = visit(address, viewport={"width": 640, "height": 360})
    visitor.upload(pdf)
    visitor.ask()
    visitor.card.locator(".verdict button").click()
    expect(visitor.page.locator("mark.answer")).to_be_in_viewport()
    expect(visitor.question).to_be_in_viewport()
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 640


def test_the_key_is_asked_for(visit: Callable[..., Visitor], released: CogLTX, pdf: Path) -> None:
    with running(released, ServerConfig(api_key="opensesame")) as address:
        visitor = visit(address)
        page = visitor.page
        page.locator("#file").set_input_files(pdf)
        page.get_by_label("Key", exact=True).fill("wrong")
        page.get_by_role("button", name="Use this key").click()
        expect(page.locator("#key-problem")).to_have_text("The server does not accept this key.")
        page.get_by_label("Key", exact=True).fill("opensesame")
        page.keyboard.press("Enter")
        expect(visitor.documents).to_contain_text("12 pages")
        expect(page.locator(".sheet.drawn").first).to_be_visible()


def test_another_site_cannot_upload(browser: Browser, address: str) -> None:
    page = browser.new_context().new_page()
    form = f"<form method=post enctype=multipart/form-data action='{address}/files'><input name=file value=x></form>"
    page.route("http://other.example/", lambda route: route.fulfill(content_type="text/html", body=form))
    page.goto("http://other.example/")
    with page.expect_response(f"{address}/files") as response:
        page.evaluate("document.querySelector('form').submit()")
    assert response.value.status == 403
    page.context.close()
