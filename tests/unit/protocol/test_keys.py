"""The hash chain fixes the server's part of draws; derived bytes are in the vectors (test_vectors.py)."""

from __future__ import annotations

import pytest

from semilocal.errors import InvalidInput
from semilocal.protocol.keys import HashChain

SECRET, OTHER = b"s" * 32, b"o" * 32


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
