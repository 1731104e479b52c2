"""The device: a vault that keeps its word across crashes, an agent that follows a campaign, an upload to two servers.

    with Vault.open("vault") as vault:
        summary = await Agent(url, vault, position=(37.77, -122.42), policy=Policy(max_epsilon=10), token=token).run()

The agent needs the extra "device" (httpx2); it is loaded at first use, so that the command line starts without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import Unreachable, VaultError

if TYPE_CHECKING:
    from .agent import Agent
    from .channel import Channel
    from .summary import Summary
    from .swarm import SwarmResult, run_swarm
    from .upload import Uploader
    from .vault import Vault

_HOMES = {
    "Agent": "agent", "Channel": "channel", "Summary": "summary", "SwarmResult": "swarm", "Uploader": "upload",
    "Vault": "vault", "run_swarm": "swarm",
}  # fmt: skip
__all__ = ["Agent", "Channel", "Summary", "SwarmResult", "Unreachable", "Uploader", "Vault", "VaultError", "run_swarm"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
