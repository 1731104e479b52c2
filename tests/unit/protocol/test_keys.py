"""Derived bytes change with everything they are derived from; the hash chain fixes the server's part of draws."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from semilocal.errors import InvalidInput
from semilocal.protocol.keys import HashChain, derive, nonce, pseudonym, report_entropy, value_entropy

SECRET, OTHER, TASK = b"s" * 32, b"o" * 32, b"t" * 32


def test_derived_bytes_are_hmacs_of_a_counter_and_a_label() -> None:
    first = hmac.digest(SECRET, bytes(4) + b"label", hashlib.sha256)
    second = hmac.digest(SECRET, bytes([0, 0, 0, 1]) + b"label", hashlib.sha256)
    assert derive(SECRET, b"label", 40) == (first + second)[:40]


def test_noise_changes_with_secret_task_round_region_and_cut() -> None:
    found = {
        report_entropy(SECRET, TASK, 1, (8, 16), (10,), 1),
        report_entropy(OTHER, TASK, 1, (8, 16), (10,), 1),
        report_entropy(SECRET, OTHER, 1, (8, 16), (10,), 1),
        report_entropy(SECRET, TASK, 2, (8, 16), (10,), 1),
        report_entropy(SECRET, TASK, 1, (8, 12), (10,), 1),
        report_entropy(SECRET, TASK, 1, (9, 16), (10,), 1),
        report_entropy(SECRET, TASK, 1, (8, 16), (11,), 1),
        report_entropy(SECRET, TASK, 1, (8, 16), (10, 11), 1),
    }
    assert len(found) == 8
    assert {len(one) for one in found} == {8}
    assert report_entropy(SECRET, TASK, 1, (8, 16), (10,), 1) in found


def test_values_nonces_and_names_are_their_own() -> None:
    values = {value_entropy(secret, TASK, plan, index, region) for secret in (SECRET, OTHER)
              for plan in (TASK, OTHER) for index in (0, 1) for region in ((8, 16), (8, 12))}  # fmt: skip
    assert len(values) == 16
    nonces = {nonce(secret, task, round_) for secret in (SECRET, OTHER) for task in (TASK, OTHER) for round_ in (1, 2)}
    assert len(nonces) == 8
    assert {len(one) for one in nonces} == {16}
    assert len({pseudonym(secret, task) for secret in (SECRET, OTHER) for task in (TASK, OTHER)}) == 4


def test_a_chain_leads_back_to_its_end_and_nothing_else_does() -> None:
    chain = HashChain(SECRET, 20)
    before = chain.end
    for round_ in range(1, 21):
        preimage = chain.preimage(round_)
        assert HashChain.goes_on(before, preimage)
        assert not HashChain.goes_on(before, OTHER)
        assert not HashChain.goes_on(before, b"")
        before = preimage
    assert before == SECRET  # the last one is the seed
    assert chain.preimage(2) != HashChain(SECRET, 19).preimage(2)
    assert HashChain.goes_on(b"", b"")
    assert not HashChain.goes_on(b"", bytes(32))
    with pytest.raises(InvalidInput, match="32 bytes"):
        HashChain(b"short", 3)
