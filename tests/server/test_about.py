"""What a server says about itself: its model and limits, its description with the key, and the page of the API."""

import re

import pytest
from fastapi.testclient import TestClient
from served import connected

from cogltx import __version__
from cogltx.pipeline import CogLTX
from cogltx.server._service import ServerConfig


def test_info(client: TestClient, reader: CogLTX, tmp_path_factory: pytest.TempPathFactory) -> None:
    info = client.get("/info").json()
    assert (info["model_id"], info["version"], info["store"]) == ("tiny", __version__, False)
    assert info["model_type"]["reranker"]["id2label"] == {"0": "relevance"}
    assert (info["max_megabytes"], info["max_documents"], info["auto_truncate"]) == (1, 6, False)
    assert {".pdf", ".docx", ".md", ".txt"} <= set(info["formats"])
    assert None not in info.values()
    with connected(reader, ServerConfig(store=tmp_path_factory.mktemp("store"), api_key="s3cret")) as keeping:
        assert keeping.get("/info").json()["store"] is True


def test_models(client: TestClient) -> None:
    listed = client.get("/v1/models").json()
    [model] = listed["data"]
    assert (listed["object"], model["id"], model["object"]) == ("list", "tiny", "model")
    assert client.get("/v1/models/tiny").json() == model
    response = client.get("/v1/models/gpt")
    assert response.status_code == 404
    assert response.json()["error"]["message"] == "no such model; this server has tiny"


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/health", "/info", "/metrics", "/v1/models", "/openapi.json", "/page/page.js"]
)
def test_head_is_get_without_the_body(client: TestClient, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert path == "/metrics" or head.headers["content-length"] == get.headers["content-length"]


def test_other_methods_are_refused_with_those_that_exist(client: TestClient) -> None:
    response = client.head("/answer")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    response = client.put("/health")
    assert (response.status_code, response.json()["error"]["type"]) == (405, "not_allowed")
    client.head("/health")
    assert 'cogltx_requests_total{method="HEAD",route="/health",status="200"} 1.0' in client.get("/metrics").text


@pytest.mark.parametrize("key", [None, "s3cret"])
def test_the_description_has_the_key(reader: CogLTX, key: str | None) -> None:
    with connected(reader, ServerConfig(api_key=key)) as client:
        schema = client.get("/openapi.json").json()
        assert client.get("/docs").status_code == 200
    assert schema["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    security = schema["paths"]["/rerank"]["post"]["security"]
    assert security == ([{"key": []}] if key else [{"key": []}, {}])
    assert "security" not in schema["paths"]["/health"]["get"]
    statuses = {"400", "401", "403", "404", "405", "413", "415", "422", "429", "503"}
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            assert statuses <= set(operation["responses"]), path


def test_the_page_of_the_api_needs_nothing_from_elsewhere(client: TestClient) -> None:
    response = client.get("/docs")
    page = response.text
    assert not re.search(r"(src|href)=\"(?![#/])", page)
    assert "<script" not in page
    assert "script-src" not in response.headers["content-security-policy"]
    schema = client.get("/openapi.json").json()
    for path, methods in schema["paths"].items():
        assert all(f"<code>{method.upper()} {path}</code>" in page for method in methods)
    links, anchors = set(re.findall(r'href="#(\w+)"', page)), set(re.findall(r'id="(\w+)"', page))
    assert {"RerankTexts", "RerankDocuments", "HeldDocument", "Prediction"} <= links <= anchors
