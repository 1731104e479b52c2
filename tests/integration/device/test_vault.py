"""A vault survives a crash at every step, is private to its owner, and serves one at a time."""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from semilocal import Box, Task
from semilocal.device import disk as disk_module
from semilocal.device.budget import Budget
from semilocal.device.disk import Disk, FileDisk, MemoryDisk, replace_file
from semilocal.device.vault import Contents, Membership, Vault, pack, unpack
from semilocal.errors import InvalidInput, VaultError
from semilocal.protocol.participant import State
from semilocal.protocol.policy import Policy

TASK = Task.build(Box((0, 0), (1, 1)), epsilon=1.0, delta=1e-6, k=20, max_depth=6)
PATH = Path("/vault")


def membership(round_: int) -> Membership:
    """A membership that differs from round to round, and grows."""
    return Membership(
        server="http://here", task=TASK.to_bytes(), plan=b"plan", position=(0.25, 0.75),
        state=State(round=round_, question=bytes([round_]) * 32), closings=(bytes(32),) * round_,
        policy=Policy(max_epsilon=2.0),
    )  # fmt: skip


@pytest.mark.parametrize("stored", [{"max_delta": -1.0}, {"max_delta": float("nan")}, {"max_delta": "any"}])
def test_a_limit_without_a_meaning_is_refused_when_a_vault_is_read(stored: dict[str, object]) -> None:
    kept = Contents(secret=bytes(32), memberships=(membership(1),))
    with pytest.raises(VaultError, match="cannot be read"):
        unpack(as_stored(kept, stored), PATH)


def as_stored(contents: Contents, limits: dict[str, Any]) -> bytes:
    """The bytes of a vault whose first task has other limits, which the program of today would not store."""
    fields = msgspec.to_builtins(contents, builtin_types=(bytes,))
    fields["memberships"][0]["policy"] |= limits
    body = msgspec.msgpack.encode(fields)
    return pack(contents)[:18] + hashlib.sha256(body).digest() + body


class Crash(Exception):
    """The device loses power."""


class FragileDisk:
    """A model of a disk that loses power after a given number of steps, and of what may be left then.

    Bytes that were not synced may be there in full, in part, or not at all; names that were not synced may be the old
    or the new ones. ``afterwards`` lists every disk that a device may find when it starts again.
    """

    def __init__(self, files: dict[Path, bytes], power: int) -> None:
        self.durable = {name: (data,) for name, data in files.items()}  # per name: the bytes that may be found
        self.live = dict(files)
        self.unsynced: set[Path] = set()
        self.pending: list[tuple[Path, Path | None, bytes]] = []
        self.power = power

    def _step(self) -> None:
        if self.power == 0:
            raise Crash
        self.power -= 1

    def lock(self, path: Path) -> None: ...

    def unlock(self, path: Path) -> None: ...

    def read(self, path: Path) -> bytes | None:
        return self.live.get(path)

    def write(self, path: Path, data: bytes) -> None:
        self.live[path] = data[: len(data) // 2]  # power may go in the middle of it
        self.unsynced.add(path)
        self._step()
        self.live[path] = data
        self._step()

    def sync(self, path: Path) -> None:
        self._step()
        self.unsynced.discard(path)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        data = self.live.pop(source)
        self.pending.append((target, source, self.live.get(target, b"")))
        self.live[target] = data
        if source in self.unsynced:
            self.unsynced.discard(source)
            self.unsynced.add(target)
        self._step()

    def sync_folder(self, folder: Path) -> None:
        self._step()
        self.pending.clear()

    def afterwards(self) -> Iterator[dict[Path, bytes]]:
        """Every state of the disk that is possible after the crash."""
        undone = dict(self.live)
        for target, source, old in reversed(self.pending):
            assert source is not None
            undone[source] = undone.pop(target)
            if old:
                undone[target] = old
        for names in (self.live, undone):
            choices = []
            for name, data in names.items():
                torn = name in self.unsynced or (names is undone and any(s == name for _, s, _ in self.pending))
                halves = (data, data[: len(data) // 2], b"", bytes(len(data)))
                choices.append([(name, version) for version in (halves if torn else (data,))])
            for combination in itertools.product(*choices):
                yield dict(combination)


Replace = Callable[[Disk, Path, bytes], None]


def damage_after_any_crash(replace: Replace) -> list[str]:
    """Save a second state over a first with power for 0, 1, 2, … steps; what a restart finds that is neither."""
    secret = bytes(range(32))
    first = Contents(secret=secret, memberships=(membership(1),))
    second = first.with_entry(membership(2))
    found: list[str] = []
    for power in range(20):
        fragile = FragileDisk({PATH: pack(first)}, power)
        finished = True
        try:
            replace(fragile, PATH, pack(second))
        except Crash:
            finished = False
        for files in fragile.afterwards():
            try:
                contents = unpack(files.get(PATH, b""), PATH)
            except VaultError as error:
                found.append(f"power {power}: {error}")
                continue
            allowed = (second,) if finished else (first, second)
            if contents not in allowed:
                found.append(f"power {power}: an older state after the save returned")
            reopened = MemoryDisk()
            reopened.files = files  # left-overs included: the next save must not stumble over them
            with Vault.open(PATH, disk=reopened) as vault:
                vault.put(membership(3))
            assert unpack(reopened.files[PATH], PATH).membership(TASK.id) == membership(3)
        if finished:
            return found
    raise AssertionError("the save never finished")


def test_a_crash_at_any_step_leaves_the_old_state_or_the_new_one() -> None:
    assert damage_after_any_crash(replace_file) == []


def without_sync(disk: Disk, path: Path, data: bytes) -> None:
    fresh = path.with_name("fresh")
    disk.write(fresh, data)
    disk.rename(fresh, path)
    disk.sync_folder(path.parent)


def without_folder_sync(disk: Disk, path: Path, data: bytes) -> None:
    fresh = path.with_name("fresh")
    disk.write(fresh, data)
    disk.sync(fresh)
    disk.rename(fresh, path)


def in_place(disk: Disk, path: Path, data: bytes) -> None:
    disk.write(path, data)
    disk.sync(path)


@pytest.mark.parametrize("wrong", [without_sync, without_folder_sync, in_place])
def test_the_crash_model_catches_a_save_that_leaves_out_a_step(wrong: Replace) -> None:
    assert damage_after_any_crash(wrong)


CALLS = ("open", "write", "fsync", "replace", "close", "unlink")


class FaultyOs:
    """The real ``os``, but the given call never returns, and writes go through in small pieces."""

    def __init__(self, fail_at: int) -> None:
        self.calls: list[str] = []
        self.fail_at = fail_at

    def __getattr__(self, name: str) -> object:
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def step(*args: object, **options: object) -> object:
            self.calls.append(name)
            if len(self.calls) > self.fail_at:  # dead from now on: nothing that follows happens either
                raise Crash(self.calls[self.fail_at])
            if name == "write":
                handle, data = args
                assert isinstance(handle, int)
                assert isinstance(data, memoryview)
                return os.write(handle, data[:100])
            return real(*args, **options)

        return step


def test_real_files_keep_the_old_state_or_the_new_one_when_any_system_call_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "vault"
    with Vault.open(path) as vault:
        vault.put(membership(1))
        before = vault.contents
    seen = set()
    for fail_at in range(100):
        with Vault.open(path) as vault:
            vault.save(before)
        faulty = FaultyOs(fail_at)
        finished = False
        with Vault.open(path) as vault:
            monkeypatch.setattr(disk_module, "os", faulty)
            try:
                vault.put(membership(2))
                finished = True
            except Crash as crash:
                seen.add(str(crash))
            finally:
                monkeypatch.setattr(disk_module, "os", os)
        with Vault.open(path) as vault:
            found = vault.contents.membership(TASK.id)
            assert found in ((membership(2),) if finished else (membership(1), membership(2)))
        if finished:
            break
    assert finished
    assert set(CALLS) >= seen >= {"open", "write", "fsync", "replace", "close"}
    assert sorted(os.listdir(tmp_path)) == ["vault", "vault.lock"]


def test_a_vault_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "vault"
    mask = os.umask(0)  # the widest, so that the vault itself must narrow it
    try:
        with Vault.open(path) as vault:
            vault.put(membership(1))
    finally:
        os.umask(mask)
    for name in ("vault", "vault.lock"):
        assert stat.S_IMODE((path.parent / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601, 0o620])
def test_a_vault_that_others_can_touch_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "vault"
    Vault.open(path).close()
    path.chmod(mode)
    with pytest.raises(VaultError, match=f"permissions {mode:04o}.*chmod 600"):
        Vault.open(path)
    path.chmod(0o600)
    Vault.open(path).close()


def test_a_vault_behind_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    Vault.open(tmp_path / "real").close()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(VaultError, match="cannot open"):
        Vault.open(tmp_path / "link")


@pytest.mark.parametrize("disk", [FileDisk(), MemoryDisk()])
def test_two_agents_never_use_one_vault(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "vault"
    with Vault.open(path, disk=disk):
        with pytest.raises(VaultError, match="in use"):
            Vault.open(path, disk=disk)
        if isinstance(disk, FileDisk):
            with pytest.raises(VaultError, match="in use"):
                Vault.open(path, disk=FileDisk())
    Vault.open(path, disk=disk).close()


def test_a_vault_that_failed_to_open_is_not_left_locked(tmp_path: Path) -> None:
    path = tmp_path / "vault"
    path.write_bytes(b"something else")
    path.chmod(0o600)
    for _ in range(2):
        with pytest.raises(VaultError, match="not a vault"):
            Vault.open(path)


def test_every_flipped_byte_and_every_cut_is_noticed() -> None:
    data = pack(Contents(secret=bytes(range(32)), ledger=Budget("1").reserve(TASK.id, 1.0)))
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x40
        with pytest.raises(VaultError):
            unpack(bytes(damaged), PATH)
        with pytest.raises(VaultError):
            unpack(data[:place], PATH)
    assert pack(unpack(data, PATH)) == data


def test_another_version_is_refused_by_name() -> None:
    data = bytearray(pack(Contents(secret=bytes(32))))
    data[17] = 1
    with pytest.raises(VaultError, match="version 1, and this program reads version 2: a vault does not move"):
        unpack(bytes(data), PATH)


def test_a_wiped_vault_is_another_participant(tmp_path: Path) -> None:
    path = tmp_path / "vault"
    with Vault.open(path) as vault:
        before = vault.contents.secret
    path.unlink()
    with Vault.open(path) as vault:
        assert vault.contents.secret != before
        assert vault.contents.memberships == ()


def test_a_vault_keeps_its_secret_and_cannot_be_used_after_closing(tmp_path: Path) -> None:
    vault = Vault.open(tmp_path / "vault")
    with pytest.raises(InvalidInput, match="one secret"):
        vault.save(msgspec.structs.replace(vault.contents, secret=bytes(32)))
    vault.close()
    with pytest.raises(VaultError, match="closed"):
        vault.put(membership(1))


def test_secrets_come_from_the_given_entropy_and_must_be_whole() -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        Vault.open("short", disk=MemoryDisk(), entropy=lambda size: bytes(size - 1))
    with Vault.open("fine", disk=MemoryDisk(), entropy=lambda size: b"s" * size) as vault:
        assert vault.contents.secret == b"s" * 32
