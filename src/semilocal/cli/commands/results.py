"""``semilocal results``: what a finished campaign publishes, as files; or counts in boxes, with intervals.

Everything that is counted or drawn is computed here from the public transcript, after it was replayed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ...errors import InvalidInput
from ...io.files import check_folder, check_outputs, replacing, write_text
from ...io.map_rows import Rows, partition_rows, split_rows
from ...io.plots import PICTURES, need_matplotlib, save_picture
from ...io.queries import Asked
from ...protocol.curator import Curator
from ...protocol.messages import decode
from ...protocol.promise import Guarantee
from ...protocol.task import Task
from ...release import counts
from ...release.means import Mean
from ...sharing import is_pair_task
from ...sharing.wire import SignedTree
from ...simulation.simulate import splits_of
from ...words import number_of
from ..admin import AdminClient, CampaignName, Office, connect
from ..answers import QueryOptions, answer_columns, queries_of, write_answers
from ..catalogue import DONE
from ..jobs import HTML, REGIONS, check_basemap
from ..options import advanced, file, option, path

if TYPE_CHECKING:
    from ...release.pair import PairResult

__all__ = ["Found", "found_of", "run", "write_map"]


@dataclass(frozen=True, eq=False)
class Found:
    """What a finished campaign has to show, whoever was trusted.

    Attributes
    ----------
    files : dict
        What belongs into a folder, by name.
    words : list of str
        What is said of it.
    counts : Counts or None
        What follows from the transcript; None if it was not asked for.
    statement : str
        The promise, for people.
    rounds, promise, numbers
        Of the interactive map.
    """

    files: Mapping[str, bytes]
    words: Sequence[str]
    counts: PairResult | None
    statement: str
    rounds: Sequence[Rows] = ()
    promise: Guarantee | None = None
    numbers: Mapping[str, str] | None = None


def run(
    campaign: CampaignName,
    /,
    *,
    out: Annotated[
        Path | None,
        option(
            "folder for results.json, regions.geojson and statement.txt; with --grid or --queries a file for the "
            "counts",
            "PATH",
            path,
        ),
    ] = None,
    queries: QueryOptions = QueryOptions(),
    plot: Annotated[Path | None, file("draw the regions: .png, .svg or .pdf")] = None,
    html: Annotated[Path | None, file("write an interactive map, one file that needs no net")] = None,
    basemap: Annotated[
        Path | None, advanced("lines behind the map of --html, GeoJSON; else land and sea", "FILE", path)
    ] = None,
    office: Office = Office(),
) -> int:
    """Write or count."""
    if plot is not None:
        need_matplotlib()
    check_basemap(html, basemap)
    outputs = {"--plot": (plot, PICTURES), "--html": (html, HTML)}
    check_outputs(outputs | ({"--out": (out, REGIONS)} if queries.asked else {}), inputs=[queries.queries, basemap])
    drawn = plot is not None or html is not None
    if not queries.asked:
        _check_folder(out, drawn=drawn)
    with connect(office) as client:
        task = client.find(campaign)
        found = found_of(client, task, whole=queries.asked or drawn)
        name = client.name(task) if html is not None else ""
    if found.counts is not None and plot is not None:
        save_picture(found.counts.partition, plot)
        print(f"wrote {plot}", file=sys.stderr)
    if html is not None:
        write_map(found, html, title=name, basemap=basemap)
        print(f"wrote {html}", file=sys.stderr)
    if queries.asked and found.counts is not None:
        _count(found.counts, queries, out, found.statement)
    elif out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in found.files.items():
            with replacing(out / name) as stream:
                stream.write(content)
        print("\n".join([*found.words, "wrote " + ", ".join(str(out / name) for name in found.files)]))
    return DONE


def found_of(client: AdminClient, task: str, *, whole: bool) -> Found:
    """What a finished campaign has to show; the ``whole`` with the counts that follow from its transcript."""
    return _of_pair(client, task) if is_pair_task(client.task(task)) else _of_rounds(client, task, whole)


def write_map(
    found: Found, path: Path, *, title: str, basemap: Path | None = None, asked: Sequence[Asked] = ()
) -> None:  # fmt: skip
    """Write the interactive map, with questions that were answered already."""
    from ...page.single import map_html

    assert found.counts is not None
    assert found.promise is not None
    document = map_html(
        found.rounds, found.counts.partition.task.hierarchy, found.promise, title=title, numbers=found.numbers or {},
        basemap=basemap, counted=found.counts.tree, asked=asked,
    )  # fmt: skip
    write_text(path, document)


def _check_folder(out: Path | None, *, drawn: bool) -> None:
    if out is None:
        if not drawn:
            raise InvalidInput(
                "say what to write: --out FOLDER for everything, --grid or --queries, --plot FILE or --html FILE"
            )
        return
    check_folder("--out", out)
    if out.suffix.lower() in REGIONS and not out.is_dir():
        raise InvalidInput(
            f"--out {out}: everything is written into a folder, so give the name of one; a file is for counts: say "
            "with --grid or --queries what to count"
        )


def _of_rounds(client: AdminClient, task: str, whole: bool) -> Found:
    """A campaign where nobody is trusted: what the server publishes, and the replay if the ``whole`` is needed."""
    document, published = client.results(task)  # refuses unless the campaign is finished
    statement = client.statement(task)
    files = {"results.json": _json(document, indent=2), "statement.txt": f"{statement}\n".encode()}
    if (drawn := client.geojson(task)) is not None:
        files["regions.geojson"] = _json(drawn)
    words = [published.text()]
    words += [
        f"mean of {mean.function} = {mean.text()} (epsilon = {mean.epsilon:g} for {mean.adjacency}, delta 0)"
        for mean in published.means
    ]
    if not whole:
        return Found(files, words, None, statement)
    from ...service.results import campaign_promise

    events, plan = client.events(task), client.plan(task)
    partition = Curator.replay(decode(client.task(task), Task), events, plan).partition
    numbers = {"took part": f"{partition.people:,}"}
    numbers |= {f"mean of {mean.function}": mean.text() for mean in published.means}
    rounds = split_rows(partition, splits_of(events))
    return Found(files, words, counts(partition), statement, rounds, campaign_promise(partition, plan), numbers)


def _of_pair(client: AdminClient, task: str) -> Found:
    """The counts of two servers, from their transcript."""
    from ...release.pair import pair_counts, pair_document

    data = client.transcript(task)
    pair = SignedTree.from_bytes(data).task
    if pair.id.hex() != task:
        raise InvalidInput("the server gave the transcript of another task than the one asked for")
    found = pair_counts(data)
    document = pair_document(data, found)
    files = {"results.json": _json(document, indent=2), "statement.txt": f"{document['statement']}\n".encode()}
    if found.partition.task.box.dimensions == 2:
        files["regions.geojson"] = _json(found.to_geojson())
    files["transcript.slt"] = data
    cells, reports = number_of(len(found.partition), "final cell"), number_of(found.total, "report")
    rejected = f"{document['rejected']:,} people rejected, whose uploads failed the check"
    words, numbers = [f"{cells}, {reports}; {rejected}; {found.guarantee.sentence()}"], {"reports": f"{found.total:,}"}
    if isinstance(found, Mean):
        what, (low, high) = found.spent.entries[0].what, found.interval()
        numbers[what] = f"{found.value:.6g}, 95 % interval {low:.6g} to {high:.6g}"
        words.append(f"{what} = {numbers[what]}, standard error {found.stderr:.2g}")
    rounds = [partition_rows(found.partition)]
    return Found(files, words, found, pair.statement(found.guarantee), rounds, found.guarantee, numbers)


def _json(document: Any, indent: int | None = None) -> bytes:
    return (json.dumps(document, indent=indent) + "\n").encode()


def _count(found: PairResult, asked: QueryOptions, out: Path | None, statement: str) -> None:
    task = found.partition.task
    queries = queries_of(asked, task.box, task.hierarchy)
    answers = found.query(queries.areas, rounding=asked.rounding)
    table = write_answers(queries, answer_columns(queries, answers, task.box, level=asked.level), out, task.box)
    many, regions = number_of(len(queries), "query", "queries"), number_of(len(found.partition), "region")
    print(f"{many} over {regions}\n{statement}", file=sys.stderr)
    if out is not None:
        print(f"wrote {out}", file=sys.stderr)
    print(table, end="")
