"""The result of two servers: the transcript as both show it, and the files that ``results`` writes from it.

Knows files and the public routes. Everything is computed from the transcript, after it was replayed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..errors import InvalidInput, SemilocalError
from ..io.files import replacing, write_text
from ..release.pair_counts import PairResult, pair_counts, pair_document
from ..sharing.wire import SignedTree
from ..transcript.fetch import Getter
from .admin_client import AdminClient

__all__ = ["other_copy", "read_result", "write_folder"]


def other_copy(data: bytes, server: str) -> bytes | None:
    """The same transcript from the other operator; None, with a line on stderr, if it cannot be had.

    Parameters
    ----------
    data : bytes
        The transcript as one server gave it.
    server : str
        That server.
    """
    try:
        pair = SignedTree.from_bytes(data).task
    except InvalidInput:
        return None  # the verification names it
    other = pair.helper if server == pair.leader.origin else pair.leader
    try:
        with Getter(other.origin) as get:
            found = get(f"/tasks/{pair.id.hex()}/transcript")
        reason = "it has none"
    except SemilocalError as error:
        found, reason = None, str(error)
    if found is None:
        print(f"semilocal: not compared with {other.name}'s copy: {reason}", file=sys.stderr)
    return found


def read_result(client: AdminClient, task: str) -> tuple[bytes, PairResult]:
    """The transcript of a finished pair, and the counts it gives."""
    data = client.transcript(task)
    if SignedTree.from_bytes(data).task.id.hex() != task:
        raise InvalidInput("the server gave the transcript of another task than the one asked for")
    return data, pair_counts(data)


def write_folder(data: bytes, counts: PairResult, folder: Path) -> list[Path]:
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
