"""How fast a transcript is verified: reports per second, hashing, decompression and all checks included.

Run with ``python -m bench.bench_verify [--participants N]``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from bench import machine
from semilocal import Box, Task, simulate
from semilocal.protocol.keys import HashChain
from semilocal.transcript.checkpoints import public_key
from semilocal.transcript.file import write_events
from semilocal.transcript.verify import verify_file

KEY, ROUNDS = bytes(range(32)), 1_000


def measure(participants: int) -> dict[str, float]:
    """Write a signed transcript of a simulated collection and verify it."""
    rng, chain = np.random.default_rng(1), HashChain(bytes(32), ROUNDS)
    task = Task.build(Box((0, 0), (1, 1)), epsilon=1.0, max_rounds=ROUNDS, server_key=public_key(KEY), chain=chain.end)
    points = np.clip(rng.normal(0.5, 0.15, (participants, 2)), 0, 1)
    secrets = [bytes(row) for row in rng.integers(0, 256, (participants, 32), dtype=np.uint8)]
    run = simulate(points, task, secrets=secrets, chain=chain)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.slt"
        with path.open("wb") as stream:
            write_events(stream, run.events, key=KEY)
        size = path.stat().st_size
        best = processor = float("inf")
        for _ in range(3):
            begin, used = time.perf_counter(), time.process_time()
            found = verify_file(path)
            best = min(best, time.perf_counter() - begin)
            processor = min(processor, time.process_time() - used)
    assert found.sound, found.lines()
    return {
        "reports": found.reports, "rounds": found.rounds, "seconds": best, "reports per second": found.reports / best,
        "per second of processor": found.reports / processor, "bytes per report": size / found.reports,
    }  # fmt: skip


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--participants", type=int, default=5_000)
    participants = parser.parse_args().participants
    print(machine.line(), end="\n\n")
    for name, value in measure(participants).items():
        print(f"{name:24} {value:,.2f}")


if __name__ == "__main__":
    main()
