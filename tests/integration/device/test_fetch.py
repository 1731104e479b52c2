"""Downloads are bounded in size and time, stay at their server, and say what is wrong with an answer."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from semilocal.cli.main import main
from semilocal.device.download import Getter, download, save_transcript
from semilocal.errors import Unavailable
from tests.helpers import HANG
from tests.helpers.hostile import JSON, MSGPACK, Hostile, answer, endless, forever, problem
from tests.integration.device.test_download import PLAYED, routes_of

PAGE = b"<html>Please log in to the network of the hotel</html>"
NAME = PLAYED.task.id.hex()
DRIP = 0.05  # seconds between two bytes
SOON = 1.0  # seconds that an answer may take in these tests


def drip(start: bytes) -> Callable[[], Iterator[bytes]]:
    """One byte at a time, for as long as anybody listens."""
    return lambda: iter([start, *([b"x"] * 100_000)])


def redirect(where: str) -> bytes:
    return answer(b"", status=302, more=f"Location: {where}\r\n")


HEAD = f"HTTP/1.1 200 x\r\nContent-Type: {JSON}\r\n".encode()
ANSWERS: dict[str, tuple[bytes | Callable[[], Iterator[bytes]], str]] = {
    "a page with 200": (answer(PAGE, "text/html"), "200 with text/html"),
    "a page with 404": (answer(PAGE, "text/html", status=404), "404 with text/html"),
    "another type": (answer(b"{}", "text/plain"), "200 with text/plain"),
    "no type": (b"HTTP/1.1 200 x\r\nConnection: close\r\n\r\n{}", "no semilocal server"),
    "a proxy that fails": (answer(PAGE, "text/html", status=502), "502 with text/html"),
    "our refusal": (problem(503, "unavailable", "\x1b[2J"), "answered 503"),
    "our 404": (problem(404, "no-such-task", ""), "the server has no"),
    "cut off": (answer(b'{"closed": 1', length=500), "no whole answer"),
    "cut off in chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel", "no whole answer"),
    "no JSON": (answer(b"{"), "not what a transcript needs"),
    "other JSON": (answer(b'{"closed": "many"}'), "not what a transcript needs"),
    "too many rounds": (answer(b'{"closed": 1000000000}'), "not what a transcript needs"),
    "deep JSON": (answer(b"[" * 100_000), "not what a transcript needs"),
    "no HTTP": (b"hello\r\n\r\n", "no whole answer"),
    "nothing": (b"", "no whole answer"),
    "an endless line": (lambda: forever(b"x" * 10_000), "no whole answer"),
    "an endless body": (endless, "more than 0 MiB"),
    "a body that drips": (drip(HEAD + b"Content-Length: 1000000\r\n\r\n"), "TimeoutError"),
    "headers that drip": (drip(HEAD), "TimeoutError"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_no_answer_of_our_server_ends_the_download_with_a_reason(name: str) -> None:
    bad, words = ANSWERS[name]
    slow = "drip" in name
    good = answer(PLAYED.events[0], MSGPACK)
    with (
        Hostile({f"/tasks/{NAME}": good, f"/tasks/{NAME}/state": bad}, pause=DRIP if slow else 0.0) as server,
        Getter(server.url, seconds=SOON if slow else HANG, most_bytes=1_000_000) as get,
        pytest.raises(Unavailable, match=words) as refused,
    ):
        download(get, NAME, io.BytesIO())
    assert "\x1b" not in str(refused.value)


def test_a_redirect_is_not_followed_wherever_it_leads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Hostile() as elsewhere, Hostile() as server:
        for where in (f"{elsewhere.url}/tasks", f"{server.url}/other", "file:///etc/passwd", "ftp://x/"):
            server.routes["/tasks"] = redirect(where)
            with Getter(server.url) as get, pytest.raises(Unavailable, match="redirect"):
                get("/tasks")
        assert main(["transcript", server.url, "any", "--out", str(tmp_path / "t.slt")]) == 2
        assert "redirect" in capsys.readouterr().err
        assert elsewhere.asked == []
        assert {line.split(" ")[1] for line in server.asked} == {"/tasks"}


def test_pages_without_an_end_are_given_up_at_the_total(tmp_path: Path) -> None:
    """Every page goes on after the one before: only the sum of all answers ends this."""
    routes: dict[str, bytes] = routes_of(PLAYED, sealed=True)
    size = len(routes[f"/tasks/{NAME}"])
    with (
        Hostile({path: answer(data, MSGPACK) for path, data in routes.items()}) as server,
        Getter(server.url, most_total=10 * size) as get,
    ):
        for _ in range(10):
            assert get(f"/tasks/{NAME}") is not None
        with pytest.raises(Unavailable, match="all answers together"):
            get(f"/tasks/{NAME}")


def test_a_page_with_more_reports_than_asked_for_is_refused(tmp_path: Path) -> None:
    routes = routes_of(PLAYED, sealed=True)
    page = f"/tasks/{NAME}/rounds/1/reports?limit=1000"
    routes[page] = msgspec.msgpack.encode(msgspec.msgpack.decode(routes[page]) * 1001)
    kinds = {path: JSON if path.endswith("/state") else MSGPACK for path in routes}
    with (
        Hostile({path: answer(data, kinds[path]) for path, data in routes.items()}) as server,
        pytest.raises(Unavailable, match="reports in a page; at most 1,000 were asked for"),
    ):
        save_transcript(server.url, NAME, tmp_path / "t.slt")
    assert not list(tmp_path.iterdir())


def test_a_good_server_gives_a_whole_transcript(tmp_path: Path) -> None:
    routes = routes_of(PLAYED, sealed=True)
    kinds = {path: JSON if path.endswith("/state") else MSGPACK for path in routes}
    (tmp_path / "t.slt.part").write_text("somebody else's")
    (tmp_path / "link.slt").symlink_to(tmp_path / "t.slt")
    with Hostile({path: answer(data, kinds[path]) for path, data in routes.items()}) as server:
        assert save_transcript(server.url, NAME, tmp_path / "link.slt") > 0
    assert main(["verify", str(tmp_path / "t.slt")]) == 0
    assert (tmp_path / "t.slt.part").read_text() == "somebody else's"
    assert len(list(tmp_path.iterdir())) == 3
