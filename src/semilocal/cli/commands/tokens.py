"""``semilocal tokens new``: one-time enrolment tokens."""

from __future__ import annotations

from typing import Annotated

from .. import admin
from ..catalogue import DONE
from ..options import not_empty, option, whole

__all__ = ["run_new"]


def run_new(
    *,
    count: Annotated[int, option("how many", "N", whole(1, 10**7))],
    campaign: Annotated[str, option(f"{admin.CAMPAIGN}; not needed if there is only one", "CAMPAIGN", not_empty)] = "",
    office: admin.Office = admin.Office(),
) -> int:
    """Print new tokens, one per line."""
    with admin.connect(office) as client:
        task = client.find(campaign).task
        for start in range(0, count, admin.PAGE):  # what was made is printed, whatever happens to the rest
            print(*client.tokens(task, min(admin.PAGE, count - start)), sep="\n", flush=True)
    return DONE
