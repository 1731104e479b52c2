"""``semilocal tokens new``: one-time enrolment tokens."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App

from .. import server
from ..arguments import not_empty, whole
from ..exits import DONE
from ..options import option

__all__ = ["app"]

app = App(name="tokens", help_format="markdown")


@app.command
def new(
    *,
    count: Annotated[int, option(whole(1, 10**7), "N")],
    campaign: Annotated[
        str, option(not_empty, metavar="CAMPAIGN", help=f"{server.CAMPAIGN_HELP}; not needed if there is only one")
    ] = "",
    office: server.Office = server.Office(),
) -> int:
    """Print new tokens, one per line.

    Parameters
    ----------
    count
        how many
    """
    with server.connect(office) as client:
        for token in client.tokens(client.find(campaign), count):
            print(token)
    return DONE
