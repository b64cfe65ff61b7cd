"""Generated requests, valid and invalid, for every route that the server describes: it never fails."""

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from cogltx.pipeline import CogLTX
from cogltx.server._service import ServerConfig
from cogltx.server.app import create_app

EXAMPLES = int(os.environ.get("COGLTX_EXAMPLES", "15"))  # per route and mode


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # schemathesis does
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_makes_the_server_fail(reader: CogLTX, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_asgi(
        "/openapi.json", create_app(reader, "tiny", ServerConfig(allowed_hosts=("testserver",)))
    )
    operations = [found.ok() for found in schema.get_all_operations()]
    if mode is GenerationMode.NEGATIVE:  # a route without parameters has no invalid requests
        operations = [operation for operation in operations if operation.body]
    statuses: dict[str, set[int]] = {operation.label: set() for operation in operations}
    for operation in operations:

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        def check(case: schemathesis.Case) -> None:
            response = case.call()
            assert response.status_code < 500, response.text
            statuses[case.operation.label].add(response.status_code)

        check()
    assert len(statuses) > 5
    expected = {200, 201} if mode is GenerationMode.POSITIVE else {422}
    assert statuses["POST /answer"] & expected
    assert statuses["POST /rerank"] & expected
