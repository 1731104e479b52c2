"""What the vector files share: layout, positions, secrets, the server's hash chain, and tasks.

Deterministic: positions and secrets come from SHA-256 of a label.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from semilocal.errors import ProtocolError
from semilocal.geometry.box import Box
from semilocal.hierarchy import BinaryTree, Quadtree, SphereTree
from semilocal.hierarchy.tables import from_cuts, from_labels
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import Entry, Report, Slice
from semilocal.protocol.policy import Policy
from semilocal.protocol.task import Task
from semilocal.randomizer import DiscreteLaplace, PaperLaplace

Json = Any
Region = tuple[int, int]
OPEN = Policy(max_epsilon=1e6, min_k=1, max_delta=1.0, allow_no_crowd=True)
ROUNDS = 60
CHAIN = HashChain(hashlib.sha256(b"semilocal vector chain").digest(), ROUNDS)


def lay_out(value: Json, indent: str = "") -> str:
    """JSON that a person can read: small things on one line, large ones one entry per line."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(flat) + len(indent) <= 150:
        return flat
    inner = indent + " "
    if isinstance(value, list):
        entries = [lay_out(item, inner) for item in value]
    else:
        entries = [f"{json.dumps(key)}: {lay_out(item, inner)}" for key, item in value.items()]
    opening, closing = ("[", "]") if isinstance(value, list) else ("{", "}")
    return opening + "\n" + ",\n".join(inner + entry for entry in entries) + "\n" + indent + closing


def plain(value: Any) -> Json:
    """A struct as JSON maps in field order; bytes in hexadecimal."""

    def texts(item: Any) -> Json:
        if isinstance(item, dict):
            return {key: texts(entry) for key, entry in item.items()}
        if isinstance(item, list | tuple):
            return [texts(entry) for entry in item]
        return item.hex() if isinstance(item, bytes) else item

    return texts(msgspec.to_builtins(value, builtin_types=(bytes,)))


def texts(codes: Iterable[int] | None) -> list[str] | None:
    """Codes as decimal strings; null if there are none."""
    return None if codes is None else [str(code) for code in codes]


def secret(label: str) -> bytes:
    """The secret of a vector's device."""
    return hashlib.sha256(b"semilocal vector secret " + label.encode()).digest()


def uniforms(label: str) -> Iterator[float]:
    """Numbers in [0, 1) with 32 bits each."""
    for block in range(1 << 20):
        digest = hashlib.sha256(f"{label} {block}".encode()).digest()
        yield from (int.from_bytes(digest[i : i + 4], "big") / 2**32 for i in range(0, 32, 4))


def cluster(label: str, size: int, dimensions: int, strays: int, *, centre: float, width: float) -> list[list[float]]:
    """A dense cluster and a few strays in the unit cube, with three decimals."""
    draw = uniforms(label)
    points = []
    for number in range(size):
        stray = number < strays
        points.append(
            [
                round(next(draw) if stray else min(max(centre + width * (next(draw) + next(draw) - 1), 0.0), 1.0), 3)
                for _ in range(dimensions)
            ]
        )
    return points


def unit(dimensions: int) -> Box:
    """The unit cube."""
    return Box((0.0,) * dimensions, (1.0,) * dimensions)


def token_of(act: Callable[[], object]) -> str:
    """The token with which something is refused; empty if it is not."""
    try:
        act()
    except ProtocolError as error:
        return error.token
    return ""


def slices_of(reports: Iterable[Report]) -> dict[Region, Slice]:
    """The slices of a round, by region."""
    found: dict[Region, list[Report]] = {}
    for report in sorted(reports, key=lambda report: report.pseudonym):
        found.setdefault(report.region, []).append(report)
    return {
        region: Slice(
            rows[0].task, rows[0].round, *region, tuple(Entry(one.pseudonym, one.answer, one.nonce) for one in rows)
        )
        for region, rows in found.items()
    }


def build(box: Box | None = None, **options: Any) -> Task:
    """A small task with the vectors' hash chain."""
    return Task.build(box, **{"delta": 0.05, "k": 3, "max_rounds": ROUNDS, "chain": CHAIN.end, **options})


def with_laplace(tree: BinaryTree | Quadtree, epsilon: float) -> Task:
    """A small task of rule "all" with discrete Laplace noise."""
    return Task(
        hierarchy=tree, randomizer=DiscreteLaplace(epsilon, tree.fanout), rule="all", k=3, delta=0.05, answers=1,
        max_rounds=ROUNDS, chain=CHAIN.end,
    )  # fmt: skip


CUTS = from_cuts("age", [[0, 18, 65, 120], [0, 6, 12, 18, 65, 80, 120], [0, 6, 9, 12, 18, 30, 40, 65, 80, 120]])
CODES = from_labels("code", [
    ("I", "I20-I25", "I21"), ("I", "I20-I25", "I25"), ("I", "I63"), ("J", "J18"), ("J", "J44"), ("J", "J45"), ("S",),
])  # fmt: skip

TASKS = {
    "cut": build(unit(1), epsilon=5.0, max_depth=6),
    "all": build(unit(1), epsilon=4.0, rule="all", max_depth=6),
    "laplace": with_laplace(BinaryTree(unit(1), 4), 8.0),
    "liars": build(unit(1), epsilon=2.0, max_depth=6, tolerate_liars=2),
    "all-liars": build(unit(1), epsilon=0.5, rule="all", max_depth=6, tolerate_liars=2),
    "coarse": build(unit(1), epsilon=2.0, max_depth=6, resolution=0.3, label="a second time"),
    "table": build(hierarchy=CUTS, epsilon=3.0),
    "sphere": build(hierarchy=SphereTree(12), epsilon=1.0, k=20, delta=1e-6),
    "no-chain": build(unit(1), epsilon=2.0, max_depth=6, chain=b""),
    "simulation": Task(
        hierarchy=BinaryTree(unit(1), 3), randomizer=PaperLaplace(1.0, 2), rule="all", k=3, delta=0.05, answers=1,
        max_rounds=3,
    ),
    "printed-margin": Task(
        hierarchy=BinaryTree(unit(1), 3), randomizer=PaperLaplace(1.0, 2, "paper"), rule="all", k=3, delta=0.05,
        answers=1, max_rounds=3,
    ),
}  # fmt: skip
