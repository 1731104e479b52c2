"""``semilocal verify``: replay a transcript and name everything that does not follow."""

from __future__ import annotations

import argparse
import time

from ..arguments import existing_file
from ..exits import DONE, FOUND

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("file", metavar="FILE", type=existing_file, help="a transcript (.slt)")
    parser.add_argument(
        "--vault",
        metavar="FILE",
        type=existing_file,
        help="also check that it holds what this device sent, and no more",
    )
    parser.add_argument(
        "--against", metavar="FILE", type=existing_file, help="another transcript of the same task: two histories?"
    )


def run(args: argparse.Namespace) -> int:
    """Verify; 1 if anything is different."""
    from ...transcript.verify import Own, compare_histories, verify_file

    own: tuple[Own, ...] | None = None
    if args.vault is not None:
        from ...device.vault import read_vault

        own = read_vault(args.vault).own()
    begin = time.perf_counter()
    found = verify_file(args.file, own=own)
    seconds = max(time.perf_counter() - begin, 1e-9)
    if args.against is not None:
        found.differences += compare_histories(found, verify_file(args.against))
    print("\n".join(found.lines()))
    print(f"{found.reports / seconds:,.0f} reports per second")
    return DONE if found.sound else FOUND
