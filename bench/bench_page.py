"""The page with many cells, in the system's Chromium: first paint, updates, panning, and the answer to a question.

A simulated run is stored as a finished campaign and served by a real server: `python -m bench.bench_page [people]`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx2
import numpy as np

from semilocal import Box, Task, simulate
from semilocal.arrays import Floats
from semilocal.protocol.curator import closing
from semilocal.protocol.messages import Query, encode
from semilocal.service.admin import create_campaign
from semilocal.service.campaign import Campaign
from semilocal.service.stores.base import open_store
from semilocal.simulation.simulate import Run
from semilocal.testing import running_server
from semilocal.transcript.checkpoints import Checkpoint, seal_round
from tests.helpers.browser import chromium, looking

BOX = Box((-9.6, 36.9), (-6.1, 42.2), names=("longitude", "latitude"))


def people(size: int) -> Floats:
    """Towns of very different sizes."""
    rng = np.random.default_rng(2)
    towns = rng.uniform(BOX.lower, BOX.upper, (400, 2))
    spread = rng.normal(0, 0.08, (size, 2)) * np.clip(rng.pareto(2, (size, 1)), 0, 20)
    return np.clip(towns[rng.integers(0, 400, size)] + spread, BOX.lower, BOX.upper)


def store_run(database: str, run: Run) -> str:
    """Store what a run published as a finished campaign, without the single reports; the task's name."""
    task = run.task
    store = open_store(database, worker="bench")
    create_campaign(store, Campaign("bench", task, (), "open"), now=time.time())
    head = task.id
    with store.lock(task.id) as locked:
        assert locked is not None
        for played in run.rounds:
            locked.open_round(played.number, encode(Query(task.id, played.number, tuple(played.cells.tolist()))))
            checkpoint = Checkpoint(task.id, played.number, played.number, bytes(32))
            seal = seal_round(head, checkpoint, key=None)
            head = seal.head
            locked.close_round(played.number, encode(closing(task, played)), checkpoint.to_bytes(), seal.to_bytes())
        last = len(run.rounds)
        locked.move("finished", round_=last, closed=last, needed=None, deadline=None, fold=locked.fold)
    store.close()
    return task.id.hex()


DRAW = """async () => {
  const { MapView } = await import("#map/view.js");
  const { Timeline } = await import("#map/cells.js");
  const task = location.hash.split("/").pop();
  const about = await (await fetch(`/tasks/${task}/overview`)).json();
  const timeline = new Timeline(about.domain);
  const { closed } = await (await fetch(`/tasks/${task}/state`)).json();
  for (let round = 1; round <= closed; round++) timeline.add(await (await fetch(`/tasks/${task}/rounds/${round}/cells`)).json());
  const view = new MapView(about.domain);
  view.element.style.cssText = "width: 900px; height: 600px";
  document.body.append(view.element);
  await new Promise((done) => setTimeout(done, 200));
  view.setCoast(await (await fetch(`/tasks/${task}/coast`)).json());
  const time = (work) => { const began = performance.now(); work(); view.drawNow(); return performance.now() - began; };
  const update = Array.from({ length: 15 }, () => time(() => view.show(timeline.frame(timeline.last))));
  const colour = Array.from({ length: 15 }, (_, index) => time(() => view.setColour(index % 2 ? "density" : "crowd")));
  const move = Array.from({ length: 40 }, (_, index) => time(() => { view.zoom(index < 20 ? 1.1 : 1 / 1.1); view.pan(3, 2); }));
  const frames = await new Promise((done) => {
    const began = performance.now();
    let count = 0;
    const step = () => { view.pan(count % 2 ? 4 : -4, 1); count++; if (performance.now() - began > 2000) done(count / 2); else requestAnimationFrame(step); };
    requestAnimationFrame(step);
  });
  return { update, colour, move, frames, cells: view.frame.size };
}"""  # noqa: E501


def main() -> None:
    """Print one line per figure."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1_500_000
    run = simulate(people(size), Task.build(BOX, epsilon=4.0, delta=1e-4, k=40), rng=np.random.default_rng(1))
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'page.db'}"
        task = store_run(database, run)
        with running_server(database) as server, chromium() as browser:
            for turn in ("cold", "warm"):
                with looking(browser, "about:blank", second=server.url) as look:
                    began = time.perf_counter()
                    look.page.goto(f"{server.url}/#/campaign/{task}")
                    look.page.locator(".map").wait_for()
                    first = time.perf_counter() - began
                    look.page.locator(".slider output", has_text=f"{len(run.rounds)}").wait_for()
                    whole = time.perf_counter() - began
                    rounds = len(run.rounds)
                    print(f"{turn}: map on the page after {first:.2f} s, all {rounds} rounds after {whole:.2f} s")
            with looking(browser, f"{server.url}/#/campaign/{task}") as look:
                look.page.locator(".title .phase.finished").wait_for()
                look.page.wait_for_load_state("networkidle")  # the page asks about all regions by itself, once
                found = look.page.evaluate(DRAW)
            for name in ("update", "colour", "move"):
                times = found[name]
                middle = statistics.median(times)
                print(f"{name}, {found['cells']:,} cells: median {middle:.1f} ms, worst {max(times):.1f} ms")
            print(f"panning: {found['frames']:.0f} frames a second")
            with httpx2.Client(base_url=server.url) as client:
                boxes = [[[-9.0 + 0.01 * turn, 38.0], [-8.0, 39.5]] for turn in range(30)]
                times = []
                for box in boxes:
                    began = time.perf_counter()
                    client.post(f"/tasks/{task}/counts", json={"boxes": [box]}).raise_for_status()
                    times.append(1000 * (time.perf_counter() - began))
            print(f"ask the map: first {times[0]:.0f} ms, then median {statistics.median(times[1:]):.1f} ms")


if __name__ == "__main__":
    main()
