"""Downloading a transcript: what the service publishes becomes a file that verifies, signed or not."""

from __future__ import annotations

import asyncio
import io
import time
from pathlib import Path

import msgspec
import pytest

from semilocal.device.download import download, save_transcript
from semilocal.errors import InvalidInput, Unavailable
from semilocal.protocol.messages import Checkpoint, Seal, decode, encode
from semilocal.protocol.plan import Release
from semilocal.service.stores.base import open_store
from semilocal.testing import cluster, keys_for_tests, running_app, secrets_of
from semilocal.transcript.file import SEAL, read_frames
from semilocal.transcript.verify import verify_stream
from tests.helpers.service import enrolled, follow_campaign, open_campaign, sample_task
from tests.helpers.transcript_cases import Played, campaign, pack, tag


@pytest.mark.parametrize("signed", [True, False])
def test_the_transcript_of_the_service_verifies(tmp_path: Path, signed: bool) -> None:
    """The real application, in this process: partition and values, by name and by id, signed and not."""
    store = open_store(f"sqlite:///{tmp_path}/db")
    task = sample_task(server_key=keys_for_tests(store).current if signed else b"")
    releases = (Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0]), Release("counts"))
    secrets = secrets_of(60)

    async def scenario() -> tuple[bytes, bytes]:
        async with running_app(store, time.time) as (client, service, _):
            campaign = open_campaign(task, releases=releases, capacity=60)
            devices = await enrolled(client, store, campaign, cluster(60), secrets)
            await follow_campaign(client, devices, service=service)
            loop = asyncio.get_running_loop()

            def get(path: str) -> bytes | None:
                answer = asyncio.run_coroutine_threadsafe(client.get(path), loop).result()
                return None if answer.status_code == 404 else answer.content

            out = []
            for name in (task.id.hex(), "test"):
                stream = io.BytesIO()
                await asyncio.to_thread(download, get, name, stream)
                out.append(stream.getvalue())
            return out[0], out[1]

    try:
        by_id, by_name = asyncio.run(scenario())
    finally:
        store.close()
    assert by_id == by_name
    found = verify_stream(io.BytesIO(by_id))
    assert found.sound, found.lines()
    assert found.participants == 60
    assert found.signatures == (found.rounds if signed else 0)
    assert found.plan is not None
    assert found.reports > 120


def routes_of(played: Played, *, sealed: bool) -> dict[str, bytes]:
    """The public routes of a server that holds this campaign."""
    base = f"/tasks/{played.task.id.hex()}"
    seals = [
        decode(f.events[0], Seal) for f in read_frames(io.BytesIO(pack(played.events, played.task))) if f.kind == SEAL
    ]
    out = {
        base: played.events[0], f"{base}/plan": encode(played.plan),
        f"{base}/state": msgspec.json.encode({"closed": len(seals)}),
    }  # fmt: skip
    number = 0
    reports: list[bytes] = []
    for event in played.events[1:]:
        kind = tag(event)
        if kind in ("query", "value-query"):
            number += 1
            reports = []
            out[f"{base}/rounds/{number}/query"] = event
        elif kind in ("report", "value-report"):
            reports.append(event)
        elif kind in ("closed", "value-closed"):
            round_ = f"{base}/rounds/{number}"
            out[f"{round_}/closed"] = event
            out[f"{round_}/checkpoint"] = seals[number - 1].checkpoint.to_bytes()
            if sealed:
                out[f"{round_}/seal"] = seals[number - 1].to_bytes()
            out[f"{round_}/reports?limit=1000"] = msgspec.msgpack.encode(reports)
            last = msgspec.msgpack.decode(reports[-1])[3].hex()
            out[f"{round_}/reports?limit=1000&after={last}"] = msgspec.msgpack.encode([])
    return out


PLAYED = campaign()


def fetch(routes: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    download(routes.get, PLAYED.task.id.hex(), stream)
    return stream.getvalue()


def test_signed_seals_are_kept_and_missing_signatures_are_found() -> None:
    signed = verify_stream(io.BytesIO(fetch(routes_of(PLAYED, sealed=True))))
    assert signed.sound, signed.lines()
    assert signed.signatures == signed.rounds
    unsigned = verify_stream(io.BytesIO(fetch(routes_of(PLAYED, sealed=False))))
    assert {item.token for item in unsigned.differences} == {"not-signed"}


def test_what_the_server_says_is_written_and_not_repaired() -> None:
    """A wrong checkpoint goes into the file as it came, and the verification names it."""
    routes = routes_of(PLAYED, sealed=False)
    path = f"/tasks/{PLAYED.task.id.hex()}/rounds/2/checkpoint"
    point = msgspec.msgpack.decode(routes[path], type=Checkpoint)
    routes[path] = Checkpoint(point.task, point.round, point.size, bytes(32)).to_bytes()
    found = verify_stream(io.BytesIO(fetch(routes)))
    assert ("wrong-root", 2) in {(item.token, item.round) for item in found.differences}


def test_a_server_without_a_part_or_with_another_task_is_refused() -> None:
    routes = routes_of(PLAYED, sealed=True)
    del routes[f"/tasks/{PLAYED.task.id.hex()}/rounds/2/closed"]
    with pytest.raises(Unavailable, match="rounds/2/closed"):
        fetch(routes)
    other = campaign(signed=False)
    routes = routes_of(PLAYED, sealed=True)
    routes[f"/tasks/{PLAYED.task.id.hex()}"] = other.events[0]
    with pytest.raises(Unavailable, match="another task"):
        fetch(routes)


def test_addresses_and_names_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="http"):
        save_transcript("ftp://x", "a", tmp_path / "t.slt")
    with pytest.raises(Unavailable, match="no whole answer"):
        save_transcript("http://127.0.0.1:9", "0" * 64, tmp_path / "t.slt")
    assert not (tmp_path / "t.slt").exists()
    with pytest.raises(InvalidInput, match="0 campaigns"):
        download({"/tasks": b"[]"}.get, "nobody", io.BytesIO())
