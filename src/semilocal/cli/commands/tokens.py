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
    from ..admin_client import PAGE

    with server.connect(office) as client:
        task = client.find(campaign)
        for start in range(0, count, PAGE):  # what was made is printed, whatever happens to the rest
            print(*client.tokens(task, min(PAGE, count - start)), sep="\n", flush=True)
    return DONE
