"""Requests made from the description: none makes the server fail, every answer is described, valid ones are taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from semilocal import Box, Task
from semilocal.cli.admin import AdminClient
from semilocal.service.campaign import CampaignForm
from semilocal.testing import ADMIN_TOKEN, Server
from tests.helpers import HANG
from tests.helpers.forked import ForkedServer

EXAMPLES = 6  # of every route
ALWAYS = ("/tasks", "/key", "/healthz", "/metrics", "/openapi.json")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("openapi")
    served = ForkedServer(f"sqlite:///{folder / 'service.db'}", log=folder / "log.txt")
    served.start()
    yield served
    served.kill()


def test_no_request_makes_the_server_fail_and_every_answer_is_described(server: Server) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    schemathesis.openapi.media_type("application/msgpack", st.binary(max_size=200))
    described = httpx2.get(f"{server.url}/openapi.json", timeout=HANG).json()
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=server.url)
    operations = [found.ok() for found in schema.get_all_operations()]
    listed = {(method, path) for path, methods in described["paths"].items() for method in methods}
    assert {(one.method, one.path) for one in operations} == listed
    with AdminClient(server.url, ADMIN_TOKEN) as office:
        task = Task.build(Box((0, 0), (1, 1)), epsilon=1.0, delta=0.01, k=5, server_key=office.key())
        created = office.create(CampaignForm("walkers", task))
    with httpx2.Client(base_url=server.url, timeout=HANG) as client:
        for operation in operations:
            known = set(described["paths"][operation.path][operation.method]["responses"])
            check_answers(client, operation, known, "")
            if operation.method == "get" and "{task}" in operation.path and not operation.path.endswith("/counts"):
                check_answers(client, operation, known - {"400"}, created)  # a valid request is taken


def check_answers(client: httpx2.Client, operation: Any, known: set[str], task: str) -> None:
    """Send made-up requests to one route, about a task that is there if one is given."""
    about = f"{operation.method} {operation.path}"
    checked = 0

    @given(operation.as_strategy())
    @settings(
        max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def check(case: Any) -> None:
        nonlocal checked
        if task:
            case.path_parameters["task"] = task
        status, body = answer_to(client, case)
        assert status < 500, (about, status, body)
        assert str(status) in known, (about, status, body)
        if operation.path in ALWAYS and operation.method == "get":
            assert status == 200, (about, body)
        checked += 1

    check()
    assert checked, about


def answer_to(client: httpx2.Client, case: Any) -> tuple[int, str]:
    """The server's answer to a made-up request of an administrator."""
    arguments = case.as_transport_kwargs(base_url=str(client.base_url))
    query = {**dict(arguments.get("params") or {})}
    query.pop("wait", None)  # a long poll is valid, and long
    given_headers = (arguments.get("headers") or {}).items()
    headers = {name: value for name, value in given_headers if name.lower() == "content-type"}
    sent = client.request(
        arguments["method"], arguments["url"], params=query, content=arguments.get("data"), json=arguments.get("json"),
        headers={**headers, "authorization": f"Bearer {ADMIN_TOKEN}"},
    )  # fmt: skip
    return sent.status_code, sent.text
