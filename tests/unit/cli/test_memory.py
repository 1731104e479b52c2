"""A job keeps the memory that it frees."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
from semilocal.cli.memory import keep_freed_memory
print(keep_freed_memory() if {asked} else "")
def cleared():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(6):
        np.ones(6_000_000)  # 48 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
cleared()
print(cleared())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked to keep freed memory")
def test_pages_of_arrays_are_cleared_once() -> None:
    plain = {**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0"}
    faults = {}
    for asked in (False, True):
        command = [sys.executable, "-c", PROGRAM.format(asked=asked)]
        said, count = subprocess.run(command, env=plain, check=True, capture_output=True, text=True).stdout.split("\n")[
            :2
        ]
        assert said == ("True" if asked else "")
        faults[asked] = int(count)
    pages = 48_000_000 / resource.getpagesize()
    assert faults[False] > 5 * pages  # every array anew
    assert faults[True] < pages
