"""A scrape has the sums over all workers, and nothing of a queue whose worker is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import HANG

pytest.importorskip("prometheus_client")

SHARED = """
import sys
from semilocal.service.metrics import Metrics
metrics = Metrics()
for _ in range(int(sys.argv[1])):
    metrics.answered(200)
    metrics.judged("stored")
    metrics.share(waiting=7, written=3)
metrics.answered(503)
metrics.share(waiting=5, written=3, batches=1)
print("shared", flush=True)
if sys.argv[2] == "stay":
    sys.stdin.readline()
    print(metrics.text([], at_fault=0))
"""


def worker(folder: Path, answers: int, then: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SHARED, str(answers), then], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={"PROMETHEUS_MULTIPROC_DIR": str(folder), "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip


def test_any_worker_shows_the_numbers_of_all_and_no_queue_of_one_that_is_gone(tmp_path: Path) -> None:
    with (
        worker(tmp_path, 10, "stay") as here,
        worker(tmp_path, 20, "stay") as there,
        worker(tmp_path, 40, "go") as gone,
    ):
        for one in (here, there, gone):
            assert one.stdout is not None
            assert one.stdout.readline() == "shared\n"
        assert gone.wait(HANG) == 0
        page = here.communicate("show\n", timeout=HANG)[0]
        there.communicate("show\n", timeout=HANG)
    lines = page.splitlines()
    assert 'semilocal_responses_total{status="200"} 70.0' in lines
    assert 'semilocal_responses_total{status="503"} 3.0' in lines
    assert 'semilocal_outcomes_total{outcome="stored"} 70.0' in lines
    assert "semilocal_written_total 9.0" in lines  # a total that was shared often counts once
    assert "semilocal_batches_total 3.0" in lines
    assert "semilocal_queue_length 10.0" in lines


def test_one_worker_needs_no_folder() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHARED, "4", "stay"], input="show\n", capture_output=True, text=True, check=True,
        env={"PYTHONPATH": ":".join(sys.path)}, timeout=HANG,
    )  # fmt: skip
    assert 'semilocal_responses_total{status="200"} 4.0' in done.stdout.splitlines()
    assert "semilocal_campaigns_at_fault 0.0" in done.stdout.splitlines()
