"""What hostile connections cost behind the nginx configuration that ships.

    python -m bench.bench_door [--half-open 1050] [--greedy 40]

Half-open connections send a third of a request each and wait; meanwhile a device asks for the list of tasks 200 times.
Greedy connections send as much as is taken from them (endless paths, headers, pipelined requests, bodies); memory is
the growth of the largest resident size of the server and of nginx, per connection. The server may open 400 files: it
needs no more behind nginx.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

import httpx2

from bench import machine
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
    """Print latencies and memory; exit code 1 if one connection takes more than 2 MB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half-open", type=int, default=1050)
    parser.add_argument("--greedy", type=int, default=40)
    arguments = parser.parse_args()
    print(machine.line(), end="\n\n")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        server = Server(f"sqlite:///{folder}/service.db", log=Path(folder) / "log.txt")
        server.start(files=FILES)
        stack.callback(server.stop)
        assert server.process is not None
        process = server.process.pid
        proxy = stack.enter_context(shipped_nginx(Path(folder) / "nginx", server.port))
        context = trusting(proxy.certificate)
        quiet = latencies(proxy.url, context)[0]
        with half_open(proxy.port, arguments.half_open, context):
            median, largest = latencies(proxy.url, context)
        before = peak_memory(process) + proxy.resident()
        with greedy(proxy.port, arguments.greedy, context):
            each = (peak_memory(process) + proxy.resident() - before) / arguments.greedy
    print(f"a request on a quiet server: {quiet:.1f} ms")
    print(f"with {arguments.half_open} half-open connections: {median:.1f} ms (median), {largest:.1f} ms (largest)")
    print(f"memory of a greedy connection: {each / 1e3:.0f} kB")
    return 0 if each < MOST else 1


if __name__ == "__main__":
    sys.exit(main())
