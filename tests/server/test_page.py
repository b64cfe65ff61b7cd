"""The web page in a real Chromium, served with the released model."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fpdf import FPDF
from playwright.sync_api import Page, Route, expect, sync_playwright
from served import serve

QUESTION = "Which engineer designed the Harbour Bridge?"
CHROMIUM = shutil.which("chromium")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian's package chromium)")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serve() as server:
        yield server.address


@pytest.fixture(scope="module")
def browsed(address: str) -> Iterator[tuple[Page, list[str]]]:
    """The page, and the addresses of all requests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        page = browser.new_page()
        page.set_default_timeout(60_000)
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        yield page, requests
        browser.close()


@pytest.fixture
def page(browsed: tuple[Page, list[str]], address: str) -> Page:
    browsed[0].goto(address)
    return browsed[0]


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


def ask(page: Page, question: str) -> None:
    page.get_by_label("Question", exact=True).fill(question)
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Answer").get_by_role("heading", name=question)).to_be_visible(
        timeout=60_000
    )


def upload(page: Page, path: Path) -> None:
    page.locator("#file").set_input_files(path)


def test_an_answer_is_highlighted_where_it_stands(
    browsed: tuple[Page, list[str]], page: Page, address: str, pdf: Path
) -> None:
    upload(page, pdf)
    expect(page.locator("#documents li")).to_contain_text("12 pages")
    ask(page, QUESTION)
    answer = page.locator("#answer")
    expect(answer).to_contain_text("Ilse Brandt")
    around = page.locator(".text").inner_text()
    assert "designed by the engineer Ilse Brandt" in re.sub(r"\s+", " ", around)
    mark = page.locator("mark", has=answer)
    expect(mark).to_contain_text("The Harbour Bridge was designed")
    place = page.locator(".answer a")
    expect(place).to_have_text("page 5")
    place.click()
    expect(answer).to_be_in_viewport()
    evidence = page.locator(".steps li a").last
    target = (evidence.get_attribute("href") or "")[1:]
    evidence.press("Enter")
    expect(page.locator(f"[id='{target}']")).to_be_in_viewport()

    ask(page, "When was the bridge opened?")
    expect(page.locator("#answer")).to_contain_text("12 October 1888")
    page.locator("#history button").first.click()
    expect(page.locator("#answer")).to_contain_text("Ilse Brandt")
    assert all(url.startswith((address, "data:", "blob:")) for url in browsed[1]), "nothing from elsewhere"


def test_a_broken_file_is_named_and_the_next_one_is_read(page: Page, tmp_path: Path, pdf: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    upload(page, tmp_path / "broken.pdf")
    expect(page.get_by_role("alert")).to_contain_text("broken.pdf: not a readable PDF file")
    upload(page, pdf)
    expect(page.locator("#documents li")).to_contain_text("bridge.pdf")
    expect(page.get_by_role("alert")).to_be_empty()


def test_markup_in_a_text_is_only_text(page: Page) -> None:
    attack = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    page.get_by_role("button", name="Paste text").click()
    page.get_by_label("Text to ask about").fill(f"The Harbour Bridge was designed by {attack} Ilse Brandt. It rained.")
    page.get_by_role("button", name="Use this text").click()
    ask(page, f"Who designed the Harbour Bridge {attack}?")
    expect(page.locator(".text")).to_contain_text("<script>")
    assert page.locator(".text img, .text script, h1 img, #history img").count() == 0
    assert page.title() != "taken"


def test_a_question_waits_for_its_text(page: Page) -> None:
    held: list[Route] = []
    page.route("**/documents", lambda route: held.append(route))
    page.get_by_role("button", name="Paste text").click()
    page.get_by_label("Text to ask about").fill("The Harbour Bridge was designed by the engineer Ilse Brandt.")
    page.get_by_role("button", name="Use this text").click()
    page.get_by_label("Question", exact=True).fill(QUESTION)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_empty()
    assert page.locator("#history button").count() == 0
    held.pop().continue_()
    page.unroute("**/documents")
    expect(page.locator("#answer")).to_contain_text("Ilse Brandt", timeout=60_000)


def test_by_keyboard_on_a_narrow_dark_screen(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    page.emulate_media(color_scheme="dark")
    page.get_by_role("button", name="Paste text").focus()
    page.keyboard.press("Enter")
    page.keyboard.type("The Harbour Bridge was designed by the engineer Ilse Brandt. It was raining on that day.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#documents li")).to_be_visible()
    expect(page.get_by_label("Question", exact=True)).to_be_focused()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    expect(page.locator("#answer")).to_contain_text("Ilse Brandt")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360, "no scrolling sideways"
