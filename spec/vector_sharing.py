"""Vectors of shared reports: honest ones with every tag and share, and one forged report per attack."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from sharing_forgeries import TASK, second_node, worth
from vector_common import Json

from semilocal import Box
from semilocal.pooled.asked import AskedValue
from semilocal.pooled.task import PooledTask
from semilocal.protocol.keys import rounding_word, upload_entropy
from semilocal.sharing.evaluate import Half
from semilocal.sharing.pair import Operator, PairTask
from semilocal.sharing.report import SEED, ScalarTree, Shape, SharedReport, make_report

COUNTS, VALUES = Shape(4), Shape(4, 3)
PATH = (1, 0, 1, 1)


def entropy(label: str, size: int) -> bytes:
    blocks = (hashlib.sha256(f"semilocal sharing vector {label} {i}".encode()).digest() for i in range(-(-size // 32)))
    return b"".join(blocks)[:size]


def honest(label: str, shape: Shape, path: tuple[int, ...], value: int | None = None) -> SharedReport:
    return make_report(TASK, shape, path, entropy(label, 2 * shape.private_bytes), value=value)


def evaluated(shape: Shape, report: SharedReport) -> Json:
    """Both servers' tags and sums, with every cell opened."""
    import numpy as np

    halves = [Half(TASK, shape, server, [report.public], [report.private[server]]) for server in (0, 1)]
    tags = [[half.tags.tobytes().hex()] if shape.value_bits else [] for half in halves]
    sums: list[list[Json]] = [[], []]
    for level in range(shape.levels):
        for server, half in enumerate(halves):
            share = half.expand()
            tags[server].append(share.tags.tobytes().hex())
            sums[server].append([[str(word) for word in row] for row in share.sums.tolist()])
            if level < shape.levels - 1:
                half.open(np.arange(2 << level))
    return {"tags": tags, "sums": sums}


def entry(name: str, shape: Shape, report: SharedReport, **more: Json) -> Json:
    return {
        "name": name, "task": TASK.hex(), "levels": shape.levels, "value_bits": shape.value_bits, **more,
        "public": report.public.hex(), "private": [part.hex() for part in report.private],
    }  # fmt: skip


def forged() -> Iterator[tuple[str, Shape, SharedReport]]:
    """One per attack."""
    for name, payload in (("0", 0), ("2", 2), ("-1", (1 << 64) - 1), ("1 + 2^63", 1 + (1 << 63))):
        yield f"payload {name}", COUNTS, worth(COUNTS, PATH, entropy(f"payload {name}", 32), [payload])
    base = honest("changed", VALUES, PATH, 3)
    for word, what in enumerate(("count", "value")):
        at = 1 + 2 * (16 + 16 + 32) + 16 + 8 * word
        public = base.public[:at] + bytes([base.public[at] ^ 1]) + base.public[at + 1 :]
        yield f"{what} changed at one level", VALUES, SharedReport(public, base.private)
    for level, where in ((0, "first"), (2, "middle"), (3, "last")):
        for how in ("seed", "bit", "both"):
            label = f"second node by {how} at the {where} level"
            made = second_node(COUNTS, PATH, entropy(label, 32), level=level, how=how, proof="kept")
            yield label, COUNTS, made
    size = COUNTS.public_bytes - 1
    yield "garbage", COUNTS, SharedReport(b"\x05" + entropy("garbage", size), (bytes(16), bytes(range(16))))
    mine, yours = honest("mine", COUNTS, PATH), honest("yours", COUNTS, PATH)
    yield "another device's key", COUNTS, SharedReport(mine.public, (mine.private[0], yours.private[1]))
    for label, value, bits, payload in (
        ("value out of range", 8, (0, 0, 0), 1),
        ("value tree for another value", 4, (1, 0, 1), 1),
        ("leaf of the value tree worth 2", 10, (1, 0, 1), 2),
    ):
        source = entropy(label, 2 * VALUES.private_bytes)
        parts = (source[: 2 * SEED], source[2 * SEED :])
        seeds = [[int.from_bytes(part[at : at + SEED], "little") for part in parts] for at in (0, SEED)]
        public = ScalarTree(TASK, b"place").corrections(PATH, (1, value), (seeds[0][0], seeds[0][1]))
        public += ScalarTree(TASK, b"value").corrections(bits, (payload,), (seeds[1][0], seeds[1][1]))
        yield label, VALUES, SharedReport(public, parts)
    right = sum(step << depth for depth, step in enumerate(PATH))
    body = b"".join((1 - step).to_bytes(16, "little") + (1).to_bytes(8, "little") + bytes(32) for step in PATH)
    equal = SharedReport(bytes([right]) + body, (b"\x10" * 16, b"\x10" * 16))
    yield "equal root seeds with flipped control bits", COUNTS, equal
    flipped = bytearray(mine.public)
    flipped[70] ^= 0x10
    yield "one bit flipped", COUNTS, SharedReport(bytes(flipped), mine.private)


def asked() -> Iterator[Json]:
    """Tasks that ask for a value: their bytes, and the integers that devices send."""
    operators = [
        Operator(name, f"https://{name}.example", entropy(f"{name} signs", 32), entropy(f"{name} opens", 32))
        for name in ("leader", "helper")
    ]
    box = Box((0.0, 0.0), (8.0, 4.0))
    pooled = PooledTask.build(box, epsilon=1.0, trust="two-servers", max_depth=6)
    for name, ask, values in (
        ("own value", AskedValue(name="fare", low=0.0, high=100.0), (0.0, 33.3, 50.0, 100.0)),
        ("own value per cell", AskedValue(name="age", low=-1.5, high=6.25, bits=3, mean="cells"), (-1.5, 0.0, 6.25)),
        ("a coordinate per cell", AskedValue.of_function(box, "coordinate", (0.0,), bits=8, mean="cells"), (0.1, 7.9)),
    ):
        pair = PairTask(pooled, operators[0], operators[1], 0, ask)
        secrets = [entropy(f"{name} device {number}", 32) for number in range(3)]
        yield {
            "name": name, "pair": pair.to_bytes().hex(), "task": pair.id.hex(), "epsilon": pair.epsilon,
            "levels": pair.shape.levels, "value_bits": pair.shape.value_bits, "low": ask.low, "high": ask.high,
            "devices": [
                {
                    "secret": secret.hex(), "word": str(rounding_word(secret, pair.id)), "value": value,
                    "sent": ask.encode(value, rounding_word(secret, pair.id)),
                    "entropy": upload_entropy(secret, pair.id, 77, 64, value=ask.encode(value, 0)).hex(),
                    "entropy_of": [77, ask.encode(value, 0)],
                }
                for secret in secrets for value in values
            ],
        }  # fmt: skip


def make_sharing() -> Json:
    positive = []
    for name, shape, path, value in (
        ("a count", COUNTS, PATH, None),
        ("a count, one level", Shape(1), (1,), None),
        ("a count, nine levels", Shape(9), (0, 1, 1, 0, 1, 0, 0, 0, 1), None),
        ("a count and a value", VALUES, PATH, 5),
    ):
        report = honest(name, shape, path, value)
        more = {"path": list(path), "value": value}
        seen = evaluated(shape, report) if shape.levels <= 4 else {}
        positive.append(entry(name, shape, report, **more) | seen)
    negative = [entry(name, shape, report) for name, shape, report in forged()]
    return {
        "about": "spec/sharing.md. Positive: entropy gives these bytes, all cells opened give these tags and sums "
        "(decimal, modulo 2^64), equal tags on both servers. Negative: some tag differs. "
        "Asked: section 6; `word` (decimal) rounds `value` to `sent`; `entropy` (64 bytes) is that of the cell and the "
        "integer in `entropy_of`.",
        "positive": positive,
        "negative": negative,
        "asked": list(asked()),
    }
