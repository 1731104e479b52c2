"""Every command: its group in the help, one line about it, examples, and what exit code 1 means.

Knows words, and where the function of each is in ``cli.commands``; none is loaded here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

DONE = 0
FOUND = 1
BAD_INPUT = 2
STOPPED = 130

EXIT_CODES: Mapping[int, str] = {
    DONE: "done",
    FOUND: "a check found something",
    BAD_INPUT: "bad input, or something that is needed is missing or does not answer; one line on stderr says what",
    STOPPED: "stopped with Ctrl-C",
}


class Command(NamedTuple):
    """What the help says about a command, or about one of its actions; ``place`` is module and function."""

    place: str
    about: str
    examples: tuple[str, ...] = ()
    found: str = ""  # when it ends with 1; empty for commands that check nothing, which end with 0 or 2
    actions: Mapping[str, Command] = MappingProxyType({})


_ASK: dict[str, Command] = {
    "partition": Command(
        "ask:run_partition", "cut the domain into regions, small where many people are",
        ("semilocal partition homes.csv --bounds california --trust curator --epsilon 1 --html map.html",
         "semilocal partition homes.csv --bounds california --trust nobody --epsilon 2 --out regions.geojson"),
    ),
    "counts": Command(
        "ask:run_counts", "how many people are in boxes, with intervals",
        ("semilocal counts homes.csv --bounds california --trust curator --epsilon 1 --grid 32x32 --html map.html",
         "semilocal counts rides.csv --user taxi_id --bounds porto --trust nobody --epsilon 2 "
         "--queries districts.geojson --out counts.csv"),
    ),
    "mean": Command(
        "ask:run_mean", "the mean of a function of the positions, with its error",
        ("semilocal mean homes.csv --bounds california --trust curator --epsilon 1 --function coordinate:latitude",
         "semilocal mean rides.csv --bounds porto --trust nobody --epsilon 2 --value fare --range 0,100"),
    ),
    "points": Command(
        "ask:run_points", "positions to train on: centres of regions, or made-up ones",
        ("semilocal points homes.csv --bounds california --trust curator --epsilon 1 --out points.csv",
         "semilocal points homes.csv --bounds california --trust nobody --epsilon 2 --out centres.csv"),
    ),
    "demo": Command(
        "demo:run",
        "one question to a public sample under each kind of trust; --live, --two-servers: with devices",
        ("semilocal demo", "semilocal demo --live --out demo-live"),
    ),
}  # fmt: skip
_COLLECT: dict[str, Command] = {
    "serve": Command(
        "serve:run", "run the collection server",
        ("semilocal serve", "semilocal serve --host 0.0.0.0 --db postgresql://localhost/semilocal"),
    ),
    "backup": Command(
        "serve:run_backup", "copy a server's database while it is served, and check the copy",
        ("semilocal backup --db sqlite:////var/lib/semilocal/service.db --out backup.db",),
    ),
    "campaign": Command(
        "", "create, list, show, start or close campaigns on a server",
        actions={
            "create": Command(
                "campaign:run_create", "create a campaign",
                ("semilocal campaign create --name walkers --bounds california --epsilon 2 --k 20 --delta 1e-6",
                 "semilocal campaign create --name fares --bounds porto --trust two-servers --epsilon 1 "
                 "--peer-key 5f0c… --release mean:own:fare:0,100"),
            ),
            "list": Command("campaign:run_list", "all campaigns", ("semilocal campaign list",)),
            "show": Command(
                "campaign:run_show", "where a campaign stands, and its promise",
                ("semilocal campaign show walkers",),
            ),
            "confirm": Command(
                "campaign:run_confirm", "two servers: agree to a pair, as the operator of this server",
                ("semilocal campaign confirm fares --peer-key 5f0c…",),
            ),
            "start": Command(
                "campaign:run_start", "end enrolment and open round 1; two servers: end uploads and count",
                ("semilocal campaign start walkers",),
            ),
            "close": Command("campaign:run_close", "cancel a running campaign", ("semilocal campaign close walkers",)),
        },
    ),
    "tokens": Command(
        "", "make one-time enrolment tokens for a campaign",
        actions={
            "new": Command(
                "campaign:run_tokens", "print new tokens, one per line",
                ("semilocal tokens new --count 100 --campaign walkers",),
            ),
        },
    ),
    "join": Command(
        "join:run", "take part in a campaign with one position",
        ("semilocal join https://count.example.org --position - --token @token.txt --max-epsilon 2",),
        "the device refused, was lost or did not finish: it has no region, or no receipt of its upload",
    ),
    "swarm": Command(
        "join:run_swarm", "run many simulated devices in a campaign, for tests",
        ("semilocal swarm http://127.0.0.1:8000 --points homes.csv --devices 500",),
        "not every device has a region, or a receipt",
    ),
    "results": Command(
        "results:run", "write what a finished campaign publishes, or count in boxes",
        ("semilocal results walkers --out results",
         "semilocal results walkers --grid 16x16 --out counts.csv --html map.html"),
    ),
    "transcript": Command(
        "verify:run_transcript", "download the transcript of a campaign",
        ("semilocal transcript https://count.example.org walkers --out walkers.slt",),
    ),
}  # fmt: skip
_CHECK: dict[str, Command] = {
    "verify": Command(
        "verify:run", "replay a transcript and name everything that does not follow",
        ("semilocal verify transcript.slt",
         "semilocal verify https://count.example.org/tasks/0f3a"),
        "the transcript does not follow from what was sent",
    ),
    "plan": Command(
        "lab:run_plan", "what to expect of a task before anybody is asked",
        ("semilocal plan --n 10000 --bounds california --epsilon 2",
         "semilocal plan --n 10000 --bounds california --want 100"),
        "no epsilon reaches the wanted error",
    ),
    "audit": Command(
        "lab:run_audit", "attack what is promised: lower bounds on the true loss",
        ("semilocal audit", "semilocal audit --task task.json"),
        "a claim is broken, or a planted fault was not caught",
    ),
    "reproduce": Command(
        "lab:run_reproduce", "make the figures of the paper",
        ("semilocal reproduce --list", "semilocal reproduce --quick --out results"),
    ),
}  # fmt: skip
GROUPS: Mapping[str, Mapping[str, Command]] = {
    "Ask a file": _ASK, "Collect from devices": _COLLECT, "Check and reproduce": _CHECK,
}  # fmt: skip
COMMANDS: Mapping[str, Command] = _ASK | _COLLECT | _CHECK
