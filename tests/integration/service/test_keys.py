"""The server's signing keys: never in the database, made once, rotated without breaking what runs."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from semilocal.errors import InvalidInput
from semilocal.protocol.messages import Seal, decode
from semilocal.service.keys import ENVIRONMENT, Keyring, open_keys, registered_key, secret_from
from semilocal.service.rounds import create_campaign
from semilocal.service.stores.base import Store, open_store
from semilocal.testing import MockClock, cluster, running_app, secrets_of
from semilocal.transcript.checkpoints import signature_fault
from tests.helpers import HANG
from tests.helpers.service import Device, enrolled, follow_campaign, open_campaign, sample_task


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'service.db'}"


def raw(folder: Path) -> bytes:
    """Everything that lies beside the key file."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.endswith(".key")]
    return b"".join(path.read_bytes() for path in files)


def test_the_key_is_made_once_for_its_owner_alone_and_not_in_the_database(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "keys" / "server.key"
    ring = open_keys(store, file=file)
    assert open_keys(store, file=file) == ring
    assert registered_key(store) == ring.current
    (seed,) = ring.private.values()
    assert file.read_text() == f"{seed.hex()}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["server.key"]
    assert seed not in raw(tmp_path)


def test_a_missing_key_file_is_not_replaced_in_silence(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "server.key"
    first = open_keys(store, file=file)
    file.unlink()
    with pytest.raises(InvalidInput, match=r"server.key is missing: put it back, or start with --new-key"):
        open_keys(store, file=file)
    assert not file.exists()
    second = open_keys(store, file=file, new=True)
    assert first.current not in second.private
    assert registered_key(store) == second.current


def test_other_keys_than_those_of_the_database_are_refused(store: Store, tmp_path: Path) -> None:
    open_keys(store, file=tmp_path / "one.key")
    (tmp_path / "two.key").write_text(f"{bytes(32).hex()}\n")
    (tmp_path / "two.key").chmod(0o600)
    with pytest.raises(InvalidInput, match="belongs to a server with the key"):
        open_keys(store, file=tmp_path / "two.key")
    with pytest.raises(InvalidInput, match="belongs to a server with the key"):
        open_keys(store, file=tmp_path / "one.key", environment=bytes(32).hex())


@pytest.mark.parametrize("text", ["", "abc", "00" * 31, "AB" * 32, "# only a comment\n"])
def test_what_is_no_key_is_refused_without_showing_it(store: Store, tmp_path: Path, text: str) -> None:
    file = tmp_path / "server.key"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(InvalidInput, match="64 lower-case hex digits") as caught:
        open_keys(store, file=file)
    assert not text or text not in str(caught.value)


def test_the_environment_goes_before_the_file(store: Store, tmp_path: Path) -> None:
    seeds = [bytes([1]) * 32, bytes([2]) * 32]
    ring = open_keys(store, file=tmp_path / "none", environment=",".join(seed.hex() for seed in seeds))
    assert ring == Keyring.of(seeds)
    assert not (tmp_path / "none").exists()
    with pytest.raises(InvalidInput, match="comes from SEMILOCAL_SIGNING_KEY"):
        open_keys(store, file=tmp_path / "none", environment=seeds[0].hex(), new=True)


def test_campaigns_of_the_old_key_are_signed_with_it_after_a_rotation(tmp_path: Path) -> None:
    store, file = open_store(url_of(tmp_path)), tmp_path / "server.key"
    old = open_keys(store, file=file)
    before = sample_task(max_depth=2, server_key=old.current)
    create_campaign(store, open_campaign(before, capacity=20), now=0)
    new = open_keys(store, file=file, new=True)
    assert list(new.private) == [new.current, old.current]
    with pytest.raises(InvalidInput, match="pins the key of another server"):
        create_campaign(store, open_campaign(sample_task(delta=0.01, server_key=old.current)), now=0)
    after = sample_task(max_depth=2, server_key=new.current)

    async def main() -> None:
        async with running_app(store, MockClock(), keys=new) as (client, service, _):
            points, secrets = cluster(20), secrets_of(20)
            first = [Device(client, before, *pair) for pair in zip(points, secrets, strict=True)]
            for device in first:
                assert (await device.enrol()).status_code == 201
            second = await enrolled(client, store, open_campaign(after, capacity=20), points, secrets)
            for task, devices in ((before, first), (after, second)):
                state = await follow_campaign(client, devices, service=service)
                assert state["phase"] == "finished"
                for number in range(1, state["closed"] + 1):
                    seal = decode((await client.get(f"{devices[0].base}/rounds/{number}/seal")).content, Seal)
                    assert signature_fault(seal, task) is None

    asyncio.run(main())
    store.close()


def test_a_campaign_whose_key_is_gone_is_a_fault_and_no_other_waits_for_it(tmp_path: Path) -> None:
    store, file = open_store(url_of(tmp_path)), tmp_path / "server.key"
    old = open_keys(store, file=file)
    lost = sample_task(max_depth=2, server_key=old.current)
    create_campaign(store, open_campaign(lost, capacity=5), now=0)
    file.unlink()
    new = open_keys(store, file=file, new=True)
    kept = sample_task(max_depth=2, server_key=new.current)

    async def main() -> None:
        async with running_app(store, MockClock(), keys=new, interval=0.01) as (client, service, _):
            devices = [Device(client, lost, *pair) for pair in zip(cluster(5), secrets_of(5), strict=True)]
            for device in devices:
                await device.enrol()
            while (await client.get(f"{devices[0].base}/state")).json()["phase"] == "enrolling":
                await asyncio.sleep(0.01)
            query = (await client.get(f"{devices[0].base}/rounds/1/query")).content
            for device in devices:
                await device.answer(query)
            while lost.id not in service.faults:
                await asyncio.sleep(0.01)
            others = await enrolled(client, store, open_campaign(kept, capacity=20), cluster(20), secrets_of(20))
            assert (await follow_campaign(client, others))["phase"] == "finished"

    asyncio.run(asyncio.wait_for(main(), HANG))
    store.close()


def test_secrets_of_the_environment_may_lie_in_private_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, keys = tmp_path / "keys", [bytes([number]) * 32 for number in (1, 2)]
    file.write_text("".join(f"{key.hex()}\n" for key in keys))
    file.chmod(0o600)
    monkeypatch.setenv(ENVIRONMENT, f"@{file}")
    store = open_store(url_of(tmp_path))
    assert open_keys(store, file=tmp_path / "no", environment=secret_from(ENVIRONMENT)) == Keyring.of(keys)
    store.close()
    file.chmod(0o640)
    with pytest.raises(InvalidInput, match="others may have read it"):
        secret_from(ENVIRONMENT)
    monkeypatch.setenv(ENVIRONMENT, "@/nowhere")
    with pytest.raises(InvalidInput, match="is not there"):
        secret_from(ENVIRONMENT)
    for text in ("", "plain"):
        monkeypatch.setenv(ENVIRONMENT, text)
        assert secret_from(ENVIRONMENT) == text
