"""The agent of a device: follows one task over HTTP, from enrolment to the last release.

    it does                         and before that, the vault has
    enrol                           the task and the plan pinned, and the worst case reserved in the ledger
    send a report                   the participant's state: region, book of answers, digest of the question
    stop                            the reason

Which region its place is in now follows from the public log, which the agent reads round by round. After a crash, or if
it enrols late, it reads the log from round 1, must find the closings that it had followed, and goes on: it sends the
same bytes again, and never answers two different questions in one round. In most rounds it has nothing to say and sends
nothing. Every decision is the participant's (``protocol/participant.py``); the server's word about where the task is
only tells when to look. What is sent, when and how often depends on the public log and on jitter, never on the position
inside the region.

Knows the order of the steps. Knows no sockets (``channel.py``) and no files (``vault.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import TypeVar

import msgspec

from ..errors import BudgetExceeded, InvalidInput, ServerViolation
from ..protocol.keys import access_key
from ..protocol.messages import (
    AnyReport,
    Checkpoint,
    Closed,
    Query,
    Seal,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    decode,
    encode,
)
from ..protocol.participant import Participant
from ..protocol.plan import Plan
from ..protocol.policy import Policy, longer_sides
from ..protocol.promise import promise
from ..protocol.region import Path
from ..protocol.task import Task
from ..transcript.checkpoints import next_head, signature_fault
from .budget import spent, worst_case
from .channel import LONGEST_WAIT, Channel, ServerStatus, only_task, split_url
from .summary import ADVICE, Summary, summarise
from .transport import new_client
from .vault import Chain, Membership, Vault, check_address, check_servers, pinned_plan, pinned_task

T = TypeVar("T")
M = TypeVar("M", bound=msgspec.Struct)

_TOO_LATE, _ENDED = "round-closed", "campaign-ended"


class Agent:
    """One device in one task.

    Parameters
    ----------
    url : str
        The task: ``https://server/tasks/{id}``. With the server alone, it must have exactly one task that enrols; the
        first form is better, because then the owner, not the server, says which task it is.
    vault : Vault
        Open, and not used by another agent.
    position : sequence of float
        One number per axis, in the order of the task's axes. It never leaves. Fixed when the device joins.
    policy : Policy
        What the owner allows; its ``max_epsilon`` holds for the partition and all releases together. Fixed when the
        device joins: an agent that goes on with a task can only make ``min_side`` longer.
    value : float, optional
        The owner's own value, if the plan asks for one. Fixed when the device joins; it leaves through noise only.
    token : str
        The one-time token to enrol with; empty where enrolment is open or done.
    channel : Channel, optional
        To the server, which many agents may share; one is made (and closed) if left out.
    spread : float
        Answers are sent up to this many seconds late, by jitter, so that their time tells nothing about the device.
    paths : dict of bytes to Path, optional
        Round 1 by task id, shared by many agents of one process, so that what is public is checked once.
    new_server : bool
        Whether the owner allows an address or a signing key that the vault does not know (``vault.py``).
    """

    def __init__(
        self, url: str, vault: Vault, *, position: Sequence[float], policy: Policy,
        value: float | None = None, token: str = "",
        channel: Channel | None = None,
        notify: Callable[[str], None] = lambda line: None, spread: float = 0.0,
        paths: dict[bytes, Path] | None = None, new_server: bool = False,
    ) -> None:  # fmt: skip
        self._server, self._name = split_url(url)
        self._vault = vault
        self._position = tuple(float(number) for number in position)
        self._own = None if value is None else float(value)
        self._policy = policy
        self._token = token
        self._channel = channel
        self._notify = notify
        self._spread = spread
        self._new_server = new_server
        self._paths = {} if paths is None else paths
        self._closings: list[bytes] = []  # SHA-256, of the log as it is read now
        self._entry: Membership | None = None
        self._task: Task | None = None
        self._status: ServerStatus | None = None

    # -- for the owner -----------------------------------------------------------------------------------------

    async def run(self) -> Summary:
        """Follow the task to its end, or to a refusal, and say how it went; safe to cancel at any moment.

        Raises ``InvalidInput`` if position or value do not fit the task, ``BudgetExceeded``, and ``Unreachable`` if the
        server is away for too long.
        """
        if self._channel is not None:
            return await self._run(self._channel)
        async with new_client(connections=4) as client:
            channel = Channel(self._server, client)
            try:
                return await self._run(channel)
            finally:
                await channel.aclose()

    def summary(self) -> Summary:
        """What the vault knows of this task now."""
        if self._entry is None:
            return Summary(outcome="unfinished")
        return summarise(self._vault.contents, self._entry)

    # -- the whole way -----------------------------------------------------------------------------------------

    async def _run(self, channel: Channel) -> Summary:
        self._link = channel
        try:
            await self._join()
            if not self._joined.over:
                await self._enrol()
                if await self._partition():
                    self._save(members=self._participant.members)
                    if not self._participant.state.stopped and await self._values():
                        await self._pin_checkpoint()
                self._settle()
        except ServerViolation as refusal:
            return self._refuse(refusal)
        return self.summary()

    @property
    def _joined(self) -> Membership:
        assert self._entry is not None
        return self._entry

    async def _join(self) -> None:
        """Pin task and plan, check them against the policy, reserve the worst case."""
        if not self._name:
            self._name = await only_task(self._link)
        entry = self._vault.contents.membership(bytes.fromhex(self._name))
        if entry is None:
            path = f"/tasks/{self._name}"
            self._task = task = await self._read(path, lambda data: pinned_task(data, self._name))
            plan = await self._read(f"{path}/plan", lambda data: decode(data, Plan))
            if not self._new_server:
                check_servers(self._vault.contents, task, self._server)
            self._resume(self._new_entry(task, plan))
            self._notify(f"Joining task {self._name[:12]}…: {promise(task, plan).sentence().rstrip('.')}")
            return
        self._task = pinned_task(entry.task, self._name)
        if (self._position, self._own) != (entry.position, entry.value):
            raise InvalidInput(
                "this vault joined the task with another position or value; both are fixed for a task, because two "
                "different answers could be compared. Give the same ones"
            )
        if not self._new_server:
            check_address(entry, self._server)
        elif entry.server != self._server:
            entry = msgspec.structs.replace(entry, server=self._server)
            self._vault.put(entry)
        self._resume(entry)

    def _resume(self, entry: Membership) -> None:
        assert self._task is not None
        self._plan = pinned_plan(entry.plan)
        self._seals = entry.seals
        line = self._vault.contents.ledger.line(self._task.id)
        assert line is not None
        policy = msgspec.structs.replace(
            entry.policy, max_epsilon=float(Fraction(line.reserved)),
            min_side=longer_sides(entry.policy.min_side, self._policy.min_side),
        )  # fmt: skip
        self._participant = Participant(
            self._task, entry.position, self._vault.contents.secret, policy, plan=self._plan, value=entry.value,
            state=entry.state, path=self._paths.setdefault(self._task.id, Path(self._task)),
        )  # fmt: skip
        self._entry = entry

    def _new_entry(self, task: Task, plan: Plan) -> Membership:
        point = task.box.check([self._position])[0]
        # checks plan, policy and value, before anything is reserved
        participant = Participant(task, point, self._vault.contents.secret, self._policy, plan=plan, value=self._own)
        entry = Membership(
            server=self._server, task=task.to_bytes(), plan=encode(plan), position=self._position,
            value=self._own, state=participant.state, policy=self._policy, token=self._token,
        )  # fmt: skip
        self._vault.put(entry, self._vault.contents.ledger.reserve(task.id, worst_case(task, plan)))
        return entry

    async def _enrol(self) -> None:
        entry = self._joined
        if entry.enrolled:
            return
        token = self._token or entry.token
        body = {"token": token} if token else {}
        body["verifier"] = hashlib.sha256(self._key()).hexdigest()
        path = f"/tasks/{self._name}/participants/{self._participant.pseudonym.hex()}"
        answer = await self._link.send(
            "PUT", path, content=msgspec.json.encode(body), headers={"Content-Type": "application/json"}
        )
        if answer.status not in (200, 201):
            # nothing was answered yet, so the reservation is taken back
            ledger = self._vault.contents.ledger.cancel(bytes.fromhex(self._name))
            self._vault.save(self._vault.contents.without(bytes.fromhex(self._name), ledger))
            self._entry = None
            refused = f"the server refused the enrolment: {answer.detail}"
            raise ServerViolation(answer.token, ADVICE.get(answer.token, refused))
        self._save(enrolled=True, token="")
        self._notify("Enrolled; waiting for the first round.")

    # -- the partition -----------------------------------------------------------------------------------------

    async def _partition(self) -> bool:
        """Follow the log until there is nothing more to say; False if the campaign was cancelled."""
        participant = self._participant
        while not participant.partitioned and not participant.state.stopped:
            number = participant.round
            # -1 waits for the end of enrolment
            status = await self._until(partial(ServerStatus.asks, number=number), after=number - 2)
            if status.phase == "cancelled":
                return False
            if status.closed < number and status.phase != "collecting":
                raise ServerViolation("ended-early", f"the task ended without round {number}")
            read = await self._public(number, "query", Query)
            if read is None:
                self._status = None  # the server was ahead of itself; look again
                continue
            # in a closed round it is too late for a report: it would be seen and not counted
            if not await self._report(number, self._answer(read[0], is_open=status.closed < number)):
                return False
            if not participant.state.stopped:
                if not await self._closed(number):
                    return False
                await self._follow(number)
        return True

    def _answer(self, query: Query, *, is_open: bool) -> AnyReport | None:
        """The report to a query; None if there is nothing to say, or the owner's limits say no for good."""
        participant, report = self._participant, None
        try:
            if is_open:
                report = participant.answer(query)
            else:
                participant.observe(query)
        except ServerViolation:
            if not participant.state.stopped:
                raise
        if participant.state.stopped:
            self._save()
            self._notify(f"Your limits end your part here, and you keep your region: {participant.state.stopped}")
        return report

    async def _follow(self, number: int) -> None:
        """Read the closing of a round and the reports of its own region."""
        participant = self._participant
        closed = await self._fetch(number, "closed", Closed)
        region = participant.wanted(closed)
        reports = None
        if region is not None:
            reports = await self._fetch(number, f"slices/{region[0]}-{region[1]}", Slice, keep=False)
        before = participant.state
        participant.close(closed, reports)
        if participant.state != before:
            self._save()
            self._notify(f"You keep the region you have: {participant.state.stopped}")

    async def _closed(self, number: int) -> bool:
        """Wait for the end of a round; False if the campaign was cancelled before."""
        status = await self._until(partial(ServerStatus.past, number=number), after=number - 1)
        if status.closed < number and status.phase == "finished":
            raise ServerViolation("ended-early", f"the task ended without closing round {number}")
        return status.closed >= number

    # -- releases ----------------------------------------------------------------------------------------------

    async def _values(self) -> bool:
        """Answer every value that the pinned plan asks for, each once; False if the campaign was cancelled."""
        first = self._participant.round
        for number in range(first, first + len(self._plan.asked)):
            status = await self._until(partial(ServerStatus.asks, number=number), after=number - 1)
            if status.ended and status.closed < number:
                return False
            query = await self._fetch(number, "query", ValueQuery, keep=False)
            if query.round != number:
                raise ServerViolation("skipped-round", f"round {number} holds the query of round {query.round}")
            report = self._value(query) if status.closed < number else None
            if not await self._report(number, report) or not await self._closed(number):
                return False
            closed = await self._fetch(number, "closed", ValueClosed)
            if isinstance(report, ValueReport) and not self._late:
                self._participant.check_counted(closed, report)
        return True

    def _value(self, query: ValueQuery) -> AnyReport | None:
        before = self._participant.state
        report = self._participant.value(query)
        if self._participant.state != before:
            self._notify(f"Released {self._plan.releases[query.index]}.")
        return report

    # -- steps -------------------------------------------------------------------------------------------------

    async def _report(self, number: int, report: AnyReport | None) -> bool:
        """Save, and send a report until the server has it for good; False if the campaign was cancelled.

        A report that comes too late is booked as spent all the same: the server has seen it. It is not in the log, and
        who has none in round 1 is not on the roster, so the round is no longer one that it reported in.
        """
        self._late = False
        if report is None:
            return True
        if number not in self._joined.reported:
            self._save(reported=(*self._joined.reported, number))
        if self._spread:
            await self._link.clock.sleep(self._spread * self._link.jitter())
        answer = await self._link.send(
            "PUT",
            f"{self._rounds(number)}/reports/{report.pseudonym.hex()}",
            content=encode(report),
            headers={"Content-Type": "application/msgpack", "Authorization": f"Bearer {self._key().hex()}"},
        )
        if answer.status in (200, 201):
            return True
        if answer.token not in (_TOO_LATE, _ENDED):
            raise ServerViolation(answer.token, f"the server refused the report for round {number}: {answer.detail}")
        self._late = True
        self._save(reported=tuple(before for before in self._joined.reported if before != number))
        self._notify(f"Your report in round {number} came too late, says the server; nobody counts it.")
        return answer.token != _ENDED

    async def _public(self, number: int, name: str, kind: type[M]) -> tuple[M, bytes] | None:
        """A message of a round and its SHA-256; None if it does not exist yet."""
        return await self._link.message(
            f"{self._rounds(number)}/{name}", lambda data: (decode(data, kind), hashlib.sha256(data).digest())
        )

    async def _fetch(self, number: int, name: str, kind: type[M], *, keep: bool = True) -> M:
        """A message of a round that the server says is there; closings (``keep``) must be those followed before."""
        while (read := await self._public(number, name, kind)) is None:
            pass  # the channel waits between two tries
        if keep:
            await self._pin(number, read[1])
        return read[0]

    async def _pin(self, number: int, digest: bytes) -> None:
        """Compare a closing with the one that was followed before a restart, and its seal with the chain."""
        known = self._joined.closings
        if number <= len(known) and known[number - 1] != digest:
            raise ServerViolation("changed-closing", f"round {number} was closed before in another way")
        if self._participant.task.server_key and number > self._seals.round:
            while (followed := await _follow_seals(self._link, self._participant.task, self._seals, number)) is None:
                pass  # the channel waits between two tries
            self._seals = followed
        self._closings[number - 1 :] = [digest]

    async def _until(self, done: Callable[[ServerStatus], bool], *, after: int) -> ServerStatus:
        """Poll until the server says so."""
        if self._status is None:
            self._status, _ = await self._link.status(self._name)
        while not done(self._status):
            status, took = await self._link.status(self._name, after=after)
            if not done(status) and took < 1.0:
                # answered at once: with nothing new, the server tells when to look again
                news = status.closed > self._status.closed
                pause = 0.1 if news else min(max(status.poll_after, 0.1), LONGEST_WAIT)
                await self._link.clock.sleep(pause * (1.0 + 0.5 * self._link.jitter()))
            self._status = status
        return self._status

    async def _read(self, path: str, read: Callable[[bytes], T]) -> T:
        message = await self._link.message(path, read)
        if message is None:
            raise ServerViolation("malformed", f"{path} must exist from the beginning")
        return message

    async def _pin_checkpoint(self) -> None:
        """Pin the transcript's root: the last sealed one, or that of the round in which the region was fixed."""
        if self._seals.round:
            self._save(checkpoint=self._seals.root)
            return
        number = len(self._closings)
        point = await self._link.message(f"{self._rounds(number)}/checkpoint", lambda data: decode(data, Checkpoint))
        if point is None:
            return
        if point.task != self._participant.task.id or point.round != number:
            raise ServerViolation(
                "other-checkpoint", f"the checkpoint of round {number} belongs to another task or round"
            )
        self._save(checkpoint=point.root)

    # -- bookkeeping -------------------------------------------------------------------------------------------

    def _save(self, **changes: object) -> None:
        closings = tuple(self._closings) if len(self._closings) > len(self._joined.closings) else self._joined.closings
        entry = msgspec.structs.replace(
            self._joined, state=self._participant.state, closings=closings, seals=self._seals, **changes
        )
        ledger, task = self._vault.contents.ledger, self._participant.task.id
        try:
            ledger = ledger.spend(task, spent(self._participant))
        except BudgetExceeded as error:
            raise ServerViolation("over-budget", str(error)) from None
        self._vault.put(entry, ledger)
        self._entry = entry

    def _settle(self) -> None:
        entry = msgspec.structs.replace(self._joined, over=True)
        self._vault.put(entry, self._vault.contents.ledger.settle(self._participant.task.id))
        self._entry = entry

    def _refuse(self, refusal: ServerViolation) -> Summary:
        self._notify(f"Refused: {refusal.reason} [{refusal.token}]")
        if self._entry is None:
            return Summary(outcome="refused", token=refusal.token, reason=refusal.reason, task=self._task)
        # not settled: against a server that breaks the protocol the whole reservation stays booked
        entry = msgspec.structs.replace(self._entry, over=True, refusal=f"{refusal.token}: {refusal.reason}")
        self._vault.put(entry)
        self._entry = entry
        return self.summary()

    def _key(self) -> bytes:
        return access_key(self._vault.contents.secret, bytes.fromhex(self._name))

    def _rounds(self, number: int) -> str:
        return f"/tasks/{self._name}/rounds/{number}"


async def _follow_seals(channel: Channel, task: Task, chain: Chain, number: int) -> Chain | None:
    """The chain up to a closed round, every seal signed with the pinned key; None if one is not shown yet."""
    while chain.round < number:
        following = chain.round + 1
        path = f"/tasks/{task.id.hex()}/rounds/{following}/seal"
        seal = await channel.message(path, lambda data: _signed(data, task))  # checked once for all who share a channel
        if seal is None:
            return None
        point = seal.checkpoint
        if point.task != task.id or point.round != following:
            raise ServerViolation("wrong-seal", f"the seal of round {following} belongs to another round or task")
        if seal.head != next_head(chain.head or task.id, point):
            raise ServerViolation("wrong-chain", f"the seal of round {following} does not continue the one before")
        chain = Chain(following, seal.head, point.root)
    return chain


def _signed(data: bytes, task: Task) -> Seal:
    seal = decode(data, Seal)
    fault = signature_fault(seal, task)
    if fault is not None:
        raise ServerViolation(*fault)
    return seal
