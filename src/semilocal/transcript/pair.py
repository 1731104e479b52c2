"""Verification of a pair's transcript: everything that anybody can check without the shares.

    what is checked              tokens of differences
    the bytes                    unreadable, unreadable-task, unreadable-tree
    both signatures              bad-signature
    one tree per bucket          wrong-buckets
    trees of the pinned task     other-task, simulated
    the rule and the budgets     wrong-cells
    rejected reports             wrong-rejected
    sums of a value              wrong-sums
    the other server's copy      other-history

No transcript can show that the numbers are honest counts with honest noise: that is what the two operators are trusted
for. Knows the public transcript; no states and no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..arrays import short_repr
from ..errors import InvalidInput
from ..pooled.play import Published, Tree
from ..sharing.machine import replay_tree
from ..sharing.pair import PairTask
from ..sharing.sealing import Role
from ..sharing.wire import BucketTree, SignedTree
from ..words import number_of
from .verify import Difference, difference_lines

_ROLES: tuple[Role, Role] = ("leader", "helper")


@dataclass(eq=False)
class PairVerification:
    """What was checked and what is different."""

    pair: PairTask | None = None  # none if the transcript cannot be read
    published: list[Published] = field(default_factory=list)  # one per bucket, as far as they follow the rule
    trees: list[Tree] = field(default_factory=list)  # the same, replayed
    rejected: tuple[int, int] = (0, 0)  # people whose reports both servers rejected: at the root, and below it
    unnamed: int = 0  # buckets that nobody named; each is a final cell of the map
    differences: list[Difference] = field(default_factory=list)

    __repr__ = short_repr

    @property
    def sound(self) -> bool:
        """Whether nothing is different."""
        return not self.differences

    def add(self, token: str, what: str) -> None:
        """Note a difference."""
        self.differences.append(Difference(token, None, [what]))

    def lines(self) -> list[str]:
        """For a person: what was checked, then every difference."""
        out = []
        if self.pair is not None and self.trees:
            cells, people = sum(len(tree.cells) for tree in self.trees), sum(tree.people for tree in self.trees)
            empty = f", {self.unnamed} of them buckets that nobody named" if self.unnamed else ""
            inside = " inside a bucket" if self.pair.bucket_depth else ""
            out += [
                f"Checked: {number_of(people, 'report')}, {self._rejected()}",
                f"  the rule gives the same {number_of(cells + self.unnamed, 'final cell')} from the same published "
                f"numbers{empty}; task {self.pair.id.hex()[:16]}",
                f"  no path of cells costs more than its budget, epsilon / 2 = {self.pair.pooled.path_budget:g}; any "
                f"change of position{inside} costs two paths, epsilon = {self.pair.pooled.epsilon:g} (delta = 0)",
                *self._value_lines(),
                f"  signatures of {self.pair.leader.name} and {self.pair.helper.name}, by the keys that the task names",
            ]
        return out + difference_lines(self.differences)

    def _rejected(self) -> str:
        first, later = self.rejected
        if not first + later:
            return "nobody rejected"
        inside = f", {later:,} of them below the root: they are in the number of reports and in no opened cell"
        return f"{first + later:,} people rejected: their uploads failed the check{inside if later else ''}"

    def _value_lines(self) -> list[str]:
        assert self.pair is not None
        if self.pair.asked is None:
            return []
        return [
            f"  one sum of {self.pair.asked.words} for each of them: epsilon = {self.pair.pooled.epsilon:g} "
            f"(delta = 0) for any change of place and value; together {self.pair.loss_words}"
        ]


def verify_pair(data: bytes, *, task: bytes | None = None, other: bytes | None = None) -> PairVerification:
    """Replay a pair's transcript (bytes of :class:`SignedTree`) and name everything that does not follow.

    It must be of the ``task`` that was asked for (its id), and the same as the ``other`` server shows it, if these are
    given.
    """
    found = PairVerification()
    try:
        signed = SignedTree.from_bytes(data)
    except InvalidInput as error:
        found.add("unreadable", str(error))
        return found
    try:
        found.pair = pair = signed.task
    except InvalidInput as error:
        found.add("unreadable-task", str(error))
        return found
    if task is not None and task != pair.id:
        found.add("other-task", "the transcript is of another task than the one that was asked for")
    for role in _ROLES:
        if not signed.is_signed_by(role):
            name = pair.operator(role).name
            found.add("bad-signature", f"the {role}'s signature is not that of {name} over this task and these numbers")
    _check_buckets(found, pair, signed.trees)
    first = sum(sum(tree.rejected[:1]) for tree in signed.trees)
    found.rejected = first, sum(sum(tree.rejected) for tree in signed.trees) - first
    found.unnamed = len(pair.unnamed_buckets(tree.bucket for tree in signed.trees))
    for tree in signed.trees:
        _check_tree(found, pair, tree)
    if other is not None and other != data:
        found.add("other-history", "the two servers show different transcripts of the same task")
    return found


def _check_buckets(found: PairVerification, pair: PairTask, trees: Sequence[BucketTree]) -> None:
    if not pair.bucket_depth and [tree.bucket for tree in trees] != [1]:
        found.add("wrong-buckets", f"the task has no buckets, but the transcript has {len(trees)} trees")
        return
    for tree in trees:
        try:
            pair.check_bucket(tree.bucket)
        except InvalidInput as error:
            found.add("wrong-buckets", str(error))


def _check_tree(found: PairVerification, pair: PairTask, tree: BucketTree) -> None:
    where = f"bucket {tree.bucket}: " if pair.bucket_depth else ""
    try:
        pair.check_bucket(tree.bucket)
    except InvalidInput:
        return  # noted before
    replayed = replay_tree(pair, tree, lambda token, what: found.add(token, f"{where}{what}"))
    if replayed is not None:
        found.published.append(replayed[0])
        found.trees.append(replayed[1])
