"""What the vector files share: layout, positions, secrets, and the tasks that the negative vectors are about.

Deterministic: positions and secrets come from SHA-256 of a label.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from semilocal import BinaryTree, Box, Curator, PaperLaplace, Policy, SphereTree, Task
from semilocal.errors import ProtocolError
from semilocal.hierarchy.tables import from_cuts, from_labels
from semilocal.protocol.curator import count_reports
from semilocal.protocol.messages import AnyReport

Json = Any
OPEN = Policy(max_epsilon=1e6, max_exposure=None, min_k=1, max_delta=1.0, allow_no_crowd=True)


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


def secret(label: str) -> bytes:
    """The secret of a vector's device."""
    return hashlib.sha256(b"semilocal vector secret " + label.encode()).digest()


def uniforms(label: str) -> Iterator[float]:
    """Numbers in [0, 1) with 20 bits each."""
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


def refuse_report(curator: Curator, legal: AnyReport, bad: AnyReport) -> str:
    """The token with which a server refuses the second of two reports."""

    def take() -> None:
        curator.check(bad)
        count_reports(curator, [legal, bad])

    curator.check(legal)
    return token_of(take)


CUTS = from_cuts("age", [[0, 18, 65, 120], [0, 6, 12, 18, 65, 80, 120], [0, 6, 9, 12, 18, 30, 40, 65, 80, 120]])
CODES = from_labels("code", [
    ("I", "I20-I25", "I21"), ("I", "I20-I25", "I25"), ("I", "I63"), ("J", "J18"), ("J", "J44"), ("J", "J45"), ("S",),
])  # fmt: skip

TASKS = {
    "all": Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, rule="all", max_depth=4),
    "trim": Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, max_trims=1, max_depth=4, tau=0.4),
    "visitors": Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, max_depth=4, tau=0.4, max_visitors=0.1),
    "quad": Task.build(unit(2), epsilon=2.0, delta=0.05, k=10, max_trims=2, tree="quad", max_depth=3, tau=0.45),
    "laplace": Task.build(unit(1), epsilon=2.0, delta=0.05, k=20, randomizer="discrete-laplace", max_depth=3),
    "liars": Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, rule="all", max_depth=3, tolerate_liars=100),
    "short": Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, max_depth=3, max_rounds=1),
    "coarse": Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, max_depth=4, resolution=0.3, label="a second time"),
    "each": Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, rule="each", max_depth=3),
    "table": Task.build(hierarchy=CUTS, epsilon=3.0, delta=0.05, k=20, max_trims=2, tau=0.4),
    "sphere": Task.build(hierarchy=SphereTree(12), epsilon=1.0, delta=0.05, k=20, max_trims=2, tau=0.4),
    "simulation": Task(
        hierarchy=BinaryTree(unit(1), 3), randomizer=PaperLaplace(1.0, 2), rule="all", k=20, delta=0.05, max_trims=0,
        tau=0.2, accounting="core", max_rounds=3,
    ),
    "printed-margin": Task(
        hierarchy=BinaryTree(unit(1), 3), randomizer=PaperLaplace(1.0, 2, "paper"), rule="all", k=20, delta=0.05,
        max_trims=0, tau=0.2, accounting="core", max_rounds=3,
    ),
}  # fmt: skip
