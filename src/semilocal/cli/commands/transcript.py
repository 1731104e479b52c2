"""``semilocal transcript``: download the transcript of a campaign."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...io.files import check_outputs, replacing
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
    from ...sharing.pair import is_pair_task
    from ...transcript.download import save_transcript
    from ..admin_client import AdminClient

    check_outputs({"--out": (args.out, ())})
    with AdminClient(args.url) as client:
        task = client.find(args.campaign)
        pair = client.transcript(task) if is_pair_task(client.task(task)) else None
    if pair is not None:
        with replacing(args.out) as stream:
            stream.write(pair)
        what = "both servers' signatures"
    else:
        what = f"{save_transcript(args.url, task, args.out)} closed rounds"
    size = args.out.stat().st_size
    print(f"{args.out}: {what}, {size} bytes. Check it: semilocal verify {args.out}")
    return DONE
