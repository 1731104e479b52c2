"""Commands write nothing but what the transcript tells, and a command that writes more is caught."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.audit.outputs import COMMANDS, FILE, OPTIONS, Job, Worlds, differing, equal_worlds, outputs_of
from semilocal.errors import InvalidInput


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    return equal_worlds(np.random.default_rng(3))


def test_equal_transcripts_give_equal_bytes(worlds: Worlds) -> None:
    assert dict(zip(COMMANDS, differing(COMMANDS, worlds), strict=True)) == {command: [] for command in COMMANDS}


def test_shares_of_moved_participants_would_be_seen(worlds: Worlds) -> None:
    """The planted leak: with --public-data a command may say how many were moved, and does."""
    leaky = [(*command, "--public-data") for command in COMMANDS if command[0] != "mean"]
    for command, names in zip(leaky, differing(leaky, worlds), strict=True):
        assert "stdout" in names, command


def test_a_picture_shows_no_positions(worlds: Worlds) -> None:
    pytest.importorskip("matplotlib")
    command = ("partition", FILE, *OPTIONS, "--tau", "0.3", "--plot", "regions.png")
    stayed, moved = outputs_of([Job(command, people, worlds.seed) for people in (worlds.stayed, worlds.moved)])
    assert {"stdout", "stderr", "regions.png"} <= stayed.keys()
    assert stayed == moved


def test_other_transcripts_are_not_called_equal(worlds: Worlds) -> None:
    """The comparison sees a difference: with another seed the counts are others."""
    one, other = outputs_of([Job(COMMANDS[2], worlds.stayed, worlds.seed + more) for more in (0, 1)])
    assert one != other


def test_a_command_that_fails_is_no_finding(worlds: Worlds) -> None:
    with pytest.raises(InvalidInput, match=r"counts no-such-file\.csv .* failed: "):
        outputs_of([Job(("counts", "no-such-file.csv", *OPTIONS), worlds.stayed, worlds.seed)])
