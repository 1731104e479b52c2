"""A device uploads once, to two different operators, what its owner allows, whatever the network does."""

from __future__ import annotations

import asyncio
import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import numpy as np
import pytest

from semilocal import Box, Policy
from semilocal.device.channel import Retry
from semilocal.device.upload import check_pair, make_upload
from semilocal.device.vault import PairUpload, unpack
from semilocal.errors import BudgetExceeded, InvalidInput, OutsideDomain, ServerViolation, Unreachable
from semilocal.pooled import PooledTask
from semilocal.pooled.asked import AskedValue
from semilocal.sharing.pair import PairTask
from semilocal.sharing.report import shard
from semilocal.sharing.sealing import open_envelope, verifying_key
from semilocal.sharing.wire import Receipt, Upload
from semilocal.testing import secret
from tests.helpers.fake_pair import POOLED, SEALING, SIGNING, FakePair, PairWorld, sample_pair
from tests.helpers.fake_server import DeviceDies, Problem, refusal

POSITION = (0.3, 0.7)


def run(world: PairWorld, *arguments: Any, **options: Any) -> Any:
    return asyncio.run(world.upload(*arguments, **options))


def entry(world: PairWorld, name: str = "device") -> PairUpload:
    with world.vault(name) as vault:
        (found,) = vault.contents.uploads
        return found


def booked(world: PairWorld, name: str = "device") -> list[str]:
    with world.vault(name) as vault:
        return [line.spent for line in vault.contents.ledger.lines]


# -- what is sent ----------------------------------------------------------------------------------------------------


def test_the_two_envelopes_hold_the_shares_of_the_deepest_cell_and_nothing_else() -> None:
    pair = sample_pair()
    upload = make_upload(pair, POSITION, secret(5), token="t")
    upload.check(pair)
    private = [
        open_envelope(sealed, key, role=role, task=pair.id, report=upload.id, public=upload.public, bucket=1, token="t")  # type: ignore[arg-type]
        for sealed, key, role in zip(
            (upload.leader_envelope, upload.helper_envelope), SEALING, ("leader", "helper"), strict=True
        )
    ]
    _, path = pair.place(int(POOLED.hierarchy.codes([POSITION])[0]))
    expected = shard(pair.id, upload.id, pair.shape, path, b"".join(private))
    assert expected.public == upload.public
    assert (upload.token, upload.bucket) == ("t", 1)
    with pytest.raises(InvalidInput, match="does not open"):
        open_envelope(
            upload.leader_envelope, SEALING[1], role="helper", task=pair.id, report=upload.id, public=upload.public,
            bucket=1, token="t",
        )  # fmt: skip


def test_a_report_is_derived_from_secret_task_and_cell_alone() -> None:
    pair, other = sample_pair(), sample_pair(msgspec.structs.replace(POOLED, label="other"))
    first, again = (make_upload(pair, POSITION, secret(5)) for _ in range(2))
    assert (first.id, first.public) == (again.id, again.public)
    near = make_upload(pair, (0.3000001, 0.7), secret(5))
    assert near.public == first.public, "the same deepest cell"
    for changed in (make_upload(pair, (0.9, 0.7), secret(5)), make_upload(other, POSITION, secret(5))):
        assert changed.public != first.public
    assert make_upload(other, POSITION, secret(5)).id != first.id, "not linkable between tasks"


def test_uploads_of_all_positions_have_the_same_length() -> None:
    pair, rng = sample_pair(), np.random.default_rng(3)
    sizes = {len(make_upload(pair, tuple(point), secret(9)).to_bytes()) for point in rng.random((50, 2))}
    assert len(sizes) == 1


def test_a_device_uploads_once_and_keeps_the_receipt() -> None:
    world = PairWorld()
    first = run(world)
    assert first.outcome == "uploaded"
    assert first.epsilon == 2.0
    kept = entry(world)
    (sent,) = world.uploads()
    assert kept.upload == b""
    assert kept.digest == hashlib.sha256(sent).digest()
    assert Receipt.from_bytes(kept.receipt).is_good(world.servers.pair, sent)
    requests = len(world.network.sent)
    assert run(world, (0.9, 0.9)) == first, "it is over: a second run sends nothing, whatever the position"
    assert len(world.network.sent) == requests
    assert booked(world) == ["2"]


def test_the_owner_reads_what_was_spent_and_who_could_collude() -> None:
    text = run(PairWorld()).text()
    assert "epsilon = 2 (delta = 0) between any two positions of one person anywhere in the domain" in text
    assert "every position, to the resolution of the upload" in text
    assert "Experimental" in text
    assert "signed" in text


def test_either_operators_url_leads_to_the_same_upload() -> None:
    world = PairWorld()
    assert run(world, url=f"http://helper.test/tasks/{world.servers.name}").outcome == "uploaded"
    assert [sent.url.split("/")[2] for sent in world.network.sent if sent.method == "PUT"] == ["leader.test"]


# -- a bad network, and crashes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["lost", "answer-lost", "twice", (503, 3), (429, 1)])
def test_a_retry_is_byte_identical(fate: Any) -> None:
    world = PairWorld()
    seen: list[int] = []

    def decide(number: int, request: httpx2.Request) -> Any:
        if request.method == "PUT" and len(seen) < 3:
            seen.append(number)
            return fate
        return ""

    world.network.fate = decide
    assert run(world).outcome == "uploaded"
    assert len(world.uploads()) >= (1 if fate == "twice" else 4)
    assert len(set(world.uploads())) == 1
    assert len(world.servers.stored) == 1
    assert booked(world) == ["2"]


def _at(moment: int, fate: str, number: int, request: httpx2.Request) -> str:
    return fate if number == moment else ""


@pytest.mark.parametrize("fate", ["die-before", "die-after"])
def test_after_a_kill_at_any_request_the_next_run_sends_the_same_bytes(fate: str) -> None:
    whole = PairWorld()
    run(whole)
    for moment in range(len(whole.network.sent)):
        world = PairWorld()
        world.network.fate = partial(_at, moment, fate)
        with pytest.raises(DeviceDies):
            run(world)
        assert run(world).outcome == "uploaded"
        assert len(set(world.uploads())) == 1
        assert booked(world) == ["2"]


def test_nothing_leaves_before_the_upload_and_its_cost_are_on_the_disk() -> None:
    world = PairWorld()

    def decide(number: int, request: httpx2.Request) -> str:
        if request.method == "PUT":
            place = Path("device").absolute()
            kept = unpack(world.disk.read(place) or b"", place)
            assert kept.uploads[0].upload == request.content
            assert [line.spent for line in kept.ledger.lines] == ["2"]
            seen.append(number)
        return ""

    seen: list[int] = []
    world.network.fate = decide
    assert run(world).outcome == "uploaded"
    assert seen


def test_what_something_on_the_way_answers_is_no_receipt() -> None:
    world = PairWorld()
    stray = [
        httpx2.Response(201, content=b"<html>", headers={"content-type": "text/html"}),
        httpx2.Response(200, content=b"{}", headers={"content-type": "application/json"}),
        httpx2.Response(201, content=b"\x90", headers={"content-type": "application/msgpack"}),
        httpx2.Response(410, content=b"gone", headers={"content-type": "text/plain"}),
    ]
    world.network.fate = lambda number, request: stray.pop() if request.method == "PUT" and stray else ""
    assert run(world).outcome == "uploaded"
    assert not stray
    assert len(set(world.uploads())) == 1


def test_what_is_requested_and_when_does_not_depend_on_the_position() -> None:
    def shape(position: tuple[float, float], fate: Any) -> list[tuple[str, str, int, float]]:
        world = PairWorld(seed=4)
        world.network.fate = fate
        run(world, position)
        return [(sent.method, sent.url, len(sent.body), sent.time) for sent in world.network.sent]

    for fate in (lambda number, request: "", lambda number, request: "lost" if number % 2 else ""):
        assert len({str(shape(position, fate)) for position in [(0.1, 0.1), (0.9, 0.2), (0.5, 0.999)]}) == 1


# -- what is refused ---------------------------------------------------------------------------------------------------


def nothing_happened(world: PairWorld) -> bool:
    with world.vault() as vault:
        kept = vault.contents.uploads or vault.contents.ledger.lines
    return not world.uploads() and not kept


@pytest.mark.parametrize("field", ["name", "origin", "signing_key", "sealing_key"])
def test_equal_operators_are_refused(field: str) -> None:
    honest = sample_pair()
    builtins = msgspec.to_builtins(honest, builtin_types=(bytes,))
    builtins["helper"][field] = builtins["leader"][field]
    data = msgspec.msgpack.encode(builtins)
    name = hashlib.sha256(data).hexdigest()
    world = PairWorld()
    world.servers.forged["leader.test", f"/tasks/{name}"] = data
    world.servers.forged["helper.test", f"/tasks/{name}"] = data
    found = run(world, url=f"http://leader.test/tasks/{name}")
    assert found.outcome == "refused"
    assert f"same {field.replace('_', ' ')}" in found.reason
    assert nothing_happened(world)


@pytest.mark.parametrize("host", ["leader.test", "helper.test"])
def test_a_server_that_shows_another_task_is_refused(host: str) -> None:
    world = PairWorld()
    other = sample_pair(msgspec.structs.replace(POOLED, epsilon=9.0))
    world.servers.forged[host, f"/tasks/{world.servers.name}"] = other.to_bytes()
    found = run(world)
    assert (found.outcome, found.token) == ("refused", "other-task")
    assert nothing_happened(world)


def test_a_helper_without_the_task_is_refused() -> None:
    world = PairWorld()
    world.network.fate = lambda number, request: (
        refusal(404, "no-such-task") if request.url.host == "helper.test" else ""
    )
    found = run(world)
    assert (found.outcome, found.token) == ("refused", "no-such-task")
    assert nothing_happened(world)


def test_a_task_found_at_another_address_is_refused() -> None:
    world = PairWorld()
    found = run(world, url=f"http://mirror.test/tasks/{world.servers.name}")
    assert (found.outcome, found.token) == ("refused", "other-origin")
    assert nothing_happened(world)


@pytest.mark.parametrize(
    ("policy", "token"),
    [(Policy(max_epsilon=1.9), "over-budget"), (Policy(max_epsilon=10.0, min_side=(0.05,)), "small-cell")],
)
def test_what_the_policy_forbids_is_never_uploaded(policy: Policy, token: str) -> None:
    for position in (POSITION, (0.9, 0.1)):
        world = PairWorld()
        found = run(world, position, policy=policy)
        assert (found.outcome, found.token) == ("refused", token)
        assert nothing_happened(world)


def test_a_public_bucket_needs_the_owners_word() -> None:
    world = PairWorld(FakePair(sample_pair(bucket_depth=2)))
    assert run(world).token == "public-bucket"
    assert nothing_happened(world)
    assert run(world, allow_bucket=True).outcome == "uploaded"
    assert Upload.from_bytes(world.uploads()[0]).bucket == int(POOLED.hierarchy.locate([POSITION], 2)[0])


def test_the_cap_of_the_vault_counts_all_tasks() -> None:
    world, second = PairWorld(), FakePair(sample_pair(msgspec.structs.replace(POOLED, label="second")))
    with world.vault() as vault:
        vault.set_cap("3")
    assert run(world).outcome == "uploaded"
    world.network = PairWorld(second).network
    world.channels.clear()
    with pytest.raises(BudgetExceeded, match="cap of this vault is 3"):
        run(world, url=second.url)
    assert not second.stored
    assert booked(world) == ["2"]


@pytest.mark.parametrize("host", ["leader.test", "helper.test"])
@pytest.mark.parametrize(
    ("phase", "token"),
    [
        ("confirming", "not-confirmed"),
        ("closing", "uploads-closed"),
        ("levels", "uploads-closed"),
        ("done", "uploads-closed"),
        ("cancelled", "campaign-ended"),
    ],
)
def test_nothing_is_sealed_or_booked_for_a_task_that_is_not_open_at_both(host: str, phase: str, token: str) -> None:
    world = PairWorld()
    world.servers.phases[host] = phase
    found = run(world)
    assert (found.outcome, found.token) == ("refused", token)
    assert nothing_happened(world)


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_an_operator_with_another_key_than_before_is_refused_until_the_owner_means_it(role: str) -> None:
    world = PairWorld()
    assert run(world).outcome == "uploaded"
    changed = msgspec.structs.replace(getattr(world.servers.pair, role), signing_key=verifying_key(secret(8)))
    second = FakePair(msgspec.structs.replace(world.servers.pair, **{role: changed}))
    second.signing = SIGNING[0] if role == "helper" else secret(8)
    world.network = PairWorld(second).network
    world.channels.clear()
    with pytest.raises(InvalidInput, match=f"{role}.test signs with another key"):
        run(world, url=second.url)
    assert not second.stored
    assert run(world, url=second.url, new_server=True).outcome == "uploaded"


def test_a_position_outside_the_domain_is_refused_before_anything_is_written() -> None:
    world = PairWorld()
    with pytest.raises(OutsideDomain):
        run(world, (1.5, 0.5))
    assert nothing_happened(world)


def test_a_position_is_fixed_once_the_upload_is_sealed() -> None:
    world = PairWorld(retry=Retry(patience=10.0))
    world.network.fate = lambda number, request: "lost" if request.method == "PUT" else ""
    with pytest.raises(Unreachable):
        run(world)
    with pytest.raises(InvalidInput, match="another position"):
        run(world, (0.9, 0.9))


def test_a_receipt_of_somebody_else_is_refused_and_the_upload_stays() -> None:
    world = PairWorld(FakePair(signing=SIGNING[1]))
    found = run(world)
    assert (found.outcome, found.token) == ("refused", "bad-receipt")
    assert entry(world).receipt == b""
    world.servers.signing = SIGNING[0]
    assert run(world).outcome == "uploaded"
    assert len(set(world.uploads())) == 1


def test_an_upload_after_closing_is_refused_with_the_reason_and_stays_booked() -> None:
    world = PairWorld(FakePair(closed=True))
    found = run(world)
    assert (found.outcome, found.token) == ("refused", "uploads-closed")
    assert booked(world) == ["2"], "the leader has seen it"


def test_a_wrong_token_can_be_replaced_without_a_second_report() -> None:
    world = PairWorld(FakePair(tokens={"good": ""}))
    assert run(world, token="bad").token == "bad-token"
    assert run(world, token="good").outcome == "uploaded"
    first, second = (Upload.from_bytes(data) for data in world.uploads())
    assert (first.id, first.public, first.bucket) == (second.id, second.public, second.bucket)  # the same seeds
    assert (first.token, second.token) == ("bad", "good")
    about: Any = {"role": "leader", "task": world.servers.pair.id, "report": second.id, "public": second.public}
    assert open_envelope(second.leader_envelope, SEALING[0], **about, bucket=1, token="good")
    assert booked(world) == ["2"]


def test_the_smallest_cell_is_taken_where_a_degree_is_shortest() -> None:
    box = Box((-10.0, 0.0), (10.0, 60.0), names=("lon", "lat"))
    pair = sample_pair(PooledTask.build(box, epsilon=1.0, trust="two-servers", max_depth=10))
    east, north = pair.pooled.hierarchy.smallest_sides.tolist()
    width = 20 / 32 * 111.32
    assert north == pytest.approx(60 / 32 * 111.32)
    assert width * np.cos(np.radians(60)) < east < width * np.cos(np.radians(58))
    check_pair(pair, Policy(max_epsilon=1.0, min_side=(35.0, 200.0)))
    with pytest.raises(ServerViolation, match="small-cell"):
        check_pair(pair, Policy(max_epsilon=1.0, min_side=(37.0, 200.0)))
    with pytest.raises(InvalidInput, match="min_side"):
        check_pair(pair, Policy(max_epsilon=1.0, min_side=(1.0, 1.0, 1.0)))


def test_a_task_of_one_server_is_not_taken_for_a_pair() -> None:
    world = PairWorld()
    data = POOLED.to_bytes()
    name = hashlib.sha256(data).hexdigest()
    world.servers.forged["leader.test", f"/tasks/{name}"] = data
    assert run(world, url=f"http://leader.test/tasks/{name}").token == "malformed"
    with pytest.raises(InvalidInput, match="not a pair task"):
        PairTask.from_bytes(data)


# -- values ------------------------------------------------------------------------------------------------------------

FARE = AskedValue(name="fare", low=0, high=50, mean="cells")


def value_pair(asked: AskedValue = FARE) -> PairTask:
    return msgspec.structs.replace(sample_pair(), value=asked)


def test_a_report_with_a_value_is_derived_from_the_value_too() -> None:
    pair = value_pair()
    first, same = (make_upload(pair, POSITION, secret(5), value=12.5) for _ in range(2))
    assert first.public == same.public
    other = make_upload(pair, POSITION, secret(5), value=40.0)
    seeds = slice(2, 2 + 16)  # the first correction follows from the seeds alone
    assert other.public[seeds] != first.public[seeds], "the same seeds for two values would give both away"
    assert other.id == first.id


def test_a_mean_over_all_sends_nothing_about_the_place() -> None:
    pair = value_pair(AskedValue(name="fare", low=0, high=50))
    here, there = (make_upload(pair, place, secret(5), value=12.5) for place in (POSITION, (0.9, 0.1)))
    assert here.public == there.public
    assert pair.shape.levels == 1


@pytest.mark.parametrize(
    ("asked", "value", "message"),
    [
        (FARE, None, "asks for fare from 0 to 50: give your value"),
        (FARE, 50.5, "fare must be a number from 0 to 50; the one given is not"),
        (AskedValue.of_function(POOLED.box, "coordinate", (0.0,)), 1.0, "no value of your own"),
        (None, 1.0, "no value of your own"),
    ],
)
def test_a_value_that_is_missing_not_asked_for_or_out_of_range_leaves_nothing(
    asked: AskedValue | None, value: float | None, message: str
) -> None:
    world = PairWorld(FakePair(sample_pair() if asked is None else value_pair(asked)))
    with pytest.raises(InvalidInput, match=message):
        run(world, value=value)
    assert world.uploads() == []
    assert booked(world) == []


def test_an_upload_with_a_value_books_map_and_sums_and_is_fixed() -> None:
    summary = run(PairWorld(FakePair(value_pair())), value=12.5)
    assert summary.outcome == "uploaded"
    assert summary.epsilon == 4.0
    assert "with any two values of fare from 0 to 50" in summary.text()
    assert "everybody's value (fare" in summary.text()
    with pytest.raises(ServerViolation, match="max_epsilon allows 3"):
        check_pair(value_pair(), Policy(max_epsilon=3.0))


def test_a_retry_with_another_value_is_refused_and_sends_the_first_one_with_the_same() -> None:
    world = PairWorld(FakePair(value_pair()), retry=Retry(patience=1.0))
    stored = world.servers.upload
    world.servers.upload = lambda who, body: (_ for _ in ()).throw(Problem(503, "overloaded"))  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        run(world, value=12.5)
    world.servers.upload = stored  # type: ignore[method-assign]
    with pytest.raises(InvalidInput, match="another position or value"):
        run(world, value=13.5)
    assert run(world, value=12.5).outcome == "uploaded"
    assert len(set(world.uploads())) == 1
