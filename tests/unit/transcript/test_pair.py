"""A pair's transcript is replayed; every change of it is found, with the reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from semilocal.release.counts import pooled_counts
from semilocal.sharing import is_pair_task, is_signed_tree
from semilocal.sharing.pair import PairTask
from semilocal.sharing.wire import BucketTree, SignedTree
from semilocal.testing import secret
from semilocal.transcript.pair import verify_pair
from tests.helpers.fake_pair import POOLED, published_numbers, sample_pair, signed_tree

PAIR = sample_pair()


PUBLISHED = published_numbers()
LEVELS = len(PUBLISHED.opened)


def signed(pair: PairTask = PAIR, trees: tuple[BucketTree, ...] | None = None) -> SignedTree:
    """A transcript that both servers sign, whatever is in it."""
    return signed_tree(pair, trees or (BucketTree(1, PUBLISHED.to_bytes(), (0,) * LEVELS),))


def tokens(data: bytes, **options: Any) -> list[str]:
    return [difference.token for difference in verify_pair(data, **options).differences]


def record(**changes: Any) -> bytes:
    """The published numbers with some fields replaced, in canonical form."""
    fields = msgspec.msgpack.decode(PUBLISHED.to_bytes())
    return msgspec.msgpack.encode({name: changes.get(name, value) for name, value in fields.items()})


def first_changed(rows: Any, by: int = 1) -> Any:
    """The list of lists with its first number changed."""
    copy = [list(row) for row in rows]
    copy[0][0] += by
    return copy


def test_an_honest_transcript_has_no_difference_and_gives_the_result() -> None:
    data = signed().to_bytes()
    assert is_signed_tree(data)
    assert not is_signed_tree(PUBLISHED.to_bytes())
    assert is_pair_task(PAIR.to_bytes())
    assert not is_pair_task(POOLED.to_bytes())
    found = verify_pair(data, other=data)
    assert found.sound, found.differences
    assert LEVELS > 3
    assert found.published[0].to_bytes() == PUBLISHED.to_bytes()
    assert pooled_counts(found.published[0]).total == 2_000
    text = "\n".join(found.lines())
    assert found.lines()[0] == "Checked: 2,000 reports, nobody rejected"
    assert "City" in text
    assert "University" in text
    assert "No difference" in text


def test_the_first_line_says_how_many_people_were_rejected() -> None:
    """Of those below the root the number of reports does not tell: it stays as it is."""
    tree = BucketTree(1, PUBLISHED.to_bytes(), (3, 2, *[0] * (LEVELS - 2)))
    first = verify_pair(signed(trees=(tree,)).to_bytes()).lines()[0]
    assert first.startswith("Checked: 2,000 reports, 5 people rejected: their uploads failed the check, 2 of them")


# -- signatures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["leader", "helper"])
def test_a_missing_or_foreign_signature_is_named_with_its_operator(role: str) -> None:
    for forged in (bytes(64), SignedTree.signature_by(secret(99), PAIR.to_bytes(), signed().trees)):
        found = verify_pair(msgspec.structs.replace(signed(), **{f"{role}_signature": forged}).to_bytes())
        (difference,) = found.differences
        assert difference.token == "bad-signature"
        assert getattr(PAIR, role).name in difference.what


def test_swapped_signatures_are_found() -> None:
    honest = signed()
    swapped = msgspec.structs.replace(
        honest, leader_signature=honest.helper_signature, helper_signature=honest.leader_signature
    )
    assert tokens(swapped.to_bytes()) == ["bad-signature", "bad-signature"]


# -- two servers that sign what does not follow ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "token"),
    [
        ("people", 3, "wrong-cells"),
        ("people", -1, "wrong-cells"),
        ("opened", first_changed([level.tolist() for level in PUBLISHED.opened]), "wrong-cells"),
        ("opened", [level.tolist() for level in PUBLISHED.opened][:-1], "wrong-cells"),
        ("differences", first_changed([level.tolist() for level in PUBLISHED.differences], -4_000), "wrong-cells"),
        ("differences", [level.tolist() for level in PUBLISHED.differences][:-1], "wrong-cells"),
        ("cells", PUBLISHED.cells.tolist()[:-1], "wrong-cells"),
        ("counts", PUBLISHED.counts.tolist()[:-1], "wrong-cells"),
        ("counts", [2**63 - 1, *PUBLISHED.counts.tolist()[1:]], "wrong-cells"),
        ("counts", ["many"], "unreadable-tree"),
        ("simulated", True, "simulated"),
        ("task", msgspec.to_builtins(msgspec.structs.replace(POOLED, epsilon=1.0)), "other-task"),
        ("task", msgspec.to_builtins(msgspec.structs.replace(POOLED, label="x")), "other-task"),
        ("task", {}, "unreadable-tree"),
    ],
)
def test_signed_numbers_that_do_not_follow_the_rule_are_found(name: str, value: Any, token: str) -> None:
    tree = BucketTree(1, record(**{name: value}), (0,) * LEVELS)
    assert tokens(signed(trees=(tree,)).to_bytes()) == [token]


@pytest.mark.parametrize("rejected", [(), (0,) * (LEVELS - 1), (0,) * (LEVELS + 1)])
def test_rejected_reports_must_be_given_for_every_level(rejected: tuple[int, ...]) -> None:
    assert tokens(signed(trees=(BucketTree(1, PUBLISHED.to_bytes(), rejected),)).to_bytes()) == ["wrong-rejected"]


def test_a_task_without_buckets_has_one_tree() -> None:
    (tree,) = signed().trees
    second = msgspec.structs.replace(tree, bucket=2)
    for trees in ((), (tree, second), (second,)):
        assert "wrong-buckets" in tokens(signed_tree(PAIR, trees).to_bytes())


def test_bytes_that_are_no_transcript_are_named() -> None:
    data = signed().to_bytes()
    for broken in (b"", data[:-1], data + b"\0", data.replace(b"signed-tree", b"singed-tree"), PUBLISHED.to_bytes()):
        assert tokens(broken) == ["unreadable"]
    assert tokens(msgspec.structs.replace(signed(), pair=b"\x80").to_bytes()) == ["unreadable-task"]


def test_two_servers_that_show_different_transcripts_are_found() -> None:
    other = signed(trees=(BucketTree(1, published_numbers(2).to_bytes(), (0,) * len(published_numbers(2).opened)),))
    assert tokens(other.to_bytes()) == []
    assert tokens(signed().to_bytes(), other=other.to_bytes()) == ["other-history"]


def test_a_transcript_of_another_task_than_asked_for_is_named() -> None:
    assert tokens(signed().to_bytes(), task=PAIR.id) == []
    assert tokens(signed().to_bytes(), task=bytes(32)) == ["other-task"]
