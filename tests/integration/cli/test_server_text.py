"""What a server says cannot steer the terminal of who asks: every command, every place where its text is shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from semilocal import Task
from semilocal.errors import is_plain
from semilocal.geometry.box import Box
from semilocal.protocol.messages import encode
from semilocal.protocol.plan import Plan
from tests.helpers.commands import run
from tests.helpers.hostile import JSON, MSGPACK, Hostile, answer, problem

STEERING = "\x1b]0;title\x07\x1b[2J\x1b[1;31mgood\x9b2K\r\u202eevil\x7f\nsemilocal: forged line\u2028" + "y" * 100_000
TASK = Task.build(Box((0.0, 0.0), (1.0, 1.0)), epsilon=1.0, delta=1e-6, k=50, chain=bytes(32))
NAME = TASK.id.hex()
ROW = {"task": NAME, "name": STEERING, "phase": "collecting", "enrolled": 5, "fault": STEERING}
STATE = {
    "task": NAME, "phase": "collecting", "round": 1, "closed": 0, "poll_after": 5, "enrolled": 5, "deadline": None,
    "now": 0, "fault": STEERING,
}  # fmt: skip
RESULTS = {
    "task": NAME, "name": STEERING, "statement": STEERING, "regions": [{"cell": "1", "crowd": 5}],
    "releases": [
        {
            "kind": "mean", "mean": 1.0, "interval": [0.0, 1.0], "level": 0.95, "epsilon": 1.0, "function": STEERING,
            "adjacency": STEERING,
        }
    ],
}  # fmt: skip


def json_answer(document: object) -> bytes:
    return answer(json.dumps(document).encode(), JSON)


@pytest.fixture
def server() -> Iterator[Hostile]:
    base = f"/tasks/{NAME}"
    routes: dict[str, bytes] = {
        "/tasks": json_answer([ROW]),
        f"{base}/state": json_answer(STATE),
        f"{base}/statement": answer(STEERING.encode("utf-8", "replace"), "text/plain; charset=utf-8"),
        f"{base}/results": json_answer(RESULTS),
        f"{base}/regions.geojson": problem(404, "no-such-route", STEERING),
        f"{base}/start": problem(409, "other-phase", STEERING),
        "/healthz": json_answer({"status": "ok"}),
        base: answer(encode(TASK), MSGPACK),
        f"{base}/plan": answer(encode(Plan(TASK.id)), MSGPACK),
    }
    with Hostile(routes, otherwise=problem(403, "bad-form", STEERING)) as running:
        yield running


def shown(out: str, err: str) -> None:
    """Fail unless what is on the terminal is plain, short, and has no line that the server wrote."""
    for line in [*out.split("\n"), *err.split("\n")]:
        assert is_plain(line), ascii(line[:500])
        assert not line.startswith("semilocal: forged line")
        assert len(line) < 2500
    assert len(out) + len(err) < 60_000


@pytest.mark.parametrize(
    "words",
    [
        ("campaign", "list"),
        ("campaign", "show", NAME),
        ("campaign", "show", "another"),
        ("campaign", "start", NAME, "--admin-token", "a-token-of-more-than-enough-length-0123"),
        ("results", NAME, "--out", "results"),
    ],
)
def test_the_administrators_commands(
    capsys: pytest.CaptureFixture[str], server: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEMILOCAL_ADMIN_TOKEN", raising=False)
    code, out, err = run(capsys, *words, "--url", server.url)
    assert code in (0, 2)
    assert out + err
    assert "good" in out + err or "campaigns match" in err or "not finished" in err
    shown(out, err)


def test_a_device_shows_reasons_and_names_without_what_steers(
    capsys: pytest.CaptureFixture[str], server: Hostile, tmp_path: Path
) -> None:
    join = ("join", f"{server.url}/tasks/{NAME}", "--position", "0.5,0.5", "--yes", "--vault", tmp_path / "vault")
    code, out, err = run(capsys, *join, "--max-epsilon", "1000", "--min-k", "2")
    assert code == 1
    assert "the server refused the enrolment: " in out
    assert "good" in out
    shown(out, err)
    # a task whose axes have such names is refused as a whole, in a short line
    document = msgspec.msgpack.decode(encode(TASK))
    document["hierarchy"]["box"]["names"] = [STEERING, "y"]
    data = msgspec.msgpack.encode(document)
    forged = hashlib.sha256(data).hexdigest()
    server.routes[f"/tasks/{forged}"] = answer(data, MSGPACK)
    server.routes[f"/tasks/{forged}/plan"] = answer(encode(Plan(bytes.fromhex(forged))), MSGPACK)
    code, out, err = run(capsys, "join", f"{server.url}/tasks/{forged}", *join[2:])
    assert code == 2
    assert "names must be" in err
    shown(out, err)


def test_a_server_with_strange_tasks_is_refused_in_plain_words(
    capsys: pytest.CaptureFixture[str], server: Hostile, tmp_path: Path
) -> None:
    server.routes["/tasks"] = json_answer([{"task": STEERING, "name": "x", "phase": "enrolling", "enrolled": 0}] * 2)
    code, out, err = run(capsys, "join", server.url, "--position", "0.5,0.5", "--yes", "--vault", tmp_path / "vault")
    assert code == 2
    shown(out, err)
    code, out, err = run(capsys, "transcript", server.url, "any name", "--out", tmp_path / "t.slt")
    assert code == 2
    shown(out, err)
