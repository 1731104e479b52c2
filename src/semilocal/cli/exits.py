"""Exit codes: one table for all commands.

Knows numbers and what they mean. A test compares the table with real runs of every command.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["BAD_INPUT", "DONE", "EXIT_CODES", "FOUND", "FOUND_MEANS", "STOPPED"]

DONE = 0
FOUND = 1
BAD_INPUT = 2
STOPPED = 130

EXIT_CODES: Mapping[int, str] = MappingProxyType(
    {
        DONE: "done",
        FOUND: "a check found something",
        BAD_INPUT: "bad input, or something that is needed is missing or does not answer; one line on stderr says what",
        STOPPED: "stopped with Ctrl-C",
    }
)
# The commands that check something. All others end with 0 or 2.
FOUND_MEANS: Mapping[str, str] = MappingProxyType(
    {
        "verify": "the transcript does not follow from what was sent",
        "audit": "a claim is broken, or a planted fault was not caught",
        "plan": "no epsilon reaches the wanted error",
        "join": "the device refused, was lost or did not finish: it has no region, or no receipt of its upload",
        "swarm": "not every device has a region, or a receipt",
    }
)
