"""Vectors of shared reports as lists of operations: honest ones with every tag and share, and one per lie."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from sharing_forgeries import TASK, WORD, How, equal_seeds, halves, second_node, worth
from vector_common import Json

from semilocal import Box
from semilocal.pooled.asked import AskedValue
from semilocal.pooled.task import PooledTask
from semilocal.protocol.keys import rounding_word, upload_entropy
from semilocal.sharing.pair import Operator, PairTask
from semilocal.sharing.point import NONCE
from semilocal.sharing.report import Shape, SharedReport, shard
from semilocal.sharing.sealing import Role, info_of
from semilocal.sharing.verify import Parameter, is_valid

COUNTS, VALUES = Shape(4), Shape(4, 3)
PATH = (1, 0, 1, 1)
HOW: dict[How, str] = {"seed": "the seed", "bit": "the control bit", "both": "both"}


def entropy(label: str, size: int) -> bytes:
    blocks = (hashlib.sha256(f"semilocal sharing vector {label} {i}".encode()).digest() for i in range(-(-size // 32)))
    return b"".join(blocks)[:size]


def honest(label: str, shape: Shape, path: tuple[int, ...], value: int | None = None) -> SharedReport:
    nonce = entropy(f"nonce of {label}", NONCE)
    return shard(TASK, nonce, shape, path, entropy(label, 2 * shape.private_bytes), value=value)


def everything(levels: int) -> list[Parameter]:
    """All cells of every level."""
    return [Parameter(level, np.arange(1 << level, 2 << level, dtype=np.uint64)) for level in range(levels)]


def packed(parameter: Parameter) -> Json:
    """Cells as their steps from the root."""
    return {"level": parameter.level, "frontier": [f"{cell:b}"[1:] for cell in parameter.frontier.tolist()]}


class Played:
    """Operations on reports of one shape, as they are done, and what comes out."""

    def __init__(self, name: str, shape: Shape, reports: Sequence[SharedReport]) -> None:
        self.name, self.shape, self.reports = name, shape, list(reports)
        self.halves, self.operations = halves(shape, reports), list[Json]()
        self.parameters: list[Parameter] = []
        self.tags: list[list[list[str]]] = [[], []]
        self.sums: list[list[Json]] = [[], []]
        self.results: list[Json] = []

    def note(self, operation: str, *, success: bool = True, **about: int) -> bool:
        self.operations.append({"operation": operation, **about, "success": success})
        return success

    def level(self, parameter: Parameter) -> bool:
        """One parameter; whether all reports came through it."""
        number, previous = len(self.parameters), self.parameters[-1] if self.parameters else None
        self.parameters.append(parameter)
        if not self.note("is_valid", parameter=number, success=is_valid(parameter, previous)):
            return False
        shares = []
        for server, half in enumerate(self.halves):
            if previous is not None:
                half.open(np.searchsorted(previous.children, parameter.frontier))
            share = half.verify_init()
            self.note("verify_init", server=server, parameter=number)
            self.tags[server].append([row.tobytes().hex() for row in share.tags])
            shares.append(share.sums)
        same = [one == other for one, other in zip(self.tags[0][-1], self.tags[1][-1], strict=True)]
        for report, success in enumerate(same):
            self.note("verify_next", parameter=number, report=report, success=success)
        if not all(same):
            return False
        for server, sums in enumerate(shares):
            self.note("aggregate", server=server, parameter=number)
            self.sums[server].append([[str(word) for word in row] for row in sums.tolist()])
        self.note("unshard", parameter=number)
        self.results.append((shares[0] - shares[1]).astype(np.int64).tolist())
        return True

    def entry(self, about: Sequence[Json]) -> Json:
        reports = [
            {"nonce": report.nonce.hex(), **more, "public": report.public.hex(),
             "private": [part.hex() for part in report.private]}
            for report, more in zip(self.reports, about, strict=True)
        ]  # fmt: skip
        return {
            "name": self.name, "task": TASK.hex(), "levels": self.shape.levels, "value_bits": self.shape.value_bits,
            "parameters": [packed(parameter) for parameter in self.parameters], "reports": reports, "tags": self.tags,
            "sums": self.sums, "results": self.results, "operations": self.operations,
        }  # fmt: skip


def positive() -> Iterator[Json]:
    """Honest people, and what every operation gives."""
    three = [((1, 0, 1, 1), 5), ((1, 0, 1, 0), 0), ((0, 1, 1, 0), 7)]
    some = [Parameter(level, np.array(cells, np.uint64)) for level, cells in enumerate([[1], [2, 3], [5, 6], [13]])]
    for name, shape, people, parameters in (
        ("a count", COUNTS, [(PATH, None)], everything(4)),
        ("a count, one level", Shape(1), [((1,), None)], everything(1)),
        ("a count, nine levels", Shape(9), [((0, 1, 1, 0, 1, 0, 0, 0, 1), None)], everything(2)),
        ("a count and a value", VALUES, [(PATH, 5)], everything(4)),
        ("three people, where they are", VALUES, three, some),
    ):
        labels = [name if not number else f"{name} {number}" for number in range(len(people))]
        made = [honest(label, shape, path, value) for label, (path, value) in zip(labels, people, strict=True)]
        played = Played(name, shape, made)
        for number in range(len(people)):
            played.note("shard", report=number)
        assert all(played.level(parameter) for parameter in parameters)
        yield played.entry([{"path": list(path), "value": value} for path, value in people])


def forged() -> Iterator[tuple[str, Shape, SharedReport]]:
    """One report per lie."""
    for name, payload in (
        ("worth nobody", 0), ("worth two people", 2), ("worth minus one person", -1 & WORD),
        ("worth one person and 2^63", 1 + (1 << 63)),
    ):  # fmt: skip
        yield name, COUNTS, worth(COUNTS, PATH, entropy(name, 32), [payload])
    base = honest("changed", VALUES, PATH, 3)
    for word, what in enumerate(("count", "value")):
        at = 1 + 2 * (16 + 16 + 32) + 16 + 8 * word
        public = base.public[:at] + bytes([base.public[at] ^ 1]) + base.public[at + 1 :]
        yield f"another {what} from level 2 on", VALUES, base._replace(public=public)
    for level, where in ((0, "first"), (2, "middle"), (3, "last")):
        for how in HOW:
            label = f"in two places from the {where} level on, by {HOW[how]}"
            yield label, COUNTS, second_node(COUNTS, PATH, entropy(label, 32), level=level, how=how, proof="kept")
    size = COUNTS.public_bytes - 1
    garbage = b"\x05" + entropy("garbage", size)
    yield "random bytes", COUNTS, SharedReport(entropy("r", NONCE), garbage, (bytes(16), bytes(range(16))))
    mine, yours = honest("mine", COUNTS, PATH), honest("yours", COUNTS, PATH)
    yield "the helper's seed of another device", COUNTS, mine._replace(private=(mine.private[0], yours.private[1]))
    yield "an honest report under another id", COUNTS, mine._replace(nonce=yours.nonce)
    other = shard(bytes(32), mine.nonce, COUNTS, PATH, b"".join(mine.private))
    yield "an honest report of another task", COUNTS, other
    for label, value, bits, leaf in (
        ("a value out of range", 8, (0, 0, 0), 1),
        ("another value than the value tree's", 4, (1, 0, 1), 1),
        ("a leaf of the value tree worth two", 10, (1, 0, 1), 2),
    ):
        source = entropy(label, 2 * VALUES.private_bytes)
        yield label, VALUES, worth(VALUES, PATH, source, [1, value], bits=bits, leaf=leaf)
    yield "equal seeds and flipped control bits", COUNTS, equal_seeds(PATH, [1] * len(PATH))
    flipped = bytearray(mine.public)
    flipped[70] ^= 0x10
    yield "one bit flipped", COUNTS, mine._replace(public=bytes(flipped))


def negative() -> Iterator[Json]:
    """Lies of devices, each found at some level, and parameters that may not follow."""
    for name, shape, report in forged():
        played = Played(name, shape, [report])
        assert not all(played.level(parameter) for parameter in everything(shape.levels))
        yield played.entry([{}])
    for name, cells in (
        ("a level is skipped", [[1], [4, 5]]), ("a level is asked twice", [[1], [1]]),
        ("a cell below one that was not opened", [[1], [2], [6]]), ("a cell twice", [[1], [3, 3]]),
        ("cells out of order", [[1], [3, 2]]), ("not from the root", [[2]]),
    ):  # fmt: skip
        played = Played(name, COUNTS, [honest(name, COUNTS, PATH)])
        depths = [len(f"{level[0]:b}") - 1 for level in cells]
        found = [played.level(Parameter(d, np.array(c, np.uint64))) for d, c in zip(depths, cells, strict=True)]
        assert found[-1] is False
        yield played.entry([{}])


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


def envelopes() -> Iterator[Json]:
    """What the envelopes of one upload are bound to."""
    report = honest("a count", COUNTS, PATH)
    roles: tuple[Role, Role] = ("leader", "helper")
    for role in roles:
        name = entropy("a report", 16)
        about = {"role": role, "task": TASK.hex(), "report": name.hex(), "public": report.public.hex(), "bucket": 21}
        info = info_of(role, TASK, name, report.public, 21, "slt_token")
        yield about | {"token": "slt_token", "info": info.hex()}


def make_sharing() -> Json:
    return {
        "about": "spec/sharing.md, section 8. Each vector is a list of operations on `reports` with `parameters` "
        "(a level, and the cells of its frontier as steps from the root). `private` joined is the entropy of `shard`. "
        "`tags` by server, parameter and report; `sums` by server, parameter and child (decimal, modulo 2^64); "
        "`results` by parameter and child. Positive: everything succeeds. Negative: named after the lie; the last "
        "operation fails. Asked: section 6; `word` (decimal) rounds `value` to `sent`; `entropy` (64 bytes) is that of "
        "the cell and the integer in `entropy_of`. Envelopes: section 5.",
        "positive": list(positive()),
        "negative": list(negative()),
        "asked": list(asked()),
        "envelopes": list(envelopes()),
    }
