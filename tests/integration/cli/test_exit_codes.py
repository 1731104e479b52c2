"""Every command ends with the codes that the table promises, and errors are one line with one prefix.

Real runs: a server process, devices, a transcript. The seen codes are compared with the catalogue.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import semilocal.lab.audit
from semilocal.cli.catalogue import BAD_INPUT, COMMANDS, DONE, EXIT_CODES, FOUND, STOPPED
from semilocal.cli.main import main
from semilocal.lab.audit.cases import Finding
from semilocal.testing import ADMIN_TOKEN, Server, cluster
from tests.helpers import HANG
from tests.helpers.commands import UNIT, crowd, write_people
from tests.helpers.forked import ForkedServer

PEOPLE = 12
JOB = (*UNIT, "--trust", "nobody", "--epsilon", "2", "--k", "20", "--quiet", "--seed", "1")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("SEMILOCAL_ADMIN_TOKEN", ADMIN_TOKEN)
    served = ForkedServer(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt")
    served.start()
    yield served
    served.kill()


def table_of_codes() -> dict[str, set[int]]:
    codes = {name: {DONE, BAD_INPUT} | ({FOUND} if command.found else set()) for name, command in COMMANDS.items()}
    codes["serve"] = {STOPPED, BAD_INPUT}  # it ends when it is stopped
    return codes


def test_every_command_ends_as_the_table_says(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, set[int]] = defaultdict(set)

    def ends(code: int, *words: object) -> str:
        capsys.readouterr()
        given = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert given == code, (words, out, err)
        assert "Traceback" not in err
        if code == BAD_INPUT:
            assert err.splitlines()[-1].startswith("semilocal: error: ")
        seen[str(words[0])].add(given)
        return out

    table = write_people(tmp_path / "people.csv", crowd(600))
    for job, more in (
        ("partition", ()), ("counts", ("--grid", "2x2")), ("mean", ("--function", "coordinate:lat")), ("points", ()),
    ):  # fmt: skip
        ends(DONE, job, table, *JOB, *more)
        ends(BAD_INPUT, job, tmp_path / "none.csv", *JOB, *more)
    ends(DONE, "demo", "--out", tmp_path / "demo", "--seed", "1")
    ends(BAD_INPUT, "demo", "--out", table)
    plan = ("plan", "--n", "500", "--k", "20", "--plays", "1", "--bounds", "0,0,1,1")
    ends(DONE, *plan, "--epsilon", "1")
    ends(FOUND, *plan, "--want", "0.0001")
    ends(BAD_INPUT, *plan)
    ends(BAD_INPUT, "audit", "--runs", "3")
    for measured, code in ((0.9, DONE), (2.0, FOUND)):
        found = Finding("x", "epsilon", 1.0, measured, "exact")
        with monkeypatch.context() as catalogue:
            catalogue.setattr(semilocal.lab.audit, "CASES", (lambda runs, rng, found=found: [found],))
            assert ("BROKEN" in ends(code, "audit")) == (code == FOUND)
    ends(DONE, "reproduce", "--list")
    ends(BAD_INPUT, "reproduce", "atlantis", "--out", tmp_path / "figures")
    assert not (tmp_path / "figures").exists()
    ends(BAD_INPUT, *plan, "--epsilon", "1", "--want", "0.5")

    office = ("--url", server.url)
    create = ("campaign", "create", "--name", "walkers", "--bounds", "0,0,1,1", "--epsilon", "2", "--delta", "0.05",
              "--k", "2", "--max-depth", "4", "--enrolment", "open", *office)  # fmt: skip
    ends(DONE, *create, "--capacity", PEOPLE + 1)
    ends(BAD_INPUT, *create, "--capacity", PEOPLE + 1)
    ends(BAD_INPUT, "results", "walkers", "--out", tmp_path / "early", *office)
    ends(DONE, "tokens", "new", "--count", "1", *office)
    ends(BAD_INPUT, "tokens", "new", "--count", "1", "--campaign", "nobody", *office)
    positions = write_people(tmp_path / "devices.csv", cluster(PEOPLE))
    swarm = ("swarm", server.url, "--points", positions, "--quiet")
    join = ("join", server.url, "--position", "0.3,0.3", "--spread", "0", "--yes")
    ends(BAD_INPUT, *swarm, "--devices", PEOPLE + 1)
    ends(BAD_INPUT, *join, "--vault", tmp_path)
    limits = ("--min-k", "1", "--max-delta", "1")
    own = ("--vault", tmp_path / "vault", *limits)
    ends(FOUND, *join, "--vault", tmp_path / "strict", "--min-k", "1000")
    others = threading.Thread(target=lambda: seen["swarm"].add(main([str(word) for word in swarm])))
    others.start()
    seen["join"].add(main([str(word) for word in (*join, *own)]))
    others.join(60)
    task = ends(DONE, "campaign", "list", *office).split()[0]
    ends(FOUND, "swarm", f"{server.url}/tasks/{task}", *swarm[2:])  # it is over
    ends(DONE, "results", "walkers", "--out", tmp_path / "out", *office)
    transcript = tmp_path / "t.slt"
    ends(DONE, "transcript", server.url, "walkers", "--out", transcript)
    ends(DONE, "verify", transcript)
    ends(BAD_INPUT, "verify", tmp_path / "none.slt")
    ends(BAD_INPUT, "transcript", server.url, "nobody", "--out", tmp_path / "other.slt")
    assert not list(tmp_path.glob("other.slt*"))
    damaged = bytearray(transcript.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    transcript.write_bytes(damaged)
    ends(FOUND, "verify", transcript)
    ends(BAD_INPUT, "serve", "--db", "oracle://x")
    database = f"sqlite:///{tmp_path / 'other.db'}"
    seen["serve"].add(interrupted("serves at", "serve", "--port", "0", "--db", database))
    ends(DONE, "backup", "--db", database, "--out", tmp_path / "copy.db")
    ends(BAD_INPUT, "backup", "--db", "postgresql://x/y", "--out", tmp_path / "copy.db")
    assert dict(seen) == table_of_codes()


def interrupted(words: str, *command: str) -> int:
    """Exit code of a command that has said something and is stopped with one Ctrl-C."""
    # a shell without job control, and nohup, start programs that ignore SIGINT
    restore = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    process = subprocess.Popen(
        [sys.executable, "-m", "semilocal", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        preexec_fn=restore,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout as output:
        assert words in output.readline()
        process.send_signal(signal.SIGINT)
        return process.wait(HANG)


def test_the_table_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == DONE
    text = " ".join(capsys.readouterr().out.split())
    for code, words in EXIT_CODES.items():
        assert f"{code} {words}" in text
    for name, command in COMMANDS.items():
        assert main([name, "--help"]) == DONE
        assert not command.found or f"ends with 1 if {command.found}." in " ".join(capsys.readouterr().out.split())
