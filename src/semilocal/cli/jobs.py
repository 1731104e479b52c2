"""What the job commands (partition, counts, mean, points) share: a file and what is promised, a run, what is said.

A command calls :meth:`FileJob.open`, which refuses all that can be refused before rows are read, prepares its question,
runs, writes, and tells. Computes nothing itself: :class:`semilocal.release.job.Job` does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidInput
from ..functions import BoundedFunction
from ..geometry.box import Box
from ..hierarchy import AnyTree
from ..io.files import check_outputs, replacing
from ..io.plots import PICTURES, need_matplotlib, save_picture
from ..io.queries import Asked
from ..pooled.play import Published
from ..release.counts import AnyRun
from ..release.job import Done, Job, Question
from ..simulation.simulate import Run
from ..words import number_of
from .catalogue import DONE
from .job_options import JobOptions, MapFiles, Promise, task_options
from .rows import FileRows, OwnValue, open_rows

__all__ = ["REGIONS", "FileJob", "OwnValue", "check_maps"]

REGIONS = (".geojson", ".csv", ".parquet")
_POOLED = ("epsilon", "resolution")  # options of a task that do not need trust nobody


@dataclass(eq=False)
class FileJob:
    """A job as it was typed. Its domain is known, its rows are not read yet.

    Attributes
    ----------
    command : str
    promise : Promise
    options : JobOptions
    rows : FileRows
    out : Path or None
        Where the answer goes.
    maps : MapFiles
    transcript : Path or None
        Where all that was published goes.
    counted : str
        Who was counted, in words; empty before the run.
    """

    command: str
    promise: Promise
    options: JobOptions
    rows: FileRows
    out: Path | None
    maps: MapFiles
    transcript: Path | None
    counted: str = ""

    @classmethod
    def open(
        cls, command: str, file: Path, promise: Promise, options: JobOptions, maps: MapFiles, *,
        out: Path | None = None, endings: Sequence[str] = (), transcript: Path | None = None,
        inputs: Sequence[Path | None] = (), value: OwnValue | None = None,
    ) -> FileJob:  # fmt: skip
        """Check outputs and options, and read the first line of the file."""
        outputs = {"--out": (out, endings), "--transcript": (transcript, (".slt",))}
        check_maps(maps, outputs, inputs=[file, *inputs])
        wrong = [name for name in task_options(promise, promise.cells) if name not in _POOLED]
        if promise.trust != "nobody" and wrong:
            raise InvalidInput(
                f"{', '.join(f'--{name}' for name in wrong)}: not with --trust {promise.trust}, which promises plain "
                "differential privacy without regions and crowds; leave it out, or take --trust nobody"
            )
        job = cls(command, promise, options, open_rows(file, promise.bounds, options, value), out, maps, transcript)
        job._job("counts").planned()  # refuses
        drawn = {"--out": out, "--plot": maps.plot, "--html": maps.html}
        for option, path in drawn.items() if job.box.dimensions != 2 else ():
            if path is not None and path.suffix.lower() != ".csv":
                raise InvalidInput(
                    f"{option} {path}: maps and pictures need two dimensions, the positions have "
                    f"{job.box.dimensions}; write .csv"
                )
        return job

    @property
    def box(self) -> Box:
        """The public domain."""
        return self.rows.box

    @property
    def tree(self) -> AnyTree | None:
        """The hierarchy, if the domain is more than a box."""
        return self.rows.tree

    @property
    def pooled(self) -> bool:
        """Whether the participants trust somebody."""
        return self.promise.trust != "nobody"

    def run(
        self, question: Question = "counts", f: BoundedFunction | None = None, *, only_counted: bool = False,
        **changes: Any,
    ) -> Done:  # fmt: skip
        """Read the rows and run. With ``only_counted`` their deepest cells are enough where somebody is trusted."""
        job = self._job(question)
        cells = job.planned().hierarchy if only_counted and self.pooled else None
        rows = self.rows.read(job._draws, pooled=self.pooled, codes_of=cells)
        with self.options.output.step("counting" if self.pooled else "rounds played") as step:
            job = replace(
                job, data=rows.data, f=f or rows.column, users=rows.users, progress=lambda *_: step.advance(), **changes
            )
            done = replace(job.run(), data=None)  # the answers need the memory of the rows
        self.counted = self._who(done, rows.total)
        return done

    def _job(self, question: Question) -> Job:
        promise, seed = self.promise, self.options.output.seed
        cells = task_options(promise.cells) | ({} if self.tree is None else {"hierarchy": self.tree})
        return Job(
            question=question, data=None, box=self.box if self.tree is None else None, trust=promise.trust,
            epsilon=promise.epsilon, delta=promise.delta, k=promise.k, rows=self.options.people.rows_per_user,
            seed=seed, keyed=self.transcript is not None, options=cells,
            rng=None if seed is None else np.random.default_rng(seed),
        )  # fmt: skip

    def _who(self, done: Done, rows: int) -> str:
        """Who was counted, and of how many rows."""
        people, several = self.options.people, self.options.people.rows_per_user
        if several > 1:
            return f"{number_of(_participants(done), 'row')}, up to {several} of each person, of {rows:,}"
        return number_of(_participants(done), "person", "people") + (
            f", one row each of {rows:,}" if people.user else ""
        )

    # -- writing and telling -----------------------------------------------------------------------------------

    def write(self, done: Done, *, asked: Sequence[Asked] = (), numbers: Mapping[str, str] | None = None) -> list[str]:
        """Write the maps, with questions and numbers, and the transcript; the names of all files."""
        result, rows, maps = done.result, self.options.people.rows_per_user > 1, self.maps
        people = "rows" if rows else "participants"
        title = f"{self.rows.file.name}: {result.total:,} {people}, trust {self.promise.trust}, "
        title += f"epsilon = {self.promise.epsilon:g}"
        if maps.plot is not None:
            what = f"{number_of(len(asked), 'question')}" if asked else number_of(len(result.partition), "region")
            save_picture(result.partition, maps.plot, title=f"{title}\n{what}", asked=asked)
        if maps.html is not None:
            from ..page.single import write_html

            write_html(
                maps.html, done.run if isinstance(done.run, Run) else result, result.guarantee, title=title,
                numbers={people: f"{result.total:,}", **(numbers or {})}, asked=asked,
            )  # fmt: skip
        if self.transcript is not None:
            with replacing(self.transcript) as stream:
                if isinstance(done.run, Published):
                    stream.write(done.run.to_bytes())
                else:
                    from ..transcript.file import write_events

                    write_events(stream, done.run.events, seed=self.options.output.seed)
        return [str(path) for path in (self.out, maps.plot, maps.html, self.transcript) if path is not None]

    def tell(self, done: Done, found: dict[str, Any], words: Sequence[str], *, table: str = "", files: Any = ()) -> int:
        """Print results and promise: as one JSON object, or in words, on stderr if a table goes to stdout."""
        output, promised = self.options.output, done.result.guarantee
        found |= {"files": files} if files else {}
        if output.json:
            people = {"rows" if promised.rows > 1 else "participants": _participants(done)}
            promise = {"privacy": promised.to_json(), "simulation": done.result.simulated, "seed": output.seed}
            print(json.dumps({"command": self.command, **people, **found, **promise}))
            return DONE
        lines = [*words, *(f"wrote {path}" for path in files)]
        if output.seed is not None:
            lines.insert(0, f"Seed {output.seed} makes the noise repeatable, so it protects nobody.")
        if output.explain:
            lines += ["", promised.explain(), "", str(done.result.spent)]
        else:
            lines.append(f"Promised: {promised.sentence()}")
            if promised.rows > 1:
                lines.append(f"One person may have {promised.rows} rows: the losses are for all of them together.")
            lines.append("The whole statement: --explain.")
        print("\n".join(lines), file=sys.stderr if table else sys.stdout, flush=True)
        print(table, end="")
        return DONE


def check_maps(
    maps: MapFiles, outputs: Mapping[str, tuple[Path | None, Sequence[str]]], *, inputs: Sequence[Path | None]
) -> None:
    """Refuse outputs that cannot be written, and maps that cannot be drawn, before anything is read."""
    if maps.plot is not None:
        need_matplotlib()
    drawn = {"--plot": (maps.plot, PICTURES), "--html": (maps.html, (".html",))}
    check_outputs({**outputs, **drawn}, inputs=inputs)


def _participants(done: Done) -> int:
    found: int = (done.run if isinstance(done.run, AnyRun) else done.result).participants
    return found
