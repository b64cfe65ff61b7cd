"""A stand-in of the Hugging Face hub: the part of its HTTP API that uploads and downloads of a folder use."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

SHA = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Keeps the files of repositories in memory; ``requests`` are the paths it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.tokens: set[str] = set()
        self.requests: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        self.server.requests.append(f"{self.command} {self.path}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        self.server.tokens.add(self.headers.get("Authorization", ""))
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
            self.server.repositories.setdefault(name, {})
            self.server.private[name] = asked.get("private") or asked.get("visibility") == "private"
            self._json({"url": f"{self.server.address}/{name}", "name": name, "id": "1"})
        elif path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif path.endswith("/preupload/main"):
            files = [{**one, "uploadMode": "regular", "shouldIgnore": False} for one in json.loads(body)["files"]]
            self._json({"files": files})
        elif path.endswith("/commit/main"):
            files = self.server.repositories[self._repository(path)]
            for line in body.splitlines():
                item = json.loads(line)
                if item["key"] == "file":
                    files[item["value"]["path"]] = base64.b64decode(item["value"]["content"])
            url = f"{self.server.address}/{self._repository(path)}"
            self._json({"success": True, "commitUrl": f"{url}/commit/{SHA}", "commitOid": SHA, "hookOutput": ""})
        else:
            self._json({"error": f"unknown: {path}"}, 404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path.startswith("/api/models/"):
            name = self._repository(path)
            files = self.server.repositories.get(name)
            if files is None:
                self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
            elif "/revision/" in path and path.rpartition("/")[2] not in ("main", "v1", SHA):
                self._json({"error": "Invalid rev id"}, 404, {"X-Error-Code": "RevisionNotFound"})
            elif "/tree/" in path:
                self._json(
                    [{"type": "file", "path": one, "size": len(files[one]), "oid": _oid(files[one])} for one in files]
                )
            else:
                siblings = [{"rfilename": one, "size": len(files[one])} for one in files]
                self._json(
                    {"id": name, "modelId": name, "sha": SHA, "siblings": siblings, "private": False, "tags": []}
                )
            return
        owner, name, _, _, file = path.lstrip("/").split("/", 4)
        content = self.server.repositories[f"{owner}/{name}"][file]
        headers = {"ETag": f'"{_oid(content)}"', "X-Repo-Commit": SHA, "Accept-Ranges": "bytes"}
        self._send(200, content, "application/octet-stream", headers)

    @staticmethod
    def _repository(path: str) -> str:
        return "/".join(path.split("/")[3:5])

    def _json(self, value: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), "application/json", headers or {})

    def _send(self, status: int, content: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _oid(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@contextmanager
def stand_in() -> Iterator[Hub]:
    """Run the stand-in in a thread."""
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()
