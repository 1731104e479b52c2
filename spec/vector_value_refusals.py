"""The refusals of values.json: for every check of a device, and of a server, in rounds of values, what it must refuse.

Every vector is tried on the machines while it is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
from vector_common import OPEN, TASKS, Json, plain, refuse_report, secret, token_of

from semilocal import Curator, Participant, Policy, Task
from semilocal.errors import InvalidInput
from semilocal.protocol.messages import (
    AnyClosed,
    AnyQuery,
    AnyReport,
    Closed,
    Message,
    Query,
    Report,
    ValueClosed,
    ValueQuery,
    ValueReport,
    decode,
    encode,
)
from semilocal.protocol.plan import Plan, Release
from semilocal.randomizer.values.mechanisms import TwoPoint

__all__ = ["make_value_refusals"]


def make_value_refusals() -> Json:
    """Plans, messages, reports and bytes that must be refused."""
    return {
        "tasks": {name: {"task": plain(task), "bytes": task.to_bytes().hex()} for name, task in tasks().items()},
        "plan": {name: encode(plan_of(task)).hex() for name, task in tasks().items()},
        "joining": list(joining_list()),
        "messages": [refused(*entry) for entry in refusal_list()],
        "reports": [refused_report(*entry) for entry in report_list()],
        "good": {name: encode(message).hex() for name, message in good().items()},
        "malformed": [malformed(*entry) for entry in malformed_list()],
    }


# -- refusals ----------------------------------------------------------------------------------------------------


def tasks() -> dict[str, Task]:
    """The tasks of the refusals."""
    return {name: TASKS[name] for name in ("all", "short", "each")}


def plan_of(task: Task) -> Plan:
    """Two releases that ask, with one between them that does not; together epsilon 2."""
    return Plan(
        task.id,
        (Release("mean", TwoPoint(1.0), "coordinate", (0.0,)), Release("counts"),
         Release("values", TwoPoint(1.0), "linear", (1.0, 2.0))),
    )  # fmt: skip


class Story:
    """A device in a campaign and what it was told; STOP in round 1 makes the root its region."""

    def __init__(self, name: str, policy: Policy = OPEN) -> None:
        self.name, self.task, self.policy = name, tasks()[name], policy
        self.plan, self.point = plan_of(self.task), [0.3]
        self.device = Participant(self.task, self.point, secret(f"value {name}"), policy, plan=self.plan)
        self.history: list[AnyQuery | AnyClosed] = []

    def tell(self, *messages: AnyQuery | AnyClosed) -> Story:
        """Deliver legal messages."""
        for message in messages:
            self.device.receive(message)
            self.history.append(message)
        return self

    def answered(self) -> Story:
        """Has answered round 1."""
        return self.tell(Query(self.task.id, 1, (1,)))

    def finished(self) -> Story:
        """Its region is the whole domain, after round 1."""
        return self.answered().tell(Closed(self.task.id, 1, (1,), (3,), ((2, 1),), ((),)))

    def query(self, round_: int = 2, index: int = 0, **changes: Any) -> ValueQuery:
        """A query for a value; as it stands it is the legal first one."""
        return msgspec.structs.replace(ValueQuery(self.task.id, round_, self.plan.digest, index), **changes)

    def close(self, **changes: Any) -> ValueClosed:
        """The legal closing of the first round of values, in which both outputs were reported."""
        closed = ValueClosed(self.task.id, 2, self.plan.digest, 0, (1,), (((0, 2), (1, 1)),))
        return msgspec.structs.replace(closed, **changes)


Refusal = tuple[str, str, str, Story, AnyQuery | AnyClosed, AnyQuery | AnyClosed]


def refusal_list() -> Iterator[Refusal]:
    """Name, token, what is wrong, the story, the message that is refused, and one that is legal after it."""

    def asked(name: str, token: str, why: str, start: Story, /, **changes: Any) -> Refusal:
        return name, token, why, start, start.query(**changes), start.query()

    def closed(name: str, token: str, why: str, /, **changes: Any) -> Refusal:
        start = Story("all").finished()
        start.tell(start.query())
        return name, token, why, start, start.close(**changes), start.close()

    done = Story("all").finished
    yield asked("value-query-of-another-task", "other-task", "the id is not the pinned one", done(), task=bytes(32))
    yield closed("value-closing-of-another-task", "other-task", "the id is not the pinned one", task=bytes(32))
    start = Story("all")
    yield "value-query-before-the-partition", "ended-early", "the device waits for round 1", start, start.query(), (
        Query(start.task.id, 1, (1,)))  # fmt: skip
    start = Story("all").answered()
    yield ("value-query-while-the-cell-goes-on", "ended-early", "round 1 was answered and is not closed", start,
           start.query(), start.history[0])  # fmt: skip
    start = Story("all").answered()
    yield ("value-closing-while-the-cell-goes-on", "ended-early", "round 1 was answered and is not closed", start,
           start.close(), start.history[0])  # fmt: skip
    yield asked("value-query-of-another-plan", "other-plan", "the digest is not the pinned plan's", done(),
                plan=bytes(32))  # fmt: skip
    yield closed("value-closing-of-another-plan", "other-plan", "the digest is not the pinned plan's", plan=bytes(32))
    yield asked("value-query-of-counts", "unknown-release", "release 1 asks for nothing", done(), index=1)
    yield asked("value-query-beyond-the-plan", "unknown-release", "the plan has three releases", done(), index=3)
    yield closed("value-closing-of-counts", "unknown-release", "release 1 asks for nothing", index=1)
    yield asked("value-query-before-the-last-round", "repeated-round", "values begin after round 1", done(), round=1)
    yield asked("second-value-in-the-first-round", "repeated-round", "release 2 is the second that asks", done(),
                index=2)  # fmt: skip
    yield asked("value-query-beyond-the-depth", "skipped-round", "no partition of this task has 6 rounds", done(),
                round=7)  # fmt: skip
    start = Story("short").finished()
    yield asked("value-query-after-more-than-a-roll-call", "skipped-round", "round 2 can be the last of the partition",
                start, round=4)  # fmt: skip
    start = Story("all").finished()
    start.tell(start.query())
    yield ("same-value-in-another-round", "skipped-round", "release 0 was asked in round 2", start, start.query(3),
           start.query())  # fmt: skip
    start = Story("all").finished()
    start.tell(start.query(4, 2))
    yield ("value-in-an-earlier-round", "repeated-round", "release 2 was asked in round 4, so release 0 is round 3",
           start, start.query(2), start.query(3))  # fmt: skip
    start = Story("all").finished()
    start.tell(start.query())
    yield ("value-closing-of-a-later-round", "skipped-round", "release 0 was asked in round 2", start,
           start.close(round=3), start.close())  # fmt: skip
    start = Story("all", msgspec.structs.replace(OPEN, max_exposure=2.0)).finished()
    start.tell(start.query())
    yield ("value-over-the-exposure", "over-exposure", "a report, and a second value, with a limit of 2", start,
           start.query(3, 2), start.query())  # fmt: skip
    start = Story("each", msgspec.structs.replace(OPEN, min_side=(0.6,))).answered()
    start.tell(Closed(start.task.id, 1, (1,), (1000,), ((270, 730),), ((1,),)))
    yield ("value-from-a-cell-below-the-owner-s", "small-cell", "left behind in half of the domain, smallest is 0.6",
           start, start.query(), start.close(cells=(3,)))  # fmt: skip
    yield closed("value-not-counted", "not-counted", "nobody is counted", cells=(), counts=())
    yield closed("value-counted-elsewhere", "not-counted", "another region is counted", cells=(2,))
    start = Story("all").finished()
    report = start.device.receive(start.query())
    assert report is not None
    assert isinstance(report.answer, int)
    yield closed("another-value-counted", "not-counted", "only the other output is counted",
                 counts=(((1 - report.answer, 3),),))  # fmt: skip


def refused(
    name: str, token: str, why: str, start: Story, bad: AnyQuery | AnyClosed, then: AnyQuery | AnyClosed
) -> Json:
    """A message that a device must refuse, tried out."""
    before = start.device.state, start.device.released
    assert token_of(lambda: start.device.receive(bad)) == token, name
    assert (start.device.state, start.device.released) == before, name
    report = start.device.receive(then)
    return {
        "name": name, "token": token, "why": why, "task": start.name, "policy": plain(start.policy),
        "point": start.point, "secret": secret(f"value {start.name}").hex(),
        "history": [encode(message).hex() for message in start.history], "message": encode(bad).hex(),
        "then": encode(then).hex(), "report": None if report is None else encode(report).hex(),
    }  # fmt: skip


def joining_list() -> Iterator[Json]:
    """Plans that a device must refuse to pin."""
    task = tasks()["all"]
    bad = Plan(task.id, (Release("mean", TwoPoint(1.0), "coordinate", (1.0,)),))
    huge = Plan(task.id, (Release("mean", TwoPoint(1.0), "linear", (0.0, 1.5e308)),) * 2)
    wider = Plan(task.id, (Release("mean", TwoPoint(1.0), "indicator", (0.0, 0.0, 1.0, 1.0)),))
    budget = msgspec.structs.replace(OPEN, max_epsilon=2.9)
    for name, token, why, plan, policy in (
        ("plan-of-another-task", "bad-plan", "the id is another", Plan(bytes(32)), OPEN),
        ("plan-for-another-axis", "bad-plan", "the domain has one axis", bad, OPEN),
        ("plan-for-more-dimensions", "bad-plan", "the domain has one dimension", wider, OPEN),
        ("plan-over-the-budget", "over-budget", "1 for the partition and 2 for values", plan_of(task), budget),
    ):
        assert token_of(partial(Participant, task, [0.3], bytes(32), policy, plan=plan)) == token, name
        yield {
            "name": name, "token": token, "why": why, "task": "all", "plan": encode(plan).hex(),
            "policy": plain(policy),
        }  # fmt: skip
    Participant(task, [0.3], bytes(32), OPEN, plan=huge)  # a range of finite width is enough


def report_list() -> Iterator[tuple[str, str, str, list[Message], Callable[[ValueReport], AnyReport]]]:
    """Name, token, what is wrong, closings before, and what is done to a legal report of round 2."""
    task = tasks()["all"]
    root: list[Message] = [Closed(task.id, 1, (1,), (3,), ((2, 1),), ((),))]

    def change(**changes: Any) -> Callable[[ValueReport], AnyReport]:
        return lambda report: msgspec.structs.replace(report, **changes)

    yield "value-report-of-another-task", "other-task", "the id is another", root, change(task=bytes(32))
    yield "value-report-too-early", "other-round", "round 3 while round 2 is open", root, change(round=3)
    yield "value-report-too-late", "other-round", "round 1 is closed", root, change(round=1)
    yield "value-report-of-no-region", "unknown-cell", "cell 2 is no region", root, change(cell=2)
    yield "value-report-below-the-alphabet", "bad-answer", "outputs are 0 and 1", root, change(answer=-1)
    yield "value-report-above-the-alphabet", "bad-answer", "outputs are 0 and 1", root, change(answer=2)
    yield "partition-report-in-a-round-of-values", "wrong-kind", "a Report", root, lambda report: Report(
        report.task, report.round, report.pseudonym, report.cell, report.answer)  # fmt: skip
    yield "value-report-twice", "reported-twice", "two reports under one pseudonym", root, change()


def refused_report(
    name: str, token: str, why: str, closings: list[Message], spoil: Callable[[ValueReport], AnyReport]
) -> Json:
    """A report that a server must refuse."""
    task = tasks()["all"]
    curator = Curator.replay(task, closings, plan_of(task))
    legal = ValueReport(task.id, 2, bytes(16), 1, 0)
    bad = spoil(legal)
    assert refuse_report(curator, legal, bad) == token, name
    return {
        "name": name, "token": token, "why": why, "task": "all",
        "closings": [encode(event).hex() for event in closings], "before": encode(legal).hex(),
        "report": encode(bad).hex(),
    }  # fmt: skip


# -- bytes that are no message -----------------------------------------------------------------------------------


def good() -> dict[str, Message]:
    """A message of each kind that is fine."""
    task = tasks()["all"]
    plan = plan_of(task)
    return {
        "plan": plan, "value-query": ValueQuery(task.id, 2, plan.digest, 0),
        "value-report": ValueReport(task.id, 2, bytes(16), 1, -3),
        "value-closed": ValueClosed(task.id, 2, plan.digest, 0, (2, 3), (((0, 2), (1, 1)), ((1, 4),))),
    }  # fmt: skip


def malformed_list() -> Iterator[tuple[str, str, str, bytes]]:
    """Name, kind, what is wrong, bytes."""
    pack = msgspec.msgpack.encode
    raw = {name: encode(message) for name, message in good().items()}
    for kind, data in raw.items():
        yield f"{kind}-empty", kind, "no bytes", b""
        yield f"{kind}-truncated", kind, "the last byte is missing", data[:-1]
        yield f"{kind}-trailing", kind, "a byte after the end", data + b"\x00"
        yield f"{kind}-long-header", kind, "an array header that is not the shortest", (
            bytes([0xDC, 0, data[0] & 0x0F]) + data[1:])  # fmt: skip
        yield f"{kind}-short-task", kind, "an id of 31 bytes", data.replace(b"\xc4\x20", b"\xc4\x1f", 1)
        fields = msgspec.msgpack.decode(data)
        yield f"{kind}-more", kind, "one element too many", pack([*fields, 0])
        yield f"{kind}-tag", kind, "another tag", pack(["closed", *fields[1:]])
    task, digest = tasks()["all"].id, hashlib.sha256(raw["plan"]).digest()
    two_point = {"type": "two-point", "epsilon": 1.0}

    def plan(*releases: Any) -> bytes:
        return pack(["plan", task, list(releases)])

    yield "plan-too-long", "plan", "65 releases", plan(*[["counts", None, "", []]] * 65)
    yield "plan-short-release", "plan", "defaults are written out", plan(["counts"])
    yield "plan-kind", "plan", "an unknown kind of release", plan(["median", two_point, "coordinate", [0.0]])
    yield "plan-counts-with-a-mechanism", "plan", "counts cost nothing", plan(["counts", two_point, "", []])
    yield "plan-mean-without-a-mechanism", "plan", "a mean needs one", plan(["mean", None, "coordinate", [0.0]])
    yield "plan-function", "plan", "an unknown function", plan(["mean", two_point, "cosine", [0.0]])
    yield "plan-no-axis", "plan", "coordinate takes the axis", plan(["mean", two_point, "coordinate", []])
    yield "plan-half-an-axis", "plan", "an axis is whole", plan(["mean", two_point, "coordinate", [0.5]])
    yield "plan-integer-parameter", "plan", "parameters are floats", plan(["mean", two_point, "coordinate", [0]])
    yield "plan-no-sigma", "plan", "a bump takes sigma", plan(["mean", two_point, "gaussian_bump", []])
    yield "plan-sigma-zero", "plan", "sigma is positive", plan(["mean", two_point, "gaussian_bump", [0.0]])
    yield "plan-no-weights", "plan", "linear takes weights", plan(["mean", two_point, "linear", [1.0]])
    yield "plan-odd-corners", "plan", "an indicator takes two corners", plan(["mean", two_point, "indicator", [1.0]])
    yield "plan-many-parameters", "plan", "65 parameters", plan(["mean", two_point, "linear", [1.0] * 65])
    for name, why, mechanism in (
        ("kind", "an unknown mechanism", {"type": "gaussian", "epsilon": 1.0}),
        ("epsilon-small", "epsilon below 0.01", {"type": "two-point", "epsilon": 0.009}),
        ("epsilon-large", "epsilon above 16", {"type": "two-point", "epsilon": 16.5}),
        ("epsilon-integer", "epsilon is a float", {"type": "two-point", "epsilon": 1}),
        ("field", "an unknown field", {"type": "two-point", "epsilon": 1.0, "steps": 2}),
        ("steps", "1025 steps", {"type": "discrete-laplace", "epsilon": 1.0, "steps": 1025}),
        ("odd", "an odd number of outputs", SLIDING | {"outputs": 7}),
        ("window", "a window of more than half of the outputs", SLIDING | {"window": 4}),
        ("bend", "a bend of 100", SLIDING | {"bend": 100}),
        ("fine", "finer than the buckets", SLIDING | {"outputs": 2048, "window": 1, "end": 0, "gap": 1}),
    ):
        yield f"plan-mechanism-{name}", "plan", why, plan(["mean", mechanism, "coordinate", [0.0]])
    fare = ["mean", two_point, "own:fare", [0.0, 100.0]]
    for what, why, function, numbers in (
        ("without-a-name", "a name has at least one character", "own:", [0.0, 1.0]),
        ("long-name", "a name of 101 characters", "own:" + "x" * 101, [0.0, 1.0]),
        ("hidden-name", "a mark of direction in the name", "own:fa\u202ere", [0.0, 1.0]),
        ("no-range", "a range is two numbers", "own:fare", []),
        ("half-a-range", "a range is two numbers", "own:fare", [0.0]),
        ("long-range", "a range is two numbers", "own:fare", [0.0, 1.0, 2.0]),
        ("empty-range", "the smallest is below the largest", "own:fare", [1.0, 1.0]),
        ("turned-range", "the smallest comes first", "own:fare", [1.0, 0.0]),
        ("endless-range", "a range of infinite width", "own:fare", [-1.7e308, 1.7e308]),
    ):
        yield f"plan-own-{what}", "plan", why, plan(["mean", two_point, function, numbers])
    yield "plan-own-twice", "plan", "a plan asks for one own value", plan(fare, ["values", *fare[1:]])
    yield "value-query-round-zero", "value-query", "rounds count from 1", pack(["value-query", task, 0, digest, 0])
    yield "value-query-short-plan", "value-query", "a digest of 31 bytes", pack(
        ["value-query", task, 2, digest[:31], 0])  # fmt: skip
    yield "value-query-index", "value-query", "at most 64 releases", pack(["value-query", task, 2, digest, 64])
    person = bytes(16)
    yield "value-report-name", "value-report", "15 bytes", pack(["value-report", task, 2, person[:15], 1, 0])
    yield "value-report-cell", "value-report", "cells count from 1", pack(["value-report", task, 2, person, 0, 0])
    yield "value-report-nil", "value-report", "nil", pack(["value-report", task, 2, person, 1, None])
    yield "value-report-vector", "value-report", "an array", pack(["value-report", task, 2, person, 1, [0, 1]])
    yield "value-report-large", "value-report", "2^31", pack(["value-report", task, 2, person, 1, 2**31])
    for what, why, cells, counts in (
        ("order", "cells that do not ascend", [3, 2], [[[0, 1]], [[0, 1]]]),
        ("lengths", "one region, two rows", [2], [[[0, 1]], [[0, 1]]]),
        ("empty-row", "a region that nobody answered for", [2], [[]]),
        ("outputs", "outputs that do not ascend", [2], [[[1, 1], [0, 1]]]),
        ("twice", "an output twice", [2], [[[1, 1], [1, 1]]]),
        ("zero", "an output that nobody reported", [2], [[[1, 0]]]),
        ("pair", "an output without its count", [2], [[[1]]]),
    ):
        yield f"value-closed-{what}", "value-closed", why, pack(["value-closed", task, 2, digest, 0, cells, counts])


SLIDING: dict[str, Any] = {
    "type": "sliding-window", "epsilon": 1.0, "outputs": 6, "window": 2, "end": 100, "gap": 100, "bend": 0,
}  # fmt: skip
KINDS: dict[str, Any] = {
    "plan": Plan, "value-query": ValueQuery, "value-report": ValueReport, "value-closed": ValueClosed,
}  # fmt: skip


def malformed(name: str, kind: str, why: str, data: bytes) -> Json:
    """Bytes that must be refused, tried out."""
    try:
        decode(data, KINDS[kind])
    except InvalidInput:
        return {"name": name, "kind": kind, "why": why, "bytes": data.hex()}
    raise AssertionError(name)
