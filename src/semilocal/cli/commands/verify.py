"""``semilocal verify``: replay a transcript, name all that does not follow; ``semilocal transcript``: get one."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

from ...errors import InvalidInput, SemilocalError, printable
from ...io.files import check_outputs
from ...pooled.play import Published
from ...release.counts import pooled_counts
from ...sharing import is_signed_tree
from ...words import number_of
from ..catalogue import DONE, FOUND
from ..options import existing, file, option, path, server_url

_HONEST = "No transcript can show that the published numbers are honest counts with honest noise."


def run(
    file: Annotated[
        Path | str,
        option("a transcript (.slt), or the task: https://server/tasks/ID",
               read=lambda text: server_url(text) if text.startswith(("http://", "https://")) else path(text)),
    ],
    /,
    *,
    against: Annotated[Path | None, existing("another transcript of the same task: two histories?")] = None,
) -> int:  # fmt: skip
    """Verify; 1 if anything is different."""
    if isinstance(file, Path):
        return _verify(file, against)
    from ...device.channel import split_url
    from ...device.download import save_transcript

    server, name = split_url(file)
    if not name:
        raise InvalidInput(f"give the URL of a task, https://server/tasks/ID; got {file}")
    with tempfile.TemporaryDirectory(prefix="semilocal-verify-") as folder:
        local = Path(folder) / "transcript.slt"
        save_transcript(server, name, local)
        if is_signed_tree(data := local.read_bytes()):
            return _verify_pair(data, _other_copy(data, server), task=bytes.fromhex(name))
        return _verify(local, against)


def _verify(path: Path, against: Path | None) -> int:
    """Replay what a file holds, of whichever of the three kinds it is."""
    from ...transcript.file import MAGIC
    from ...transcript.verify import compare_histories, verify_file

    with path.open("rb") as stream:
        start = stream.read(64)
    if is_signed_tree(start):
        return _verify_pair(path.read_bytes(), None if against is None else against.read_bytes())
    if b"pooled-tree" in start:
        if against is not None:
            raise InvalidInput(f"{path} is the transcript of a pooled run: --against does not apply")
        return _verify_pooled(path.read_bytes())
    if not start.startswith(MAGIC):
        raise _not_readable(str(path))
    begin = time.perf_counter()
    found = verify_file(path)
    seconds = max(time.perf_counter() - begin, 1e-9)
    if against is not None:
        other = verify_file(against)
        if other.task is None:
            raise _not_readable(f"--against {against}")
        found.differences += compare_histories(found, other)
    print("\n".join(printable(line, most=1000) for line in found.lines()))
    if found.task is not None:
        print(f"{found.reports / seconds:,.0f} reports per second")
    return DONE if found.sound else FOUND


def _not_readable(what: str) -> InvalidInput:
    return InvalidInput(
        f"{what}: is no transcript that can be read, so nothing can be checked; give a file that --transcript or "
        "semilocal transcript wrote"
    )


def _verify_pair(data: bytes, other: bytes | None, *, task: bytes | None = None) -> int:
    """Replay what two servers published."""
    from ...release.pair import pair_counts
    from ...transcript.pair import verify_pair

    found = verify_pair(data, task=task, other=other)
    print("\n".join(found.lines()))
    if not found.sound:
        return FOUND
    print(_HONEST)
    if found.pair is not None:
        print(found.pair.statement(pair_counts(data).guarantee))
    return DONE


def _other_copy(data: bytes, server: str) -> bytes | None:
    """The same transcript from the other operator; None, with a line on stderr, if it cannot be had."""
    from ...device.download import Getter
    from ...sharing.wire import SignedTree

    try:
        pair = SignedTree.from_bytes(data).task
    except InvalidInput:
        return None  # the verification names it
    other = pair.helper if server == pair.leader.origin else pair.leader
    found, reason = None, "it has none"
    try:
        with Getter(other.origin) as get:
            found = get(f"/tasks/{pair.id.hex()}/transcript")
    except SemilocalError as error:
        reason = str(error)
    if found is None:
        print(f"semilocal: not compared with {other.name}'s copy: {reason}", file=sys.stderr)
    return found


def _verify_pooled(data: bytes) -> int:
    """Replay the rule over the published numbers."""
    from ...transcript.file import Simulation

    try:
        published = Published.from_bytes(data)
        counted, mark = pooled_counts(published), published.mark
        said = "" if mark is None or mark.seed is None else f"{Simulation(mark.seed).words}\n"
    except InvalidInput as error:
        print(f"DIFFERENT: {printable(str(error), most=1000)}")
        return FOUND
    print(
        f"{said}the rule gives the same {number_of(len(counted.partition), 'final cell')} from the same published "
        f"numbers; {number_of(counted.total, 'report')}, task {published.task.id.hex()[:16]}\n{_HONEST}"
    )
    print(counted.guarantee.explain())
    return DONE


def run_transcript(
    url: Annotated[str, option("the server", "URL", server_url)],
    campaign: Annotated[str, option("the task's id (64 hex digits) or the campaign's name")],
    /,
    *,
    out: Annotated[Path, file("where it goes")] = Path("transcript.slt"),
) -> int:
    """Download."""
    from ...device.download import save_transcript

    check_outputs({"--out": (out, ())})
    rounds = save_transcript(url, campaign, out)
    data = out.read_bytes()
    what = "published by two servers" if is_signed_tree(data) else number_of(rounds, "closed round")
    print(f"{out}: {what}, {number_of(len(data), 'byte')}. Check it: semilocal verify {shlex.quote(str(out))}")
    return DONE
