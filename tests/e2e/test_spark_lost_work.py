"""An executor of Spark is killed in the middle of a run: what was lost is computed again, to the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from semilocal import simulate
from tests.helpers.engine_runs import SEED, digest
from tests.helpers.lost_work import positions, task

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


@pytest.mark.slow
def test_a_killed_executor_changes_no_byte(tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17; there is no java on the path")
    command = [sys.executable, "-W", "ignore", "-m", "tests.helpers.lost_work", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["killed"] > 0
    assert len(found["gone"]) >= 1, "no executor was lost: the test shows nothing"
    expected = simulate(positions(), task(), rng=np.random.default_rng(SEED))
    assert found["digest"] == digest(task(), expected)
    assert found["regions"] == expected.regions.tolist()
