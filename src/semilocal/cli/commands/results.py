"""``semilocal results``: what a finished campaign publishes, as files; or counts in boxes, with intervals.

Everything that is counted, drawn or said is computed here from the public transcript, after it was replayed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ...errors import InvalidInput
from ...io.files import check_folder, replacing, write_text
from ...io.map_rows import Rows, partition_rows, split_rows
from ...io.plots import save_picture
from ...io.queries import Asked
from ...protocol.curator import Curator
from ...protocol.messages import ValueClosed, decode
from ...protocol.promise import Guarantee
from ...protocol.task import Task
from ...release import collected_mean, counts
from ...release.means import Mean
from ...sharing import is_pair_task
from ...sharing.wire import SignedTree
from ...simulation.simulate import splits_of
from ...words import number_of
from ..admin import AdminClient, CampaignName, Office, connect
from ..catalogue import DONE
from ..jobs import REGIONS, TABLES, MapFiles, QueryOptions, answer_columns, check_maps, write_answers
from ..options import option, path

if TYPE_CHECKING:
    from ...release.pair import PairResult


@dataclass(frozen=True, eq=False)
class Found:
    """What a finished campaign has to show, whoever was trusted."""

    files: Mapping[str, bytes]  # what belongs into a folder, by name
    words: Sequence[str]  # what is said of it
    counts: PairResult  # what follows from the transcript
    statement: str  # the promise, for people
    rounds: Sequence[Rows]  # of the interactive map, with all below
    promise: Guarantee
    numbers: Mapping[str, str]


def run(
    campaign: CampaignName,
    /,
    *,
    out: Annotated[
        Path | None,
        option("folder for results.json, regions.geojson and statement.txt; with --grid or --queries a file for the "
               "counts", "PATH", path),
    ] = None,
    queries: QueryOptions = QueryOptions(),
    maps: MapFiles = MapFiles(),
    office: Office = Office(),
) -> int:  # fmt: skip
    """Write or count."""
    check_maps(maps, {"--out": (out, TABLES)} if queries.asked else {}, inputs=[queries.queries])
    if not queries.asked and out is not None:
        check_folder("--out", out)
        if out.suffix.lower() in REGIONS and not out.is_dir():
            raise InvalidInput(
                f"--out {out}: everything is written into a folder, so give the name of one; a file is for counts: say "
                "with --grid or --queries what to count"
            )
    elif not (queries.asked or maps.plot or maps.html):
        raise InvalidInput("say what to write: --out FOLDER, --plot FILE, --html FILE, or --grid or --queries to count")
    with connect(office) as client:
        row = client.find(campaign)
        found = found_of(client, row.task)
    if maps.plot is not None:
        save_picture(found.counts.partition, maps.plot)
        print(f"wrote {maps.plot}", file=sys.stderr)
    if maps.html is not None:
        write_map(found, maps.html, title=row.name)
        print(f"wrote {maps.html}", file=sys.stderr)
    if queries.asked:
        _count(found, queries, out)
    elif out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in found.files.items():
            with replacing(out / name) as stream:
                stream.write(content)
        print("\n".join([*found.words, "wrote " + ", ".join(str(out / name) for name in found.files)]))
    return DONE


def found_of(client: AdminClient, task: str) -> Found:
    """What a finished campaign has to show."""
    return _of_pair(client, task) if is_pair_task(client.task(task)) else _of_rounds(client, task)


def write_map(found: Found, path: Path, *, title: str, asked: Sequence[Asked] = ()) -> None:
    """Write the interactive map, with questions that were answered already."""
    from ...page.single import map_html

    document = map_html(
        found.rounds, found.counts.partition.task.hierarchy, found.promise, title=title, numbers=found.numbers,
        counted=found.counts.tree, asked=asked,
    )  # fmt: skip
    write_text(path, document)


def _of_rounds(client: AdminClient, task: str) -> Found:
    """A campaign where nobody is trusted: what the server publishes, and the replay."""
    from ...service.results import campaign_promise

    document = client.results(task)  # refuses unless the campaign is finished
    statement, events, plan = client.statement(task), client.events(task), client.plan(task)
    partition = Curator.replay(decode(client.task(task), Task), events, plan).partition
    members = number_of(partition.people, "participant")
    words, numbers = [f"{number_of(len(partition), 'region')} with {members} (public by design)"], {}
    for closed in events:
        release = plan.releases[closed.index] if isinstance(closed, ValueClosed) else None
        if isinstance(closed, ValueClosed) and release and release.kind == "mean" and sum(closed.responders):
            told = _mean_words(collected_mean(partition, closed, release))
            numbers[f"mean of {release.build().name}"] = told
            words.append(f"{release.what} = {told}{str(release).removeprefix(release.what)}")
    numbers = {"took part": f"{partition.people:,}"} | numbers
    result, rounds = counts(partition), split_rows(partition, splits_of(events))
    files, promised = _files(document, statement, result), campaign_promise(partition, plan)
    return Found(files, words, result, statement, rounds, promised, numbers)


def _of_pair(client: AdminClient, task: str) -> Found:
    """The counts of two servers, from their transcript."""
    from ...release.pair import pair_counts, pair_document

    data = client.transcript(task)
    pair = SignedTree.from_bytes(data).task
    if pair.id.hex() != task:
        raise InvalidInput("the server gave the transcript of another task than the one asked for")
    found = pair_counts(data)
    document = pair_document(data, found)
    files = _files(document, document["statement"], found) | {"transcript.slt": data}
    cells, reports = number_of(len(found.partition), "final cell"), number_of(found.total, "report")
    rejected = f"{document['rejected']:,} people rejected, whose uploads failed the check"
    words, numbers = [f"{cells}, {reports}; {rejected}; {found.guarantee.sentence()}"], {"reports": f"{found.total:,}"}
    if isinstance(found, Mean):
        what = found.spent.entries[0].what
        numbers[what] = _mean_words(found)
        words.append(f"{what} = {numbers[what]}, standard error {found.stderr:.2g}")
    rounds = [partition_rows(found.partition)]
    return Found(files, words, found, pair.statement(found.guarantee), rounds, found.guarantee, numbers)


def _mean_words(found: Mean) -> str:
    low, high = found.interval()
    return f"{found.value:.6g}, 95 % interval {low:.6g} to {high:.6g}"


def _files(document: dict[str, Any], statement: str, result: PairResult) -> dict[str, bytes]:
    """What belongs into a folder whoever is trusted; there is no map of one axis."""
    files = {"results.json": json.dumps(document, indent=2), "statement.txt": statement}
    if result.partition.task.box.dimensions == 2:
        files["regions.geojson"] = json.dumps(result.to_geojson())
    return {name: f"{text}\n".encode() for name, text in files.items()}


def _count(found: Found, asked: QueryOptions, out: Path | None) -> None:
    result, task = found.counts, found.counts.partition.task
    queries = asked.read(task.box, task.hierarchy)
    answers = result.query(queries.areas, rounding=asked.rounding)
    table = write_answers(queries, answer_columns(queries, answers, task.box, level=asked.level), out, task.box)
    many, regions = number_of(len(queries), "query", "queries"), number_of(len(result.partition), "region")
    print(f"{many} over {regions} of {result.counted}\n{found.statement}", file=sys.stderr)
    if out is not None:
        print(f"wrote {out}", file=sys.stderr)
    print(table, end="")
