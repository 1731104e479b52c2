"""Commands write nothing but what the transcript tells, and a command that writes more is caught."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.audit.outputs import COMMANDS, FILE, OPTIONS, Worlds, differing, equal_worlds, outputs_of


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    return equal_worlds(np.random.default_rng(3))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join((command[0], *command[-2:])))
def test_equal_transcripts_give_equal_bytes(command: tuple[str, ...], worlds: Worlds) -> None:
    assert differing(command, worlds) == []


@pytest.mark.parametrize("command", [command for command in COMMANDS if command[0] != "mean"], ids=" ".join)
def test_shares_of_moved_participants_would_be_seen(command: tuple[str, ...], worlds: Worlds) -> None:
    """The planted leak: with --public-data a command may say how many were moved, and does."""
    assert "stdout" in differing((*command, "--public-data"), worlds)


def test_a_picture_shows_no_positions(worlds: Worlds) -> None:
    pytest.importorskip("matplotlib")
    command = ("partition", FILE, *OPTIONS, "--tau", "0.3", "--plot", "regions.png")
    assert "regions.png" in outputs_of(command, worlds.stayed, worlds.seed)
    assert differing(command, worlds) == []


def test_other_transcripts_are_not_called_equal(worlds: Worlds) -> None:
    """The comparison sees a difference: with another seed the counts are others."""
    other = outputs_of(COMMANDS[2], worlds.stayed, worlds.seed + 1)
    assert other != outputs_of(COMMANDS[2], worlds.stayed, worlds.seed)
