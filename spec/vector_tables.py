"""tables.json: single steps of the protocol, each with its result."""

from __future__ import annotations

from itertools import accumulate

import msgspec
import numpy as np
from vector_common import CODES, CUTS, Json, plain, secret, unit

from semilocal import BinaryTree, Box, DiscreteLaplace, Quadtree, RandomizedResponse, SphereTree, Task
from semilocal.protocol.keys import derive, move_entropy, pseudonym, report_entropy
from semilocal.protocol.rule import decide, frontier_at
from semilocal.transcript.merkle import leaf_hash, merkle_root

__all__ = ["make_tables"]


def make_tables() -> Json:
    """Single steps of the protocol."""
    return {
        "about": "Single steps. Integers that may exceed 2^53 are decimal strings.",
        "integers": [[str(value), msgspec.msgpack.encode(value).hex()] for value in _integer_examples()],
        "floats": [[value, msgspec.msgpack.encode(value).hex()] for value in (0.0, 1.0, 0.05, -3.5, 1e-15)],
        "cells": [cell_table(tree, points) for tree, points in _cell_examples()],
        "moves": move_table(),
        "trees": tree_table(),
        "response_weights": [
            {"epsilon": epsilon, "fanout": fanout, "true": str(true), "other": str(other)}
            for epsilon, fanout in ((0.001, 2), (0.1, 2), (1.0, 2), (1.0, 4), (2.5, 8), (4.0, 256), (40.0, 2))
            for true, other in [RandomizedResponse(epsilon, fanout).weights]
        ],
        "laplace_weights": [
            {"epsilon": epsilon, "smallest": int(values[0]), "weights": [str(weight) for weight in weights]}
            for epsilon in (1.0, 4.0, 40.0)
            for values, weights in [DiscreteLaplace(epsilon, 2).alphabet]
        ],
        "entropy": entropy_table(),
        "answers": answer_table(),
        "thresholds": threshold_table(),
        "verdicts": verdict_table(),
        "merkle": [
            {"entries": [entry.hex() for entry in entries], "root": merkle_root(list(map(leaf_hash, entries))).hex()}
            for size in (0, 1, 2, 3, 4, 5, 7, 8)
            for entries in [[bytes([number]) * number for number in range(size)]]
        ],
    }


def _integer_examples() -> list[int]:
    edges = [0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1]
    return [*edges, -1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, -(2**53) + 1]


def _cell_examples() -> list[tuple[BinaryTree | Quadtree, list[list[float]]]]:
    box = Box((-3.0, 0.1), (7.0, 0.7))
    tilted = [[-3.0, 0.1], [7.0, 0.7], [2.0, 0.4], [1.9999999999999998, 0.39999999999999997], [0.0, 0.1 + 0.2]]
    third = [[1 / 3], [2 / 3], [0.1], [0.30000000000000004], [0.7], [0.7999999999999999], [0.8], [1.0]]
    cube = [[0.2, 0.55, 0.9], [0.999, 0.001, 0.5], [1.0, 1.0, 1.0]]
    return [
        (BinaryTree(unit(1), 3), [[0.0], [0.124], [0.125], [0.5], [0.99], [1.0]]),
        (BinaryTree(Box((0.0,), (0.8,)), 20), [point for point in third if point[0] <= 0.8]),
        (BinaryTree(Box((0.1,), (1.0,)), 40), third),
        (BinaryTree(box, 3), tilted),
        (BinaryTree(box, 40), tilted),
        (Quadtree(box, 5), tilted),
        (BinaryTree(unit(3), 7), cube),
        (Quadtree(unit(3), 20), cube),
        (Quadtree(unit(8), 7), [[0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]]),
    ]


def cell_table(tree: BinaryTree | Quadtree, points: list[list[float]]) -> Json:
    """Positions with their ticks and deepest cells, and the box of each deepest cell."""
    codes = tree.codes(points)
    return {
        "hierarchy": plain(tree), "tick_bits": tree.tick_bits, "points": points,
        "ticks": [[str(tick) for tick in row] for row in tree.ticks(points).tolist()],
        "codes": [str(code) for code in codes.tolist()], "boxes": tree.boxes(codes).tolist(),
    }  # fmt: skip


def move_table() -> Json:
    """Codes after a TRIM, by the word of the move, and the positions that stand for them."""
    out = []
    for tree, cell, kept in (
        (BinaryTree(unit(2), 5), 1, [0]), (BinaryTree(unit(2), 5), 2, [1]), (BinaryTree(unit(2), 5), 5, [0]),
        (Quadtree(unit(2), 4), 1, [0]), (Quadtree(unit(2), 4), 1, [1, 2]), (Quadtree(unit(2), 4), 6, [0, 3]),
        (Quadtree(unit(3), 3), 1, [1, 2, 4]), (Quadtree(unit(3), 3), 9, [0, 7]), (Quadtree(unit(4), 2), 1, [3, 8, 15]),
        (BinaryTree(Box((-3.0, 0.1), (7.0, 0.7)), 59), 1, [1]), (Quadtree(unit(2), 30), 5, [0, 1, 2]),
    ):  # fmt: skip
        words = np.array([0, 1, 2**32, 2**62, 2**63, 6148914691236517205, 3 * 2**62 + 12345, 2**64 - 1], np.uint64)
        rows = np.tile(np.isin(np.arange(tree.fanout), kept), (len(words), 1))
        codes = tree.spread(np.full(len(words), cell, dtype=np.uint64), rows, words)
        out.append(
            {"hierarchy": plain(tree), "cell": cell, "kept": kept, "words": [str(word) for word in words.tolist()],
             "codes": [str(code) for code in codes.tolist()], "positions": tree.middles(codes).tolist()}
        )  # fmt: skip
    return out


def tree_table() -> Json:
    """Trees that are no boxes: codes of positions, what stands for them, the way down, and moves.

    Middles of the sphere have nine decimals: sines need not be rounded correctly.
    """
    globe = [[13.4, 52.5], [-122.42, 37.77], [151.2, -33.87], [179.9999, 0.001], [-179.9999, -0.001], [0.5, 89.9999],
             [-90.0001, -89.99], [44.0, 41.82], [90.0003, -0.0001], [180.0, 45.0], [-180.0, -45.0],
             [0.0, 90.0]]  # fmt: skip
    ages = [[0.0], [5.999], [6.0], [17.0], [18.0], [64.9], [65.0], [120.0]]
    out = []
    for tree, points, moves in (
        (SphereTree(13), globe, [(1, [0]), (5, [1]), (21, [0, 1])]), (SphereTree(44), globe, [(1, [1]), (77, [0])]),
        (CUTS, ages, [(1, [0, 2]), (2, [1]), (4, [0, 1])]), (CODES, [[leaf + 0.5] for leaf in range(7)], [(1, [1, 2])]),
    ):  # fmt: skip
        codes = tree.codes(points)
        decimals = 9 if isinstance(tree, SphereTree) else 17
        words = np.array([0, 1, 2**63, 6148914691236517205, 3 * 2**62 + 12345, 2**64 - 1], np.uint64)
        moved = []
        for cell, kept in moves:
            rows = np.tile(np.isin(np.arange(tree.fanout), kept), (len(words), 1))
            found = tree.spread(np.full(len(words), cell, dtype=np.uint64), rows, words)
            moved.append({"cell": cell, "kept": kept, "codes": [str(code) for code in found.tolist()]})
        depths = range(min(tree.max_depth, 12))
        out.append(
            {"hierarchy": plain(tree), "points": points, "codes": [str(code) for code in codes.tolist()],
             "middles": np.round(tree.middles(codes), decimals).tolist(),
             "children": [tree.child_of(codes, depth).tolist() for depth in depths],
             "cells": [[str(cell) for cell in tree.ancestors(codes, depth).tolist()] for depth in depths],
             "fanouts": [tree.fanouts(tree.ancestors(codes, depth)).tolist() for depth in depths],
             "sides": tree.sides(tree.ancestors(codes, depths[-1])).tolist(),
             "words": [str(word) for word in words.tolist()], "moves": moved}
        )  # fmt: skip
    return out


def entropy_table() -> Json:
    """Derived bytes."""
    key, task = secret("entropy"), bytes(range(32))
    cells = [(1, 1, 1), (2, 3, 1), (7, 2**60 + 5, 4), (65536, 2**63, 9)]
    return {
        "secret": key.hex(), "task": task.hex(), "pseudonym": pseudonym(key, task).hex(),
        "derive": [["", 0, ""], ["61", 40, derive(key, b"a", 40).hex()]],
        "reports": [
            {"round": number, "cell": str(cell), "words": words,
             "entropy": report_entropy(key, task, number, cell, words).hex()}
            for number, cell, words in cells
        ],
        "moves": [
            {"round": number, "cell": str(cell), "entropy": move_entropy(key, task, number, cell).hex()}
            for number, cell, _ in cells
        ],
    }  # fmt: skip


def answer_table() -> Json:
    """Answers at the edges of the weights, and somewhere inside."""
    out = []
    for epsilon, fanout in ((1.0, 2), (1.0, 4), (4.0, 8)):
        randomizer = RandomizedResponse(epsilon, fanout)
        true, other = randomizer.weights
        words = [0, true - 1, true, true + other - 1, 2**64 - other, 2**64 - 1]
        words += [true + other] if fanout > 2 else []
        for child in sorted({0, 1, fanout - 1}):
            answers = [randomizer.respond(child, word.to_bytes(8, "big")) for word in words]
            out.append({"randomizer": plain(randomizer), "child": child, "words": [[str(w)] for w in words],
                        "answers": answers})  # fmt: skip
    laplace = DiscreteLaplace(4.0, 2)
    sums = [0, *accumulate(laplace.alphabet[1])]
    pairs = [(0, 2**64 - 1), (sums[1] - 1, sums[1]), (sums[-2] - 1, sums[-2]), (2**63, 2**62), (2**63 - 1, 3 * 2**62)]
    for child in (0, 1):
        answers = [laplace.respond(child, b"".join(word.to_bytes(8, "big") for word in pair)) for pair in pairs]
        out.append({"randomizer": plain(laplace), "child": child, "words": [[str(w) for w in pair] for pair in pairs],
                    "answers": plain(answers)})  # fmt: skip
    return out


def threshold_table() -> Json:
    """Smallest tallies that pass. With fewer than k responders nothing passes: null."""
    out = []
    sizes = [1, 2, 3, 5, 10, 19, 20, 21, 30, 50, 100, 200, 500, 1000, 2000, 5000]
    for randomizer, k, delta in (
        (RandomizedResponse(1.0, 2), 1, 0.05), (RandomizedResponse(1.0, 2), 20, 0.05),
        (RandomizedResponse(1.0, 2), 20, 1e-9), (RandomizedResponse(4.0, 2), 3, 0.05),
        (RandomizedResponse(0.1, 2), 5, 0.01), (RandomizedResponse(1.0, 4), 20, 1e-6),
        (RandomizedResponse(2.0, 8), 50, 0.001), (RandomizedResponse(40.0, 2), 20, 0.05),
        (DiscreteLaplace(1.0, 2), 20, 0.05), (DiscreteLaplace(4.0, 4), 3, 1e-6), (DiscreteLaplace(40.0, 2), 20, 0.01),
    ):  # fmt: skip
        thresholds = randomizer.threshold(sizes, k=k, delta=delta).tolist()
        out.append(
            {"randomizer": plain(randomizer), "k": k, "delta": delta, "responders": sizes,
             "thresholds": [least if size >= k else None for size, least in zip(sizes, thresholds, strict=True)]}
        )  # fmt: skip
    return out


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (part < total % parts) for part in range(parts)]


def verdict_table() -> Json:
    """[responders, tally, trims, visitors, doubt so far, kept, whether a TRIM, visitors, doubt then], for one cell."""
    small, lake = {"delta": 0.05, "k": 20, "epsilon": 1.0}, Box((0.0, 40.0), (4.0, 44.0), names=("lon", "lat"))
    plane, square = Task.build(lake, resolution=83.0, **small), {"tree": "quad", "resolution": 84.0, **small}  # type: ignore[arg-type]
    out = []
    for name, cell, task in (
        ("all", 1, Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, rule="all")),
        ("trim", 1, Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, max_trims=2)),
        ("trim, four children", 1, Task.build(unit(2), epsilon=2.0, delta=0.01, k=10, tree="quad", tau=0.4)),
        ("trim, Laplace", 1, Task.build(
            unit(1), epsilon=2.0, delta=0.05, k=20, randomizer="discrete-laplace", tau=0.3)),
        ("all, 30 liars", 1, Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, rule="all", tolerate_liars=30)),
        ("each", 1, Task.build(unit(1), epsilon=1.0, delta=0.05, k=20, rule="each")),
        ("uniform", 1, Task.build(unit(1), epsilon=3.0, delta=0.05, k=20, accounting="uniform", max_trims=2)),
        ("the children are as long as allowed", 3, Task.build(unit(1), resolution=0.25, **small)),  # type: ignore[arg-type]
        ("the children are too short", 7, Task.build(unit(1), resolution=0.25, **small)),  # type: ignore[arg-type]
        ("the second axis is too short", 2, Task.build(unit(2), resolution=(0.1, 0.51), max_depth=8, **small)),  # type: ignore[arg-type]
        ("83 km of longitude in the south", 4, plane),
        ("below 83 km of longitude in the north", 5, plane),
        ("two of four children are below 84 km", 4, Task.build(lake, **square)),  # type: ignore[arg-type]
        ("no limit on visitors", 1, Task.build(unit(1), max_trims=2, max_visitors=1.0, **small)),  # type: ignore[arg-type]
        ("a tenth may be visitors", 1, Task.build(unit(1), max_trims=2, max_visitors=0.1, **small)),  # type: ignore[arg-type]
        ("children with different numbers of leaves", 1, Task.build(
            hierarchy=CUTS, epsilon=3.0, delta=0.05, k=20, tau=0.4)),
    ):  # fmt: skip
        if task.randomizer.fanout == 3:
            tallies = [[330, 340, 330], [60, 890, 50], [120, 800, 80], [480, 470, 50], [860, 70, 70]]
        elif task.randomizer.fanout == 4:
            tallies = [[250, 250, 250, 250], [600, 200, 110, 90], [700, 120, 90, 90], [820, 60, 60, 60]]
            tallies += [[100, 100, 700, 100]]
        elif isinstance(task.randomizer, DiscreteLaplace):
            tallies = [[500, 500], [1010, -30], [900, 90], [905, 160], [160, 905], [150, 150]]
        else:
            tallies = [
                [500, 500],
                [665, 335],
                [690, 310],
                [700, 300],
                [710, 290],
                [720, 280],
                [731, 269],
                [269, 731],
                [1000, 0],
            ]
        if task.randomizer.fanout > 2:  # the last tally that fails, and the first that passes
            least = int(task.randomizer.threshold([1000], k=task.k, delta=task.delta_test)[0])
            tallies += [[first, *_shares(1000 - first, task.randomizer.fanout - 1)] for first in (least - 1, least)]
        rows = []
        for tally in tallies:
            paths = [(0, 0.0, 0.0)]
            if task.max_trims:  # two of each: without and with the doubt that decides about a crowd, or about a TRIM
                paths += [(0, 70.0, 0.0), (0, 70.0, 400.25), (0, 430.0, 0.0), (0, 430.0, 1000.5)]
                paths += [(1, 101.7, 33.3), (1, 720.0, 250.0), (1, 0.0, 800.0), (task.max_trims, 30.0, 80.0)]
            for trims, visitors, doubt in paths:
                frontier = frontier_at([cell], trims=trims, visitors=visitors, doubt=doubt)
                ruling = decide(task, frontier, [1000], [tally])
                kept, after = np.flatnonzero(ruling.kept[0]).tolist(), ruling.frontier
                trimmed = bool(len(kept)) and int(after.trims[0]) > trims
                then = after.visitors.tolist(), after.doubt.tolist()
                rows.append([1000, tally, trims, visitors, doubt, kept, trimmed, *then])
        out.append({"name": name, "cell": cell, "task": plain(task), "verdicts": rows})
    return out
