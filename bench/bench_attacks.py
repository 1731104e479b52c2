"""Attacks on running servers, counted: kills, fuzzed requests, tampered transcripts, a lying peer, devices that poll.

    python -m bench.bench_attacks [NAME ...] [--share 1.0] [--seed 0]

Names are those of the table below; all of them if none is given. Kills, fuzzing, programs and tampering are tests of
the suite, repeated more often: each stops at the first report that is lost, doubled or changed, the first answer with
status 5xx, the first change that nobody notices. ``--share`` takes that part of the numbers, ``--seed`` other ones.
Exit code 1 if an attack succeeds. Processor time is that of the tests, without the servers that they killed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from bench import machine
from semilocal.sharing.party import Party
from semilocal.testing import MockClock
from tests.helpers.pairs import crowd, pooled_task
from tests.helpers.running_pair import ADMIN, opened, running_pair

ROOT = Path(__file__).resolve().parent.parent
LIES = tuple(sign * 2**power for power in (2, 5, 8, 12, 20, 40, 60) for sign in (1, -1))
LIED_TO, MOST_MEMORY = 500, 300.0  # people of a pair, MiB of both of its servers together


class Row(NamedTuple):
    """An attack by a test: how often, and which test."""

    what: str
    times: int
    test: str


ROWS = {
    "server": Row("kills of the server, SQLite", 100, "e2e/test_server_kill.py -k killing_the_server"),
    "postgresql": Row("kills of PostgreSQL", 50, "e2e/test_server_kill.py -k killing_postgresql"),
    "servers": Row("kills of two servers on one database", 100, "e2e/test_server_kill.py -k killing_servers_of"),
    "pair": Row("kills of leader and helper", 100, "e2e/test_pair_kill.py -k again_and_again"),
    "evaluators": Row("kills of evaluating processes", 50, "e2e/test_pair_pool.py -k again_and_again"),
    "devices": Row("kills of devices", 100, "e2e/test_device_kill.py"),
    "fuzz": Row("fuzzed requests", 1_000_000, "integration/service/test_fuzz.py"),
    "fuzz-pair": Row("fuzzed requests to a pair", 20_000, "integration/service/pair/test_fuzz.py"),
    "transcripts": Row("tampered transcripts", 100_000, "integration/transcript/test_tampered.py"),
    "programs": Row("programs over one server", 8_000, "stateful/test_service_operations.py -k programs_on_sqlite"),
    "programs-pair": Row("programs over a pair", 2_000, "stateful/test_pair_operations.py -k random_programs"),
}  # fmt: skip


def run(row: Row, share: float, seed: int) -> bool:
    """Run a test that many times, and print what it counted."""
    times = max(1, round(row.times * share))
    environment = {**os.environ, "SEMILOCAL_TIMES": str(times), "SEMILOCAL_LONG_SEED": str(seed)}
    options = [*f"tests/{row.test}".split(), "-q", "-s", "-n", "0", "-p", "no:cacheprovider"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{row.what}: {times:,}, {'held' if done.returncode == 0 else 'BROKEN'}, {spent:.0f} s of processor time")
    for line in done.stdout.splitlines() if done.returncode == 0 else [done.stdout[-4000:]]:
        if any(word in line for word in (" kills", " tampered ", " requests to ", " programs ")) or done.returncode:
            print(f"    {line}")
    sys.stdout.flush()
    return done.returncode == 0


def lie() -> bool:
    """Count with a helper that adds a number to everything it works out, another one for each pair; in this process."""
    logging.disable(logging.CRITICAL)
    honest, added, faults = Party.aggregate, 0, 0

    def lying(party: Party) -> Any:
        return honest(party) + added * party.server

    async def main(folder: Path) -> None:
        nonlocal added, faults
        with opened(folder) as stores:
            async with running_pair(stores, MockClock()) as servers:
                for added in LIES:
                    pair = await servers.opened(pooled_task(max_depth=20, epsilon=2.0, label=str(added)))
                    await servers.fill(pair, crowd(LIED_TO))
                    await servers.start(pair)
                    await servers.tick(3)
                    faults += (await servers.state(pair))["fault"] is not None
                    for client in servers.clients.values():
                        await client.post(f"/tasks/{pair.id.hex()}/close", headers=ADMIN)
                    await servers.tick()

    Party.aggregate = lying  # type: ignore[assignment, method-assign]
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(LIES)} lies to pairs of {LIED_TO:,}: {faults} refused, both servers {memory:.0f} MiB at most")
    return memory < MOST_MEMORY


def child(*arguments: str) -> bool:
    """Run a module in a process of its own."""
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, check=False).returncode == 0


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*ROWS, "liar", "polling", []])
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lie", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.lie:
        return 0 if lie() else 1
    print(machine.line(), end="\n\n")
    good = True
    for name in given.names or [*ROWS, "liar", "polling"]:
        if name in ROWS:
            good &= run(ROWS[name], given.share, given.seed)
        else:
            good &= child("bench.bench_attacks", "--lie") if name == "liar" else child("bench.bench_polling")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
