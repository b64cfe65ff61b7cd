"""What may enter the server, and what every response says to browsers."""

import pytest
from fastapi.testclient import TestClient
from served import connected
from test_pipeline import QUESTION

from cogltx.pipeline import CogLTX
from cogltx.server._service import ServerConfig

TEXT = {"text": "Rain fell on the hills."}


def kind(response: object) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["type"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:80", "[::1]:8000", "192.168.1.5"])
def test_hosts_of_this_machine(client: TestClient, host: str) -> None:
    assert client.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "", "[::1", "127.0.0.1.nip.io"]
)
def test_other_hosts_are_refused(client: TestClient, host: str) -> None:
    response = client.get("/health", headers={"Host": host})
    assert kind(response) == (403, "forbidden")
    assert "--allowed-host" in response.json()["error"]["message"]


def test_hosts_that_are_allowed(reader: CogLTX) -> None:
    with connected(reader, ServerConfig(allowed_hosts=("docs.example",))) as client:
        assert client.get("/health", headers={"Host": "docs.example:443"}).status_code == 200
        assert client.get("/health", headers={"Host": "other.example"}).status_code == 403
        origin = {"Host": "docs.example", "Origin": "https://docs.example"}
        assert client.post("/documents", json=TEXT, headers=origin).status_code == 201
    with connected(reader, ServerConfig(allowed_hosts=("*",))) as client:
        assert client.get("/health", headers={"Host": "any.example"}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "http://10.0.0.1", "http://["]
)
def test_pages_of_other_sites_are_refused(client: TestClient, origin: str) -> None:
    assert kind(client.post("/documents", json=TEXT, headers={"Origin": origin})) == (403, "forbidden")
    same = {"Origin": "http://localhost"}
    assert client.post("/documents", json=TEXT, headers=same).status_code == 201


def test_a_plain_form_cannot_upload(client: TestClient) -> None:
    del client.headers["X-Requested-With"]
    response = client.post("/files", files={"file": ("a.txt", b"Some text.")})
    assert kind(response) == (403, "forbidden")
    assert "X-Requested-With" in response.json()["error"]["message"]
    assert client.post("/documents", json=TEXT).status_code == 201


def test_browsers_do_not_guess_or_embed(client: TestClient) -> None:
    ask = {"question": QUESTION, **TEXT}
    for response in (client.get("/"), client.post("/report", json=ask)):
        policy = response.headers["Content-Security-Policy"]
        for rule in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"):
            assert rule in policy
    for response in (client.get("/"), client.get("/health"), client.get("/none"), client.get("/page/page.js")):
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"


def test_a_client_has_a_rate(reader: CogLTX) -> None:
    with connected(reader, ServerConfig(max_requests=3)) as client:
        statuses = [client.get("/health").status_code for _ in range(8)]
        assert statuses.count(429) >= 2
        assert statuses[:3] == [200] * 3
        assert client.get("/health").headers["Retry-After"]


def test_the_scheme_of_the_key_has_any_case(reader: CogLTX) -> None:
    with connected(reader, ServerConfig(api_key="s3cret")) as client:
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert client.get("/metrics", headers={"Authorization": f"{scheme} s3cret"}).status_code == 200
        for wrong in ("Basic s3cret", "s3cret", "Bearer", "Bearer s3cre", "Bearer süß"):
            assert client.get("/metrics", headers={"Authorization": wrong.encode()}).status_code == 401
