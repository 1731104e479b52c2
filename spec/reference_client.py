"""A second client, written from spec/protocol.md alone: plain integers, decimals and the standard library.

It exists to show that the text is enough, and as an oracle for the vectors: nothing here shares code, arrays or
floating-point tails with the package. It is slow and small, and it trusts its input; refusals are the package's.
Section numbers are those of the text; section 15 is in ``reference_values.py``.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from functools import lru_cache
from itertools import accumulate
from typing import Any

from reference_trees import Sphere, Table

WORD = 2**64
QUANTILE, VISITOR_QUANTILE = 1.6448536269514722, 3.090232306167813
LONGITUDE, LATITUDE = ("lon", "lng", "long", "longitude"), ("lat", "latitude")


# -- 3. bytes ----------------------------------------------------------------------------------------------------


def pack(value: Any) -> bytes:
    """Canonical MessagePack."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        raise TypeError("the protocol has no booleans")
    if isinstance(value, int):
        return _pack_int(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode()
        return _header(len(data), (0xA0, 32), (0xD9, 0xDA, 0xDB)) + data
    if isinstance(value, bytes):
        return _header(len(value), None, (0xC4, 0xC5, 0xC6)) + value
    if isinstance(value, list | tuple):
        return _header(len(value), (0x90, 16), (None, 0xDC, 0xDD)) + b"".join(map(pack, value))
    items = b"".join(pack(key) + pack(item) for key, item in value.items())
    return _header(len(value), (0x80, 16), (None, 0xDE, 0xDF)) + items


def _pack_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b", value) if value < 0 else bytes([value])
    forms = (0xCC, ">B", 1), (0xCD, ">H", 2), (0xCE, ">I", 4), (0xCF, ">Q", 8)
    if value < 0:
        forms = (0xD0, ">b", 1), (0xD1, ">h", 2), (0xD2, ">i", 4), (0xD3, ">q", 8)
    for code, form, size in forms:
        if (0 <= value < 1 << 8 * size) if value >= 0 else value >= -(1 << 8 * size - 1):
            return bytes([code]) + struct.pack(form, value)
    raise OverflowError(value)


def _header(size: int, short: tuple[int, int] | None, codes: tuple[int | None, int, int]) -> bytes:
    if short is not None and size < short[1]:
        return bytes([short[0] | size])
    if codes[0] is not None and size < 256:
        return bytes([codes[0], size])
    return struct.pack(">BH", codes[1], size) if size < 65536 else struct.pack(">BI", codes[2], size)


# -- 4. cells ----------------------------------------------------------------------------------------------------


class Tree:
    """The hierarchy of a task given as plain maps."""

    def __init__(self, hierarchy: dict[str, Any]) -> None:
        self.lower, self.upper = hierarchy["box"]["lower"], hierarchy["box"]["upper"]
        self.names = hierarchy["box"]["names"]
        self.axes = len(self.lower)
        self.max_depth = hierarchy["max_depth"]
        self.level_bits = 1 if hierarchy["kind"] == "binary" else self.axes
        self.fanout = 2**self.level_bits
        self.path_bits = self.level_bits * self.max_depth
        self.tick_bits = -(-self.path_bits // self.axes)

    def edge(self, axis: int, tick: int) -> float:
        """Lower edge of a slice."""
        low, high = self.lower[axis], self.upper[axis]
        return float(low + (high - low) * (tick * 2.0**-self.tick_bits))

    def ticks(self, point: list[float]) -> list[int]:
        """Slice numbers, by bisection on the edges."""
        out = []
        for axis, x in enumerate(point):
            low, high = 0, 2**self.tick_bits
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self.edge(axis, middle) <= x else (low, middle)
            out.append(low)
        return out

    def code(self, ticks: list[int]) -> int:
        """Deepest cell."""
        code = 1
        for step in range(self.path_bits):
            code = code << 1 | ticks[step % self.axes] >> (self.tick_bits - 1 - step // self.axes) & 1
        return code

    def bounds(self, cell: int) -> list[tuple[int, int]]:
        """First and last tick on each axis."""
        path = bin(cell)[3:]
        out = []
        for axis in range(self.axes):
            fixed = path[axis :: self.axes]
            out.append((int(fixed.ljust(self.tick_bits, "0"), 2), int(fixed.ljust(self.tick_bits, "1"), 2)))
        return out

    def code_of(self, point: list[float]) -> int:
        """Deepest cell of a position."""
        return self.code(self.ticks(point))

    def width(self, cell: int) -> int:
        """Number of children."""
        return int(self.fanout)

    def child_weights(self, cell: int) -> list[int]:
        """How moved people fall on the children (10)."""
        return [1] * int(self.fanout)

    def has_depth(self, cell: int, depth: int) -> bool:
        """Whether a cell has this depth."""
        return bool(cell >> self.level_bits * depth == 1)

    def child_cell(self, cell: int, child: int) -> int:
        """A child of a cell."""
        return int(cell * self.fanout + child)

    def child(self, code: int, depth: int) -> int:
        """Which child of its ancestor of this depth a code lies in."""
        return int(code // self.fanout ** (self.max_depth - depth - 1) % self.fanout)

    def box(self, cell: int) -> tuple[list[float], list[float]]:
        """Lower and upper corner."""
        lower, upper = [], []
        for axis, (first, last) in enumerate(self.bounds(cell)):
            lower.append(self.edge(axis, first))
            upper.append(self.upper[axis] if last + 1 == 2**self.tick_bits else self.edge(axis, last + 1))
        return lower, upper

    def sides(self, cell: int) -> list[float]:
        """Lengths of the sides; in kilometres where the axes are longitude and latitude (10)."""
        lower, upper = self.box(cell)
        out = [high - low for low, high in zip(lower, upper, strict=True)]
        names = [name.lower() for name in self.names]
        kinds = ["latitude" if n in LATITUDE else "longitude" if n in LONGITUDE else "" for n in names]
        if sorted(kinds) == ["latitude", "longitude"]:
            axis = kinds.index("latitude")
            out = [length * 111.32 for length in out]
            out[1 - axis] *= math.cos(math.radians((lower[axis] + upper[axis]) / 2))
        return out

    def move(self, cell: int, kept: list[int], word: int) -> int:
        """The code after a TRIM (11)."""
        below = self.fanout ** (self.max_depth - (len(bin(cell)) - 3) // self.level_bits - 1)
        place, within = divmod(word * len(kept) * below >> 64, below)
        return int((cell * self.fanout + kept[place]) * below + within)

    def middle(self, code: int) -> list[float]:
        """The position that stands for a code (11)."""
        return [low + (high - low) * 0.5 for low, high in zip(*self.box(code), strict=True)]


AnyTree = Tree | Sphere | Table


def tree_of(hierarchy: dict[str, Any]) -> AnyTree:
    """The hierarchy of a task."""
    kinds: dict[str, type[AnyTree]] = {"sphere": Sphere, "table": Table}
    return kinds.get(hierarchy["kind"], Tree)(hierarchy)


# -- 7. entropy --------------------------------------------------------------------------------------------------


def derive(secret: bytes, label: bytes, length: int) -> bytes:
    """Keyed bytes."""
    out = b""
    while len(out) < length:
        out += hmac.new(secret, (len(out) // 32).to_bytes(4, "big") + label, hashlib.sha256).digest()
    return out[:length]


def pseudonym(secret: bytes, task: bytes) -> bytes:
    """The name of a device in a task."""
    return derive(secret, b"semilocal/1/pseudonym" + task, 16)


def report_words(secret: bytes, task: bytes, number: int, cell: int, words: int) -> list[int]:
    """The words of one report."""
    label = b"semilocal/1/report" + task + number.to_bytes(4, "big") + cell.to_bytes(8, "big")
    data = derive(secret, label, 8 * words)
    return [int.from_bytes(data[i : i + 8], "big") for i in range(0, len(data), 8)]


def move_word(secret: bytes, task: bytes, number: int, cell: int) -> int:
    """The word of a move out of a cell that was trimmed in this round."""
    label = b"semilocal/1/move" + task + number.to_bytes(4, "big") + cell.to_bytes(8, "big")
    return int.from_bytes(derive(secret, label, 8), "big")


# -- 8. randomizers ----------------------------------------------------------------------------------------------


@lru_cache
def response_weights(epsilon: float, fanout: int) -> tuple[int, int]:
    """Weights of the true child and of each other child."""
    with localcontext(Context(prec=90)):
        share = WORD / (Decimal(epsilon).exp() + fanout - 1)
        other = int(share.to_integral_value(ROUND_CEILING))
    return WORD - (fanout - 1) * other, other


@lru_cache
def laplace_weights(epsilon: float) -> dict[int, int]:
    """Value -> weight for a true entry of 0, from the smallest value up."""
    scale = epsilon / 2
    edge = min(math.ceil(-math.log(2.0**-44) / scale), math.floor(-math.log(2.0**-60) / scale) - 1)
    with localcontext(Context(prec=90)):
        growth = (Decimal(epsilon) / 2).exp() * (1 - Decimal(10) ** -55)
        decay = 1 / growth
        near, far = {}, {}
        for i in range(edge + 1):
            height = WORD * (1 - decay) / (1 + decay) * decay**i / ((1 - decay) if i == edge else 1)
            far[i] = _floor(height * decay)
            near[i] = min(_floor(height), _floor(far[i] * growth))
    left = WORD - sum(near.values()) - sum(far.values())
    near[0] += left // 2
    far[0] += left - left // 2
    return {-i: near[i] for i in range(edge, -1, -1)} | {1 + i: far[i] for i in range(edge + 1)}


def _floor(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_FLOOR))


def for_width(randomizer: dict[str, Any], width: int) -> dict[str, Any]:
    """The randomizer of a cell with so many children."""
    return {**randomizer, "fanout": width}


def word_count(randomizer: dict[str, Any]) -> int:
    """Words that one report takes."""
    return 1 if randomizer["kind"] == "randomized-response" else int(randomizer["fanout"])


def respond(randomizer: dict[str, Any], child: int, words: list[int]) -> int | list[int]:
    """One answer."""
    if randomizer["kind"] == "randomized-response":
        true, other = response_weights(randomizer["epsilon"], randomizer["fanout"])
        if words[0] < true:
            return child
        skipped = (words[0] - true) // other
        return skipped if skipped < child else skipped + 1
    out = []
    for entry, word in enumerate(words):
        total = 0
        for value, weight in laplace_weights(randomizer["epsilon"]).items():
            total += weight
            if word < total:
                out.append(1 - value if entry == child else value)
                break
    return out


# -- 9. the crowd test -------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def threshold(kind: str, epsilon: float, fanout: int, n: int, k: int, delta: float) -> int:
    """Smallest tally that passes; n + 1 or a huge number if none does."""
    if n < k:
        return n + 1 if kind == "randomized-response" else 2**63 - 1
    if kind == "randomized-response":
        return _response_threshold(response_weights(epsilon, fanout), n, k, Decimal(delta) * (1 - Decimal(10) ** -6))
    return math.ceil(k - 1 + _chernoff_margin(epsilon, n, delta))


def _response_threshold(weights: tuple[int, int], n: int, k: int, allowed: Decimal) -> int:
    with localcontext(Context(prec=50, Emin=-(10**9), Emax=10**9)):
        true, other = (Decimal(weight) / WORD for weight in weights)
        members = _masses(k - 1, true)
        others = list(accumulate(reversed(_masses(n - k + 1, other))))[::-1]  # P(at least 0, 1, … of the others)

        def tail(count: int) -> Decimal:
            ways = ((x, mass) for x, mass in enumerate(members) if count - x < len(others))
            return sum((mass * others[max(count - x, 0)] for x, mass in ways), Decimal(0))

        low, high = 0, n + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if tail(middle) <= allowed else (middle + 1, high)
        # Two clients may only differ within 1e-7 of the bound; the vectors stay clear of it.
        assert abs(tail(low - 1) / allowed - 1) > Decimal("1e-7") < abs(tail(low) / allowed - 1)
        return low


def _masses(size: int, p: Decimal) -> list[Decimal]:
    mass = (1 - p) ** size
    out = [mass]
    for y in range(size):
        mass = mass * (size - y) / (y + 1) * p / (1 - p)
        out.append(mass)
    return out


@lru_cache
def _log_moments(epsilon: float) -> list[tuple[float, float]]:
    weights = [(value, weight / WORD) for value, weight in laplace_weights(epsilon).items()]
    grid = [1e-5 * (0.9 / 1e-5) ** (i / 999) for i in range(1000)]
    grid += [1 - 1e-6 * (0.1 / 1e-6) ** (i / 199) for i in range(200)]
    out = []
    for share in grid:
        x = epsilon / 2 * share
        excess = max(math.fsum(w * math.expm1(sign * x * value) for value, w in weights) for sign in (1, -1))
        out.append((x, math.log1p(excess)))
    return out


def _chernoff_margin(epsilon: float, n: int, delta: float) -> float:
    return min((n * moment + math.log(1 / delta)) / x for x, moment in _log_moments(epsilon))


# -- 10. verdicts ------------------------------------------------------------------------------------------------


def in_order(numbers: list[float]) -> float:
    """A sum in doubles, from the first number to the last; ``sum`` of newer Pythons rounds in another way."""
    total = 0.0
    for number in numbers:
        total = total + number
    return total


def estimates(randomizer: dict[str, Any], n: int, tally: list[int]) -> list[float]:
    """Estimated responders in each child (8)."""
    if randomizer["kind"] != "randomized-response" or len(tally) == 1:
        return [float(count) for count in tally]
    p, p0 = (weight / WORD for weight in response_weights(randomizer["epsilon"], len(tally)))
    return [(count - n * p0) / (p - p0) for count in tally]


def variance(randomizer: dict[str, Any], tau: float, m: int, width: int) -> float:
    """Of the estimated number of people in m of so many children, per responder (8)."""
    if randomizer["kind"] == "randomized-response":
        p, p0 = (weight / WORD for weight in response_weights(randomizer["epsilon"], width))
        u, v = p + (m - 1) * p0, m * p0
        return (tau * u * (1 - u) + (1 - tau) * v * (1 - v)) / ((p - p0) * (p - p0))
    weights = laplace_weights(randomizer["epsilon"]).items()
    mean, square = (sum(weight * value**power for value, weight in weights) for power in (1, 2))
    return m * ((WORD * square - mean**2) / WORD**2)


def present(weights: list[int], visitors: float, doubt: float) -> list[tuple[float, float]]:
    """Visitors in each child before the verdict, and their variance."""
    out = []
    for weight in weights:
        own, share = visitors * weight / sum(weights), weight / sum(weights)
        out.append((own, doubt * share * share + own * (1 - share)))
    return out


def arriving(
    task: dict[str, Any], n: int, weights: list[int], own: list[tuple[float, float]], kept: list[int],
    found: list[float],
) -> dict[int, tuple[float, float]]:  # fmt: skip
    """Visitors that come to each kept child, and their variance."""
    trimmed = [child for child in range(len(weights)) if child not in kept]
    if not trimmed:
        return dict.fromkeys(kept, (0.0, 0.0))
    moved = max(in_order([own[child][0] for child in trimmed]), in_order([found[child] for child in trimmed]))
    noise = n * variance(task["randomizer"], task["tau"], len(trimmed), len(weights))
    room, out = sum(weights[child] for child in kept), {}
    for child in kept:
        come, part = moved * weights[child] / room, weights[child] / room
        out[child] = (come, part * part * noise + come * (1 - part))
    return out


def sparse(task: dict[str, Any], n: int, tally: list[int], failing: list[int]) -> bool:
    """Whether the failing children together are surely at most a share tau."""
    randomizer, tau, m = task["randomizer"], task["tau"], len(failing)
    found = estimates(randomizer, n, tally)
    total = in_order([found[child] for child in failing])
    return bool(total + QUANTILE * math.sqrt(n * variance(randomizer, tau, m, len(tally))) <= tau * n)


def too_small(task: dict[str, Any], cell: int) -> bool:
    """Whether a child of the cell has a side below the task's shortest."""
    tree, least = tree_of(task["hierarchy"]), task["min_side"]
    width = tree.width(cell)
    lengths = [side for child in range(width) for side in tree.sides(tree.child_cell(cell, child))]
    shortest = (least * tree.axes if len(least) == 1 else least) * width
    return bool(least) and any(a < b * (1 - 1e-9) for a, b in zip(lengths, shortest, strict=True))


def verdict(
    task: dict[str, Any], n: int, tally: list[int], trims: int, visitors: float, doubt: float, cell: int
) -> tuple[list[int], bool, list[float], list[float]]:
    """Children that go on, whether that is a TRIM, the visitors then in each of them, and the doubt about these."""
    kept, trimmed = judged(task, n, tally, trims, visitors, doubt, cell)
    if task["rule"] != "trim":
        return kept, trimmed, [0.0] * len(kept), [0.0] * len(kept)
    weights = tree_of(task["hierarchy"]).child_weights(cell)
    own = present(weights, visitors, doubt)
    come = arriving(task, n, weights, own, kept, estimates(task["randomizer"], n, tally))
    after, doubts = ([own[child][part] + come[child][part] for child in kept] for part in (0, 1))
    return kept, trimmed, after, doubts


def judged(
    task: dict[str, Any], n: int, tally: list[int], trims: int, visitors: float, doubt: float, cell: int
) -> tuple[list[int], bool]:
    """Children that go on, and whether that is a TRIM."""
    if too_small(task, cell):
        return [], False
    if len(tally) == 1:
        return [0], False
    randomizer = task["randomizer"]
    children = randomizer["fanout"] if task["max_trims"] and randomizer["fanout"] > 2 else 1
    delta = task["delta"] / ((1 + task["max_trims"]) * children)
    liars = task["tolerate_liars"]
    weights, limit = tree_of(task["hierarchy"]).child_weights(cell), task["max_visitors"]
    own, noise = present(weights, visitors, doubt), n * variance(randomizer, task["tau"], 1, len(tally))
    passing = []
    for child, count in enumerate(tally):
        needed = task["k"]
        if limit < 1:
            number, spread = own[child]
            unsure = math.sqrt(noise + spread / limit / limit) - math.sqrt(noise)
            needed = max(needed, math.ceil(number / limit + VISITOR_QUANTILE * unsure))
        least = threshold(randomizer["kind"], randomizer["epsilon"], len(tally), n - liars, needed, delta)
        if n - liars >= needed and count - liars >= least:
            passing.append(child)
    if task["rule"] == "each" or len(passing) == len(tally):
        return passing, False
    failing = [child for child in range(len(tally)) if child not in passing]
    found = estimates(randomizer, n, tally)
    crowded = False
    for child, (come, spread) in arriving(task, n, weights, own, passing, found).items():
        most = own[child][0] + come + VISITOR_QUANTILE * math.sqrt(own[child][1] + spread)
        crowded = crowded or (limit < 1 and most > limit * (found[child] + come))
    trims_left = task["rule"] == "trim" and passing and trims < task["max_trims"]
    if trims_left and sparse(task, n, tally, failing) and not crowded:
        return passing, True
    return [], False


# -- 11, 12. the device ------------------------------------------------------------------------------------------


class Device:
    """A device that plays along: asks no policy, but follows only verdicts that it finds itself."""

    def __init__(self, task: dict[str, Any], point: list[float], secret: bytes) -> None:
        self.task, self.secret, self.point = task, secret, point
        self.tree = tree_of(task["hierarchy"])
        self.id = hashlib.sha256(pack(task)).digest()
        self.pseudonym = pseudonym(secret, self.id)
        self.code = self.tree.code_of(point)
        self.cell, self.round, self.trims, self.moves = 1, 1, 0, 0
        self.visitors = self.doubt = 0.0
        self.finished = self.lost = self.answered = False
        self.crowd: int | None = None

    def report(self) -> list[Any]:
        """The report of the open round, as a list for :func:`pack`."""
        self.answered = True
        answer: Any = None
        if self.round <= self.task["max_rounds"]:
            randomizer = for_width(self.task["randomizer"], self.tree.width(self.cell))
            words = report_words(self.secret, self.id, self.round, self.cell, word_count(randomizer))
            child = self.tree.child(self.code, self.round - 1)
            answer = 0 if randomizer["fanout"] == 1 else respond(randomizer, child, words)
        return ["report", self.id, self.round, self.pseudonym, self.cell, answer]

    def follow(self, cells: list[int], responders: list[int], tally: list[list[int]], kept: list[list[int]]) -> None:
        """Take the closing of the open round."""
        if self.finished or self.lost:
            return
        if not self.answered:
            self.lost = True
            return
        row = cells.index(self.cell)
        if self.round > self.task["max_rounds"]:
            self.finished, self.crowd = True, responders[row]
            return
        path = self.trims, self.visitors, self.doubt, self.cell
        found, trimmed, visitors, doubts = verdict(self.task, responders[row], tally[row], *path)
        assert found == kept[row], "a verdict that does not follow from the tally"
        child = self.tree.child(self.code, self.round - 1)
        if self.task["rule"] == "each" and child not in found:
            self.finished, self.cell = True, self.tree.child_cell(self.cell, child)
        elif not found:
            self.finished, self.crowd = True, responders[row]
        else:
            if child not in found:
                word = move_word(self.secret, self.id, self.round, self.cell)
                self.code = self.tree.move(self.cell, found, word)
                self.point = self.tree.middle(self.code)
                child = self.tree.child(self.code, self.round - 1)
                self.moves += 1
            self.cell, place = self.tree.child_cell(self.cell, child), found.index(child)
            self.visitors, self.doubt = visitors[place], doubts[place]
            self.round, self.trims, self.answered = self.round + 1, self.trims + trimmed, False


# -- 14. the transcript ------------------------------------------------------------------------------------------


def merkle_tree_hash(entries: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, by its definition."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    split = 1
    while split * 2 < len(entries):
        split *= 2
    left, right = merkle_tree_hash(entries[:split]), merkle_tree_hash(entries[split:])
    return hashlib.sha256(b"\x01" + left + right).digest()
