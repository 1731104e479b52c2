"""``semilocal evaluate``: another machine for one side of two servers."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from ...service.stopping import Stop
from ..catalogue import DONE
from ..options import number, option, whole

__all__ = ["run"]


def run(
    *,
    db: str,
    processes: Annotated[int | None, option(whole(1, 256), "N")] = None,
    key_file: Annotated[str | None, option(metavar="FILE")] = None,
    lease: Annotated[float, option(number(0, above=True), "SECONDS")] = 10.0,
    log_level: Literal["debug", "info", "warning", "error"] = "info",
) -> int:
    """Evaluate reports of pairs until stopped (experimental), beside a server with `--role` on the same database.

    It holds the signing keys and sees this server's shares: run it on machines of this operator only.

    Parameters
    ----------
    db
        the server's database: postgresql://…, or sqlite:///file on the server's machine
    processes
        how many; all cores if left out
    key_file
        the server's signing keys, one per line; where `serve` looks for them if left out
    lease
        others take over the work of a process that died after this time
    log_level
        what to write to the log
    """
    with Stop() as stop:
        from ...service.evaluate import evaluate
        from ...service.keys import ENVIRONMENT

        cores = processes or os.cpu_count() or 1
        evaluate(
            db, processes=cores, keys_in=key_file, environment=os.environ.get(ENVIRONMENT, ""), lease=lease,
            log_level=log_level, stop=stop,
        )  # fmt: skip
    return DONE
