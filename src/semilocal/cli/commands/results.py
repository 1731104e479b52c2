"""``semilocal results``: what a finished campaign publishes, as files; or counts in boxes, with intervals."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...errors import InvalidInput
from ...io.files import check_folder, check_outputs, write_text
from ...io.map_rows import partition_rows, split_rows
from ...protocol.curator import Curator
from ...protocol.messages import decode
from ...protocol.partition import Partition
from ...protocol.task import Task
from ...release import counts
from ...release.count_release import CountsRelease
from ...sharing.kinds import is_pair_task
from ...simulation.population import Splits
from ...simulation.simulate import splits_of
from ...words import number_of
from .. import server
from ..answers import answer_columns, write_answers
from ..arguments import path
from ..exits import DONE
from ..jobs import REGIONS
from ..options import option
from ..result_maps import Drawings
from .counts import QueryOptions, queries_of

if TYPE_CHECKING:
    from ...release.pair_counts import PairResult
    from ..admin_client import AdminClient
    from ..documents import Results

__all__ = ["regions_words", "run"]


def run(
    campaign: server.Campaign,
    /,
    *,
    out: Annotated[Path | None, option(path, "PATH")] = None,
    maps: Drawings = Drawings(),
    queries: QueryOptions = QueryOptions(),
    office: server.Office = server.Office(),
) -> int:
    """Write or count.

    Parameters
    ----------
    out
        folder for results.json, regions.geojson and statement.txt; with --grid or --queries a .csv or .geojson file
        for the counts
    """
    asked = queries.asked
    check_outputs(maps.outputs | ({"--out": (out, REGIONS)} if asked else {}), inputs=[queries.queries, maps.basemap])
    if not asked:
        if out is None and not maps.asked:
            raise InvalidInput(
                "say what to write: --out FOLDER for everything, --grid or --queries, --plot FILE or --html FILE"
            )
        if out is not None:
            check_folder("--out", out)
        if out is not None and out.suffix.lower() in REGIONS and not out.is_dir():
            raise InvalidInput(
                f"--out {out}: everything is written into a folder, so give the name of one; a file is for counts: say "
                "with --grid or --queries what to count"
            )
    with server.connect(office) as client:
        task = client.find(campaign)
        definition = client.task(task)
        if is_pair_task(definition):
            _pair(client, task, queries, out, maps)
            return DONE
        document, found = client.results(task)  # refuses unless the campaign is finished
        if asked or maps.asked:
            events = client.events(task)
            partition = Curator.replay(decode(definition, Task), events, client.plan(task)).partition
            maps.draw(partition)
            if maps.html is not None:
                _map(client, task, partition, splits_of(events), found, maps)
            if asked:
                _count(counts(partition), queries, out, client.statement(task))
        if not asked and out is not None:
            _write(client, task, document, found, out)
    return DONE


def _map(client: AdminClient, task: str, partition: Partition, splits: Splits, found: Results, maps: Drawings) -> None:
    """The interactive map of a campaign in rounds, with all of them in which a region was cut."""
    from ...service.results import campaign_promise

    numbers = {"took part": f"{partition.people:,}"}
    for release in found.releases:
        if release.mean is not None and release.interval is not None:
            numbers[f"mean of {release.function}"] = _mean_words(release.mean, release.interval)
    promised = campaign_promise(partition, client.plan(task))
    maps.write_map(client.name(task), split_rows(partition, splits), partition.task.hierarchy, promised, numbers)


def _mean_words(value: float, interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{value:.6g}, 95 % interval {low:.6g} to {high:.6g}"


def _pair(client: AdminClient, task: str, queries: QueryOptions, out: Path | None, maps: Drawings) -> None:
    """The same for a task of two servers, from its transcript."""
    from ...release.pooled_mean import PooledMean
    from ...sharing.wire import SignedTree
    from ..pair_results import read_result, write_folder

    data, found = read_result(client, task)
    pair = SignedTree.from_bytes(data).task
    maps.draw(found.partition)
    mean = _mean_words(found.value, found.interval()) if isinstance(found, PooledMean) else ""
    if maps.html is not None:
        numbers = {"reports": f"{found.total:,}"} | ({found.spent.entries[0].what: mean} if mean else {})
        rows = [partition_rows(found.partition)]
        maps.write_map(client.name(task), rows, pair.pooled.hierarchy, found.guarantee, numbers)
    if queries.asked:
        _count(found, queries, out, pair.statement(found.guarantee))
    elif out is not None:
        files = write_folder(data, found, out)
        cells, reports = number_of(len(found.partition), "final cell"), number_of(found.total, "report")
        print(f"{cells}, {reports}; {found.guarantee.sentence()}")
        if isinstance(found, PooledMean):
            print(f"{found.spent.entries[0].what} = {mean}, standard error {found.stderr:.2g}")
        print("wrote " + ", ".join(str(path) for path in files))


def _count(found: CountsRelease | PairResult, asked: QueryOptions, out: Path | None, statement: str) -> None:
    box = found.partition.task.box
    queries = queries_of(asked, box, found.partition.task.hierarchy)
    answers = found.answer(queries.areas, rounding=asked.rounding)
    table = write_answers(queries, answer_columns(queries, answers, box, level=asked.level), out, box)
    many, regions = number_of(len(queries), "query", "queries"), number_of(len(found.partition), "region")
    print(f"{many} over {regions}\n{statement}", file=sys.stderr)
    if out is not None:
        print(f"wrote {out}", file=sys.stderr)
    print(table, end="")


def regions_words(found: Results) -> str:
    """How many regions and participants there are."""
    members = number_of(sum(region.crowd for region in found.regions), "participant")
    return f"{number_of(len(found.regions), 'region')} with {members} (public by design)"


def _write(client: AdminClient, task: str, document: object, found: Results, folder: Path) -> None:
    drawn = client.geojson(task)
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "results.json": json.dumps(document, indent=2) + "\n",
        "statement.txt": client.statement(task) + "\n",
        **({} if drawn is None else {"regions.geojson": json.dumps(drawn) + "\n"}),
    }
    for name, text in files.items():
        write_text(folder / name, text)
    print(regions_words(found))
    for release in found.releases:
        if release.mean is not None and release.interval is not None:
            low, high = release.interval
            print(
                f"mean of {release.function} = {release.mean:.6g}, {100 * release.level:g} % interval "
                f"{low:.6g} to {high:.6g} (epsilon = {release.epsilon:g} for {release.adjacency}, delta 0)"
            )
    print("wrote " + ", ".join(str(folder / name) for name in files))
