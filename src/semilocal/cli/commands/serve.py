"""``semilocal serve``: run the collection server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ...errors import InvalidInput
from ...io.basemap import read_basemap
from ...service.stopping import Stop
from ..catalogue import DONE
from ..options import ADVANCED, FILE, TWO_SERVERS, flat, option, whole

__all__ = ["DEFAULT_DB", "PairServer", "run"]

DEFAULT_DB = "sqlite:///semilocal.db"
PAGE = "semilocal.page.routes:OPERATIONS"
PAGE_WITH_BASEMAP = "semilocal.page.routes:with_basemap"


@flat
@dataclass(frozen=True, kw_only=True)
class PairServer:
    """The part of this server in pairs of two servers.

    Attributes
    ----------
    role
        take part in pairs of two servers
    operator
        who runs this server, as devices see it
    origin
        where devices reach this server; where it listens if left out
    peer
        the helper; for the leader
    peer_key
        the leader's signing key, as its operator told you; for the helper, which takes no other leader's pairs
    processes
        for the evaluation; all cores if left out
    """

    role: Annotated[Literal["leader", "helper"] | None, TWO_SERVERS] = None
    operator: Annotated[str | None, option(metavar="NAME"), TWO_SERVERS] = None
    origin: Annotated[str | None, option(metavar="URL"), TWO_SERVERS] = None
    peer: Annotated[str | None, option(metavar="URL"), TWO_SERVERS] = None
    peer_key: Annotated[str | None, option(metavar="HEX"), TWO_SERVERS] = None
    processes: Annotated[int | None, option(whole(1, 256), "N"), TWO_SERVERS] = None


def run(
    *,
    db: str = DEFAULT_DB,
    workers: Annotated[int, option(whole(1, 64), "N")] = 1,
    host: str = "127.0.0.1",
    port: Annotated[int, option(whole(0, 65535), "PORT")] = 8000,
    basemap: Annotated[Path | None, FILE] = None,
    key_file: Annotated[str | None, option(metavar="FILE"), ADVANCED] = None,
    new_key: Annotated[bool, ADVANCED] = False,
    log_level: Annotated[Literal["debug", "info", "warning", "error"], ADVANCED] = "info",
    access_log: Annotated[bool, ADVANCED] = False,
    part: PairServer = PairServer(),
) -> int:
    """Serve until stopped.

    Parameters
    ----------
    db
        sqlite:///file or postgresql://…
    workers
        processes; more than one needs PostgreSQL
    host
        address to listen at
    port
        0 takes a free one
    log_level
        what to write to the log
    access_log
        for debugging: log every request with its time, without address and pseudonym
    key_file
        the signing keys, one per line; beside the database if left out
    new_key
        make a new signing key for campaigns from now on
    basemap
        lines behind the maps of the page, GeoJSON; else the coast
    """
    with Stop() as stop:
        from ...service.pair.form import PairSettings
        from ...service.server import serve

        pair = None
        if part.role is not None:
            if not part.operator:
                raise InvalidInput("--role needs --operator NAME: devices are shown who runs each of the two servers")
            cores = part.processes or os.cpu_count() or 1
            origin, peer = (part.origin or "").rstrip("/"), part.peer or ""
            pair = PairSettings(part.role, part.operator, origin, peer, cores, part.peer_key or "")
        elif part != PairServer():
            raise InvalidInput(
                "--operator, --origin, --peer, --peer-key and --processes belong to --role leader or --role helper"
            )
        more = PAGE
        if basemap is not None:
            read_basemap(basemap)  # refused before anything is opened
            more = f"{PAGE_WITH_BASEMAP}={basemap.resolve()}"
        serve(
            db, host=host, port=port, workers=workers, log_level=log_level, access_log=access_log, keys_in=key_file,
            new_key=new_key, more=more, pair=pair, stop=stop,
        )  # fmt: skip
    return DONE
