"""``semilocal verify``: replay a transcript and name everything that does not follow."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ...errors import InvalidInput
from ...pooled.play import Published
from ...release.pooled_counts import pooled_counts
from ..arguments import existing_file
from ..exits import DONE, FOUND

__all__ = ["add_arguments", "run"]

POOLED_TAG = b"pooled-tree"
_START = 64


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

    if (published := _pooled_bytes(args.file)) is not None:
        if args.vault is not None or args.against is not None:
            raise InvalidInput(f"{args.file} is the transcript of a pooled run: --vault and --against do not apply")
        return _verify_pooled(published)
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


def _pooled_bytes(path: Path) -> bytes | None:
    """What a pooled run published, if that is what the file holds."""
    with path.open("rb") as stream:
        start = stream.read(_START)
        return start + stream.read() if POOLED_TAG in start else None


def _verify_pooled(data: bytes) -> int:
    """Replay the rule over the published numbers."""
    try:
        published = Published.from_bytes(data)
        counted = pooled_counts(published)
    except InvalidInput as error:
        print(f"DIFFERENT: {error}")
        return FOUND
    print(
        f"the rule gives the same {len(counted.partition):,} final cells from the same published numbers; "
        f"{counted.total:,} reports, task {published.task.id.hex()[:16]}"
    )
    print("That the published numbers are honest counts with honest noise, no transcript can show.")
    print(counted.guarantee.text())
    return DONE
