"""From the closed set of reports to the signed transcript, message by message. Leader and helper run the same class.

    play = Play(...)
    play.due                              which step comes next; None at the end
    leader: request = play.request()      helper: answer = play.answer(request)
    both:   play.advance(request, answer)

Steps of a tree: ``levels/0/check``, ``levels/0/sums``, ``levels/1/check``, … ``finish``. Trees of buckets are played
one after the other, then ``sign``. What was said is enough to come back to the same point: :meth:`Play.replay` takes
the stored messages, and evaluates only the tree that is not finished.

Nothing that a request says decides whether it is answered, but what is public: a refusal tells nothing about shares.
Knows messages, the party and the rule. Knows no HTTP, database or clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ...hierarchy import Cells
from ...pooled.play import play
from ...sharing.check import chunks, differing, digests
from ...sharing.envelope import Role
from ...sharing.pair import PairTask
from ...sharing.party import Evaluator, Party, combine, split_final
from ...sharing.signing import is_signed
from ...sharing.wire import (
    BucketTree,
    Finish,
    FinishAnswer,
    LevelCheck,
    LevelCheckAnswer,
    LevelSums,
    LevelSumsAnswer,
    Signature,
    SignedTree,
    join_ids,
    numbers_of,
    pack_numbers,
    split_ids,
)

__all__ = ["NO_BUCKET", "Exchange", "Play", "PlayStep", "check_step", "level_tags", "sums_step"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Kind = Literal["check", "sums", "finish"]
NO_BUCKET = 0  # of steps that are about the whole pair


class PlayStep(NamedTuple):
    """A step: of which tree, and its name in the path."""

    bucket: int
    name: str


class Exchange(Protocol):
    """A stored step."""

    @property
    def bucket(self) -> int: ...
    @property
    def step(self) -> str: ...
    @property
    def request(self) -> bytes: ...
    @property
    def answer(self) -> bytes | None: ...


def check_step(level: int) -> str:
    """Name of the step that compares tags."""
    return f"levels/{level}/check"


def sums_step(level: int) -> str:
    """Name of the step that fixes who counts, and exchanges noisy differences."""
    return f"levels/{level}/sums"


class _Tree:
    """One bucket: its reports, and the numbers exchanged about it; a counter for the public rule."""

    def __init__(self, bucket: int, ids: Sequence[bytes]) -> None:
        self.bucket, self.ids = bucket, list(ids)
        self.rejected: list[int] = []
        self.exchanged: list[Integers] = []
        self.final: Integers = np.empty(0, dtype=np.int64)
        self.party: Party | None = None
        self.kind: Kind = "check"

    @property
    def level(self) -> int:
        return len(self.rejected)

    @property
    def step(self) -> PlayStep:
        names = {"check": check_step(self.level), "sums": sums_step(self.level), "finish": "finish"}
        return PlayStep(self.bucket, names[self.kind])

    @property
    def people(self) -> int:
        return len(self.ids) - self.rejected[0]

    def differences(self, depth: int, cells: Cells, units: Integers) -> Integers:
        if depth >= len(self.exchanged):
            raise InvalidInput(f"the rule opens cells on level {depth}, but the exchanged numbers end above it")
        return self.exchanged[depth]

    def counts(self, cells: Cells, units: Integers) -> Integers:
        return self.final


class Play:
    """One server's play of a closed pair.

    Parameters
    ----------
    pair : PairTask
    role : {"leader", "helper"}
    members : mapping of int to sequence of bytes
        The accepted reports by bucket, ascending.
    noise_secret, signing_secret : bytes
    evaluator : callable
        Bucket and ids to this server's half of these reports; called when a tree begins.
    """

    def __init__(
        self, pair: PairTask, role: Role, members: Mapping[int, Sequence[bytes]], *, noise_secret: bytes,
        signing_secret: bytes, evaluator: Callable[[int, Sequence[bytes]], Evaluator],
    ) -> None:  # fmt: skip
        self.pair, self.role = pair, role
        self._noise, self._signing, self._evaluator = noise_secret, signing_secret, evaluator
        self._waiting = [_Tree(bucket, members[bucket]) for bucket in sorted(members)]
        self.trees: list[BucketTree] = []
        self.signatures: tuple[bytes, bytes] | None = None
        self._body = pair.to_bytes()
        self._rejected: Flags | None = None  # leader: who failed the check of the level
        self._suspects: Flags | None = None  # helper: reports of the chunks that differ

    @property
    def server(self) -> int:
        """0 for the leader, 1 for the helper."""
        return 0 if self.role == "leader" else 1

    @property
    def due(self) -> PlayStep | None:
        """The step that comes next."""
        if self._waiting:
            return self._waiting[0].step
        return PlayStep(NO_BUCKET, "sign") if self.signatures is None else None

    def prepare(self) -> None:
        """Do now what the next step needs, while the other server does the same."""
        if self._waiting and self._waiting[0].kind == "check":
            level_tags(self._party())

    def signed_tree(self) -> SignedTree:
        """The transcript."""
        if self.signatures is None:
            raise InvalidInput("the transcript is not signed yet")
        return SignedTree(self._body, tuple(self.trees), *self.signatures)

    # -- the leader ------------------------------------------------------------------------------------------------

    def request(self) -> bytes:
        """The leader's message for the step that is due."""
        if not self._waiting:
            return Signature(SignedTree.signature_by(self._signing, self._body, self.trees)).to_bytes()
        tree, party = self._waiting[0], self._party()
        if tree.kind == "check":
            return LevelCheck(tree.bucket, tree.level, b"".join(digests(level_tags(party)))).to_bytes()
        if tree.kind == "sums":
            assert self._rejected is not None
            rejected = join_ids(tree.ids[place] for place in np.flatnonzero(self._rejected))
            self._fix(party, self._rejected)
            return LevelSums(tree.bucket, tree.level, rejected, pack_numbers(_share(party))).to_bytes()
        return Finish(tree.bucket, pack_numbers(party.share())).to_bytes()

    # -- the helper ------------------------------------------------------------------------------------------------

    def answer(self, request: bytes) -> bytes:
        """The helper's answer for the step that is due; refuses what no leader can have sent."""
        if not self._waiting:
            signature = Signature.from_bytes(request).signature
            parts = (self._body, *(tree.to_bytes() for tree in self.trees))
            if not is_signed(signature, self.pair.leader.signing_key, "transcript", *parts):
                raise InvalidInput("the leader signed another transcript than the one this server has")
            return Signature(SignedTree.signature_by(self._signing, self._body, self.trees)).to_bytes()
        tree, party = self._waiting[0], self._party()
        if tree.kind == "check":
            return self._answer_check(tree, party, LevelCheck.from_bytes(request))
        if tree.kind == "sums":
            sums = LevelSums.from_bytes(request)
            self._same_place(tree, sums.bucket, sums.level)
            self._fix(party, self._flags(tree, sums.rejected))
            own = _share(party)
            _same_length(numbers_of(sums.numbers), own)
            return LevelSumsAnswer(pack_numbers(own)).to_bytes()
        finish = Finish.from_bytes(request)
        self._same_place(tree, finish.bucket, tree.level)
        own = party.share()
        _same_length(numbers_of(finish.numbers), own)
        return FinishAnswer(pack_numbers(own)).to_bytes()

    def _answer_check(self, tree: _Tree, party: Party, message: LevelCheck) -> bytes:
        self._same_place(tree, message.bucket, message.level)
        tags = level_tags(party)
        own = digests(tags)
        if len(message.digests) != 32 * len(own):
            raise InvalidInput(f"there are {len(own)} chunks of reports; got {len(message.digests) // 32} digests")
        other = [message.digests[start : start + 32] for start in range(0, len(message.digests), 32)]
        apart = tuple(number for number, (a, b) in enumerate(zip(own, other, strict=True)) if a != b)
        parts = [tags[chunks(len(tags))[number]].tobytes() for number in apart]
        return LevelCheckAnswer(apart, b"".join(parts)).to_bytes()

    # -- both ------------------------------------------------------------------------------------------------------

    def advance(self, request: bytes, answer: bytes) -> None:
        """Take both messages of the step that is due, and go on.

        Raises
        ------
        InvalidInput
            If the other server's message cannot be used, or this server's is not what it computes.
        """
        if not self._waiting:
            self._take_signatures(Signature.from_bytes(request), Signature.from_bytes(answer))
            return
        tree, party = self._waiting[0], self._party()
        if tree.kind == "check":
            self._take_check(tree, party, LevelCheckAnswer.from_bytes(answer))
            tree.kind = "sums"
            return
        if tree.kind == "sums":
            sums = LevelSums.from_bytes(request)
            rejected = self._flags(tree, sums.rejected)
            if party.stage == "checking":
                self._fix(party, rejected)
            numbers = self._numbers(_share(party), sums.numbers, LevelSumsAnswer.from_bytes(answer).numbers)
            if party.stage == "sharing":
                party.publish(numbers)
            self._note_sums(tree, rejected, numbers)
            tree.kind = "check" if party.stage == "checking" else "finish"
            return
        numbers = self._numbers(
            party.share(), Finish.from_bytes(request).numbers, FinishAnswer.from_bytes(answer).numbers
        )
        self._end(tree, numbers)

    def replay(self, exchanges: Iterable[Exchange]) -> None:
        """Come back to where the answered steps lead."""
        answered = [(step, step.answer) for step in exchanges if step.answer is not None]
        finished = {step.bucket for step, _ in answered if step.step == "finish"}
        for step, answer in answered:
            if self._waiting and self._waiting[0].bucket == step.bucket and step.bucket in finished:
                self._retell(self._waiting[0], step.step, step.request, answer)
            elif self.due == (step.bucket, step.step):
                self.advance(step.request, answer)
            else:
                raise InvalidInput(f"the stored step {step.step} of bucket {step.bucket} does not follow")

    def _retell(self, tree: _Tree, step: str, request: bytes, answer: bytes) -> None:
        """A step of a finished tree: the messages say everything."""
        if step == "finish":
            leader, helper = Finish.from_bytes(request).numbers, FinishAnswer.from_bytes(answer).numbers
            self._end(tree, combine(numbers_of(leader), numbers_of(helper)))
        elif step.endswith("sums"):
            sums = LevelSums.from_bytes(request)
            numbers = combine(numbers_of(sums.numbers), numbers_of(LevelSumsAnswer.from_bytes(answer).numbers))
            self._note_sums(tree, self._flags(tree, sums.rejected), numbers)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _party(self) -> Party:
        tree = self._waiting[0]
        if tree.party is None:
            task = self.pair.tree_task(tree.bucket)
            evaluator = self._evaluator(tree.bucket, tree.ids)
            tree.party = Party(task, self.server, self._noise, tree.ids, evaluator, self.pair.asked)
        return tree.party

    def _fix(self, party: Party, rejected: Flags) -> None:
        party.fix(rejected)
        self._rejected = self._suspects = None

    def _take_check(self, tree: _Tree, party: Party, answer: LevelCheckAnswer) -> None:
        own = level_tags(party)
        parts = chunks(len(own))
        suspects = np.zeros(len(own), dtype=bool)
        for number in answer.chunks:
            if number >= len(parts):
                raise InvalidInput(f"there are {len(parts)} chunks of reports; got number {number}")
            suspects[parts[number]] = True
        width = own.shape[1]
        if len(answer.tags) != int(np.count_nonzero(suspects)) * width:
            raise InvalidInput(f"tags have {width} bytes per report of the chunks that differ; got {len(answer.tags)}")
        self._suspects = suspects
        if self.role == "leader":
            other = np.frombuffer(answer.tags, dtype=np.uint8).reshape(-1, width)
            self._rejected = np.zeros(len(own), dtype=bool)
            self._rejected[suspects] = differing(own[suspects], other)

    def _flags(self, tree: _Tree, rejected: bytes) -> Flags:
        """Rejected reports as flags; only reports of chunks that differ can have failed the check."""
        if not rejected:  # as a rule
            return np.zeros(len(tree.ids), dtype=bool)
        wanted = set(split_ids(rejected))
        flags = np.array([report in wanted for report in tree.ids], dtype=bool)
        if np.count_nonzero(flags) != len(wanted):
            raise InvalidInput("rejected names reports that do not take part")
        if self._suspects is not None and (flags & ~self._suspects).any():
            raise InvalidInput("rejected names reports whose tags agree")
        return flags

    def _numbers(self, own: Integers, leader: bytes, helper: bytes) -> Integers:
        first, second = numbers_of(leader), numbers_of(helper)
        mine, other = (first, second) if self.role == "leader" else (second, first)
        _same_length(other, own)
        if not np.array_equal(mine, own):
            raise InvalidInput("the stored numbers are not those that this server computes: its data or key changed")
        return combine(first, second)

    def _note_sums(self, tree: _Tree, rejected: Flags, numbers: Integers) -> None:
        tree.rejected.append(int(np.count_nonzero(rejected)))
        if len(numbers):
            tree.exchanged.append(numbers)

    def _end(self, tree: _Tree, numbers: Integers) -> None:
        tree.final, sums = split_final(numbers, self.pair.asked)
        published = replace(play(self.pair.tree_task(tree.bucket), tree), sums=sums)
        self.trees.append(BucketTree(tree.bucket, published.to_bytes(), tuple(tree.rejected)))
        self._waiting.pop(0)

    def _take_signatures(self, leader: Signature, helper: Signature) -> None:
        signed = SignedTree(self._body, tuple(self.trees), leader.signature, helper.signature)
        for role in ("leader", "helper"):
            if not signed.is_signed_by(role):
                raise InvalidInput(f"the {role}'s signature of the transcript is not valid")
        self.signatures = (leader.signature, helper.signature)

    def _same_place(self, tree: _Tree, bucket: int, level: int) -> None:
        if (bucket, level) != (tree.bucket, tree.level):
            raise InvalidInput(
                f"bucket {tree.bucket} and level {tree.level} are due; the message is for bucket {bucket} and level "
                f"{level}"
            )


def level_tags(party: Party) -> npt.NDArray[np.uint8]:
    """Tags of the level: uint8[n, b]. Reports that were rejected before have zeros: they are not named again."""
    tags, counts = party.tags(), party.counts
    return tags if counts.all() else np.where(counts[:, None], tags, np.uint8(0))


def _share(party: Party) -> Integers:
    """Noisy differences of the level; none if its only cell, the root, is final."""
    return party.share() if party.stage == "sharing" else np.empty(0, dtype=np.int64)


def _same_length(other: Integers, own: Integers) -> None:
    if len(other) != len(own):
        raise InvalidInput(f"this step has {len(own)} numbers; got {len(other)}")
