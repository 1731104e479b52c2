"""Two servers that count together, without input or output: Leader and Helper, from stored reports to the transcript.

Both servers are in the same state, and leave it by the same message: what one says, the other hears. ``EVENTS`` is the
table of states; a message that is not in it is refused. What always holds:

1. A step has one request and one answer. Both are stored, and can be sent again.
2. No number leaves before the set of rejected reports of its level is fixed. A level is fixed once.
3. Only reports of a chunk whose digests differ can be rejected, so a leader drops nobody at will.
4. Whether a request is answered depends on public values only: a refusal tells nothing about shares.
5. Published numbers that no people and noise give end the counting, after the answer to them is stored: what a server
   computes is bounded by the reports, whatever the other one says. A refusal in the place of the answer would depend on
   this server's noise, and another set of reports would get new noise.
6. A server signs only what :func:`replay_tree` takes, and so does everybody who reads a transcript.
7. The state is a function of the stored reports and of what was said: :meth:`Machine.replay` comes back to it.

After a refusal in the middle of a step a machine is of no use; replay what is stored. Tests play a leader against a
helper in one process; the service stores and sends what they say. Knows messages, parties and the rule. Knows no HTTP,
database or clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ..arrays import Flags, Integers
from ..errors import InvalidInput
from ..pooled.play import Published, Tree, replay
from ..pooled.task import UNITS
from . import wire
from .pair import PairTask
from .party import Evaluator, Party, accepted_digest, unshard
from .sealing import Role, is_signed
from .verify import chunks, differing, digests

State = Literal[
    "close", "closing", "check", "checking", "sums", "summing", "finish", "finishing", "sign", "signing", "done",
]  # fmt: skip
NO_BUCKET = 0  # of steps that are about the whole pair
CLOSE, SIGN = "close", "sign"


class Event(NamedTuple):
    """What leaves a state: the step it belongs to, the message, who says it, and the states that may follow."""

    step: str
    message: type[wire.Message]
    says: Role
    following: tuple[State, ...]


EVENTS: Mapping[State, Event] = {
    # which reports take part: all that both have stored; the same set, and the first tree begins
    "close": Event(CLOSE, wire.Closing, "leader", ("closing",)),
    "closing": Event(CLOSE, wire.ClosingAnswer, "helper", ("check", "sign")),
    # digests of the tags of the level, per chunk of reports; the tags of the chunks that differ
    "check": Event("check", wire.LevelCheck, "leader", ("checking",)),
    "checking": Event("check", wire.LevelCheckAnswer, "helper", ("sums",)),
    # who failed the check, which fixes who counts, and noisy numbers; its own: the public rule opens the next cells
    "sums": Event("sums", wire.LevelSums, "leader", ("summing",)),
    "summing": Event("sums", wire.LevelSumsAnswer, "helper", ("check", "finish")),
    # noisy final counts; its own: the tree is published, the next one begins
    "finish": Event("finish", wire.Finish, "leader", ("finishing",)),
    "finishing": Event("finish", wire.FinishAnswer, "helper", ("check", "sign")),
    # of the transcript
    "sign": Event(SIGN, wire.Signature, "leader", ("signing",)),
    "signing": Event(SIGN, wire.Signature, "helper", ("done",)),
}  # nothing leaves "done"


class Step(NamedTuple):
    """A request and its answer: of which tree, and its name in the path."""

    bucket: int
    name: str


class Machine:
    """One server of a pair, in what both have in common.

    ``stored`` are the reports that it can count, ascending, with their buckets; the evaluator gives its half of some
    reports of a bucket, when a tree begins.
    """

    role: ClassVar[Role]

    def __init__(
        self, pair: PairTask, stored: Sequence[tuple[bytes, int]], *, noise_secret: bytes, signing_secret: bytes,
        evaluator: Callable[[int, Sequence[bytes]], Evaluator],
    ) -> None:  # fmt: skip
        self.pair, self._stored = pair, stored
        self._noise, self._signing, self._evaluator = noise_secret, signing_secret, evaluator
        self.state: State = "close"
        self.accepted = 0  # reports that take part, once that is fixed
        self.trees: list[wire.BucketTree] = []  # those that are published
        self._body = pair.to_bytes()
        self._waiting: Iterator[tuple[int, list[bytes]]] = iter(())  # buckets with their reports, after this tree
        self._tree: Party | None = None  # the tree that is counted
        self._known: set[int] = set()  # buckets whose published numbers are stored
        self._digest = b""  # of the set that takes part
        self._request = b""  # of the step that waits for its answer
        self._suspects: Flags | None = None  # reports of the chunks that differ
        self._failed: Flags | None = None  # who failed the check of the level, as the leader sees it
        self._signatures: list[bytes] = []

    @property
    def due(self) -> Step | None:
        """The step that is to be made now; None at the end."""
        if self.state == "done":
            return None
        name = EVENTS[self.state].step
        if name in (CLOSE, SIGN):
            return Step(NO_BUCKET, name)
        party = self._party
        return Step(party.bucket, name if name == "finish" else f"levels/{party.depth}/{name}")

    @property
    def _says(self) -> Role | None:
        """Who says the next message; nobody at the end."""
        return EVENTS[self.state].says if self.state in EVENTS else None

    def advance(self, request: bytes, answer: bytes) -> None:
        """Take both messages of the step that is due, and go on; refuses what cannot be, or is not its own."""
        if self._says == "leader":
            self._take(request)
        elif request != self._request:
            raise InvalidInput("this step was asked with another request; a step is asked once")
        self._take(answer)

    def replay(self, answered: Sequence[tuple[Step, bytes, bytes]]) -> None:
        """Come back to where steps lead, with requests and answers; only a tree that is not finished is evaluated."""
        self._known = {step.bucket for step, _, _ in answered if step.name == "finish"}
        for step, request, answer in answered:
            if self.due != step:
                raise InvalidInput(f"the stored step {step.name} of bucket {step.bucket} does not follow")
            self.advance(request, answer)

    def signed_tree(self) -> wire.SignedTree:
        """The transcript."""
        if self.state != "done":
            raise InvalidInput("the transcript is not signed yet")
        return wire.SignedTree(self._body, tuple(self.trees), *self._signatures)

    # -- what a message means, by the state that it leaves ---------------------------------------------------------

    def _take(self, data: bytes) -> None:
        event = EVENTS.get(self.state)
        if event is None:
            raise InvalidInput("the transcript is signed; nothing follows")
        following: State = getattr(self, f"_on_{self.state}")(event.message.from_bytes(data))
        assert following in event.following
        if event.says == "leader":
            self._request = data
        self.state = following

    def _on_close(self, message: wire.Closing) -> State:
        members: dict[int, list[bytes]] = {} if self.pair.bucket_depth else {1: []}
        bucket_of, ids = dict(self._stored), wire.split_ids(message.ids)
        for report in ids:
            if report not in bucket_of:
                raise InvalidInput(f"report {report.hex()} takes part, but this server does not have it")
            members.setdefault(bucket_of[report], []).append(report)
        self.accepted, self._digest = len(ids), accepted_digest(ids)
        self._waiting = iter(sorted(members.items()))
        return "closing"

    def _on_closing(self, message: wire.ClosingAnswer) -> State:
        if message.accepted != self._digest:
            raise InvalidInput("the helper closed another set of reports")
        return self._next_tree()

    def _on_check(self, message: wire.LevelCheck) -> State:
        due = len(chunks(len(self._due(message.bucket, message.level).ids)))
        if len(message.digests) != 32 * due:
            raise InvalidInput(f"there are {due} chunks of reports; got {len(message.digests) // 32} digests")
        return "checking"

    def _on_checking(self, message: wire.LevelCheckAnswer) -> State:
        if self._party.is_known:
            return "sums"
        own = self._party.verify_init()
        parts = chunks(len(own))
        suspects = np.zeros(len(own), dtype=bool)
        for number in message.chunks:
            if number >= len(parts):
                raise InvalidInput(f"there are {len(parts)} chunks of reports; got number {number}")
            suspects[parts[number]] = True
        width = own.shape[1]
        if len(message.tags) != int(np.count_nonzero(suspects)) * width:
            raise InvalidInput(f"tags have {width} bytes per report of the chunks that differ; got {len(message.tags)}")
        other = np.frombuffer(message.tags, dtype=np.uint8).reshape(-1, width)
        self._suspects, self._failed = suspects, np.zeros(len(own), dtype=bool)
        self._failed[suspects] = differing(own[suspects], other)
        return "sums"

    def _on_sums(self, message: wire.LevelSums) -> State:
        party = self._due(message.bucket, message.level)
        rejected = self._flags(party, message.rejected)
        if not party.is_fixed:  # else the leader has fixed it to make this message
            party.verify_next(rejected)
        self._suspects = self._failed = None
        _has(wire.numbers_of(message.numbers), party.opened)
        return "summing"

    def _on_summing(self, message: wire.LevelSumsAnswer) -> State:
        party = self._party
        leader = wire.LevelSums.from_bytes(self._request).numbers
        numbers = self._numbers(leader, message.numbers, party.opened, party.aggregate)
        if party.opened:
            party.publish(numbers)
        return "check" if party.opened else "finish"

    def _on_finish(self, message: wire.Finish) -> State:
        _has(wire.numbers_of(message.numbers), self._due(message.bucket).finals)
        return "finishing"

    def _on_finishing(self, message: wire.FinishAnswer) -> State:
        party = self._party
        leader = wire.Finish.from_bytes(self._request).numbers
        found = party.finish(self._numbers(leader, message.numbers, party.finals, party.aggregate_final))
        published = wire.BucketTree(party.bucket, found.to_bytes(), tuple(party.rejected))
        faults: list[str] = []
        replay_tree(self.pair, published, lambda token, what: faults.append(what))
        if faults:
            raise InvalidInput(f"the numbers of both servers do not give a tree: {faults[0]}")
        self.trees.append(published)
        return self._next_tree()

    def _on_sign(self, message: wire.Signature) -> State:
        self._take_signature("leader", message)
        return "signing"

    def _on_signing(self, message: wire.Signature) -> State:
        self._take_signature("helper", message)
        return "done"

    # -- inside ----------------------------------------------------------------------------------------------------

    def _next_tree(self) -> State:
        """Begin the tree of the next bucket, if there is one."""
        bucket, ids = next(self._waiting, (NO_BUCKET, []))
        if bucket == NO_BUCKET:
            self._tree = None
            return "sign"
        half = None if bucket in self._known else partial(self._evaluator, bucket, ids)
        server = 0 if self.role == "leader" else 1
        self._tree = Party(
            self.pair.tree_task(bucket), server, self._noise, ids, half, self.pair.asked, bucket=bucket
        )  # fmt: skip
        return "check"

    @property
    def _party(self) -> Party:
        assert self._tree is not None
        return self._tree

    def _due(self, bucket: int, level: int | None = None) -> Party:
        """The tree that is counted; refuses a message for another one, or for another level."""
        party = self._party
        if bucket != party.bucket or level not in (None, party.depth):
            raise InvalidInput(
                f"bucket {party.bucket} and level {party.depth} are due; the message is for bucket {bucket} and level "
                f"{level}"
            )
        return party

    def _flags(self, party: Party, rejected: bytes) -> Flags:
        """Rejected reports as flags; only reports of chunks that differ can have failed the check."""
        if not rejected:  # as a rule
            return np.zeros(len(party.ids), dtype=bool)
        wanted = set(wire.split_ids(rejected))
        flags = np.array([report in wanted for report in party.ids], dtype=bool)
        if np.count_nonzero(flags) != len(wanted):
            raise InvalidInput("rejected names reports that do not take part")
        if self._suspects is not None and (flags & ~self._suspects).any():
            raise InvalidInput("rejected names reports whose tags agree")
        return flags

    def _numbers(self, leader: bytes, helper: bytes, due: int, own: Callable[[], Integers]) -> Integers:
        """What both shares give; refuses a share of this server that is not its own, and what cannot be."""
        first, second = wire.numbers_of(leader), wire.numbers_of(helper)
        mine, other = (first, second) if self.role == "leader" else (second, first)
        _has(other, due)
        if not self._party.is_known and not np.array_equal(mine, own()):
            raise InvalidInput("the stored numbers are not those that this server computes: its data or key changed")
        numbers = unshard(first, second)
        try:
            self._party.check(numbers)
        except InvalidInput as error:
            other_role: Role = "helper" if self.role == "leader" else "leader"
            assert self.due is not None
            step = f"{self.due.name} of bucket {self.due.bucket}"
            name = f"{self.pair.operator(other_role).name} ({other_role})"
            raise InvalidInput(f"{step}: {name} sends numbers that cannot be: {error}") from None
        return numbers

    def _signature(self) -> wire.Signature:
        return wire.Signature(wire.SignedTree.signature_by(self._signing, self._body, self.trees))

    def _take_signature(self, role: Role, message: wire.Signature) -> None:
        parts = (self._body, *(tree.to_bytes() for tree in self.trees))
        if not is_signed(message.signature, self.pair.operator(role).signing_key, "transcript", *parts):
            raise InvalidInput(f"the {role}'s signature is of another transcript than the one this server has")
        self._signatures.append(message.signature)


class Leader(Machine):
    """The server that asks.

    ::

        while leader.due is not None:
            request = leader.request()                 store it, send it, store the answer
            leader.advance(request, answer)
    """

    role = "leader"

    def request(self) -> bytes:
        """The message for the step that is due. Asking again gives the same bytes."""
        if self._says == "leader":
            self._take(self._say().to_bytes())
        return self._request

    def _say(self) -> wire.Message:
        if self.state == "close":
            return wire.Closing(b"".join(report for report, _ in self._stored))
        if self.state == "sign":
            return self._signature()
        party = self._party
        if self.state == "check":
            return wire.LevelCheck(party.bucket, party.depth, b"".join(digests(party.verify_init())))
        if self.state == "finish":
            return wire.Finish(party.bucket, wire.pack_numbers(party.aggregate_final()))
        assert self._failed is not None
        rejected = b"".join(party.ids[place] for place in np.flatnonzero(self._failed).tolist())
        party.verify_next(self._failed)
        return wire.LevelSums(party.bucket, party.depth, rejected, wire.pack_numbers(party.aggregate()))


class Helper(Machine):
    """The server that answers.

    ::

        answer = helper.answer(request)                store both, send the answer
        helper.advance(request, answer)
    """

    role = "helper"

    def answer(self, request: bytes) -> bytes:
        """The answer for the step that is due; refuses what no leader can have sent, and a second request."""
        if self._says == "helper":
            raise InvalidInput(f"{self.due} has a request; a step is asked once")
        self._take(request)
        return self._say(request).to_bytes()

    def prepare(self) -> None:
        """Evaluate now what the next step needs, while the leader does the same."""
        if self.state == "check":
            self._party.verify_init()

    def _say(self, request: bytes) -> wire.Message:
        if self.state == "closing":
            return wire.ClosingAnswer(self._digest)
        if self.state == "signing":
            return self._signature()
        party = self._party
        if self.state == "summing":
            return wire.LevelSumsAnswer(wire.pack_numbers(party.aggregate()))
        if self.state == "finishing":
            return wire.FinishAnswer(wire.pack_numbers(party.aggregate_final()))
        tags = party.verify_init()
        joined = wire.LevelCheck.from_bytes(request).digests
        other = [joined[start : start + 32] for start in range(0, len(joined), 32)]
        apart = tuple(number for number, own in enumerate(digests(tags)) if own != other[number])
        return wire.LevelCheckAnswer(apart, b"".join(tags[chunks(len(tags))[number]].tobytes() for number in apart))


def replay_tree(
    pair: PairTask, tree: wire.BucketTree, note: Callable[[str, str], None]
) -> tuple[Published, Tree] | None:
    """What one tree of a transcript says, if it can be read; ``note`` is told token and words of every fault."""
    try:
        published = Published.from_bytes(tree.published)
    except InvalidInput as error:
        note("unreadable-tree", str(error))
        return None
    if published.task != pair.tree_task(tree.bucket):
        note("other-task", "the published numbers belong to another task")
        return None
    if (published.sums is None) != (pair.asked is None):
        has = "no sums" if published.sums is None else "sums"
        note("wrong-sums", f"the task asks for {'a' if pair.asked else 'no'} value; there are {has} of it")
        return None
    if published.simulated:
        note("simulated", "the numbers are marked as a simulation: their noise protects nobody")
    try:
        replayed = replay(published)
    except InvalidInput as error:
        note("wrong-cells", str(error))
        return None
    if not (replayed.units.min(initial=UNITS) > 0 and replayed.units.max(initial=0) <= UNITS):
        note("wrong-cells", "a path costs more than its budget")
    levels = max(len(published.opened), 1)
    if len(tree.rejected) != levels:
        words = f"reports were checked on {levels} levels; rejected reports are given for {len(tree.rejected)}"
        note("wrong-rejected", words)
    return published, replayed


def _has(numbers: Integers, due: int) -> None:
    if len(numbers) != due:
        raise InvalidInput(f"this step has {due} numbers; got {len(numbers)}")
