"""A second client, written from spec/protocol.md alone: plain integers, fractions, decimals and the standard library.

It exists to show that the text is enough, and as an oracle for the vectors: nothing here shares code, arrays or
floating-point tails with the package. It is slow and small. It refuses messages that break the protocol, with the
tokens of the text; it does not look for malformed bytes and knows no owner's limits.
Section numbers are those of the text; section 13 is in ``reference_values.py``, section 4 in ``reference_trees.py``.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from reference_trees import Boxes, Sphere, Table

WORD = 2**64
AnyTree = Boxes | Sphere | Table
Region = tuple[int, int]


class Refused(Exception):
    """A message breaks the protocol."""

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.token = token


def need(good: object, token: str) -> None:
    """Refuse what is not good."""
    if not good:
        raise Refused(token)


def tree_of(hierarchy: dict[str, Any]) -> AnyTree:
    """The hierarchy of a task (4)."""
    kinds: dict[str, type[AnyTree]] = {"sphere": Sphere, "table": Table}
    return kinds.get(hierarchy["kind"], Boxes)(hierarchy)


# -- 3. bytes ----------------------------------------------------------------------------------------------------


def pack(value: Any) -> bytes:
    """Canonical MessagePack."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
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


def unpack(data: bytes) -> Any:
    """The value of MessagePack bytes; only the forms that :func:`pack` writes."""
    value, end = _unpack(data, 0)
    assert end == len(data)
    return value


def _unpack(data: bytes, at: int) -> tuple[Any, int]:
    code, at = data[at], at + 1
    if code < 0x80 or code >= 0xE0:
        return code if code < 0x80 else code - 256, at
    if code in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[code], at
    if code >= 0xCB and code <= 0xD3:
        form = ">" + "dBHIQbhiq"[code - 0xCB]
        size = struct.calcsize(form)
        return struct.unpack(form, data[at : at + size])[0], at + size
    short = {0x80: (0, 15), 0x90: (1, 15), 0xA0: (2, 31)}.get(code & 0xE0 if code >= 0xA0 else code & 0xF0)
    if code < 0xC0 and short is not None:
        kind, size = short[0], code & short[1]
    else:
        kind, width = {0xC4: (3, 1), 0xC5: (3, 2), 0xC6: (3, 4), 0xD9: (2, 1), 0xDA: (2, 2), 0xDB: (2, 4),
                       0xDC: (1, 2), 0xDD: (1, 4), 0xDE: (0, 2), 0xDF: (0, 4)}[code]  # fmt: skip
        size, at = int.from_bytes(data[at : at + width], "big"), at + width
    if kind >= 2:
        raw = data[at : at + size]
        return raw.decode() if kind == 2 else raw, at + size
    items = []
    for _ in range(size * (2 - kind)):
        item, at = _unpack(data, at)
        items.append(item)
    return items if kind else dict(zip(items[::2], items[1::2], strict=True)), at


# -- 7. what is derived ------------------------------------------------------------------------------------------


def derive(secret: bytes, label: bytes, length: int) -> bytes:
    """Keyed bytes."""
    out = b""
    while len(out) < length:
        out += hmac.new(secret, (len(out) // 32).to_bytes(4, "big") + label, hashlib.sha256).digest()
    return out[:length]


def pseudonym(secret: bytes, task: bytes) -> bytes:
    """The name of a device in a task."""
    return derive(secret, b"semilocal/1/pseudonym" + task, 16)


def nonce(secret: bytes, task: bytes, number: int) -> bytes:
    """The device's part of the draw after a round."""
    return derive(secret, b"semilocal/2/nonce" + task + number.to_bytes(4, "big"), 16)


def report_words(secret: bytes, task: bytes, number: int, region: Region, cuts: list[int], words: int) -> list[int]:
    """The words of one answer."""
    codes = b"".join(code.to_bytes(8, "big") for code in [*region, *cuts])
    return as_words(derive(secret, b"semilocal/2/report" + task + number.to_bytes(4, "big") + codes, 8 * words))


def as_words(data: bytes) -> list[int]:
    """64-bit words, most significant byte first."""
    return [int.from_bytes(data[i : i + 8], "big") for i in range(0, len(data), 8)]


def before(preimage: bytes) -> bytes:
    """The value of the server's hash chain that a preimage leads to."""
    return hashlib.sha256(b"semilocal/2/chain" + preimage).digest()


def seed(closed: bytes) -> bytes:
    """What draws the members of the round after a closing."""
    return hashlib.sha256(b"semilocal/2/draw" + closed).digest()


def draw(names: list[bytes], seed: bytes, count: int) -> list[bytes]:
    """The names with the smallest hashes, in that order (9)."""
    return sorted(names, key=lambda name: hashlib.sha256(seed + name).digest())[:count]


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


def for_parts(randomizer: dict[str, Any], parts: int) -> dict[str, Any]:
    """The randomizer of a question with so many parts."""
    return {**randomizer, "fanout": parts}


def word_count(randomizer: dict[str, Any]) -> int:
    """Words that one answer takes."""
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


def possible(randomizer: dict[str, Any], answer: Any) -> bool:
    """Whether a participant can have given this answer."""
    if randomizer["kind"] == "randomized-response":
        return isinstance(answer, int) and 0 <= answer < randomizer["fanout"]
    values = laplace_weights(randomizer["epsilon"])
    return isinstance(answer, list) and len(answer) == randomizer["fanout"] and all(one in values for one in answer)


# -- 10. the crowd test ------------------------------------------------------------------------------------------


def tail(askable: int, asked: int, k: int, epsilon: float, t: int) -> Fraction:
    """P(at least t answers name a side) when k - 1 of the askable are on it; exact."""
    true, other = response_weights(epsilon, 2)
    side = min(k - 1, askable)
    total = Fraction(0)
    for h in range(max(0, asked + side - askable), min(side, asked) + 1):
        ways = math.comb(side, h) * math.comb(askable - side, asked - h)
        total += ways * two_binomials(h, true, asked - h, other, t)
    return total / math.comb(askable, asked)


def two_binomials(a: int, p: int, b: int, q: int, t: int) -> Fraction:
    """P(Bin(a, p) + Bin(b, q) >= t), p and q out of 2^64."""
    reach = [0]  # reach[i]: weight of at least b + 1 - i of the b
    for y in range(b, -1, -1):
        reach.append(reach[-1] + math.comb(b, y) * q**y * (WORD - q) ** (b - y))
    total = 0
    for x in range(a + 1):
        needed = min(max(t - x, 0), b + 1)
        total += math.comb(a, x) * p**x * (WORD - p) ** (a - x) * reach[b + 1 - needed]
    return Fraction(total, WORD ** (a + b))


@lru_cache(maxsize=4096)
def holds(epsilon: float, askable: int, asked: int, k: int, t: int, delta: float, failed: int) -> bool:
    """Rule "cut": whether a threshold is large enough."""
    level = Fraction(delta) / ((failed + 1) * (failed + 2))
    found = tail(askable, asked, k, epsilon, t)
    # Two clients may differ within 1e-6 of the bound; the vectors stay clear of it.
    assert abs(found / level - 1) > 2e-6
    return found <= level


@lru_cache(maxsize=4096)
def passes(kind: str, epsilon: float, parts: int, n: int, k: int, delta: float, t: int) -> bool:
    """Rule "all": whether a threshold is large enough."""
    if kind != "randomized-response":
        return n >= k and t >= math.ceil(k - 1 + _chernoff_margin(epsilon, n, delta))
    if t > n or n < k:
        return t > n
    true, other = response_weights(epsilon, parts)
    return two_binomials(k - 1, true, n - k + 1, other, t) <= Fraction(delta) * (1 - Fraction(1, 10**6))


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


# -- 9, 11, 12. the device ---------------------------------------------------------------------------------------


class Question(NamedTuple):
    """What is asked in one region (6)."""

    lower: int
    upper: int
    cuts: list[int]
    asked: int
    start: int
    stop: int
    drawn: int
    threshold: int

    @property
    def parts(self) -> list[Region]:
        """The parts that the cuts make."""
        return list(pairwise([self.lower, *self.cuts, self.upper]))


class Log:
    """What everybody knows about one region (9)."""

    def __init__(
        self, region: Region, late: dict[bytes, bool], answers: list[tuple[bytes, int]], put: list[int]
    ) -> None:
        self.region = region
        self.late = late  # everybody who was seen so far, and whether they enrolled late
        self.members: set[bytes] = set()
        self.silent: set[bytes] = set()
        self.answers = [(name, cut) for name, cut in answers if region[0] < cut < region[1]]
        self.put = [cut for cut in put if region[0] < cut < region[1]]  # w of them
        self.question: Question | None = None
        self.drawn: list[bytes] = []
        self.tally: list[int] = []

    def askable(self, limit: int, decides: bool) -> list[bytes]:
        """Who may be asked."""
        given = [name for name, _ in self.answers]
        free = (name for name in self.members if name not in self.silent and given.count(name) < limit)
        return [name for name in free if not (decides and self.late[name])]

    @property
    def asked(self) -> list[bytes]:
        """Who answers now."""
        return [] if self.question is None else self.drawn[self.question.start : self.question.stop]


class Device:
    """A device in a task given as plain maps; messages are lists, as :func:`unpack` gives them."""

    def __init__(self, task: dict[str, Any], point: list[float], secret: bytes) -> None:
        self.task, self.secret, self.point = task, secret, point
        self.tree = tree_of(task["hierarchy"])
        self.id = hashlib.sha256(pack(task)).digest()
        self.pseudonym = pseudonym(secret, self.id)
        self.code = self.tree.code_of(point)
        self.round, self.partitioned, self.splits = 1, False, 0
        self.log = Log(self.tree.ends, {}, [], [])
        self.query: Any = None
        self.seed, self.link = b"", task["chain"]
        # What a device keeps before it sends: the rest is read from the log again after a restart.
        self.region: Region | None = None
        self.reported, self.digest = 0, b""
        self.book: list[tuple[int, list[int]]] = []
        self.given: dict[int, bytes] = {}
        self.stopped = False
        self.lost = 0

    # -- queries

    def observe(self, query: list[Any]) -> None:
        """Take the query of the open round."""
        _, task, number, questions = query
        self._check_round(task, number)
        if self.query is not None:
            need(query == self.query, "changed-query")
            return
        question = self._find([Question(*row) for row in questions])
        log = self.log
        if question is None:
            self.query = query
            return
        decides = question.threshold > 0
        if question.drawn == number:
            askable = log.askable(self.task["answers"], decides)
            need(question.asked <= len(askable) and question.start == 0, "wrong-draw")
            need(not decides or self._holds(question, len(askable)), "weak-threshold")
        else:
            previous = log.question
            need(
                previous is not None
                and question._replace(start=0, stop=0) == previous._replace(start=0, stop=0)
                and (question.start, question.stop) == (previous.stop, question.asked),
                "wrong-draw",
            )
        need(decides or len(question.cuts) == 1, "wrong-question")
        if question.drawn == number:
            log.drawn = draw(askable, self.seed, question.asked)
            log.tally = [0] * len(question.parts)
            log.put += question.cuts[:1] if decides else []
        log.question, self.query = question, query

    def _check_round(self, task: bytes, number: int) -> None:
        need(task == self.id, "other-task")
        if number != self.round or self.partitioned:
            raise Refused("skipped-round" if number > self.round else "repeated-round")

    def _find(self, questions: list[Question]) -> Question | None:
        lower, upper = self.log.region
        for question in questions:
            if question.lower < upper and lower < question.upper:
                need((question.lower, question.upper) == (lower, upper), "other-region")
                return question
        return None

    def _holds(self, question: Question, askable: int) -> bool:
        task, noise, w = self.task, self.task["randomizer"], len(self.log.put)
        m, parts, k, liars = question.asked, len(question.parts), task["k"], task["tolerate_liars"]
        t = max(question.threshold - liars, 0)  # answers that the honest must have given
        if task["rule"] == "all":
            fits = w == 0 and m == askable
            return fits and passes(noise["kind"], noise["epsilon"], parts, max(m - liars, 0), k, task["delta"], t)
        return parts == 2 and holds(noise["epsilon"], askable, m, k, t, task["delta"], w)

    def answer(self, query: list[Any]) -> list[Any] | None:
        """The report to a query of the partition, as a list for :func:`pack`."""
        self.observe(query)
        if self.stopped:
            return None
        log, number, digest = self.log, query[2], hashlib.sha256(pack(query)).digest()
        if self.region is not None:
            need(self.region[0] <= log.region[0] and log.region[1] <= self.region[1], "grown-region")
        need(number > self.reported or (number == self.reported and digest == self.digest), "repeated-round")
        question = self._now()
        if number == self.reported:
            return self._report(number)
        free = len(self.inside(log.region)) < self.task["answers"]
        asked = free and question is not None and self.pseudonym in log.asked
        heard = self.pseudonym in log.members and not (free and self.pseudonym in log.silent)
        if heard and not asked:
            return None
        if asked and question is not None:
            self.book.append((number, question.cuts))
        self.region, self.reported, self.digest = log.region, number, digest
        return self._report(number)

    def inside(self, region: Region) -> list[tuple[int, list[int]]]:
        """Its answers about cuts strictly inside a region."""
        return [(number, cuts) for number, cuts in self.book if any(region[0] < cut < region[1] for cut in cuts)]

    def _now(self) -> Question | None:
        """The question of the open round in its region."""
        return self._find([Question(*row) for row in self.query[3]])

    def _report(self, number: int) -> list[Any]:
        answer, question = None, self._now()
        if question is not None and number in [booked for booked, _ in self.book]:
            noise = for_parts(self.task["randomizer"], len(question.parts))
            words = report_words(self.secret, self.id, number, self.log.region, question.cuts, word_count(noise))
            answer = respond(noise, sum(self.code >= cut for cut in question.cuts), words)
        own = nonce(self.secret, self.id, number)
        return ["report", self.id, number, self.pseudonym, *self.log.region, answer, own]

    # -- closings

    def close(self, closed: list[Any], reports: list[Any] | None) -> None:
        """Follow a closing, with the slice of the region of its place."""
        _, task, number, heads, verdicts, preimage, finished = closed
        self._check_round(task, number)
        need(self.query is not None, "skipped-round")
        need(not self.task["chain"] or before(preimage) == self.link, "broken-chain")
        entries = self._entries(heads, number, reports)
        need(len(verdicts) == len(self.query[3]), "wrong-verdict")
        question, log = self._now(), self.log
        given = {name: answer for name, answer, _ in entries if answer is not None}
        tally, outcome = list(log.tally), None
        if question is not None:
            outcome, sums = verdicts[self.query[3].index(list(question))]
            for answer in given.values():
                tally = [
                    count + (answer[i] if isinstance(answer, list) else answer == i) for i, count in enumerate(tally)
                ]
            need(sums == tally, "wrong-tally")
            whole, decides = question.stop == question.asked, question.threshold > 0
            passed = decides and whole and min(tally) >= question.threshold
            need(outcome != "split" or passed, "wrong-verdict")
            need(outcome != "more" or (decides and not whole), "wrong-verdict")
        lost = self._check_own(number, entries)
        # Everything holds: now the record changes.
        if question is not None:
            log.tally, self.lost = tally, question.drawn if lost else self.lost
            log.silent |= set(log.asked)
            log.answers += [(name, question.cuts[0]) for name in given]
        for name, _, _ in entries:
            log.late.setdefault(name, number > 1)
            log.members.add(name)
            log.silent.discard(name)
        if question is not None and outcome == "split":
            self.stopped = self.stopped or self.lost == question.drawn
            part = next((low, high) for low, high in question.parts if low <= self.code < high)
            self.log = Log(part, dict(log.late), log.answers, log.put)
            self.splits += 1
        elif outcome == "wall":
            log.question = None
        self.seed, self.link, self.query = seed(pack(closed)), preimage, None
        self.round, self.partitioned = number + 1, finished

    def _entries(self, heads: list[Any], number: int, reports: list[Any] | None) -> list[Any]:
        lower, upper = self.log.region
        head = next((row for row in heads if (row[0], row[1]) == (lower, upper)), None)
        need((head is None) == (reports is None), "wrong-slice")
        if head is None or reports is None:
            return []
        fits = reports[:5] == ["slice", self.id, number, lower, upper]
        digest = hashlib.sha256(pack(reports)).digest()
        need(fits and len(reports[5]) == head[2] and digest == head[3], "wrong-slice")
        question = self._now()
        for name, answer, _ in reports[5]:
            if answer is not None:
                need(question is not None and name in self.log.asked, "wrong-slice")
                assert question is not None
                need(possible(for_parts(self.task["randomizer"], len(question.parts)), answer), "wrong-slice")
        return list(reports[5])

    def _check_own(self, number: int, entries: list[Any]) -> bool:
        """Whether its answer of this round is missing in the log."""
        own = [entry for entry in entries if entry[0] == self.pseudonym]
        if not own:
            return number in [booked for booked, _ in self.book]
        sent = self._report(number)
        need(number <= self.reported and own[0][1:] == sent[6:], "changed-report")
        return False


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
