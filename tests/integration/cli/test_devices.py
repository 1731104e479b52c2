"""``join`` and ``swarm``: a silent server is named and given up; the owner sees what would be sent, and is asked."""

from __future__ import annotations

import io
import json
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from semilocal.cli.commands import join
from semilocal.cli.main import main
from semilocal.device.vault import Vault
from semilocal.testing import ADMIN_TOKEN, cluster
from tests.helpers.commands import Terminal, refused, run, write_people
from tests.helpers.forked import ForkedServer
from tests.helpers.hostile import Hostile, answer

OTHER_KEY = bytes(range(32))
POSITION = ("--position", "0.3125,0.4375")


@pytest.fixture
def closed() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """Accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--position", ""), ("--value", "12x3"), ("--value", "nan"), ("--value", "123,4"), ("--max-epsilon", "often"),
        ("--max-epsilon", ""), ("--max-epsilon", "1e400"), ("--min-side", "-1"),
    ],
)  # fmt: skip
def test_what_is_wrong_on_the_command_line_is_said_before_a_server_is_asked(
    capsys: pytest.CaptureFixture[str], closed: str, tmp_path: Path, option: str, text: str
) -> None:
    place = () if option == "--position" else POSITION
    words = ("join", closed, *place, option, text, "--yes", "--vault", str(tmp_path / "vault"), "--patience", "1")
    message = refused(capsys, *words)
    assert option.lstrip("-") in message.replace("min_side", "min-side")
    assert "does not answer" not in message
    assert option != "--value" or "12" not in message.replace("such as 12.5", "")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def other_site() -> Iterator[str]:
    """Another web server, such as a portal: every page is not found."""
    with Hostile(otherwise=answer(b"<html>", "text/html", status=404)) as site:
        yield site.url


@pytest.mark.parametrize("path", ["", f"/tasks/{'ab' * 32}"])
@pytest.mark.parametrize("kind", ["closed", "silent", "other_site"])
def test_a_server_that_does_not_answer_is_tried_visibly_and_given_up(
    capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    kind: str, path: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(join, "FIRST_ANSWER", 0.3)
    url = request.getfixturevalue(kind)
    people = write_people(tmp_path / "devices.csv", cluster(5))
    for command in (
        ("join", *POSITION, "--yes", "--vault", tmp_path / "vault"),
        ("swarm", "--points", people, "--quiet"),
    ):
        code, out, err = run(capsys, *command, url + path, "--patience", "1")
        assert (code, out) == (2, "")
        assert f"{url} does not answer ({'status 404' if kind == 'other_site' else ''}" in err.splitlines()[0]
        assert "trying again" in err.splitlines()[0]
        assert f"no semilocal server answered at {url} for 1 s (" in err.splitlines()[-1]
        assert "nothing has been sent" in err
    assert not (tmp_path / "vault").exists()


def test_a_server_that_comes_late_is_waited_for(
    capsys: pytest.CaptureFixture[str], closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(closed.rpartition(":")[2])
    server = ForkedServer(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt", port=port)
    tried = threading.Event()

    def notice(line: str) -> None:
        print(line, file=sys.stderr)
        tried.set()

    monkeypatch.setattr(join, "say", notice)

    def late() -> None:
        assert tried.wait(60)
        server.start()

    starter = threading.Thread(target=late)
    starter.start()
    try:
        code, _, err = run(
            capsys, "join", closed, *POSITION, "--yes", "--patience", "60", "--vault", tmp_path / "vault"
        )
        assert code == 2
        assert "does not answer" in err.splitlines()[0]
        assert "must have one task that enrols" in err.splitlines()[-1]
    finally:
        starter.join()
        server.kill()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("SEMILOCAL_ADMIN_TOKEN", ADMIN_TOKEN)
    running = ForkedServer(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt")
    running.start()
    yield running.url
    running.kill()


@pytest.fixture
def campaign(server: str, capsys: pytest.CaptureFixture[str]) -> str:
    create = ["campaign", "create", "--name", "walkers", "--bounds", "0,0,1,1", "--epsilon", "1", "--delta", "1e-4"]
    create += ["--k", "20", "--enrolment", "open", "--release", "mean:coordinate:0:0.5"]
    assert main([*create, "--url", server]) == 0
    capsys.readouterr()
    return server


def test_places_of_a_table_are_given_by_their_labels(
    server: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    paths = [["heart", "I21"], ["heart", "I25"], ["lung", "J18"], ["lung", "J44"]]
    (tmp_path / "icd.json").write_text(json.dumps({"name": "ICD", "paths": paths}))
    create = ["campaign", "create", "--name", "codes", "--bounds", tmp_path / "icd.json", "--epsilon", "1", "--k", "2"]
    create += ["--delta", "0.1", "--enrolment", "open", "--capacity", "6", "--url", server]
    assert "labels of 'ICD', which have no coordinates" in refused(capsys, *create, "--release", "mean:coordinate:0:1")
    assert run(capsys, *create)[0] == 0
    join = ("join", server, "--vault", tmp_path / "vault", "--yes", "--min-k", "50")
    code, out, _ = run(capsys, *join, "--position", "J18")
    assert (code, "small-crowd" in out) == (1, True)
    assert "Your position: ICD = J18. It stays on this device." in out
    message = refused(capsys, *join, "--position", "J17")
    assert "must be the label of a leaf of 'ICD'" in message
    assert "J1" not in message
    assert "--position is missing; --position - asks for it" in refused(capsys, *join)

    people = tmp_path / "people.csv"
    people.write_text("ICD\nJ44\nJ45\n")
    message = refused(capsys, "swarm", server, "--points", people, "--quiet")
    assert "people.csv, line 3" in message
    assert "J4" not in message
    people.write_text("ICD\n" + "J44\n" * 6)
    assert run(capsys, "swarm", server, "--points", people, "--quiet")[0] == 0


@pytest.mark.parametrize("answer", ["n\n", "\n", "maybe\n"])
def test_the_owner_is_asked_and_no_is_no(
    capsys: pytest.CaptureFixture[str], campaign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    code, out, _ = run(capsys, "join", campaign, *POSITION, "--vault", tmp_path / "vault")
    assert code == 0
    for part in (
        "What it costs you: epsilon = 1.5 (delta = 0) between any two places of one's region; at least 20 in it",
        "Your position: x0 = 0.3125, x1 = 0.4375. It stays on this device.", "Take part? [y/N]",
    ):  # fmt: skip
        assert part in out
    assert "Nothing was sent." in out
    with Vault.open(tmp_path / "vault") as vault:
        assert vault.contents.memberships == ()


def test_where_nobody_can_be_asked_a_clear_word_is_needed(
    capsys: pytest.CaptureFixture[str], campaign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert "give --yes" in refused(capsys, "join", campaign, *POSITION, "--vault", tmp_path / "vault")
    assert "is a folder" in refused(capsys, "join", campaign, *POSITION, "--yes", "--vault", tmp_path)


def test_administrators_need_their_token(
    capsys: pytest.CaptureFixture[str], campaign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SEMILOCAL_ADMIN_TOKEN")
    said = refused(capsys, "tokens", "new", "--count", "1", "--url", campaign)
    assert "needs the admin token: set SEMILOCAL_ADMIN_TOKEN or give --admin-token" in said
    assert run(capsys, "campaign", "list", "--url", campaign)[0] == 0  # everybody may read
    assert "[unauthorized]" in refused(
        capsys, "tokens", "new", "--count", "1", "--url", campaign, "--admin-token", "wrong-token-of-some-length"
    )


def test_a_campaign_that_default_devices_refuse_is_warned_about(
    capsys: pytest.CaptureFixture[str], campaign: str
) -> None:
    create = ["campaign", "create", "--name", "dear", "--bounds", "0,0,1,1", "--epsilon", "11", "--delta", "1e-4"]
    create += ["--k", "20", "--url", campaign]
    code, _, err = run(capsys, *create)
    assert code == 0
    assert "warning: devices with default limits would refuse: the task costs epsilon = " in err
    assert "10 is left; lower epsilon" in err
    hasty = ["campaign", "create", "--name", "hasty", "--bounds", "0,0,1,1", "--epsilon", "1", "--delta", "1e-4"]
    code, _, err = run(capsys, *hasty, "--k", "20", "--quorum", "0.5", "--url", campaign)
    assert code == 0
    assert "warning: devices may be left behind: a round may close when 50 %" in err
    assert "set quorum to 1" in err
    assert "default limits" not in err


def test_a_start_with_fewer_than_k_is_warned_about(
    capsys: pytest.CaptureFixture[str], campaign: str, tmp_path: Path
) -> None:
    code, out, err = run(capsys, "campaign", "start", "walkers", "--url", campaign)
    assert code == 0
    assert "is collecting" in out
    assert "warning: 0 enrolled are fewer than k = 20: the only region is the whole domain" in err
    assert (
        "with 0 participants, fewer than k = 20: nobody has a crowd; round 1 is open"
        in (tmp_path / "log.txt").read_text()
    )


def test_a_server_with_another_key_or_address_is_joined_only_with_the_owners_word(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One vault, three real servers: the first, one with another key at the same address, one at another address."""
    monkeypatch.setenv("SEMILOCAL_ADMIN_TOKEN", ADMIN_TOKEN)
    vault = tmp_path / "vault"
    allow = ("--yes", "--min-k", "1", "--max-delta", "1", "--max-epsilon", "1000", "--spread", "0")

    def joins(name: str, port: int | None, *more: str, key: bytes = OTHER_KEY) -> tuple[int, str, str, int]:
        """Start a server with one campaign for one device, and join it."""
        server = ForkedServer(f"sqlite:///{tmp_path / name}.db", port=port, log=tmp_path / "log.txt", signing_key=key)
        server.start()
        try:
            create = ["campaign", "create", "--name", name, "--bounds", "0,0,1,1", "--epsilon", "8", "--delta", "0.4"]
            create += ["--k", "1", "--max-depth", "4", "--enrolment", "open", "--capacity", "1"]
            assert main([*create, "--url", server.url, "--names", f"x,{name}"]) == 0
            done = run(capsys, "join", server.url, *POSITION, *allow, "--vault", vault, *more)
            return (*done, server.port)
        finally:
            server.kill()

    code, out, _, port = joins("first", None, key=bytes(32))
    assert (code, "You have a region." in out) == (0, True)
    code, out, err, _ = joins("second", port)
    assert (code, out) == (2, "")
    assert "signs with another key" in err
    assert "--new-server" in err
    code, out, err, other = joins("third", None)
    assert (code, other != port) == (2, True)
    assert f"http://127.0.0.1:{other} is not the server this vault belongs to (http://127.0.0.1:{port})" in err
    code, out, _, _ = joins("fourth", port, "--new-server")
    assert (code, "You have a region." in out) == (0, True)
    with Vault.open(vault) as opened:
        assert len(opened.contents.memberships) == 2
