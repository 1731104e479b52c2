"""The nginx configuration that ships, run before a real server: what it keeps out, and what it must let through."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from semilocal.device.transport import LONGEST_POLL
from semilocal.service.rounds import REPORT_BYTES
from semilocal.service.routes.public import COUNTS_BYTES
from semilocal.sharing.wire import MAX_BODY
from semilocal.testing import ADMIN_TOKEN, Server, running_server
from tests.helpers import HANG
from tests.helpers.flood import connect, greedy, half_open, trusting
from tests.helpers.nginx import SHIPPED, Nginx, peak_memory, shipped_nginx

HALF_OPEN = 1050
GREEDY = 40
MOST = 2 << 20  # bytes that one connection may take


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_server(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt") as running:
        yield running


@pytest.fixture
def proxy(tmp_path: Path, server: Server) -> Iterator[Nginx]:
    with shipped_nginx(tmp_path / "nginx", server.port) as running:
        yield running


def seconds_of(name: str) -> float:
    return float(re.findall(rf"\b{name} (\d+)s;", SHIPPED.read_text())[0])


def mebibytes_of(name: str) -> list[int]:
    return [int(number) for number in re.findall(rf"\b{name} (\d+)m;", SHIPPED.read_text())]


def test_its_limits_leave_room_for_what_devices_and_operators_send() -> None:
    assert seconds_of("proxy_read_timeout") > LONGEST_POLL + 5
    usual, between_servers = mebibytes_of("client_max_body_size")
    assert usual << 20 > max(COUNTS_BYTES, REPORT_BYTES)
    assert between_servers << 20 >= MAX_BODY
    assert "access_log off;" in SHIPPED.read_text()
    assert "proxy_set_header X-Forwarded-For" not in SHIPPED.read_text()


def test_it_keeps_numbers_for_operators(server: Server, proxy: Nginx) -> None:
    context = trusting(proxy.certificate)
    headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
    with httpx2.Client(verify=context or True, timeout=HANG, base_url=proxy.url) as client:
        assert client.get("/metrics", headers=headers).status_code == 403
        assert httpx2.get(f"{server.url}/metrics", headers=headers, timeout=HANG).status_code == 200
        for answer in (client.get("/tasks"), client.get("/metrics"), client.get("/no-such-thing")):
            assert answer.headers["strict-transport-security"] == "max-age=31536000"
            assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


def test_half_open_connections_do_not_keep_a_device_out(server: Server, proxy: Nginx) -> None:
    context = trusting(proxy.certificate)
    with half_open(proxy.port, HALF_OPEN, context), httpx2.Client(verify=context or True, timeout=HANG) as client:
        assert client.get(f"{proxy.url}/tasks").status_code == 200
        assert client.get(f"{proxy.url}/healthz").json()["status"] == "ok"
        # none of them has reached the service
        assert server.process is not None
        assert len(list(Path(f"/proc/{server.process.pid}/fd").iterdir())) < HALF_OPEN // 2


def test_one_connection_takes_less_than_two_megabytes(server: Server, proxy: Nginx) -> None:
    assert server.process is not None
    before = proxy.resident() + peak_memory(server.process.pid)
    context = trusting(proxy.certificate)
    with greedy(proxy.port, GREEDY, context), httpx2.Client(verify=context or True, timeout=HANG) as client:
        while client.get(f"{proxy.url}/tasks").status_code == 503:  # so many requests were taken from this address
            time.sleep(0.2)
        assert client.get(f"{proxy.url}/tasks").status_code == 200
        assert proxy.resident() + peak_memory(server.process.pid) - before < GREEDY * MOST


def test_a_head_that_never_ends_and_a_body_that_never_comes_are_given_up(tmp_path: Path, server: Server) -> None:
    quick = {"client_header_timeout": "10s->1s", "client_body_timeout": "20s->1s"}
    with shipped_nginx(tmp_path / "quick", server.port, **quick) as proxy:
        context = trusting(proxy.certificate)
        with half_open(proxy.port, 3, context) as connections:
            for connection in connections:
                connection.settimeout(HANG)
                try:
                    data = connection.recv(65_536)
                except ConnectionResetError:  # closed with words of ours unread
                    data = b""
                assert data == b"" or b" 408 " in data[:20]  # perhaps after a few words; never an answer of the service


# Just over the limit of 8 kB and within one TLS record: nginx has read all of it when it refuses. Of a longer one it
# leaves bytes unread, and then closing resets the connection, now and then before the client has seen the answer.
@pytest.mark.parametrize(
    ("head", "statuses"),
    [
        (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (414,)),
        (b"GET /tasks HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 9_000 + b"\r\n\r\n", (400,)),
        (b"PUT /tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", (413,)),
    ],
)
def test_what_is_too_large_never_reaches_the_service(proxy: Nginx, head: bytes, statuses: tuple[int, ...]) -> None:
    with connect(proxy.port, trusting(proxy.certificate)) as connection:
        connection.sendall(head)
        assert int(connection.recv(65_536).split(b" ")[1]) in statuses
