"""Random bytes and mutated valid messages against every route: never a 500, a hang or a stack trace.

5,000 inputs in the suite, 1,000,000 with SEMILOCAL_LONG=1. The seed is fixed; the property is not statistical, so there
are no false alarms.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from semilocal import Closed, Query
from semilocal.protocol.messages import (
    Clip,
    Entry,
    Head,
    Question,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    Verdict,
    encode,
)
from semilocal.protocol.plan import Plan, Release
from semilocal.service.problems import PROBLEMS
from semilocal.service.rounds import start
from semilocal.service.stores.sqlite import SQLiteStore
from semilocal.testing import ADMIN_TOKEN, MockClock, build_app, client_of, cluster, secrets_of
from tests.helpers import HANG
from tests.helpers.long import SEED, times
from tests.helpers.service import enrolled, open_campaign, roster_report, sample_task
from tests.helpers.stored import verify

INPUTS = times(5_000, long=1_000_000)
TASK = sample_task()
RELEASE = Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0])
PLAN = Plan(TASK.id, (RELEASE, Release("counts")))
VALID = [encode(message) for message in (
    TASK, Query(TASK.id, 2, (Question(256, 512, (300,), 20, 0, 8, 2, 7),)), roster_report(TASK, b"p" * 16),
    roster_report(TASK, b"p" * 16, round=2, answer=1), roster_report(TASK, b"p" * 16, round=2, answer=(1, -2)),
    Slice(TASK.id, 1, 256, 512, (Entry(b"p" * 16, None, bytes(16)), Entry(b"q" * 16, 1, bytes(16)))),
    Closed(TASK.id, 2, (Head(256, 512, 2, bytes(32)),), (Verdict("wall", (4, 6)),), bytes(32), False),
    PLAN, ValueQuery(TASK.id, 3, PLAN.digest, 0, (Clip(256, 512, 0.0, 0.5),)),
    ValueReport(TASK.id, 3, b"p" * 16, 256, 512, 1),
    ValueClosed(TASK.id, 3, PLAN.digest, 0, ((256, 300), (300, 512)), (((0, 2),), ((0, 1), (1, 4)))),
)]  # fmt: skip
CAMPAIGN = {"name": "x", "task": msgspec.to_builtins(TASK), "enrolment": "open", "releases": [{"kind": "counts"}]}
FORMS = [b'{"verifier":"%s","token":"slt_xxxxxxxx"}' % (b"a" * 64), b'{"count":2}', msgspec.json.encode(CAMPAIGN)]
TASKS = ["0" * 64, "x", "%00", "é" * 64]
NASTY = [
    b"", b"\x00", b"\xff" * 9, b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91" * 2000, b"\x81\xa1a" * 900,
    b"\xc7\xff\x01", b"{" * 3000, b"[" * 4000, b'{"a":' * 700, b"1e999", b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
    b"null", b"\xc0", b'"\\ud800"',
]  # fmt: skip


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A valid message with something wrong, or nothing like one."""
    kind = chance.randrange(8)
    if kind == 0 or not data:
        return chance.choice(NASTY)
    if kind == 1:
        return chance.randbytes(chance.randrange(200))
    out = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(out)) if out else 0
        if kind in (2, 3) and out:
            out[place] ^= 1 << chance.randrange(8)
        elif kind == 4 and out:
            out[place] = chance.choice((0, 0x7F, 0x80, 0xC0, 0xC4, 0xCB, 0xD9, 0xDC, 0xFF))
        elif kind == 5:
            del out[place : place + chance.randrange(1, 9)]
        elif kind == 6:
            out[place:place] = chance.randbytes(chance.randrange(1, 9))
        else:
            other = chance.choice(VALID)
            out[place:] = other[chance.randrange(len(other)) :]
    return bytes(out)


class Bare:
    """Requests to the application without a client in between, so that any bytes can be sent."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def send(
        self, method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[int, bytes]:
        parts = [body[:1], body[1:]] if len(body) % 7 == 3 else [body]
        answers: list[Any] = []

        async def receive() -> Any:
            if not parts:
                return {"type": "http.disconnect"}
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message: Any) -> None:
            answers.append(message)

        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode("utf-8", "surrogateescape"),
            "query_string": query, "headers": headers, "http_version": "1.1", "scheme": "http", "root_path": "",
        }  # fmt: skip
        await asyncio.wait_for(self.app(scope, receive, send), HANG)
        assert answers[0]["type"] == "http.response.start"
        return answers[0]["status"], b"".join(message.get("body", b"") for message in answers[1:])


def test_every_route_answers_anything_with_sense(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SQLiteStore(str(tmp_path / "service.db"))
    seen: Counter[int] = Counter()

    async def main() -> None:
        app, service = build_app(store, MockClock())
        await service.start()
        async with client_of(app) as client:
            devices = await enrolled(
                client, store, open_campaign(TASK, releases=PLAN.releases), cluster(30), secrets_of(30)
            )
            start(store, TASK.id, service.clock())
            query = (await client.get(f"{devices[0].base}/rounds/1/query")).content
            for device in devices[:20]:
                await device.answer(query)
            service.clock.advance(61)  # type: ignore[attr-defined]
            await service.tick()
        bare, chance = Bare(app), random.Random(2 + SEED)
        names = [device.pseudonym.hex() for device in devices] + ["0" * 32]
        keys = [device.key.hex() for device in devices] + [ADMIN_TOKEN, "0" * 64, ""]
        routes = [(method, route.path) for route in app.router.routes for method in route.methods]  # type: ignore[attr-defined]
        for number in range(INPUTS):
            service.clock.advance(0.01)  # type: ignore[attr-defined]
            method, path = chance.choice(routes)
            if chance.random() < 0.5:  # reports are the widest door
                method, path = "PUT", "/tasks/{task}/rounds/{round}/reports/{pseudonym}"
            path = path.replace("{task}", TASK.id.hex() if chance.random() < 0.95 else chance.choice(TASKS))
            path = path.replace("{round}", chance.choice(["1", "2", "2", "3", "0", "65537", "999999", "1e3", "²"]))
            regions = ["256-512", "0-1", "512-256", "-", "1-99999999999999999999", "²-3"]
            path = path.replace("{region}", chance.choice(regions))
            path = path.replace("{pseudonym}", chance.choice(names) if chance.random() < 0.95 else "zz")
            if chance.random() < 0.03:
                path = mutate(path.encode(), chance).decode("latin-1")
            if method == "POST" and path.endswith("/close"):
                continue  # would end the campaign, and with it most of what there is to try
            queries = [b"after=1", b"after=-1&wait=0", b"wait=x", b"limit=0", b"after=%ff", b"&&=&"]
            query = b"" if chance.random() < 0.7 else chance.choice(queries)
            key = chance.choice(keys)
            headers = [(b"authorization", b"Bearer " + key.encode())] if chance.random() < 0.9 else []
            name = names.index(path.rsplit("/", 1)[-1]) if path.rsplit("/", 1)[-1] in names[:-1] else None
            if name is not None and chance.random() < 0.8:
                headers = [(b"authorization", b"Bearer " + devices[name].key.hex().encode())]
            valid = chance.choice(VALID)
            if name is not None and chance.random() < 0.7:
                in_path = 2 if "/rounds/2/" in path else 1
                said = chance.choice((0, 1, 1, None)) if in_path == 2 else None
                valid = encode(roster_report(TASK, devices[name].pseudonym, round=in_path, answer=said))
            if path.rsplit("/", 1)[-1] not in names and chance.random() < 0.7:
                valid = chance.choice(FORMS)
            body = valid if chance.random() < 0.2 else mutate(valid, chance)
            length = str(len(body)).encode()
            if chance.random() >= 0.9:
                length = chance.choice([b"", b"-1", b"99999999999999999999", b"x", "²".encode()])
            headers.append((b"content-length", length))
            status, answer = await bare.send(method, path, query, headers, body)
            seen[status] += 1
            assert status < 500 or status == 503, (number, status)
            assert b"Traceback" not in answer
            assert b'File "' not in answer
            if status >= 400 and method != "HEAD":
                document = msgspec.json.decode(answer)
                assert PROBLEMS[document["token"]][0] == status
                sent = (method, path, query, headers, body, caplog.text)
                assert document["detail"] != "an unexpected fault; it was logged", sent
        await service.stop()

    asyncio.run(main())
    assert {200, 201, 401, 404, 405, 413, 422} <= set(seen), seen
    assert seen[503] == 0
    print(f"{INPUTS} requests to the routes: {dict(sorted(seen.items()))}")
    verify(store, TASK.id)
    store.close()
