"""malformed.json: bytes that are no message. Every vector is tried on the decoder while it is made."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec
from vector_common import CODES, TASKS, Json

from semilocal import Closed, Query, Report, Task
from semilocal.errors import InvalidInput
from semilocal.protocol.messages import Message, decode, encode

__all__ = ["make_malformed"]


LABELLED = Task.build(hierarchy=CODES, epsilon=1.0, delta=0.05, k=20, rule="all")


def make_malformed() -> Json:
    """Bytes that are no message."""
    return {
        "about": "Bytes that must be refused when read as a message of this kind. good is a message that is fine.",
        "good": {name: encode(message).hex() for name, message in _good().items()},
        "malformed": [malformed(*entry) for entry in malformed_list()],
    }


def _good() -> dict[str, Message]:
    task = TASKS["trim"]
    return {
        "task": task, "query": Query(task.id, 2, (2, 3)), "report": Report(task.id, 2, bytes(16), 2, 1),
        "closed": Closed(task.id, 2, (2, 3), (30, 40), ((15, 15), (20, 20)), ((0, 1), ())),
    }  # fmt: skip


def _pack(*parts: Any) -> bytes:
    """An array of parts; msgspec.Raw is put in as it is."""
    return msgspec.msgpack.encode(list(parts))


def malformed_list() -> Iterator[tuple[str, str, str, bytes]]:
    """Name, kind, what is wrong, bytes."""
    raw = msgspec.Raw
    good = {name: encode(message) for name, message in _good().items()}
    name = TASKS["trim"].id
    for kind in good:
        yield f"{kind}-empty", kind, "no bytes", b""
        yield f"{kind}-truncated", kind, "the last byte is missing", good[kind][:-1]
        yield f"{kind}-trailing", kind, "a byte after the end", good[kind] + b"\x00"
        yield f"{kind}-nil", kind, "nil", b"\xc0"
    long_map = b"\xdf\x00\x00" + good["task"][1:]  # a task has more than 15 fields: its header is 0xde
    yield "task-long-map-header", "task", "a map header that is not the shortest", long_map
    yield "task-long-integer", "task", "k = 20 in two bytes", good["task"].replace(b"\xa1k\x14", b"\xa1k\xcc\x14", 1)
    yield "task-float32", "task", "tau in 32 bits", good["task"].replace(
        b"\xa3tau\xcb" + struct.pack(">d", 0.4), b"\xa3tau\xca" + struct.pack(">f", 0.4), 1)  # fmt: skip
    yield "task-integer-for-a-float", "task", "quorum as the integer 1", good["task"].replace(
        b"\xa6quorum\xcb" + struct.pack(">d", 1.0), b"\xa6quorum\x01", 1)  # fmt: skip
    yield "task-float-for-an-integer", "task", "k as a float", good["task"].replace(
        b"\xa1k\x14", b"\xa1k\xcb" + struct.pack(">d", 20.0), 1)  # fmt: skip
    fields = msgspec.msgpack.decode(good["task"])
    for why, changed in (
        ("unknown-field", fields | {"colour": "red"}),
        ("missing-field", {key: value for key, value in fields.items() if key != "size_from"}),
        ("fields-in-another-order", dict(sorted(fields.items()))),
        ("other-type", fields | {"type": "tusk"}),
        ("other-rule", fields | {"rule": "none"}),
        ("k-of-zero", fields | {"k": 0}),
        ("k-too-large", fields | {"k": 2**20 + 1}),
        ("delta-of-one-half", fields | {"delta": 0.5}),
        ("delta-not-a-number", fields | {"delta": float("nan")}),
        ("tau-of-one-half", fields | {"tau": 0.5}),
        ("trims-without-the-rule", fields | {"rule": "all"}),
        ("max-trims-negative", fields | {"max_trims": -1}),
        ("rounds-beyond-the-depth", fields | {"max_rounds": 5}),
        ("fanout-of-another-tree", fields | {"randomizer": fields["randomizer"] | {"fanout": 4}}),
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
        ("size-from-estimates", fields | {"size_from": "estimate"}),
        ("liars-negative", fields | {"tolerate_liars": -1}),
        ("server-key-short", fields | {"server_key": bytes(31)}),
        ("server-key-as-text", fields | {"server_key": "0" * 32}),
        ("min-side-of-zero", fields | {"min_side": [0.0]}),
        ("min-side-of-an-integer", fields | {"min_side": [1]}),
        ("min-side-for-two-axes-of-one", fields | {"min_side": [0.1, 0.1]}),
        ("min-side-above-half-of-the-box", fields | {"min_side": [0.6]}),
        ("min-side-with-rule-each", fields | {"rule": "each", "max_trims": 0, "min_side": [0.1]}),
        ("max-visitors-zero", fields | {"max_visitors": 0.0}),
        ("max-visitors-above-one", fields | {"max_visitors": 1.5}),
        ("max-visitors-with-rule-all", fields | {"rule": "all", "max_trims": 0, "max_visitors": 0.5}),
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
        task = msgspec.msgpack.decode(encode(LABELLED if kind == "labels" else TASKS[kind]))
        yield f"task-{kind}-{why}", "task", f"{kind}: {why.replace('-', ' ')}", msgspec.msgpack.encode(
            task | {"hierarchy": task["hierarchy"] | changes})  # fmt: skip
    table = msgspec.msgpack.decode(encode(TASKS["table"]))
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

    yield "query-other-tag", "query", "the tag of a report", _pack("report", name, 2, [2, 3])
    yield "query-as-a-map", "query", "fields with keys", msgspec.msgpack.encode(
        {"type": "query", "task": name, "round": 2, "cells": [2, 3]})  # fmt: skip
    yield "query-unknown-field", "query", "one value too many", _pack("query", name, 2, [2, 3], 0)
    yield "query-missing-field", "query", "no cells", _pack("query", name, 2)
    yield "query-long-integer", "query", "round 2 in two bytes", _pack("query", name, raw(b"\xcc\x02"), [2, 3])
    yield "query-long-array", "query", "an array header that is not the shortest", _pack(
        "query", name, 2, raw(b"\xdc\x00\x02\x02\x03"))  # fmt: skip
    yield "query-signed-integer", "query", "128 in a signed form", _pack("query", name, 2, [raw(b"\xd1\x00\x80")])
    yield "query-float-round", "query", "round as a float", _pack("query", name, 2.0, [2, 3])
    yield "query-boolean-round", "query", "round as a boolean", _pack("query", name, True, [1])
    yield "query-round-zero", "query", "rounds begin at 1", _pack("query", name, 0, [1])
    yield "query-round-negative", "query", "rounds begin at 1", _pack("query", name, -1, [1])
    yield "query-round-too-large", "query", "beyond 65536", _pack("query", name, 65537, [1])
    yield "query-round-huge", "query", "2^64 - 1", _pack("query", name, 2**64 - 1, [1])
    yield "query-short-id", "query", "31 bytes", _pack("query", name[:-1], 2, [2, 3])
    yield "query-id-as-text", "query", "a string for bytes", _pack("query", name.hex()[:32], 2, [2, 3])
    yield "query-unsorted-cells", "query", "descending", _pack("query", name, 2, [3, 2])
    yield "query-repeated-cells", "query", "the same cell twice", _pack("query", name, 2, [2, 2])
    yield "query-cell-zero", "query", "cells are positive", _pack("query", name, 2, [0, 2])
    yield "query-cell-negative", "query", "cells are positive", _pack("query", name, 2, [-5, 2])
    yield "query-cells-nested-deeply", "query", "a thousand arrays in each other", _pack(
        "query", name, 2, raw(b"\x91" * 1000 + b"\x01"))  # fmt: skip
    yield "query-array-that-never-comes", "query", "a header for 2^32 - 1 cells", _pack(
        "query", name, 2, raw(b"\xdd\xff\xff\xff\xff"))  # fmt: skip
    yield "query-extension", "query", "an extension type for the cells", _pack("query", name, 2, raw(b"\xd4\x01\x00"))

    yield "report-short-pseudonym", "report", "15 bytes", _pack("report", name, 2, bytes(15), 2, 1)
    yield "report-two-cells", "report", "an array of cells", _pack("report", name, 2, bytes(16), [2, 3], 1)
    yield "report-cell-zero", "report", "cells are positive", _pack("report", name, 2, bytes(16), 0, 1)
    yield "report-text-answer", "report", "a string", _pack("report", name, 2, bytes(16), 2, "1")
    yield "report-float-answer", "report", "a float", _pack("report", name, 2, bytes(16), 2, 1.0)
    yield "report-nested-answer", "report", "an array in an array", _pack("report", name, 2, bytes(16), 2, [[1], [0]])
    yield "report-long-answer-integer", "report", "1 in nine bytes", _pack(
        "report", name, 2, bytes(16), 2, raw(b"\xcf" + bytes(7) + b"\x01"))  # fmt: skip

    def closing(cells: Json, responders: Json, tally: Json, kept: Json) -> bytes:
        return _pack("closed", name, 2, cells, responders, tally, kept)

    for why, changed_closing in (
        ("one responder count for two cells", closing([2, 3], [30], [[15, 15], [20, 20]], [[], []])),
        ("one tally for two cells", closing([2, 3], [30, 40], [[15, 15]], [[], []])),
        ("one verdict for two cells", closing([2, 3], [30, 40], [[15, 15], [20, 20]], [[]])),
        ("negative responders", closing([2], [-1], [[0, 0]], [[]])),
        ("responders beyond 2^32", closing([2], [2**32 + 1], [[2**32, 1]], [[]])),
        ("responders of 2^64 - 1", closing([2], [2**64 - 1], [[0, 0]], [[]])),
        ("tally of 2^53", closing([2], [30], [[2**53, 0]], [[]])),
        ("tally of -2^53", closing([2], [30], [[-(2**53), 0]], [[]])),
        ("tally of 2^64 - 1", closing([2], [30], [[2**64 - 1, 31]], [[]])),
        ("tally of 257 numbers", closing([2], [0], [[0] * 257], [[]])),
        ("float tally", closing([2], [30], [[15.0, 15.0]], [[]])),
        ("kept descending", closing([2], [30], [[15, 15]], [[1, 0]])),
        ("kept repeated", closing([2], [30], [[15, 15]], [[0, 0]])),
        ("kept negative", closing([2], [30], [[15, 15]], [[-1, 0]])),
        ("kept beyond 255", closing([2], [30], [[15, 15]], [[256]])),
        ("kept huge", closing([2], [30], [[15, 15]], [[2**64 - 1]])),
        ("unsorted cells", closing([3, 2], [30, 40], [[15, 15], [20, 20]], [[], []])),
    ):
        yield "closed-" + why.replace(" ", "-").replace("^", ""), "closed", why, changed_closing


def malformed(name: str, kind: str, why: str, data: bytes) -> Json:
    """Bytes that a decoder must refuse, tried out."""
    kinds: dict[str, Any] = {"task": Task, "query": Query, "report": Report, "closed": Closed}
    try:
        decode(data, kinds[kind])
    except InvalidInput:
        return {"name": name, "kind": kind, "why": why, "bytes": data.hex()}
    raise AssertionError(f"{name} was accepted")
