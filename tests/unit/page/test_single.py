"""One file with a map inside: nothing to fetch, and text stays text. Results in a notebook are made of it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal import Task, simulate
from semilocal.cli.main import main
from semilocal.errors import InvalidInput
from semilocal.io.map_rows import NORMAL, domain_json
from semilocal.page import single
from semilocal.page.single import map_html, rounds_of, tree_json
from semilocal.protocol.estimate import Parts
from semilocal.protocol.promise import promise
from semilocal.release import counts
from semilocal.release.tree import CountTree
from semilocal.release.walk import TreeWalk
from semilocal.simulation.simulate import Run
from semilocal.testing import cluster, unit_box
from tests.helpers import HANG
from tests.helpers.pages import data_of
from tests.helpers.service import unmet


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate(cluster(2000), Task.build(unit_box(), epsilon=2.0, delta=1e-3, k=20), rng=np.random.default_rng(1))


def test_the_file_holds_every_round_and_the_promise(run: Run) -> None:
    promise = counts(run).guarantee
    data = data_of(map_html(rounds_of(run), run.task.hierarchy, promise, title="t", numbers={"participants": "2,000"}))
    assert len(data["rounds"]) == len(np.unique(run.splits.rounds))
    assert any(pieces for pieces in data["rounds"][-1]["rows"]["pieces"])
    assert data["promise"]["sentence"] == promise.sentence()
    assert "simulation" in data["promise"]["sentence"]
    assert data["ground"]["land"] == []


def asked_of_node(tree: CountTree, areas: list[Any]) -> Any:
    """What the script of a file answers to areas, each two corners."""
    node = shutil.which("node")
    if node is None:
        unmet("node is not installed")
    document = {"tree": tree_json(tree), "domain": domain_json(tree.hierarchy.box), "areas": areas}
    script = Path(__file__).parents[2] / "page" / "answer.mjs"
    done = subprocess.run(
        [str(node), script], input=json.dumps(document), capture_output=True, text=True, check=True, timeout=HANG
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["nobody", "parts", "halves"])
def test_a_file_answers_as_python_does(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the rounding of what is sent; planted: errors that are handed down by wrong weights."""
    rng = np.random.default_rng(3)
    if kind == "nobody":
        tree = counts(simulate(cluster(3000), Task.build(unit_box(), epsilon=2.0, delta=1e-3, k=20), rng=rng)).tree
    else:
        tree = sl.counts(cluster(3000), unit_box(), epsilon=1.0, trust="curator", rng=rng).tree
    if kind == "halves":
        monkeypatch.setattr(single, "_MOST_PARTS", 1)
        leaves = tree.leaves
        cells = tree.hierarchy.interval_cells(tree.lower[leaves], tree.upper[leaves])[1]
        tree = replace(tree, parts=Parts(cells, np.arange(len(cells)), np.ones(len(cells))))
    boxes = np.sort(rng.random((12, 2, 2)), axis=1)
    boxes[:2] = [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [0.5, 1.0]]]
    walk = TreeWalk.of(tree)
    answers, found = walk.query(boxes), asked_of_node(tree, boxes.tolist())
    value, stderr, low, high = np.array(found["answers"]).T
    assert value == pytest.approx(answers.value, abs=0.7)
    assert stderr == pytest.approx(answers.stderr, rel=0.02, abs=0.02)
    assert np.column_stack([low, high]) == pytest.approx(answers.interval(), rel=0.02, abs=1.5)
    if kind == "halves":
        rows, shown = found["rows"], tree.hierarchy.interval_boxes(tree.lower[leaves], tree.upper[leaves])
        assert pytest.approx(shown.reshape(-1, 4)) == np.array([rows[name] for name in ("x0", "y0", "x1", "y1")]).T
        assert rows["half"] == pytest.approx(NORMAL * np.sqrt(tree.noise[leaves]), rel=0.02)
    wrong = replace(tree, weight=np.where(tree.weight < 1, tree.weight**2, tree.weight))
    value, stderr, _, _ = np.array(asked_of_node(wrong, boxes.tolist())["answers"]).T
    assert stderr != pytest.approx(walk.query(boxes).stderr, rel=0.02, abs=0.02)


def test_text_with_markup_stays_text(run: Run) -> None:
    bad = "</script><script>alert(1)</script>"
    document = map_html(rounds_of(run), run.task.hierarchy, counts(run).guarantee, title=bad, numbers={bad: bad})
    assert bad not in document
    assert data_of(document)["title"] == bad


def test_the_file_asks_for_nothing(run: Run) -> None:
    document = map_html(rounds_of(run), run.task.hierarchy, counts(run).guarantee, title="t", numbers={})
    assert "default-src 'none'" in document
    assert "http" not in document.replace("http-equiv", "")
    addresses = re.findall(r'(?:src|href)="([^"]*)"', document)
    assert all(address.startswith("data:") for address in addresses)


def test_a_notebook_shows_numbers_promise_and_map_for_every_result(run: Run) -> None:
    points = cluster(2000)
    rng = np.random.default_rng(2)
    results: list[Any] = [
        run,
        counts(run),
        sl.counts(points, unit_box(), epsilon=1.0, trust="curator", rng=rng),
        sl.mean(points, sl.functions.coordinate(0), unit_box(), epsilon=1.0, trust="nobody", k=20, delta=1e-3, rng=rng),
    ]
    for result in results:
        text = result._repr_html_()
        assert "<b>2,000 people</b>" in text
        sentence = (counts(result) if isinstance(result, Run) else result).guarantee.sentence()
        assert html.escape(sentence) in text
        assert data_of(html.unescape(re.search(r'srcdoc="([^"]*)"', text)[1]))["rounds"]  # type: ignore[index]
    assert "95 % interval" in results[-1]._repr_html_()


def test_three_dimensions_have_numbers_and_promise_but_no_map() -> None:
    task = Task.build(unit_box(3), epsilon=2.0, delta=1e-3, k=20)
    text = simulate(cluster(500, 3), task, rng=np.random.default_rng(1))._repr_html_()
    assert "no map" in text
    assert "iframe" not in text
    with pytest.raises(InvalidInput, match="one or two dimensions"):
        map_html([], task.hierarchy, promise(task), title="t", numbers={})


@pytest.mark.parametrize("trust", ["nobody", "curator"])
def test_the_command_line_writes_the_file(tmp_path: Path, trust: str, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "people.csv", tmp_path / "map.html"
    np.savetxt(source, cluster(1000), delimiter=",", header="x,y", comments="")
    common = ["--bounds", "0,0,1,1", "--trust", trust, "--epsilon", "2", "--seed", "1", "--rows-are-people", "--quiet"]
    crowd = ["--k", "20", "--delta", "1e-3"] if trust == "nobody" else []
    assert main(["partition", str(source), *common, *crowd, "--html", str(target)]) == 0
    assert f"wrote {target}" in capsys.readouterr().out
    data = data_of(target.read_text("utf-8"))
    assert data["numbers"]["participants"] == "1,000"
    assert data["promise"]["trust"] == trust
    assert main(["partition", str(source), *common, *crowd, "--html", str(source)]) == 2


def test_the_file_states_the_loss_of_a_person_with_several_rows(tmp_path: Path) -> None:
    source, target = tmp_path / "people.csv", tmp_path / "map.html"
    rows = np.column_stack([cluster(1000), np.arange(1000) // 2])
    np.savetxt(source, rows, delimiter=",", header="x,y,user", comments="")
    options = ["--bounds", "0,0,1,1", "--trust", "nobody", "--epsilon", "2", "--k", "20", "--delta", "1e-3"]
    people = ["--seed", "1", "--user", "user", "--rows-per-user", "2", "--quiet"]
    assert main(["partition", str(source), *options, *people, "--html", str(target)]) == 0
    data = data_of(target.read_text("utf-8"))
    assert (data["promise"]["rows"], data["promise"]["epsilon"]) == (2, 4.0)
    assert data["numbers"]["rows"] == "1,000"
    assert "participants" not in data["numbers"]
