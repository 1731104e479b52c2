"""The administrator's client: calls to a running server, and what it answers, in words.

Knows the administrator's routes (``spec/http.md``) and the options that lead to a server. Answers are bounded in size
and time, redirects are not followed, and what is not an answer of a semilocal server is refused with a reason. Text in
answers is for people and comes from elsewhere, so it is made plain here, once.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypedDict, TypeVar

import msgspec

from ..errors import InvalidInput, Lost, Refused, optional, printable
from ..io.progress import duration
from ..protocol.messages import Event, decode, decode_event
from ..protocol.plan import Plan
from ..protocol.promise import promise
from ..protocol.task import Task
from ..service.campaign import CampaignForm
from ..service.pair.form import PairForm
from ..sharing import is_pair_task
from ..sharing.pair import PairTask
from ..words import number_of
from .options import HIDDEN_HELP, flat, not_empty, option, read_hidden, server_url

ADMIN_TOKEN = "SEMILOCAL_ADMIN_TOKEN"
PAGE = 10_000  # tokens that a server makes at once
TIMEOUT = 60.0
LONGEST_ANSWER = 120.0  # seconds for one answer, however steadily it drips in
MOST_BYTES = 256 << 20
MOST_DEPTH = 16
CONNECT = 3.0
JSON, MSGPACK = "application/json", "application/msgpack"
CAMPAIGN = "the task's id, the beginning of one, or the campaign's name"
CampaignName = Annotated[str, option(CAMPAIGN, "CAMPAIGN", not_empty)]


@flat
class Office:
    """Where the server is."""

    url: Annotated[str, option("the server", "URL", server_url)] = "http://127.0.0.1:8000"
    admin_token: Annotated[str | None, option(f"instead of {ADMIN_TOKEN}; {HIDDEN_HELP}", "TOKEN", dash=True)] = None


def connect(office: Office) -> AdminClient:
    """The client that the options ask for, to be used in a ``with`` statement."""
    token = read_hidden(office.admin_token, option="--admin-token", variable=ADMIN_TOKEN)
    if not (token.isascii() and token.isprintable()):
        raise InvalidInput(f"--admin-token or {ADMIN_TOKEN}: is no token of a server: it has letters that none has")
    return AdminClient(office.url, token)


# -- what a server answers ---------------------------------------------------------------------------------------------

T = TypeVar("T")
Hex32 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Key(TypedDict):
    server_key: Hex32


class Created(TypedDict):
    task: Hex32


Token = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_.~-]{1,200}$")]


class Row(msgspec.Struct, frozen=True):
    """A campaign in a list."""

    task: Hex32
    name: str
    phase: str
    enrolled: int


class State(msgspec.Struct, frozen=True):
    """Where a campaign or a pair stands; what is None is not told, or belongs to the other kind."""

    phase: str
    enrolled: int = 0
    now: int = 0
    deadline: int | None = None
    fault: str | None = None
    kind: str | None = None
    # where nobody is trusted
    round: int = 0
    closed: Annotated[int, msgspec.Meta(ge=0, le=65_536)] = 0
    received: int | None = None
    expected: int | None = None
    needed: int | None = None
    # two servers
    role: str = ""
    accepted: int | None = None
    refused: int | dict[str, int] | None = None  # of a campaign by reason
    level: str | None = None
    progress: float | None = None
    waits_for: str | None = None

    def text(self) -> str:
        """The same in words, and what it waits for.

        Examples
        --------
        >>> State("collecting", 90, round=3, closed=2, received=60, expected=88, deadline=1600, now=1000).text()
        'collecting: 90 enrolled; 2 rounds closed; round 3 is open, 60 of 88 answers received; it ends in 10 min 00 s'
        >>> State("open", kind="pair", role="leader", received=60, refused=1).text()
        'open: leader of two servers, experimental; 60 uploads; 1 refused'
        """
        facts = []
        if self.kind == "pair":
            facts += [f"{self.role} of two servers, experimental", number_of(self.received or 0, "upload")]
            facts += [f"{self.accepted:,} take part"] if self.accepted is not None else []
            facts += [f"{self.refused:,} refused"] if isinstance(self.refused, int) and self.refused else []
        else:
            facts += [f"{self.enrolled:,} enrolled", f"{number_of(self.closed, 'round')} closed"]
            expected = self.expected if self.expected is not None else self.needed
            if self.phase == "enrolling":
                facts += [f"round 1 opens when {expected:,} are enrolled" if expected else "it waits to be started"]
            elif self.received is not None and expected is not None:
                answers = number_of(expected, "answer")
                facts += [f"round {self.round} is open, {self.received:,} of {answers} received"]
        if self.deadline is not None:
            facts.append(f"it ends in {duration(max(0, self.deadline - self.now))}")
        if self.level is not None:
            done = "" if self.progress is None else f", {self.progress:.0%} of the reports evaluated"
            facts.append(f"next is {self.level}{done}")
        facts += [f"waits for {self.waits_for}"] if self.waits_for else []
        facts += [self.fault] if self.fault else []
        return f"{self.phase}: {'; '.join(facts)}"


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return printable(value)
    if not depth:
        return None
    if isinstance(value, dict):
        return {printable(str(key)): _plain(item, depth - 1) for key, item in value.items()}
    return [_plain(item, depth - 1) for item in value] if isinstance(value, list) else value


class AdminClient:
    """An administrator's calls, to be used in a ``with`` statement; without a token those that everybody may make."""

    def __init__(self, url: str, token: str = "") -> None:
        httpx2 = optional("httpx2", "service")
        from ..device.transport import HttpxWire

        self.url, self._token = url.rstrip("/"), token
        self._runner = asyncio.Runner()
        headers = {"authorization": f"Bearer {token}"} if token else {}
        timeout = httpx2.Timeout(TIMEOUT, connect=CONNECT)
        try:
            self._client = httpx2.AsyncClient(headers=headers, timeout=timeout, follow_redirects=False)
            httpx2.URL(self.url)
        except httpx2.InvalidURL as error:
            raise InvalidInput(f"{self.url} is not an address of a server: {error}") from None
        self._wire = HttpxWire(self._client, most_bytes=MOST_BYTES, seconds=LONGEST_ANSWER)

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()

    def request(self, method: str, path: str, body: object = None, *, admin: bool = False, accept: str = JSON) -> bytes:
        """Send one request; the body of a good answer, which has the media type ``accept``.

        Raises Refused if the server refuses, and InvalidInput if it does not answer or is none of ours.
        """
        from ..device.channel import describe, problem_of

        if admin and not self._token:
            raise InvalidInput(
                "this needs the admin token: set SEMILOCAL_ADMIN_TOKEN or give --admin-token; `semilocal serve` shows "
                "it at its first start"
            )
        content = None if body is None else msgspec.json.encode(body)
        try:
            answer = self._runner.run(self._wire.request(method, self.url + path, content, {}))
        except Lost as error:
            raise InvalidInput(
                f"the server at {self.url} does not answer ({error}); is `semilocal serve` running there?"
            ) from None
        problem = problem_of(answer)
        if problem is not None:
            raise Refused(problem.token, f"{method} {path}: {answer.status} {problem.detail} [{problem.token}]")
        if answer.status in (200, 201) and answer.media_type == accept:
            return answer.body
        advice = "is this a semilocal server?"
        if 300 <= answer.status < 400:
            advice = "redirects are not followed, or the token would go elsewhere: give the address itself with --url"
        raise InvalidInput(f"{method} {path}: {self.url} answered {describe(answer)}; {advice}")

    def _parsed(self, data: bytes, path: str, kind: type[T]) -> T:
        try:
            return msgspec.convert(_plain(msgspec.json.decode(data), MOST_DEPTH), kind)
        except msgspec.ValidationError as error:
            reason = printable(str(error))
            raise InvalidInput(f"{self.url}{path} is not what a semilocal server sends: {reason}") from None
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise InvalidInput(f"{self.url}{path}: the answer is cut off or no JSON; try again") from None

    def _get(self, path: str, kind: type[T], *, admin: bool = False) -> T:
        return self._parsed(self.request("GET", path, admin=admin), path, kind)

    def _post(self, path: str, body: object, kind: type[T]) -> T:
        return self._parsed(self.request("POST", path, body, admin=True), path, kind)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def key(self) -> bytes:
        """The server's public key."""
        return bytes.fromhex(self._get("/key", Key)["server_key"])

    def create(self, form: CampaignForm | PairForm) -> str:
        """Create a campaign, or a pair of two servers; its task."""
        return self._post("/tasks" if isinstance(form, CampaignForm) else "/pairs", form, Created)["task"]

    def move(self, task: str, action: Literal["confirm", "start", "close"]) -> None:
        """Agree to a pair of two servers; end enrolment and open round 1; or cancel a campaign."""
        self.request("POST", f"/tasks/{task}/{action}", admin=True)

    def campaigns(self) -> list[Row]:
        """All campaigns."""
        return self._get("/tasks", list[Row])

    def find(self, name: str) -> Row:
        """The campaign with this task id, the beginning of one, or name."""
        rows = self.campaigns()
        exact = [row for row in rows if row.task == name]
        found = exact or [row for row in rows if row.task.startswith(name) or row.name == name]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(f"{row.task[:12]} ({row.name})" for row in rows[:20]) or "none"
        advice = "; give the beginning of its id" if found else ""
        raise InvalidInput(
            f"{len(found)} campaigns match {name!r}; there are: {listed}{', …' * (len(rows) > 20)}{advice}"
        )

    def state(self, task: str) -> State:
        """Where a campaign stands, with the reports of the open round for who has the admin token."""
        return self._get(f"/tasks/{task}/{'progress' if self._token else 'state'}", State, admin=bool(self._token))

    def task(self, task: str) -> bytes:
        """The bytes of the task; its id is checked."""
        data = self.request("GET", f"/tasks/{task}", accept=MSGPACK)
        if hashlib.sha256(data).hexdigest() != task:
            raise InvalidInput(f"{self.url} gave another task than {task[:12]}…")
        return data

    def transcript(self, task: str) -> bytes:
        """What the two servers of a pair published, signed by both."""
        return self.request("GET", f"/tasks/{task}/transcript", accept=MSGPACK)

    def events(self, task: str) -> list[Event]:
        """All messages of the closed rounds, from the public transcript."""
        from ..device.download import download
        from ..transcript.file import EVENTS, read_frames

        def public(path: str) -> bytes | None:
            try:
                return self.request("GET", path, accept=JSON if path.endswith("/state") else MSGPACK)
            except Refused:
                return None

        stream = io.BytesIO()
        download(public, task, stream)
        stream.seek(0)
        frames = (frame for frame in read_frames(stream) if frame.kind == EVENTS)
        return [decode_event(data) for frame in frames for data in frame.events]

    def statement(self, task: str) -> str:
        """The promise, worded here from the task and the plan: not in the server's words."""
        data = self.task(task)
        if is_pair_task(data):
            return PairTask.from_bytes(data).statement()
        return promise(decode(data, Task), self.plan(task)).explain()

    def plan(self, task: str) -> Plan:
        """The plan of releases."""
        return decode(self.request("GET", f"/tasks/{task}/plan", accept=MSGPACK), Plan)

    def tokens(self, task: str, count: int) -> Iterator[list[str]]:
        """New one-time enrolment tokens, a page at a time."""
        for start in range(0, count, PAGE):
            asked = min(PAGE, count - start)
            page = self._post(f"/tasks/{task}/tokens", {"count": asked}, dict[str, list[Token]]).get("tokens", [])
            if len(page) != asked:
                raise InvalidInput(f"the server made {len(page)} tokens instead of {asked}")
            yield page

    def results(self, task: str) -> dict[str, Any]:
        """The document of a finished campaign as it came, for a file."""
        path = f"/tasks/{task}/results"
        data = self.request("GET", path)
        self._parsed(data, path, dict[str, Any])
        return msgspec.json.decode(data, type=dict[str, Any])
