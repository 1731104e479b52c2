"""tables.json: single steps of the protocol, each with its result."""

from __future__ import annotations

from itertools import accumulate

import msgspec
import numpy as np
from vector_common import CHAIN, CODES, CUTS, Json, plain, secret, texts, unit

from semilocal.geometry.box import Box
from semilocal.hierarchy import AnyTree, BinaryTree, Quadtree, SphereTree
from semilocal.protocol.keys import derive, nonce, pseudonym, report_entropy
from semilocal.protocol.messages import Closed, encode, seed_of
from semilocal.protocol.region import draw
from semilocal.protocol.thresholds import level, threshold
from semilocal.randomizer import DiscreteLaplace, RandomizedResponse
from semilocal.transcript.checkpoints import merkle_root

__all__ = ["make_tables"]


def make_tables() -> Json:
    """Single steps of the protocol."""
    return {
        "about": "Single steps. Integers that may exceed 2^53 are decimal strings.",
        "integers": [[str(value), msgspec.msgpack.encode(value).hex()] for value in _integer_examples()],
        "floats": [[value, msgspec.msgpack.encode(value).hex()] for value in (0.0, 1.0, 0.05, -3.5, 1e-15)],
        "cells": [cell_table(tree, points) for tree, points in _cell_examples()],
        "trees": tree_table(),
        "intervals": interval_table(),
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
        "draws": draw_table(),
        "thresholds": threshold_table(),
        "thresholds_all": threshold_all_table(),
        "merkle": [
            {"entries": [entry.hex() for entry in entries], "root": merkle_root(entries).hex()}
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


def tree_table() -> Json:
    """Trees that are no boxes: codes of positions, what stands for them, and the way down.

    Middles of the sphere have nine decimals: sines need not be rounded correctly.
    """
    globe = [[13.4, 52.5], [-122.42, 37.77], [151.2, -33.87], [179.9999, 0.001], [-179.9999, -0.001], [0.5, 89.9999],
             [-90.0001, -89.99], [44.0, 41.82], [90.0003, -0.0001], [180.0, 45.0], [-180.0, -45.0],
             [0.0, 90.0]]  # fmt: skip
    ages = [[0.0], [5.999], [6.0], [17.0], [18.0], [64.9], [65.0], [120.0]]
    out = []
    leaves = [[leaf + 0.5] for leaf in range(7)]
    for tree, points in ((SphereTree(13), globe), (SphereTree(44), globe), (CUTS, ages), (CODES, leaves)):
        codes = tree.codes(points)
        decimals = 9 if isinstance(tree, SphereTree) else 17
        depths = range(min(tree.max_depth, 12))
        out.append(
            {"hierarchy": plain(tree), "points": points, "codes": [str(code) for code in codes.tolist()],
             "middles": np.round(tree.middles(codes), decimals).tolist(),
             "children": [tree.number(tree.ancestors(codes, depth + 1)).tolist() for depth in depths],
             "cells": [[str(cell) for cell in tree.ancestors(codes, depth).tolist()] for depth in depths],
             "fanouts": [tree.fanouts(tree.ancestors(codes, depth)).tolist() for depth in depths],
             "sides": tree.sides(tree.ancestors(codes, depths[-1])).tolist()}
        )  # fmt: skip
    return out


def interval_table() -> Json:
    """Regions, the cells that they consist of, and the sides of the largest one, which limits are about."""
    lake = Box((0.0, 40.0), (4.0, 44.0), names=("lon", "lat"))
    out = []
    trees: tuple[AnyTree, ...] = (
        BinaryTree(unit(1), 5), BinaryTree(unit(2), 6), Quadtree(unit(2), 4), BinaryTree(unit(3), 7), Quadtree(lake, 5),
        SphereTree(9), CUTS, CODES,
    )  # fmt: skip
    for tree in trees:
        first, end = tree.ends
        size = end - first
        rows = {
            (0, size),
            (0, size // 2),
            (1, size),
            (size // 3, size - 1),
            (size // 5, size // 2 + 1),
            (size // 2, size),
        }
        for begin, stop in sorted(rows):
            lower, upper = [first + begin], [first + stop]
            cells = tree.interval_cells(lower, upper)[1]
            largest = tree.largest_cells(lower, upper)
            out.append(
                {"hierarchy": plain(tree), "region": texts((*lower, *upper)), "cells": texts(cells.tolist()),
                 "largest": str(int(largest[0])), "depth": int(tree.depth(largest)[0]),
                 "sides": tree.interval_sides(lower, upper)[0].tolist()}
            )  # fmt: skip
    return out


def entropy_table() -> Json:
    """Derived bytes, and the server's hash chain."""
    key, task = secret("entropy"), bytes(range(32))
    rows = [(1, (1, 2), (), 1), (2, (64, 128), (96,), 1), (7, (2**60, 2**61), (2**60 + 5,), 1),
            (65536, (2**62, 2**63), (2**62 + 1, 2**62 + 2, 2**62 + 3), 4)]  # fmt: skip
    return {
        "secret": key.hex(), "task": task.hex(), "pseudonym": pseudonym(key, task).hex(),
        "derive": [["", 0, ""], ["61", 40, derive(key, b"a", 40).hex()]],
        "reports": [
            {"round": number, "region": texts(region), "cuts": texts(cuts), "words": words,
             "entropy": report_entropy(key, task, number, region, cuts, words).hex()}
            for number, region, cuts, words in rows
        ],
        "nonces": [[number, nonce(key, task, number).hex()] for number in (1, 2, 65536)],
        "chain": [CHAIN.end.hex(), *(CHAIN.preimage(number).hex() for number in (1, 2, 3))],
    }  # fmt: skip


def draw_table() -> Json:
    """Who is drawn after a closing."""
    closed = Closed(bytes(range(32)), 5, (), (), CHAIN.preimage(5), False)
    names = [secret(f"name {number}")[:16] for number in range(12)]
    rows = [(12, 12), (12, 5), (7, 3), (1, 1)]
    return {
        "closed": encode(closed).hex(), "seed": seed_of(closed).hex(), "names": [name.hex() for name in names],
        "draws": [[size, [name.hex() for name in draw(names[:size], seed_of(closed), count)]] for size, count in rows],
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
    """Rule "cut": the smallest t, for F askable, m asked and w failed questions."""
    out = []
    for epsilon, k, delta in ((1.0, 20, 1e-6), (1.0, 20, 0.05), (2.0, 3, 0.05), (0.25, 5, 0.01), (5 / 3, 1, 0.1),
                              (1.0, 200, 1e-3), (8.0, 20, 1e-12)):  # fmt: skip
        for askable, asked in ((8, 8), (40, 24), (60, 60), (150, 80), (400, 64), (3000, 200)):
            for failed in (0, 1, 7):
                least = threshold(askable, asked, k, epsilon, level(delta, failed))
                out.append([epsilon, k, delta, askable, asked, failed, least])
    return out


def threshold_all_table() -> Json:
    """Rule "all": smallest tallies that pass. With fewer than k responders nothing passes: null."""
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
