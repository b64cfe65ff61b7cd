"""Generated requests for every route that the server describes: it never fails, and answers as described."""

import os
from collections.abc import Callable
from itertools import product

import pytest
import schemathesis
from fastapi.testclient import TestClient
from fpdf import FPDF
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks
from served import connected

from cogltx.pipeline import CogLTX
from cogltx.server._service import ServerConfig

EXAMPLES = int(os.environ.get("COGLTX_EXAMPLES", "15"))  # per route and mode
AS_DESCRIBED = [
    checks.status_code_conformance, checks.content_type_conformance, checks.response_headers_conformance
]  # fmt: skip
UNKEPT = {"POST /files", "DELETE /documents/{id}"}  # whatever is sent in a form is a file; what is held stays
PAIRS = {"GET /documents/{id}/outline", "GET /documents/{id}/pages/{number}/lines"}  # schemathesis refuses prefixItems
TEXT = "Rain fell on the hills. Anna Karlsson wrote the report in Stockholm."


def upload(client: TestClient) -> list[str]:
    """Upload a text and a PDF file; returns their ids."""
    pdf = FPDF()
    pdf.set_font("Helvetica", size=12)
    for text in (TEXT, "Snow fell."):
        pdf.add_page()
        pdf.multi_cell(0, 8, text)
    text_id = client.post("/documents", json={"text": TEXT}).json()["id"]
    return [text_id, client.post("/files", files={"file": ("a.pdf", bytes(pdf.output()))}).json()["id"]]


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # schemathesis does
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_makes_the_server_fail(reader: CogLTX, mode: GenerationMode) -> None:
    config = ServerConfig(allowed_hosts=("testserver",), max_requests=1_000_000, max_documents=100_000)
    with connected(reader, config) as client:
        schema = schemathesis.openapi.from_asgi("/openapi.json", client.app)
        operations, ids = [found.ok() for found in schema.get_all_operations()], upload(client)
        if mode is GenerationMode.NEGATIVE:  # a route with no parameters but an id has no invalid requests
            operations = [one for one in operations if one.body or one.query]
        statuses: dict[str, set[int]] = {operation.label: set() for operation in operations}
        for operation, id in product(operations, [None, *ids]):

            @given(case=operation.as_strategy(generation_mode=mode), id=st.just(id))
            @settings(max_examples=EXAMPLES // 3, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            def check(case: schemathesis.Case, id: str | None) -> None:
                label = case.operation.label
                if id is not None and label not in UNKEPT:
                    known = {"id": id, "number": 1}
                    case.path_parameters.update({key: known[key] for key in known if key in case.path_parameters})
                    if mode is GenerationMode.POSITIVE and isinstance(case.body, dict) and "question" in case.body:
                        case.body = {"question": case.body["question"], "documents": [id]}
                response = case.call(headers={"X-Requested-With": "tests"})
                assert response.status_code < 500, response.text
                more = (
                    [checks.negative_data_rejection] if case.method == "POST" and label not in UNKEPT else []
                )  # not unknown keys
                more += [checks.response_schema_conformance] if label not in PAIRS else []
                case.validate_response(response, checks=[*AS_DESCRIBED, *more])
                statuses[label].add(response.status_code)

            check()
    if mode is GenerationMode.POSITIVE:
        never_right = [label for label, seen in statuses.items() if not seen & {200, 201}]
        assert never_right == ["DELETE /documents/{id}", "GET /v1/models/{model}"], "names that are guessed"
    else:
        assert len(statuses) == 7
        assert all(422 in seen for seen in statuses.values()), statuses


def test_every_documented_status(reader: CogLTX) -> None:
    config = ServerConfig(max_megabytes=1, max_requests=20, api_key="s3cret")
    ask, key = {"question": "Who wrote?", "text": TEXT}, {"Authorization": "bearer s3cret"}
    broken = {"Content-Type": "multipart/form-data; boundary=a", **key}
    with connected(reader, config) as client:
        requests: dict[int, Callable[[], object]] = {
            200: lambda: client.post("/answer", json=ask, headers=key),
            201: lambda: client.post("/documents", json={"text": TEXT}, headers=key),
            400: lambda: client.post("/files", content=b"--a\r\nno header\r\n", headers=broken),
            401: lambda: client.post("/answer", json=ask),
            403: lambda: client.post("/answer", json=ask, headers={**key, "Origin": "https://elsewhere.example"}),
            404: lambda: client.get("/documents/none", headers=key),
            405: lambda: client.get("/answer", headers=key),
            413: lambda: client.post("/documents", json={"text": "a " * 600_000}, headers=key),
            415: lambda: client.post("/answer", content="question=Who", headers={**key, "Content-Type": "text/plain"}),
            422: lambda: client.post("/answer", json={}, headers=key),
        }
        for status, request in requests.items():
            assert request().status_code == status  # type: ignore[attr-defined]
        client.app.state.service.stop()  # type: ignore[attr-defined]
        assert client.post("/answer", json=ask, headers=key).status_code == 503
        assert 429 in {client.get("/health").status_code for _ in range(41)}  # a new minute begins at most once
        described = client.app.openapi()["paths"]["/answer"]["post"]["responses"]  # type: ignore[attr-defined]
    assert set(described) == {str(status) for status in (*requests, 429, 503) if status != 201}
