"""The result of two servers: the transcript as both show it, and the files that ``results`` writes from it.

Knows files and the public routes. Everything is computed from the transcript, after it was replayed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..errors import InvalidInput, SemilocalError
from ..io.files import replacing, write_text
from ..release.bucket_counts import BucketCounts
from ..release.pair_counts import pair_counts, pair_document
from ..release.pooled_counts import PooledCounts
from ..sharing.pair import is_pair_task
from ..sharing.wire import SignedTree
from .admin_client import AdminClient

__all__ = ["is_pair_url", "read_result", "shown_by_both", "write_folder"]


def is_pair_url(url: str) -> bool:
    """Whether a URL leads to a task of two servers."""
    from ..device.channel import split_url

    server, name = split_url(url)
    if not name:
        return False
    with AdminClient(server) as client:
        return is_pair_task(client.task(name))


def shown_by_both(url: str) -> tuple[bytes, bytes | None]:
    """The transcript at a URL, and the other operator's copy; None, with a line on stderr, if it cannot be had."""
    from ..device.channel import split_url

    server, name = split_url(url)
    with AdminClient(server) as client:
        data = client.transcript(name)
    pair = SignedTree.from_bytes(data).task
    other = pair.helper if server == pair.leader.origin else pair.leader
    try:
        with AdminClient(other.origin) as client:
            return data, client.transcript(name)
    except SemilocalError as error:
        print(f"semilocal: not compared with {other.name}'s copy: {error}", file=sys.stderr)
        return data, None


def read_result(client: AdminClient, task: str) -> tuple[bytes, PooledCounts | BucketCounts]:
    """The transcript of a finished pair, and the counts it gives."""
    data = client.transcript(task)
    if SignedTree.from_bytes(data).task.id.hex() != task:
        raise InvalidInput("the server gave the transcript of another task than the one asked for")
    return data, pair_counts(data)


def write_folder(data: bytes, counts: PooledCounts | BucketCounts, folder: Path) -> list[Path]:
    """Write results.json, statement.txt, transcript.slt and, in two dimensions, regions.geojson."""
    document = pair_document(data, counts)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"results.json": json.dumps(document, indent=2) + "\n", "statement.txt": document["statement"] + "\n"}
    if counts.partition.task.box.dimensions == 2:
        files["regions.geojson"] = json.dumps(counts.to_geojson()) + "\n"
    for name, text in files.items():
        write_text(folder / name, text)
    with replacing(folder / "transcript.slt") as stream:
        stream.write(data)
    return [folder / name for name in (*files, "transcript.slt")]
