"""A program that runs Spark on two executors and kills one in the middle of a job; run by a test.

Prints one line of JSON: what the run gave, and what was lost. Half of the tasks wait for a file, so the executor dies
when tasks of it are done and tasks of it are running, however fast the machine is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from semilocal import Task
from semilocal.arrays import Floats
from semilocal.engines.run import run_source
from semilocal.engines.spark import SparkSource
from tests.helpers.engine_runs import SEED, box_of, digest
from tests.helpers.spark import SHORT

ROWS, TASKS = 40_000, 8
ACROSS = 7919, 1_000_003  # a step and a prime: positions that Spark and numpy compute to the same floats
UP = 104_729, 999_983


def positions() -> Floats:
    """The rows, as numpy computes them: float64[ROWS, 2]."""
    rows = np.arange(ROWS)
    columns = [
        (rows * step % prime) / prime * (rows * step % prime) / prime * 19.0 - 10.0 for step, prime in (ACROSS, UP)
    ]
    return np.stack(columns, axis=1)


def task() -> Task:
    """What is played."""
    return Task.build(box_of(2), epsilon=2.0, delta=0.05, k=20)


def frame(spark: Any, gate: Path) -> Any:
    """The same rows in Spark; the second half of the tasks waits until the file exists."""

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            while batch.column(0)[0].as_py() >= ROWS // 2 and not gate.exists():
                time.sleep(0.05)
            yield batch

    rows = spark.range(ROWS, numPartitions=TASKS).mapInArrow(wait, "id long")
    columns = []
    for name, (step, prime) in {"x": ACROSS, "y": UP}.items():
        part = f"CAST(id * {step} % {prime} AS DOUBLE)"
        columns.append(f"{part} / {prime}e0 * {part} / {prime}e0 * 19e0 - 10e0 AS {name}")
    return rows.selectExpr("id", *columns)


def executors(application: str) -> list[int]:
    """Processes of the executors."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and application.encode() in words:
            found.append(int(entry.name))
    return sorted(found)


def kill_one(context: Any, gate: Path, lost: dict[str, Any]) -> None:
    """Kill an executor once half of the tasks are done, then let the others go on."""
    tracker = context.statusTracker()
    while True:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage is not None and stage.numCompletedTasks == TASKS // 2 for stage in stages):
            break
        time.sleep(0.05)
    lost["killed"] = executors(context.applicationId)[0]
    os.kill(lost["killed"], signal.SIGKILL)
    gate.touch()


def main(folder: Path) -> None:
    """Run it."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {
        "spark.driver.extraJavaOptions": SHORT,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": SHORT,
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.local.dir": str(folder),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("lost work")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    gate, lost = folder / "go", dict[str, Any]()
    killer = threading.Thread(target=kill_one, args=(spark.sparkContext, gate, lost), daemon=True)
    killer.start()
    source = SparkSource(frame(spark, gate), ["x", "y"], box_of(2))
    found = run_source(source, task(), rng=np.random.default_rng(SEED))
    killer.join()
    rows = found.attach(keep=["id"]).orderBy("id").toArrow()
    known = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    gone = [known.apply(place).id() for place in range(known.size()) if not known.apply(place).isActive()]
    regions = rows["region"].to_pylist()
    print(json.dumps({"digest": digest(task(), found), "regions": regions, "gone": gone, **lost}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
