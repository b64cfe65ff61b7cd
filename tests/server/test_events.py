"""Questions with their progress as events, pages of a PDF, several documents, and a folder that keeps them."""

import json
import time
from pathlib import Path
from typing import Any

import fakes
import pytest
import torch
from fastapi.testclient import TestClient
from fpdf import FPDF
from served import connected
from test_pipeline import QUESTION

from cogltx.config import ModelConfig
from cogltx.document import Document
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.server._service import ServerConfig
from cogltx.server.app import create_app

TEXT = "Rain fell on the hills. Anna Karlsson wrote the report in Stockholm. " * 400
EVENTS = {"Accept": "text/event-stream"}


def events(client: TestClient, ask: dict[str, Any]) -> list[tuple[str, Any]]:
    with client.stream("POST", "/answer", json=ask, headers=EVENTS) as response:
        assert response.status_code == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        parts = "".join(response.iter_text()).strip().split("\n\n")
    pairs = [part.split("\n", 1) for part in parts]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in pairs]


def hold(client: TestClient, text: str, name: str) -> str:
    return str(client.post("/documents", json={"text": text, "name": name}).json()["id"])


def pdf(n_pages: int) -> bytes:
    file = FPDF()
    file.set_font("Helvetica", size=12)
    for number in range(1, n_pages + 1):
        file.add_page()
        file.multi_cell(0, 8, f"Page {number} tells of rain on the hills. " * 12)
    return bytes(file.output())


def test_an_answer_comes_with_its_progress(client: TestClient, reader: CogLTX) -> None:
    id = hold(client, TEXT, "report")
    found = events(client, {"question": QUESTION, "documents": [id]})
    names = [name for name, _ in found]
    assert names[-1] == "answer"
    assert set(names) <= {"progress", "evidence", "answer"}
    evidence = [values for name, values in found if name == "evidence"]
    assert evidence[-1]["preliminary"] is False
    assert all(one["text"] == TEXT[one["start"] : one["end"]] for values in evidence for one in values["evidence"])
    answer = found[-1][1]
    assert answer.pop("names") == {"report": id}
    expected = reader.predict(Document(TEXT, "report"), QUESTION).to_dict()
    assert (answer["answer"], answer["start"]) == (expected["answer"], expected["start"])
    assert answer["confidence"] == pytest.approx(expected["confidence"], abs=1e-5)


def test_an_error_is_the_last_event(client: TestClient) -> None:
    response = client.post("/answer", json={"question": " ", "text": TEXT}, headers=EVENTS)
    assert response.status_code == 422
    [(name, values)] = events(client, {"question": "word " * 799, "text": TEXT})[-1:]
    assert name == "error"
    assert values["error"]["type"] == "unreadable"


def test_a_document_is_prepared_after_its_upload(client: TestClient) -> None:
    id = hold(client, TEXT, "report")
    deadline = time.monotonic() + 30
    while client.get(f"/documents/{id}").json()["prepared"] < 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert client.get(f"/documents/{id}").json()["prepared"] == 1


def test_documents_together_are_as_joined(client: TestClient, reader: CogLTX) -> None:
    texts = {"one": TEXT, "two": "It was written by Ilse Brandt in Bergen. " * 200, "three": "Nothing happened. " * 300}
    ids = {name: hold(client, text, name) for name, text in texts.items()}
    ask = {"question": QUESTION, "documents": list(ids.values())}
    joined = Document.joined([Document(text, name) for name, text in texts.items()])
    expected = reader.predict(joined, QUESTION)
    for answer in (client.post("/answer", json=ask).json(), events(client, ask)[-1][1]):
        assert (answer["answer"], answer["start"], answer["document"]) == (
            expected.answer, expected.start, expected.document,
        )  # fmt: skip
    assert events(client, ask)[-1][1]["names"] == ids


def test_pages_of_a_pdf(client: TestClient) -> None:
    upload = {"file": ("a.pdf", pdf(3), "application/pdf")}
    held = client.post("/files", files=upload).json()
    assert (held["kind"], held["pages"]) == ("pdf", 3)
    address = f"/documents/{held['id']}/pages"
    sizes = client.get(address).json()
    assert [page["number"] for page in sizes] == [1, 2, 3]
    assert (sizes[0]["width"], sizes[0]["height"]) == pytest.approx((595.28, 841.89), abs=0.1)
    picture = client.get(f"{address}/2", params={"scale": 1})
    assert picture.headers["Content-Type"] == "image/png"
    assert picture.content[16:24] == (596).to_bytes(4, "big") + (842).to_bytes(4, "big")
    text = client.get(f"/documents/{held['id']}/text").text
    lines = client.get(f"{address}/2/lines").json()
    assert lines[0]["text"].startswith("Page 2 tells")
    for line in lines:
        assert line["text"] == text[line["start"] : line["end"]]
        left, top, right, bottom = line["box"]
        assert 0 <= left < right <= 596
        assert 0 <= top < bottom <= 842
    outline = client.get(f"/documents/{held['id']}/outline").json()
    assert [number for _, number in outline["pages"]] == [1, 2, 3]
    assert client.get(f"{address}/4").status_code == 422
    assert client.get(f"{address}/0").status_code == 422
    assert client.get(f"{address}/1", params={"scale": 99}).status_code == 422


def test_other_documents_have_no_pages(client: TestClient) -> None:
    id = hold(client, TEXT, "report")
    assert client.get(f"/documents/{id}/pages").json() == []
    assert client.get(f"/documents/{id}/pages/1").status_code == 422
    assert client.get("/documents/none/pages").status_code == 404


def test_a_folder_keeps_documents_and_their_pages(reader: CogLTX, tmp_path: Path) -> None:
    config = ServerConfig(store=tmp_path / "store")
    with connected(reader, config) as client:
        text = hold(client, TEXT, "report")
        page = client.post("/files", files={"file": ("a.pdf", pdf(1), "application/pdf")}).json()["id"]
        expected = client.post("/answer", json={"question": QUESTION, "documents": [text, page]}).json()
    with connected(reader, config) as client:
        assert client.get(f"/documents/{text}").json()["name"] == "report"
        assert client.get(f"/documents/{page}/pages/1").status_code == 200
        assert client.post("/answer", json={"question": QUESTION, "documents": [text, page]}).json() == expected
        assert client.delete(f"/documents/{text}").status_code == 204
    assert [path.name for path in (tmp_path / "store").iterdir()] == [page]


def test_a_folder_keeps_what_was_computed(tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = fakes.config(tiny_encoder).model_dump(mode="json")
    values["memrecall"] |= {"shortlist": 3, "retriever": "trained"}

    def made() -> CogLTX:
        torch.manual_seed(0)
        return CogLTX(Model.create(ModelConfig.model_validate(values), with_judge=True, device="cpu"))

    config = ServerConfig(store=tmp_path / "store")
    with connected(made(), config) as client:
        id = hold(client, TEXT, "report")
        expected = client.post("/answer", json={"question": QUESTION, "documents": [id]}).json()
        assert client.get(f"/documents/{id}").json()["prepared"] == 1.0
    restarted = made()
    monkeypatch.setattr("cogltx.judges.retriever.block_vectors", None)  # the vectors are not computed again
    with connected(restarted, config) as client:
        assert client.get(f"/documents/{id}").json()["prepared"] == 1.0
        assert client.post("/answer", json={"question": QUESTION, "documents": [id]}).json() == expected


def test_other_languages_are_read_by_the_other_model(reader: CogLTX, tiny_encoder: Path) -> None:
    loaded = list[str]()

    def load(name: str) -> CogLTX:
        loaded.append(name)
        return fakes.reader(tiny_encoder, judge="bm25")

    english = "It was written by the engineer, and that is what the report of the year says. " * 30
    german = "Der Bericht wurde in Bergen geschrieben, und zwar von der Ingenieurin selbst. " * 30
    with TestClient(
        create_app(reader, "qa-minilm", ServerConfig(), load), "http://localhost", headers={"X-Requested-With": "tests"}
    ) as client:
        ask = {"question": QUESTION, "documents": [hold(client, english, "english")]}
        assert client.post("/answer", json=ask).status_code == 200
        assert (
            client.post("/rerank", json={"query": "Who wrote it?", "texts": ["Ein Wort", english]}).status_code == 200
        )
        assert not loaded
        german_question = ask | {"question": "Wer hat den Bericht geschrieben?"}
        assert client.post("/answer", json=german_question).status_code == 200
        assert loaded == ["qa-multilingual"]
        ask["documents"].append(hold(client, german, "german"))  # type: ignore[attr-defined]
        assert client.post("/answer", json=ask).status_code == 200
        assert client.post("/recall", json={"question": QUESTION, "text": german}).status_code == 200
        assert client.post("/rerank", json={"query": "Wer schrieb?", "texts": [german, german]}).status_code == 200
    assert loaded == ["qa-multilingual"], "once"
