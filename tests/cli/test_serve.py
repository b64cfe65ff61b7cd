"""``cogltx serve``: starts, ends, and starts again after a kill."""

import json
import signal
import socket
import urllib.request
from pathlib import Path

from command_line import Call, Files
from served import serve

ASK = {"question": "Where does the person live ?", "text": "The person lives in a house. It rains."}


def post(address: str, path: str, body: object) -> object:
    request = urllib.request.Request(
        f"{address}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def test_it_answers_again_after_a_kill_and_ends_cleanly(files: Files) -> None:
    with serve("--model", files.run) as server:
        first = post(server.address, "answer", ASK)
        port = server.address.rstrip("/").rpartition(":")[2]
        server.process.kill()
        server.process.wait(30)
    with serve("--model", files.run, "--port", port) as server:
        assert post(server.address, "answer", ASK) == first
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == "stopped\n"


def test_what_cannot_be_served(files: Files, classified: Path, call: Call) -> None:
    assert "no-such-model: no such folder" in call("serve", "--port", 0, "--model", "no-such-model").err
    done = call("serve", "--port", 0, "--model", classified / "run")
    assert done.code == 2
    assert "does not answer questions by key blocks" in done.err
    done = call("serve", "--port", 0, "--model", files.run, "--set", "reader=truncation")
    assert "the reader truncation with the reasoner span does not answer questions by key blocks" in done.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = call("serve", "--model", files.run, "--port", port)
    assert (done.code, done.err) == (
        2, f"cogltx: 127.0.0.1:{port}: address already in use; choose others with --host and --port\n"
    )  # fmt: skip
