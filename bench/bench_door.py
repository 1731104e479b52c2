"""What hostile connections cost: the server by itself, and behind the nginx configuration that ships.

    python -m bench.bench_door [--half-open 1050] [--greedy 40]

Half-open connections send a third of a request each and wait; meanwhile a device asks for the list of tasks 200 times.
Greedy connections send as much as is taken from them (endless paths, headers, pipelined requests, bodies); memory is
the growth of the largest resident size of the server, and of nginx, per connection. The server may open 400 files, as
few as make 1,050 connections hurt; behind nginx it needs no more.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

import httpx2

from semilocal.testing import Server
from tests.helpers.flood import greedy, half_open, trusting
from tests.helpers.nginx import peak_memory, shipped_nginx

REQUESTS = 200
FILES = 400
MOST = 2 << 20


def latencies(url: str, verify: object) -> tuple[float, float]:
    """Median and largest time of a request over new connections, in ms."""
    took = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        with httpx2.Client(verify=verify, timeout=60) as client:  # type: ignore[arg-type]
            assert client.get(f"{url}/tasks").status_code == 200
        took.append(1e3 * (time.perf_counter() - began))
    return sorted(took)[REQUESTS // 2], max(took)


def main() -> int:
    """Print a table; exit code 1 if one connection takes more than 2 MB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half-open", type=int, default=1050)
    parser.add_argument("--greedy", type=int, default=40)
    arguments = parser.parse_args()
    good = True
    print("| | request, quiet (ms) | with half-open: median (ms) | largest (ms) | memory of a greedy connection (kB) |")
    print("|---|---|---|---|---|")
    for name in ("semilocal serve", "behind nginx"):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            server = Server(f"sqlite:///{folder}/service.db", log=Path(folder) / "log.txt")
            server.start(files=FILES)
            stack.callback(server.stop)
            assert server.process is not None
            process, port, url, context = server.process.pid, server.port, server.url, None
            proxy = None
            if name != "semilocal serve":
                proxy = stack.enter_context(shipped_nginx(Path(folder) / "nginx", server.port))
                port, url, context = proxy.port, proxy.url, trusting(proxy.certificate)
            quiet = latencies(url, context or False)[0]
            with half_open(port, arguments.half_open, context):
                median, largest = latencies(url, context or False)
            before = peak_memory(process) + (proxy.resident() if proxy else 0)
            with greedy(port, arguments.greedy, context):
                after = peak_memory(process) + (proxy.resident() if proxy else 0)
            each = (after - before) / arguments.greedy
            good &= each < MOST
            print(f"| {name} | {quiet:.1f} | {median:.1f} | {largest:.1f} | {each / 1e3:.0f} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
