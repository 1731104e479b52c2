"""The administrator's client: answers are bounded, lead nowhere else, and are refused with a reason if strange."""

from __future__ import annotations

import json

import pytest

from semilocal.cli import admin
from semilocal.cli.admin import AdminClient
from semilocal.cli.main import main
from semilocal.errors import InvalidInput, SemilocalError
from tests.helpers.hostile import MSGPACK, Hostile, answer
from tests.integration.device.test_fetch import ANSWERS, DRIP, SOON, redirect

TOKEN = "a-token-of-more-than-enough-length-0123"
NAME = "0" * 64
WORDS = {
    "our refusal": "503 \\[2J \\[unavailable\\]", "our 404": "no-such-task", "cut off": "does not answer",
    "cut off in chunks": "does not answer", "no JSON": "cut off or no JSON", "deep JSON": "JSON|semilocal server",
    "other JSON": "not what a semilocal server sends", "too many rounds": "not what a semilocal server sends",
    "no HTTP": "does not answer", "nothing": "does not answer", "an endless line": "does not answer",
    "an endless body": "more than 1 MiB", "a body that drips": "does not answer",
    "headers that drip": "does not answer",
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_no_answer_of_our_server_is_refused_with_a_reason(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    slow = "drip" in name
    monkeypatch.setattr(admin, "MOST_BYTES", 1 << 20)
    if slow:
        monkeypatch.setattr(admin, "LONGEST_ANSWER", SOON)
    with (
        Hostile({f"/tasks/{NAME}/state": ANSWERS[name][0]}, pause=DRIP if slow else 0.0) as server,
        AdminClient(server.url) as client,
        pytest.raises(SemilocalError, match=WORDS.get(name, "is this a semilocal server")) as refused,
    ):
        client.state(NAME)
    assert "\x1b" not in str(refused.value)


def test_a_redirect_takes_the_token_nowhere() -> None:
    with Hostile() as elsewhere, Hostile(otherwise=redirect(f"{elsewhere.url}/tasks")) as server:
        with AdminClient(server.url, TOKEN) as client:
            for call in (client.campaigns, lambda: client.move(NAME, "start"), lambda: next(client.tokens(NAME, 1))):
                with pytest.raises(InvalidInput, match="redirects are not followed"):
                    call()
        assert elsewhere.asked == []


@pytest.mark.parametrize(
    "document",
    [
        [{"task": "../../key", "name": "x", "phase": "enrolling", "enrolled": 0}],
        [{"task": NAME, "name": 5, "phase": "enrolling", "enrolled": 0}],
        {"tasks": []},
        None,
    ],
)
def test_a_list_that_is_none_is_refused(document: object) -> None:
    with (
        Hostile({"/tasks": answer(json.dumps(document).encode())}) as server,
        AdminClient(server.url) as client,
        pytest.raises(InvalidInput, match="/tasks is not what a semilocal server sends"),
    ):
        client.campaigns()


def test_fewer_or_strange_tokens_are_refused() -> None:
    path = f"/tasks/{NAME}/tokens"
    with Hostile() as server, AdminClient(server.url, TOKEN) as client:
        server.routes[path] = answer(b'{"tokens": []}', status=201)
        with pytest.raises(InvalidInput, match="made 0 tokens instead of 5"):
            next(client.tokens(NAME, 5))
        server.routes[path] = answer(b'{"tokens": ["\\u001b[2J"]}', status=201)
        with pytest.raises(InvalidInput, match="tokens is not what a semilocal server sends"):
            next(client.tokens(NAME, 1))
        assert server.asked == [f"POST {path} HTTP/1.1"] * 2  # it does not ask again and again


def test_another_task_than_the_one_asked_for_is_refused() -> None:
    with (
        Hostile({f"/tasks/{NAME}": answer(b"\x80", MSGPACK)}) as server,
        AdminClient(server.url) as client,
        pytest.raises(InvalidInput, match="another task"),
    ):
        client.task(NAME)


def test_tokens_that_were_made_are_printed_whatever_happens_to_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(admin, "PAGE", 2)
    rows = [{"task": NAME, "name": "x", "phase": "enrolling", "enrolled": 0}]
    tokens = ["slt_" + letter * 43 for letter in "ab"]
    with Hostile({"/tasks": answer(json.dumps(rows).encode())}) as server:
        server.routes[f"/tasks/{NAME}/tokens"] = answer(json.dumps({"tokens": tokens}).encode(), status=201)
        words = ("tokens", "new", "--count", "3", "--url", server.url, "--admin-token", TOKEN)
        assert main([*words]) == 2  # the second answer has one too many
    said = capsys.readouterr()
    assert said.out.split() == tokens
    assert "made 2 tokens instead of 1" in said.err
