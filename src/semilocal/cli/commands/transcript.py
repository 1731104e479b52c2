"""``semilocal transcript``: download the transcript of a campaign."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from ...io.files import check_outputs
from ...sharing import is_signed_tree
from ...words import number_of
from ..catalogue import DONE
from ..options import file, option, server_url

__all__ = ["run"]


def run(
    url: Annotated[str, option("the server", "URL", server_url)],
    campaign: Annotated[str, option("the task's id (64 hex digits) or the campaign's name")],
    /,
    *,
    out: Annotated[Path, file("where it goes")] = Path("transcript.slt"),
) -> int:
    """Download."""
    from ...device.download import save_transcript

    check_outputs({"--out": (out, ())})
    rounds = save_transcript(url, campaign, out)
    data = out.read_bytes()
    what = "published by two servers" if is_signed_tree(data) else number_of(rounds, "closed round")
    print(f"{out}: {what}, {number_of(len(data), 'byte')}. Check it: semilocal verify {shlex.quote(str(out))}")
    return DONE
