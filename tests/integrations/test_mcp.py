"""The tools of a language model, called by the client of the package: in this process, by stdio and by HTTP."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from bridges import QUESTION, TEXTS
from command_line import Call
from fpdf import FPDF
from mcp import Client, StdioServerParameters

from cogltx.document import Document, Segment
from cogltx.integrations._mcp import make_server
from cogltx.pipeline import CogLTX

START = TEXTS[1].index("Ilse")
BRIDGE = Document(
    TEXTS[1], "bridge.pdf", (Segment(0, START, "Weather"), Segment(START, len(TEXTS[1]), "Works")),
    pages=((0, 1), (START, 2)),
)  # fmt: skip
DOCUMENTS = [Document(TEXTS[0], "rain.txt"), BRIDGE, Document("Snow fell. " * 3000, "snow.txt")]
TOOLS = {"list_documents", "ask", "recall", "read_passage"}
Use = Callable[[Client], Awaitable[Any]]


@pytest.fixture(scope="module")
def server(model: str) -> Any:
    return make_server(CogLTX.from_pretrained(model), DOCUMENTS)


def use(server: Any, work: Use) -> Any:
    async def connected() -> Any:
        async with Client(server) as client:
            return await work(client)

    return asyncio.run(connected())


def call(server: Any, tool: str, **arguments: Any) -> Any:
    async def work(client: Client) -> Any:
        return await client.call_tool(tool, arguments)

    result = use(server, work)
    assert not result.is_error, result.content
    return result.structured_content


def refused(server: Any, tool: str, **arguments: Any) -> str:
    async def work(client: Client) -> Any:
        return await client.call_tool(tool, arguments)

    result = use(server, work)
    assert result.is_error
    return str(result.content[0].text)


def text_of(place: dict[str, Any]) -> str:
    [document] = [one for one in DOCUMENTS if one.id == place["document"]]
    return document.text[place["start"] : place["end"]]


def test_tools_are_described(server: Any) -> None:
    async def work(client: Client) -> Any:
        return (await client.list_tools()).tools

    tools = use(server, work)
    assert {tool.name for tool in tools} == TOOLS
    assert all(tool.description and tool.output_schema and tool.annotations.read_only_hint for tool in tools)


def test_documents_are_listed(server: Any) -> None:
    listed = {one["name"]: one for one in call(server, "list_documents")["documents"]}
    assert list(listed) == ["rain.txt", "bridge.pdf", "snow.txt"]
    bridge = listed["bridge.pdf"]
    assert (bridge["characters"], bridge["pages"], bridge["headings"]) == (len(TEXTS[1]), [1, 2], ["Weather", "Works"])
    assert listed["rain.txt"]["pages"] == []


@pytest.mark.parametrize("names", [None, ["bridge.pdf"], ["bridge.pdf", "rain.txt"]])
def test_answers_have_exact_places(server: Any, names: list[str] | None) -> None:
    given = call(server, "ask", question=QUESTION, documents=names)
    places = [one["place"] for one in (given, *given["alternatives"]) if one["place"]]
    assert places
    for place in (*places, *given["passages"]):
        assert text_of(place) == place["text"]
        assert place["document"] in (names or [one.id for one in DOCUMENTS])
        if place["document"] == "bridge.pdf":
            expected = (2, "Works") if place["start"] >= START else (1, "Weather")
            assert (place["page"], place["heading"]) == expected
    assert re.search(r"\d %", given["sureness"])


def test_passages_are_found(server: Any) -> None:
    passages = call(server, "recall", question=QUESTION)["passages"]
    assert "Ilse Brandt designed the bridge in 1884." in passages[0]["text"]
    assert (passages[0]["document"], passages[0]["page"], passages[0]["heading"]) == ("bridge.pdf", 2, "Works")
    scores = [one["relevance"] for one in passages]
    assert scores == sorted(scores, reverse=True)


def test_a_place_is_read(server: Any) -> None:
    read = call(server, "read_passage", document="bridge.pdf", start=START, end=START + 11)
    assert (read["text"], read["page"], read["continues"]) == ("Ilse Brandt", 2, False)
    assert call(server, "read_passage", document="bridge.pdf", page="1")["text"] == TEXTS[1][:START]
    assert call(server, "read_passage", document="bridge.pdf", page=2)["text"] == TEXTS[1][START:]
    snow, text = DOCUMENTS[2].text, ""
    while len(text) < len(snow):
        part = call(server, "read_passage", document="snow.txt", start=len(text))
        text += part["text"]
        assert part["continues"] is (len(text) < len(snow))
    assert text == snow


@pytest.mark.parametrize(
    ("tool", "arguments", "wording"),
    [
        ("ask", {"question": "Who?", "documents": ["x"]}, "no document 'x'; there are: rain.txt, bridge.pdf, snow.txt"),
        ("ask", {"question": "Who?", "documents": []}, "documents is empty"),
        ("ask", {"question": " "}, "the question is empty"),
        ("recall", {"question": "Who? " * 700}, "the question has"),
        ("read_passage", {"document": "rain.txt", "page": 1}, "rain.txt has no pages; give start and end"),
        ("read_passage", {"document": "bridge.pdf", "page": 9}, "bridge.pdf has no page 9; its pages are 1 to 2"),
        ("read_passage", {"document": "bridge.pdf", "page": 1, "start": 5}, "give either a page, or start and end"),
        ("read_passage", {"document": "rain.txt", "start": 9000}, "none is in 9000:"),
        ("read_passage", {"document": "rain.txt", "start": 9, "end": 9}, "none is in 9:9"),
    ],
)
def test_errors_tell_what_to_do(server: Any, tool: str, arguments: dict[str, Any], wording: str) -> None:
    assert wording in refused(server, tool, **arguments)


def test_several_calls_at_once(server: Any) -> None:
    async def work(client: Client) -> Any:
        asked = [client.call_tool("ask", {"question": QUESTION}) for _ in range(4)]
        return [one.structured_content for one in await asyncio.gather(*asked)]

    first, *others = use(server, work)
    assert all(other == first for other in others)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("mcp")
    pdf = FPDF()
    pdf.set_font("Helvetica", size=12)
    for text in (TEXTS[0], "Ilse Brandt designed the bridge in 1884. It is of stone."):
        pdf.add_page()
        pdf.multi_cell(0, 8, text)
    pdf.output(str(folder / "bridge.pdf"))
    (folder / "rain.txt").write_text(TEXTS[0], encoding="utf-8")
    return [str(folder / "bridge.pdf"), str(folder / "rain.txt")]


def command(model: str, files: list[str], *options: object) -> list[str]:
    return ["-m", "cogltx", "mcp", *files, "--model", model, *map(str, options)]


async def page_of_the_answer(client: Client) -> Any:
    found = await client.call_tool("recall", {"question": QUESTION})
    best = found.structured_content["passages"][0]
    read = await client.call_tool("read_passage", {"document": best["document"], "page": best["page"]})
    return Path(best["document"]).name, best["page"], "Ilse Brandt" in read.structured_content["text"]


def test_a_process_on_stdin_and_stdout(model: str, files: list[str]) -> None:
    process = StdioServerParameters(command=sys.executable, args=command(model, files), env=dict(os.environ))
    assert use(process, page_of_the_answer) == ("bridge.pdf", 2, True)


def test_a_process_by_http_that_ends_at_a_signal(model: str, files: list[str]) -> None:
    process = subprocess.Popen([sys.executable, *command(model, files, "--http", 0)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        address = next(found[0] for line in process.stderr if (found := re.search(r"http://\S+", line)))
        assert use(address, page_of_the_answer) == ("bridge.pdf", 2, True)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode in (0, -signal.SIGTERM, 128 + signal.SIGTERM)


def test_a_process_on_stdin_that_ends_at_a_signal(model: str, files: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, *command(model, files)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    process.stdin.write(f"{json.dumps(request)}\n")
    process.stdin.flush()
    assert '"serverInfo"' in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM


def test_wrong_use(call: Call, model: str, files: list[str], tmp_path: Path) -> None:
    for arguments, wording in (
        ((tmp_path / "none.pdf",), "none.pdf"),
        (("-",), "the standard input is for the protocol"),
        ((files[1], "--model", "qa-minilmm"), "did you mean qa-minilm?"),
    ):
        output = call("mcp", *arguments)
        assert output.code == 2
        assert wording in output.err
