"""malformed.json: bytes that are no message. Every vector is tried on the decoder while it is made."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec
from vector_common import CHAIN, CODES, CUTS, TASKS, Json, build

from semilocal.errors import InvalidInput
from semilocal.protocol.messages import (
    Clip,
    Closed,
    Entry,
    Head,
    Message,
    Query,
    Question,
    Report,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    Verdict,
    decode,
    encode,
)  # fmt: skip
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.task import Task
from semilocal.randomizer.values import TwoPoint

__all__ = ["make_malformed"]


TREES = {"sphere": TASKS["sphere"], "table": build(hierarchy=CUTS, epsilon=1.0, rule="all"),
         "labels": build(hierarchy=CODES, epsilon=1.0, rule="all")}  # fmt: skip


def make_malformed() -> Json:
    """Bytes that are no message."""
    return {
        "about": "Bytes that must be refused when read as a message of this kind. good is a message that is fine.",
        "good": {name: encode(message).hex() for name, message in _good().items()},
        "malformed": [malformed(*entry) for entry in malformed_list()],
    }


def _good() -> dict[str, Message]:
    task = TASKS["cut"]
    reports = Slice(task.id, 2, 64, 128, (Entry(bytes(16), 1, bytes(16)), Entry(b"\x01" * 16, None, bytes(16))))
    plan = Plan(task.id, (Release("mean", TwoPoint(1.0), "coordinate", (0.0,)), Release("counts"),
                          Release("values", TwoPoint(1.0), "own:fare", (-2.5, 100.0))))  # fmt: skip
    return {
        "task": task, "plan": plan,
        "query": Query(task.id, 2, (Question(64, 128, (96,), 24, 0, 8, 2, 8),)),
        "report": Report(task.id, 2, bytes(16), 64, 128, 1, bytes(16)),
        "slice": reports,
        "closed": Closed(task.id, 2, (Head(64, 128, 2, reports.digest()),), (Verdict("more", (3, 5)),),
                         CHAIN.preimage(2), False),
        "value-query": ValueQuery(task.id, 9, plan.digest, 0, (Clip(64, 96, 0.0, 0.5), Clip(96, 128, 0.25, 1.0))),
        "value-report": ValueReport(task.id, 9, bytes(16), 64, 96, 1),
        "value-closed": ValueClosed(task.id, 9, plan.digest, 0, ((64, 96), (96, 128)), (((0, 2), (1, 3)), ((1, 4),))),
    }  # fmt: skip


def _pack(*parts: Any) -> bytes:
    """An array of parts; msgspec.Raw is put in as it is."""
    return msgspec.msgpack.encode(list(parts))


def malformed_list() -> Iterator[tuple[str, str, str, bytes]]:
    """Name, kind, what is wrong, bytes."""
    good = {name: encode(message) for name, message in _good().items()}
    name = TASKS["cut"].id
    for kind in good:
        yield f"{kind}-empty", kind, "no bytes", b""
        yield f"{kind}-truncated", kind, "the last byte is missing", good[kind][:-1]
        yield f"{kind}-trailing", kind, "a byte after the end", good[kind] + b"\x00"
        yield f"{kind}-nil", kind, "nil", b"\xc0"
    long_map = b"\xde\x00\x0f" + good["task"][1:]  # a task has 15 fields: its header is 0x8f
    yield "task-long-map-header", "task", "a map header that is not the shortest", long_map
    yield "task-long-integer", "task", "k = 3 in two bytes", good["task"].replace(b"\xa1k\x03", b"\xa1k\xcc\x03", 1)
    yield "task-float32", "task", "delta in 32 bits", good["task"].replace(
        b"\xa5delta\xcb" + struct.pack(">d", 0.05), b"\xa5delta\xca" + struct.pack(">f", 0.05), 1)  # fmt: skip
    yield "task-integer-for-a-float", "task", "quorum as the integer 1", good["task"].replace(
        b"\xa6quorum\xcb" + struct.pack(">d", 1.0), b"\xa6quorum\x01", 1)  # fmt: skip
    yield "task-float-for-an-integer", "task", "k as a float", good["task"].replace(
        b"\xa1k\x03", b"\xa1k\xcb" + struct.pack(">d", 3.0), 1)  # fmt: skip
    fields = msgspec.msgpack.decode(good["task"])
    for why, changed in (
        ("unknown-field", fields | {"colour": "red"}),
        ("missing-field", {key: value for key, value in fields.items() if key != "quorum"}),
        ("fields-in-another-order", dict(sorted(fields.items()))),
        ("other-type", fields | {"type": "tusk"}),
        ("other-rule", fields | {"rule": "none"}),
        ("k-of-zero", fields | {"k": 0}),
        ("answers-of-zero", fields | {"answers": 0}),
        ("answers-beyond-64", fields | {"answers": 65}),
        ("answers-with-rule-all", fields | {"rule": "all", "answers": 2}),
        ("rule-cut-with-four-children", fields | {"randomizer": fields["randomizer"] | {"fanout": 4}}),
        ("rule-cut-with-laplace", fields | {"randomizer": fields["randomizer"] | {"kind": "discrete-laplace"}}),
        ("rounds-of-zero", fields | {"max_rounds": 0}),
        ("rounds-beyond-a-thousand", fields | {"max_rounds": 1001}),
        ("chain-short", fields | {"chain": bytes(31)}),
        ("chain-as-text", fields | {"chain": "0" * 32}),
        ("k-too-large", fields | {"k": 2**20 + 1}),
        ("delta-of-one-half", fields | {"delta": 0.5}),
        ("delta-not-a-number", fields | {"delta": float("nan")}),
        ("fanout-of-another-tree", fields | {
            "rule": "all", "answers": 1, "randomizer": fields["randomizer"] | {"fanout": 4}}),
        ("epsilon-of-zero", fields | {"randomizer": fields["randomizer"] | {"epsilon": 0.0}}),
        ("epsilon-infinite", fields | {"randomizer": fields["randomizer"] | {"epsilon": float("inf")}}),
        ("other-randomizer", fields | {"randomizer": fields["randomizer"] | {"kind": "honest"}}),
        ("depth-too-large", fields | {"hierarchy": fields["hierarchy"] | {"max_depth": 2**63}}),
        ("box-without-width", fields | {"hierarchy": fields["hierarchy"] | {
            "box": {"lower": [1.0], "upper": [1.0], "names": ["x"]}}}),
        ("box-of-nine-axes", fields | {"hierarchy": fields["hierarchy"] | {
            "box": {"lower": [0.0] * 9, "upper": [1.0] * 9, "names": [*"abcdefghi"]}}}),
        ("box-with-equal-names", fields | {"hierarchy": fields["hierarchy"] | {
            "box": {"lower": [0.0] * 2, "upper": [1.0] * 2, "names": ["a", "a"]}}}),
        ("liars-negative", fields | {"tolerate_liars": -1}),
        ("server-key-short", fields | {"server_key": bytes(31)}),
        ("server-key-as-text", fields | {"server_key": "0" * 32}),
        ("min-side-of-zero", fields | {"min_side": [0.0]}),
        ("min-side-of-an-integer", fields | {"min_side": [1]}),
        ("min-side-for-two-axes-of-one", fields | {"min_side": [0.1, 0.1]}),
        ("min-side-above-half-of-the-box", fields | {"min_side": [0.6]}),
        ("label-too-long", fields | {"label": "a" * 65}),
        ("label-with-a-line-break", fields | {"label": "a\nb"}),
    ):  # fmt: skip
        yield f"task-{why}", "task", why.replace("-", " "), msgspec.msgpack.encode(changed)
    for kind, why, changes in (
        ("sphere", "depth-three", {"max_depth": 3}),
        ("sphere", "depth-fifty-three", {"max_depth": 53}),
        ("sphere", "with-a-box", {"box": {"lower": [0.0], "upper": [1.0], "names": ["x"]}}),
        ("table", "edges-that-descend", {"edges": [0.0, 6.0, 9.0, 12.0, 18.0, 30.0, 65.0, 40.0, 80.0, 120.0]}),
        ("table", "edge-twice", {"edges": [0.0, 6.0, 9.0, 12.0, 18.0, 30.0, 40.0, 65.0, 65.0, 120.0]}),
        ("table", "edges-as-integers", {"edges": [0, 6, 9, 12, 18, 30, 40, 65, 80, 120]}),
        ("table", "an-edge-too-few", {"edges": [0.0, 6.0, 9.0, 12.0, 18.0, 30.0, 40.0, 65.0, 80.0]}),
        ("table", "one-leaf", {"edges": [0.0, 1.0], "widths": [[1]]}),
        ("table", "a-width-of-zero", {"widths": [[3], [3, 0, 3], [1, 2, 1, 3, 1, 1]]}),
        ("table", "a-width-too-many", {"widths": [[3], [3, 1, 2, 1], [1, 2, 1, 3, 1, 1]]}),
        ("table", "widths-for-other-leaves", {"widths": [[3], [3, 1, 2], [1, 2, 1, 3, 1, 2]]}),
        ("table", "no-levels", {"widths": []}),
        ("table", "without-a-name", {"name": ""}),
        ("table", "labels-of-two-levels", {"labels": [["age"], ["a", "b", "c"]]}),
        (
            "labels",
            "a-label-twice",
            {
                "labels": [
                    ["code"],
                    ["I", "J", "S"],
                    ["I20-I25", "I63", "J18", "J44", "J45", "S"],
                    ["I21", "I25", "I63", "J18", "J44", "J44", "S"],
                ]
            },
        ),
        (
            "labels",
            "a-label-in-two-branches",
            {
                "labels": [
                    ["code"],
                    ["I", "J", "S"],
                    ["I20-I25", "I63", "J18", "J44", "J45", "S"],
                    ["I21", "I25", "I63", "J18", "J44", "I20-I25", "S"],
                ]
            },
        ),
        (
            "labels",
            "an-invisible-label",
            {
                "labels": [
                    ["code"],
                    ["I", "J", "S"],
                    ["I20-I25", "I63", "J18", "J44", "J45", "S"],
                    ["I21", "I25", "I63", "J18", "J44", "J45", "\u202e"],
                ]
            },
        ),
        ("labels", "edges-of-labels-are-not-whole", {"edges": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.5]}),
    ):
        task = msgspec.msgpack.decode(encode(TREES[kind]))
        yield f"task-{kind}-{why}", "task", f"{kind}: {why.replace('-', ' ')}", msgspec.msgpack.encode(
            task | {"hierarchy": task["hierarchy"] | changes})  # fmt: skip
    table = msgspec.msgpack.decode(encode(TREES["table"]))
    yield (
        "task-table-with-laplace",
        "task",
        "only randomized response answers for cells of different widths",
        (msgspec.msgpack.encode(table | {"randomizer": table["randomizer"] | {"kind": "discrete-laplace"}})),
    )
    yield (
        "task-table-with-the-fanout-of-another-cell",
        "task",
        "the randomizer has the fanout of the widest cell",
        (msgspec.msgpack.encode(table | {"randomizer": table["randomizer"] | {"fanout": 2}})),
    )
    yield "task-as-an-array", "task", "values without keys", _pack(*fields.values())

    yield from malformed_messages(name)
    yield from malformed_values()


def malformed_messages(name: bytes) -> Iterator[tuple[str, str, str, bytes]]:
    """Of the partition."""
    raw = msgspec.Raw
    asked = [64, 128, [96], 24, 0, 8, 2, 8]

    def query(*questions: Any) -> bytes:
        return _pack("query", name, 2, list(questions))

    def changed(**changes: Any) -> bytes:
        fields = ["lower", "upper", "cuts", "asked", "start", "stop", "drawn", "threshold"]
        return query([changes.get(field, value) for field, value in zip(fields, asked, strict=True)])

    for why, data in (
        ("the tag of a report", _pack("report", name, 2, [])),
        ("fields with keys", msgspec.msgpack.encode({"type": "query", "task": name, "round": 2, "questions": []})),
        ("one value too many", _pack("query", name, 2, [], 0)),
        ("no questions", _pack("query", name, 2)),
        ("round 2 in two bytes", _pack("query", name, raw(b"\xcc\x02"), [])),
        ("an array header that is not the shortest", _pack("query", name, 2, raw(b"\xdc\x00\x00"))),
        ("a round as a float", _pack("query", name, 2.0, [])),
        ("a round as a boolean", _pack("query", name, True, [])),
        ("round zero", _pack("query", name, 0, [])),
        ("a negative round", _pack("query", name, -1, [])),
        ("a round beyond 65536", _pack("query", name, 65537, [])),
        ("round 2^64 - 1", _pack("query", name, 2**64 - 1, [])),
        ("an id of 31 bytes", _pack("query", name[:-1], 2, [])),
        ("an id as text", _pack("query", name.hex()[:32], 2, [])),
        ("a thousand arrays in each other", _pack("query", name, 2, raw(b"\x91" * 1000 + b"\x01"))),
        ("a header for 2^32 - 1 questions", _pack("query", name, 2, raw(b"\xdd\xff\xff\xff\xff"))),
        ("an extension type", _pack("query", name, 2, raw(b"\xd4\x01\x00"))),
        ("a question without its threshold", query(asked[:-1])),
        ("questions that descend", query([100, 128, [110], *asked[3:]], [64, 96, [80], *asked[3:]])),
        ("questions that overlap", query([64, 100, [80], *asked[3:]], [96, 128, [100], *asked[3:]])),
        ("the same question twice", query(asked, asked)),
        ("a region without codes", changed(lower=128)),
        ("a region that ends before it begins", changed(lower=200)),
        ("a negative code", changed(lower=-1)),
        ("a code above 2^63", changed(upper=2**63 + 1)),
        ("no cut", changed(cuts=[])),
        ("a cut at the lower end", changed(cuts=[64])),
        ("a cut at the upper end", changed(cuts=[128])),
        ("cuts that descend", changed(cuts=[100, 96])),
        ("the same cut twice", changed(cuts=[96, 96])),
        ("a cut as a float", changed(cuts=[96.0])),
        ("nobody is asked", changed(asked=0)),
        ("no place answers", changed(stop=0)),
        ("more places than people", changed(stop=25)),
        ("a negative place", changed(start=-1)),
        ("more people than 2^32", changed(asked=2**32 + 1)),
        ("a draw of round zero", changed(drawn=0)),
        ("a negative threshold", changed(threshold=-1)),
        ("a threshold of 2^53", changed(threshold=2**53)),
    ):
        yield "query-" + why.replace(" ", "-").replace("^", ""), "query", why, data

    def report(*fields: Any) -> bytes:
        return _pack("report", name, 2, *fields)

    who = bytes(16)
    for why, data in (
        ("a pseudonym of 15 bytes", report(bytes(15), 64, 128, 1, who)),
        ("a nonce of 15 bytes", report(who, 64, 128, 1, bytes(15))),
        ("no nonce", report(who, 64, 128, 1)),
        ("an empty region", report(who, 64, 64, 1, who)),
        ("a text answer", report(who, 64, 128, "1", who)),
        ("a float answer", report(who, 64, 128, 1.0, who)),
        ("a boolean answer", report(who, 64, 128, True, who)),
        ("an array in an array", report(who, 64, 128, [[1], [0]], who)),
        ("1 in nine bytes", report(who, 64, 128, raw(b"\xcf" + bytes(7) + b"\x01"), who)),
    ):
        yield "report-" + why.replace(" ", "-"), "report", why, data
    entry = [who, 1, who]
    for why, entries in (
        ("the same pseudonym twice", [entry, entry]),
        ("pseudonyms that descend", [[b"\x01" * 16, 1, who], entry]),
        ("an entry without a nonce", [entry[:2]]),
        ("a short nonce", [[who, 1, bytes(3)]]),
    ):
        yield "slice-" + why.replace(" ", "-"), "slice", why, _pack("slice", name, 2, 64, 128, entries)
    head, verdict, link = [64, 128, 2, bytes(32)], ["more", [3, 5]], bytes(32)

    def closing(heads: Json, verdicts: Json, preimage: Any = link, finished: Any = False) -> bytes:
        return _pack("closed", name, 2, heads, verdicts, preimage, finished)

    for why, data in (
        ("heads that descend", closing([[96, 128, 2, link], [64, 96, 2, link]], [verdict])),
        ("heads that overlap", closing([[64, 100, 2, link], [96, 128, 2, link]], [verdict])),
        ("a slice of no reports", closing([[64, 128, 0, link]], [verdict])),
        ("a hash of 31 bytes", closing([[64, 128, 2, bytes(31)]], [verdict])),
        ("another outcome", closing([head], [["maybe", [3, 5]]])),
        ("a tally of one number", closing([head], [["wall", [3]]])),
        ("a tally of 257 numbers", closing([head], [["wall", [0] * 257]])),
        ("a tally of 2^53", closing([head], [["wall", [2**53, 0]]])),
        ("a tally of -2^53", closing([head], [["wall", [-(2**53), 0]]])),
        ("a tally of 2^64 - 1", closing([head], [["wall", [2**64 - 1, 0]]])),
        ("a float in a tally", closing([head], [["wall", [3.0, 5.0]]])),
        ("a preimage of 31 bytes", closing([head], [verdict], bytes(31))),
        ("finished as a number", closing([head], [verdict], link, 0)),
        ("no word about the end", _pack("closed", name, 2, [head], [verdict], link)),
    ):
        yield "closed-" + why.replace(" ", "-").replace("^", ""), "closed", why, data


def malformed_values() -> Iterator[tuple[str, str, str, bytes]]:
    """Plans and messages about values."""
    good = {kind: msgspec.msgpack.decode(encode(message)) for kind, message in _good().items() if kind != "task"}

    def put(kind: str, place: int, value: Any) -> bytes:
        fields = list(good[kind])
        fields[place] = value
        return _pack(*fields)

    name, mean = good["plan"][1], good["plan"][2][0]
    for why, releases in (
        ("65 releases", [["counts", None, "", []]] * 65),
        ("counts with a function", [["counts", None, "coordinate", [0.0]]]),
        ("a mean without a mechanism", [["mean", None, "coordinate", [0.0]]]),
        ("another function", [["mean", mean[1], "sum", []]]),
        ("another kind", [["median", *mean[1:]]]),
        ("half an axis", [["mean", mean[1], "coordinate", [0.5]]]),
        ("a parameter as an integer", [["mean", mean[1], "coordinate", [0]]]),
        ("an epsilon of zero", [["mean", {"type": "two-point", "epsilon": 0.0}, "coordinate", [0.0]]]),
        ("an epsilon above 16", [["mean", {"type": "two-point", "epsilon": 16.5}, "coordinate", [0.0]]]),
        ("another mechanism", [["mean", {"type": "honest", "epsilon": 1.0}, "coordinate", [0.0]]]),
        ("a bump without a width", [["mean", mean[1], "gaussian_bump", [0.0]]]),
        ("an indicator of three numbers", [["mean", mean[1], "indicator", [0.0, 1.0, 2.0]]]),
        ("an own value without a name", [["mean", mean[1], "own:", [0.0, 1.0]]]),
        ("an own value with one limit", [["mean", mean[1], "own:fare", [0.0]]]),
        ("an own value without a range", [["mean", mean[1], "own:fare", [1.0, 1.0]]]),
        ("two own values", [["mean", mean[1], "own:fare", [0.0, 1.0]], ["mean", mean[1], "own:tip", [0.0, 1.0]]]),
    ):
        yield "plan-" + why.replace(" ", "-"), "plan", why, _pack("plan", name, releases)
    for kind, why, data in (
        ("value-query", "an index of 64", put("value-query", 4, 64)),
        ("value-query", "a negative index", put("value-query", 4, -1)),
        ("value-query", "a digest of 31 bytes", put("value-query", 3, bytes(31))),
        ("value-query", "ranges that descend", put("value-query", 5, [[96, 128, 0.0, 1.0], [64, 96, 0.0, 1.0]])),
        ("value-query", "a range that is turned round", put("value-query", 5, [[64, 96, 1.0, 0.0]])),
        ("value-query", "an endless range", put("value-query", 5, [[64, 96, 0.0, float("inf")]])),
        ("value-query", "a range that is not a number", put("value-query", 5, [[64, 96, float("nan"), 1.0]])),
        ("value-query", "a range in integers", put("value-query", 5, [[64, 96, 0, 1]])),
        ("value-report", "an answer of 2^31", put("value-report", 6, 2**31)),
        ("value-report", "no answer", put("value-report", 6, None)),
        ("value-report", "an empty region", put("value-report", 5, 64)),
        ("value-closed", "one row for two regions", put("value-closed", 6, [[[0, 2]]])),
        ("value-closed", "a row without outputs", put("value-closed", 6, [[], [[1, 4]]])),
        ("value-closed", "outputs that descend", put("value-closed", 6, [[[1, 2], [0, 3]], [[1, 4]]])),
        ("value-closed", "an output that nobody gave", put("value-closed", 6, [[[0, 0]], [[1, 4]]])),
        ("value-closed", "regions that overlap", put("value-closed", 5, [[64, 100], [96, 128]])),
    ):
        yield f"{kind}-" + why.replace(" ", "-").replace("^", ""), kind, why, data


def malformed(name: str, kind: str, why: str, data: bytes) -> Json:
    """Bytes that a decoder must refuse, tried out."""
    kinds: dict[str, Any] = {
        "task": Task, "plan": Plan, "query": Query, "report": Report, "slice": Slice, "closed": Closed,
        "value-query": ValueQuery, "value-report": ValueReport, "value-closed": ValueClosed,
    }  # fmt: skip
    try:
        decode(data, kinds[kind])
    except InvalidInput:
        return {"name": name, "kind": kind, "why": why, "bytes": data.hex()}
    raise AssertionError(f"{name} was accepted")
