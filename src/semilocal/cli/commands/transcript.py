"""``semilocal transcript``: download the transcript of a campaign."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...io.files import check_outputs
from ...sharing.kinds import is_signed_tree
from ..arguments import server_url
from ..exits import DONE

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("url", metavar="URL", type=server_url, help="the server")
    parser.add_argument("campaign", metavar="CAMPAIGN", help="the task's id (64 hex digits) or the campaign's name")
    parser.add_argument("--out", metavar="FILE", type=Path, default=Path("transcript.slt"), help="(%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Download."""
    from ...transcript.download import save_transcript

    check_outputs({"--out": (args.out, ())})
    rounds = save_transcript(args.url, args.campaign, args.out)
    data = args.out.read_bytes()
    what = "published by two servers" if is_signed_tree(data) else f"{rounds} closed rounds"
    print(f"{args.out}: {what}, {len(data)} bytes. Check it: semilocal verify {args.out}")
    return DONE
