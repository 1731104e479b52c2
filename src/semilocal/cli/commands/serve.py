"""``semilocal serve``: run the collection server; ``semilocal backup``: a checked copy of its database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from ...errors import InvalidInput
from ...service.stopping import Stop
from ...service.stores.base import check_url
from ...words import number_of
from ..catalogue import DONE
from ..options import advanced, file, flat, option, two_servers, whole

DEFAULT_DB = "sqlite:///semilocal.db"
_COPIED = {
    "campaigns": "campaign", "pairs": "pair", "participants": "participant", "reports": "report",
    "pair_uploads": "upload",
}  # fmt: skip


@flat
class PairServer:
    """The part of this server in pairs of two servers."""

    role: Annotated[Literal["leader", "helper"] | None, two_servers("take part in pairs of two servers")] = None
    operator: Annotated[str | None, two_servers("who runs this server, as devices see it", "NAME")] = None
    origin: Annotated[str | None, two_servers("where devices reach this server (where it listens)", "URL")] = None
    peer: Annotated[str | None, two_servers("the helper; for the leader", "URL")] = None
    peer_key: Annotated[
        str | None,
        two_servers(
            "the leader's signing key, as its operator told you; for the helper, which takes no other leader's pairs",
            "HEX",
        ),
    ] = None
    processes: Annotated[int | None, two_servers("for the evaluation (all cores)", "N", whole(1, 256))] = None


def run(
    *,
    db: Annotated[str, option("sqlite:///file or postgresql://…")] = DEFAULT_DB,
    host: Annotated[str, option("address to listen at")] = "127.0.0.1",
    port: Annotated[int, option("0 takes a free one", "PORT", whole(0, 65535))] = 8000,
    key_file: Annotated[str | None, advanced("the signing keys, one per line (beside the database)", "FILE")] = None,
    new_key: Annotated[bool, advanced("make a new signing key for campaigns from now on")] = False,
    log_level: Annotated[Literal["debug", "info", "warning", "error"], advanced("what to write to the log")] = "info",
    part: PairServer = PairServer(),
) -> int:
    """Serve until stopped."""
    with Stop() as stop:
        from ...page.routes import OPERATIONS
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
        serve(
            db, host=host, port=port, log_level=log_level, keys_in=key_file, new_key=new_key, more=OPERATIONS,
            pair=pair, stop=stop,
        )  # fmt: skip
    return DONE


def run_backup(
    *,
    out: Annotated[Path, file("the copy; an earlier one is replaced in one step")],
    db: Annotated[str, option("sqlite:///file")] = DEFAULT_DB,
) -> int:
    """Copy a SQLite database, also while it is served, for its owner alone (0600), and check the copy."""
    kind, address = check_url(db)
    if kind == "postgres":
        raise InvalidInput(
            "PostgreSQL is backed up by its own programs: continuous archiving or a standby while campaigns run, "
            "pg_dump (umask 077, then pg_restore --list) between them; see docs/howto/deploy.md"
        )
    from ...service.stores.sqlite import back_up

    rows = back_up(address, out)
    found = ", ".join(number_of(rows[table], word) for table, word in _COPIED.items() if rows[table])
    print(f"wrote {out}, checked: {found or 'no campaign yet'}; the signing keys are not in it")
    return DONE
