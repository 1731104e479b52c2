"""``semilocal results``: what a finished campaign publishes, as files; or counts in boxes, with intervals."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...errors import InvalidInput
from ...io.files import check_folder, check_outputs, write_text
from ...io.plots import PICTURES, need_matplotlib, save_picture
from ...io.regions import AnyPartition
from ...protocol.messages import Closed, decode
from ...protocol.partition import Partition
from ...protocol.task import Task
from ...release import counts
from ...release.count_release import CountsRelease
from ...sharing.kinds import is_pair_task
from .. import server
from ..answers import answer_columns, write_answers
from ..exits import DONE
from ..jobs import REGIONS
from ..options import FILE, option
from .counts import QueryOptions, queries_of

if TYPE_CHECKING:
    from ...release.pair_counts import PairResult
    from ..admin_client import AdminClient

__all__ = ["run"]


def run(
    campaign: server.Campaign,
    /,
    *,
    out: Annotated[Path | None, option(metavar="PATH")] = None,
    plot: Annotated[Path | None, FILE] = None,
    queries: QueryOptions = QueryOptions(),
    office: server.Office = server.Office(),
) -> int:
    """Write or count.

    Parameters
    ----------
    out
        folder for results.json, regions.geojson and statement.txt; with --grid or --queries a .csv or .geojson file
        for the counts
    plot
        draw the regions: .png, .svg or .pdf
    """
    asked = queries.asked
    if plot is not None:
        need_matplotlib()
    outputs = {"--plot": (plot, PICTURES), **({"--out": (out, REGIONS)} if asked else {})}
    check_outputs(outputs, inputs=[queries.queries])
    if not asked:
        if out is None and plot is None:
            raise InvalidInput("say what to write: --out FOLDER for everything, --grid or --queries, or --plot FILE")
        if out is not None:
            check_folder("--out", out)
    with server.connect(office) as client:
        task = client.find(campaign)
        definition = client.task(task)
        if is_pair_task(definition):
            _pair(client, task, queries, out, plot)
            return DONE
        if asked or plot is not None:
            partition = _partition(client, task, decode(definition, Task))
            _plot(partition, plot)
            if asked:
                _count(counts(partition), queries, out, client.statement(task))
        if not asked and out is not None:
            _write(client, task, out)
    return DONE


def _pair(client: AdminClient, task: str, queries: QueryOptions, out: Path | None, plot: Path | None) -> None:
    """The same for a task of two servers, from its transcript."""
    from ...release.pooled_mean import PooledMean
    from ...sharing.wire import SignedTree
    from ..pair_results import read_result, write_folder

    data, found = read_result(client, task)
    pair = SignedTree.from_bytes(data).task
    _plot(found.partition, plot)
    if queries.asked:
        _count(found, queries, out, pair.statement(found.guarantee))
    elif out is not None:
        files = write_folder(data, found, out)
        print(f"{len(found.partition)} final cells, {found.total} reports; {found.guarantee.sentence()}")
        if isinstance(found, PooledMean):
            low, high = found.interval()
            print(
                f"{found.spent.entries[0].what} = {found.value:.6g} ± {found.stderr:.2g}, 95 % interval {low:.6g} to "
                f"{high:.6g}"
            )
        print("wrote " + ", ".join(str(path) for path in files))


def _plot(partition: AnyPartition, path: Path | None) -> None:
    if path is not None:
        save_picture(partition, path)
        print(f"wrote {path}", file=sys.stderr)


def _partition(client: AdminClient, task: str, definition: Task) -> Partition:
    _, found = client.results(task)  # refuses unless the campaign is finished
    asked = [release for release in found.releases if release.kind in ("mean", "values")]
    closings = client.closings(task)
    return Partition.from_closings(
        definition, [decode(data, Closed) for data in closings[: len(closings) - len(asked)]]
    )


def _count(found: CountsRelease | PairResult, asked: QueryOptions, out: Path | None, statement: str) -> None:
    box = found.partition.task.box
    queries = queries_of(asked, box)
    answers = found.query(queries.areas)
    table = write_answers(queries, answer_columns(queries, answers, box, level=asked.level), out, box)
    print(f"{len(queries):,} queries over {len(found.partition):,} regions\n{statement}", file=sys.stderr)
    if out is not None:
        print(f"wrote {out}", file=sys.stderr)
    print(table, end="")


def _write(client: AdminClient, task: str, folder: Path) -> None:
    (document, found), drawn = client.results(task), client.geojson(task)
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "results.json": json.dumps(document, indent=2) + "\n",
        "statement.txt": client.statement(task) + "\n",
        **({} if drawn is None else {"regions.geojson": json.dumps(drawn) + "\n"}),
    }
    for name, text in files.items():
        write_text(folder / name, text)
    crowds = [region.crowd for region in found.regions if region.crowd is not None]
    print(f"{len(found.regions)} regions with {sum(crowds)} participants (public by design)")
    for release in found.releases:
        if release.mean is not None and release.interval is not None:
            low, high = release.interval
            print(
                f"mean of {release.function} = {release.mean:.6g}, {100 * release.level:g} % interval "
                f"{low:.6g} to {high:.6g} (epsilon = {release.epsilon:g} for {release.adjacency}, delta 0)"
            )
    print("wrote " + ", ".join(str(folder / name) for name in files))
