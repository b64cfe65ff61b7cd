"""The HTTP routes: what clients send and get, and what they get when something is wrong."""

import gzip
import logging
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from fpdf import FPDF
from served import connected
from test_pipeline import QUESTION

from cogltx.document import Document
from cogltx.pipeline import CogLTX
from cogltx.server._service import ServerConfig

TEXT = "Rain fell on the hills. Anna Karlsson wrote the report in Stockholm. " * 40


def problem(response: object) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["type"]  # type: ignore[attr-defined]


def test_an_answer_is_that_of_the_library(client: TestClient, reader: CogLTX) -> None:
    answer = client.post("/answer", json={"question": QUESTION, "text": TEXT}).json()
    expected = reader.predict(Document(TEXT), QUESTION)
    assert answer["answer"] == expected.answer
    assert answer["confidence"] == pytest.approx(expected.confidence, abs=1e-5)
    assert [block["start"] for block in answer["evidence"]] == [block.start for block in expected.evidence]


def test_a_document_is_uploaded_once_and_asked_often(client: TestClient) -> None:
    held = client.post("/documents", json={"text": TEXT, "name": "report"})
    assert held.status_code == 201
    id = held.json()["id"]
    about = {"id": id, "name": "report", "characters": len(TEXT), "pages": None, "kind": "text", "notes": []}
    assert {**held.json(), "prepared": 0} == {**about, "prepared": 0}
    assert {**client.get(f"/documents/{id}").json(), "prepared": 0} == {**about, "prepared": 0}
    assert client.get(f"/documents/{id}/text").text == TEXT
    for question in (QUESTION, "Where did rain fall?"):
        assert client.post("/answer", json={"question": question, "documents": [id]}).status_code == 200
    blocks = client.post("/recall", json={"question": QUESTION, "documents": [id]}).json()["blocks"]
    assert all(block["text"] == TEXT[block["start"] : block["end"]] for block in blocks)
    assert client.delete(f"/documents/{id}").status_code == 204
    for response in (
        client.get(f"/documents/{id}"), client.delete(f"/documents/{id}"), client.get(f"/documents/{id}/text"),
        client.post("/answer", json={"question": QUESTION, "documents": [id]}),
    ):  # fmt: skip
        assert problem(response) == (404, "not_found")


def test_files_keep_their_names_and_pages(client: TestClient) -> None:
    pdf = FPDF()
    pdf.set_font("Helvetica", size=12)
    for number in range(3):
        pdf.add_page()
        pdf.multi_cell(0, 8, f"Page {number} tells of rain on the hills. " * 12)
    files = {"file": ("../../etc/Report of 2014.pdf", bytes(pdf.output()), "application/pdf")}
    first = client.post("/files", files=files).json()
    notes = ("file", ("notes.md", b"# Rain\n\nIt rained. " + TEXT.encode()))
    assert problem(client.post("/files", files=[notes, notes])) == (422, "unreadable")
    second = client.post("/files", files=[notes]).json()
    assert (first["name"], first["pages"]) == ("Report of 2014.pdf", 3)
    ask = {"question": "Where is rain on the hills?", "documents": [first["id"], second["id"]]}
    for block in client.post("/recall", json=ask).json()["blocks"]:
        assert block["document"] in ("Report of 2014.pdf", "notes.md")
        held = first if block["document"] == first["name"] else second
        text = client.get(f"/documents/{held['id']}/text").text
        assert text[block["start"] : block["end"]] == block["text"]
    page = client.post("/report", json=ask).text
    assert "Report of 2014.pdf" in page
    assert page.startswith("<!doctype html>")
    assert client.post("/report?whole_page=false", json=ask).text.count("<html") == 0


@pytest.mark.parametrize(
    ("name", "content", "wording"),
    [
        ("a.pdf", b"junk", "a.pdf: not a readable PDF file"),
        ("a.docx", b"PK\x03\x04junk", "a.docx: not a readable Word file"),
        ("a.txt", b"", "a.txt: the document has no text"),
        ("a.txt", b"\xff\x81", "a.txt: line 1: not UTF-8"),
        ("a.gz", gzip.compress(b"some text", mtime=0)[:-9], "a.gz: the gzip file ends early"),
        ("a.pdf.gz", gzip.compress(b"junk", mtime=0), "a.pdf.gz: not a readable PDF file"),
        ("a.txt.gz", gzip.compress(bytes(100_000_000), mtime=0), "a.txt.gz: not a text file"),
        ("b.txt.gz", gzip.compress(b" " * 100_000_000, mtime=0), "b.txt.gz: it expands to over 85 MB, a third of"),
        ("a.exe", b"MZ\0\0", "a.exe: not a text file"),
    ],
)
def test_a_file_that_cannot_be_read(client: TestClient, name: str, content: bytes, wording: str) -> None:
    response = client.post("/files", files={"file": (name, content)})
    assert problem(response) == (422, "unreadable")
    message = response.json()["error"]["message"]
    assert message.startswith(wording)
    assert "/" not in message.replace("and/or", "")


def test_texts_are_ranked_in_both_forms(client: TestClient, reader: CogLTX) -> None:
    texts = ["Rain fell on the hills.", TEXT, "", "Who wrote the report?"]
    ranked = client.post("/rerank", json={"query": QUESTION, "texts": texts, "truncate": True}).json()
    relevance = [reader.recall(text, QUESTION).relevance if text else 0.0 for text in texts]
    assert relevance[1] == max(relevance) > min(relevance)
    assert [one["score"] for one in ranked] == pytest.approx(sorted(relevance, reverse=True))
    assert [relevance[one["index"]] for one in ranked] == pytest.approx(sorted(relevance, reverse=True))
    documents = [texts[0], {"text": TEXT}, {"text": ""}, texts[3]]
    body = {"model": "any", "query": QUESTION, "documents": documents, "top_n": 2, "return_documents": True}
    for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
        answer = client.post(path, json=body).json()
        assert [(one["index"], one["relevance_score"]) for one in answer["results"]] == [
            (one["index"], one["score"]) for one in ranked[:2]
        ]
        assert answer["results"][0]["document"] == {"text": TEXT}
    with_text = client.post("/rerank", json={"query": QUESTION, "texts": texts, "return_text": True}).json()
    assert with_text[0]["text"] == TEXT


@pytest.mark.parametrize(
    ("path", "body", "wording"),
    [
        ("/answer", {"text": "a"}, "question: Field required"),
        ("/answer", {"question": "Who?"}, "give text or documents, one of them"),
        ("/answer", {"question": "Who?", "text": "a", "documents": ["b"]}, "give text or documents, one of them"),
        ("/answer", {"question": "Who?", "text": "a", "more": 1}, "more: Extra inputs are not permitted"),
        ("/answer", {"question": "Who?", "documents": []}, "documents: List should have at least 1 item"),
        ("/answer", [], "the body is not a JSON object; send one, with the header Content-Type: application/json"),
        ("/documents", {"text": ""}, "text: String should have at least 1 character"),
        ("/rerank", {"query": "Who?", "texts": []}, "texts: List should have at least 1 item"),
        ("/rerank", {"query": "Who?"}, "documents: Field required"),
    ],
)
def test_an_invalid_request(client: TestClient, path: str, body: object, wording: str) -> None:
    response = client.post(path, json=body)
    assert problem(response) == (422, "invalid")
    assert wording in response.json()["error"]["message"]


@pytest.mark.parametrize("body", ['{"question": "Who?", "text": "a"}', "question=Who"])
def test_a_body_that_is_not_declared_as_json(client: TestClient, body: str) -> None:
    response = client.post("/answer", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert problem(response) == (415, "invalid")
    assert "Content-Type: application/json" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "body", ["[1", '{"question": "\\ud800", "text": "a"}', '{"question": "a", "text": "b", "\\ud800": 1}']
)
def test_a_body_that_is_no_valid_json(client: TestClient, body: str) -> None:
    response = client.post("/answer", content=body, headers={"Content-Type": "application/json"})
    assert problem(response) == (422, "invalid")


def test_blank_texts_and_questions(client: TestClient) -> None:
    for body in ({"question": " ", "text": TEXT}, {"question": "Who?", "text": "  "}):
        assert problem(client.post("/answer", json=body)) == (422, "unreadable")


def test_size_is_limited(client: TestClient) -> None:
    text = "a " * 600_000
    assert problem(client.post("/documents", json={"text": text})) == (413, "too_large")
    chunks = (chunk.encode() for chunk in ['{"text": "', text, '"}'])
    headers = {"Content-Type": "application/json"}
    assert problem(client.post("/documents", content=chunks, headers=headers)) == (413, "too_large")
    upload = {"file": ("a.txt", text.encode())}
    assert problem(client.post("/files", files=upload)) == (413, "too_large")


def test_documents_are_limited(client: TestClient) -> None:
    for _ in range(3):
        assert client.post("/documents", json={"text": "Some text."}).status_code == 201
    response = client.post("/documents", json={"text": "Some text."})
    assert problem(response) == (429, "busy")
    assert "as many documents as one client may" in response.json()["error"]["message"]
    assert response.headers["Retry-After"]


def test_more_requests_than_the_queue_holds(reader: CogLTX) -> None:
    config = ServerConfig(queue_size=1)
    with connected(reader, config) as client, ThreadPoolExecutor(16) as clients:
        ask = {"question": QUESTION, "text": TEXT * 20}
        responses = list(clients.map(lambda _: client.post("/answer", json=ask), range(16)))
    statuses = {response.status_code for response in responses}
    assert statuses == {200, 429}
    answers = {response.json()["answer"] for response in responses if response.status_code == 200}
    assert len(answers) == 1


def test_a_key(reader: CogLTX) -> None:
    with connected(reader, ServerConfig(api_key="s3cret")) as client:
        ask = {"question": QUESTION, "text": TEXT}
        assert problem(client.post("/answer", json=ask)) == (401, "unauthorized")
        wrong = {"Authorization": "Bearer other"}
        assert problem(client.post("/answer", json=ask, headers=wrong)) == (401, "unauthorized")
        assert problem(client.get("/metrics")) == (401, "unauthorized")
        right = {"Authorization": "Bearer s3cret"}
        assert client.post("/answer", json=ask, headers=right).status_code == 200
        for path in ("/", "/health", "/openapi.json", "/page/page.js"):
            assert client.get(path).status_code == 200


def test_health_and_metrics(client: TestClient) -> None:
    assert client.get("/health").json()["model"] == "tiny"
    client.post("/documents", json={"text": TEXT})
    client.post("/answer", json={"question": QUESTION, "text": TEXT})
    client.request("STRANGE", "/answer")
    lines = client.get("/metrics").text.splitlines()
    assert 'cogltx_requests_total{method="POST",route="/answer",status="200"} 1.0' in lines
    assert 'cogltx_requests_total{method="other",route="/answer",status="405"} 1.0' in lines
    assert "cogltx_documents 1.0" in lines
    assert f"cogltx_characters {float(len(TEXT))}" in lines
    assert "cogltx_batch_size_count 1.0" in lines


def test_a_defect_is_logged_and_tells_nothing(
    client: TestClient, reader: CogLTX, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(recalls: object) -> None:
        raise ZeroDivisionError("/secret/path")

    monkeypatch.setattr(reader, "reason_over", broken)
    with caplog.at_level(logging.CRITICAL):
        response = client.post("/answer", json={"question": QUESTION, "text": TEXT})
    assert problem(response) == (500, "internal")
    assert "secret" not in response.text
    monkeypatch.undo()
    assert client.post("/answer", json={"question": QUESTION, "text": TEXT}).status_code == 200


def test_a_zip_that_expands_without_end(client: TestClient, tmp_path: Path) -> None:
    path = tmp_path / "bomb.docx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as part:
        for _ in range(210):
            part.write(b"\0" * 1_000_000)
    response = client.post("/files", files={"file": ("bomb.docx", path.read_bytes())})
    assert problem(response) == (422, "unreadable")
    assert (
        "bomb.docx: it expands to over 87 MB, a third of the limit of 260 MB of memory"
        in response.json()["error"]["message"]
    )


def test_the_description_has_examples(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    assert {"/answer", "/recall", "/documents", "/files", "/report", "/rerank", "/health", "/metrics"} <= set(
        schema["paths"]
    )
    assert schema["components"]["schemas"]["AskText"]["properties"]["question"]["examples"]
