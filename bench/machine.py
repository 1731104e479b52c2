"""The machine that figures are from, and what they are compared with: a sort of as many numbers.

Every benchmark prints :func:`line` first. Ratios to a sort mean the faster of numpy's dispatches: with AVX-512 and
without it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

_WITHOUT_AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"


def line() -> str:
    """Processor, cores, numpy with what it dispatches to, and how busy the machine is."""
    from numpy._core import _multiarray_umath as core  # type: ignore[attr-defined]

    found = [name for name in (*core.__cpu_baseline__, *core.__cpu_dispatch__) if core.__cpu_features__[name]]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{_processor()}, {cores} cores, load {os.getloadavg()[0]:.1f}; Python {sys.version.split()[0]}, "
        f"numpy {np.__version__} ({' '.join(found)})"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown processor"
    return next((entry.split(":")[1].strip() for entry in lines if entry.startswith("model name")), "unknown processor")


def sort_seconds(size: int) -> float:
    """Processor time of ``numpy.sort`` of so many uint64 in this process: the best of three, of one above 10^7."""
    numbers = np.random.default_rng(1).integers(0, 2**63, size, dtype=np.uint64)
    times = []
    for _ in range(3 if size <= 10**7 else 1):
        start = time.process_time()
        np.sort(numbers)
        times.append(time.process_time() - start)
    return min(times)


@functools.cache
def fastest_sort(size: int) -> tuple[float, str]:
    """The faster of numpy's dispatches: processor seconds, and which one."""
    command = [sys.executable, "-c", f"from bench.machine import sort_seconds; print(sort_seconds({size}))"]
    slower = {"NPY_DISABLE_CPU_FEATURES": _WITHOUT_AVX512, "PYTHONWARNINGS": "ignore"}
    plain = subprocess.run(
        command, env=os.environ | slower, cwd=Path(__file__).parents[1], check=True, capture_output=True, text=True
    ).stdout
    return min((sort_seconds(size), "all features"), (float(plain), "without AVX-512"))


def family_seconds() -> float:
    """Processor time of this process and of those that it started, and they; also of those that have ended."""
    parents, spent = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rsplit(")", 1)[1].split()
            process = int(path.parent.name)
            parents[process], spent[process] = int(fields[1]), sum(map(int, fields[11:15]))

    def ours(process: int) -> bool:
        while process not in (0, os.getpid()):
            process = parents.get(process, 0)
        return bool(process)

    return sum(ticks for process, ticks in spent.items() if ours(process)) / os.sysconf("SC_CLK_TCK")
