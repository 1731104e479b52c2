"""The agent of a device: follows one task over HTTP, from enrolment to the last release.

    it does                         and before that, the vault has
    enrol                           the task and the plan pinned, and the worst case reserved in the ledger
    send an answer                  the digest of the question, and the loss booked
    go on to the next round         the closing's digest and the new state
    stop                            the reason

So after a crash between any two steps the same agent goes on where it was: it sends the same bytes again, and never
answers two different questions in one round. Every decision is the participant's (``protocol/participant.py``); the
server's word about where the task is only tells when to look. What is sent, when and how often depends on the public
transcript and on jitter, never on the position inside the cell.

Knows the order of the steps. Knows no sockets (``channel.py``) and no files (``vault.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ..arrays import exact
from ..errors import BudgetExceeded, InvalidInput, ServerViolation
from ..protocol.keys import access_key
from ..protocol.messages import AnyClosed, AnyReport, Checkpoint, Query, ValueQuery, decode, decode_closed, encode
from ..protocol.participant import Participant, Policy
from ..protocol.plan import Plan
from ..protocol.policy import longer_sides
from ..protocol.promise import promise
from ..protocol.task import Task
from ..words import number_of
from .answers import LONGEST_WAIT, ServerStatus
from .binding import check_address, check_server
from .budget import spent, worst_case
from .channel import Channel, Reply, only_task, split_url
from .seals import follow_seals
from .summary import Outcome, Summary, enrolment_advice, summarise
from .swarm.verdict_cache import SharedParticipant, Verdicts
from .transport import new_client
from .vault import Membership, Vault, pinned_plan, pinned_task

if TYPE_CHECKING:
    import httpx2

__all__ = ["Agent"]

T = TypeVar("T")

_OUT = ("round-closed", "missed-round")
_ENDED = "campaign-ended"


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
    client : httpx2.AsyncClient, optional
        Talks to the server; one is made (and closed) if left out.
    channel : Channel, optional
        Instead of a client: shared by many agents.
    notify : callable
        Takes a sentence for the owner now and then.
    spread : float
        Answers are sent up to this many seconds late, by jitter, so that their time tells nothing about the device.
    verdicts : Verdicts, optional
        Shared by many agents of one process, so that equal checks are made once.
    new_server : bool
        Whether the owner allows an address or a signing key that the vault does not know (``binding.py``).
    """

    def __init__(
        self, url: str, vault: Vault, *, position: Sequence[float], policy: Policy,
        value: float | None = None, token: str = "", client: httpx2.AsyncClient | None = None,
        channel: Channel | None = None,
        notify: Callable[[str], None] = lambda line: None, spread: float = 0.0, verdicts: Verdicts | None = None,
        new_server: bool = False,
    ) -> None:  # fmt: skip
        self._server, self._name = split_url(url)
        self._vault = vault
        self._position = tuple(float(number) for number in position)
        self._own = None if value is None else float(value)
        self._policy = policy
        self._token = token
        self._client = client
        self._channel = channel
        self._notify = notify
        self._spread = spread
        self._new_server = new_server
        self._verdicts = Verdicts(size=4) if verdicts is None else verdicts
        self._entry: Membership | None = None
        self._task: Task | None = None
        self._status: ServerStatus | None = None
        self._delivered: set[int] = set()  # rounds whose answer the server has acknowledged

    # -- for the owner -----------------------------------------------------------------------------------------

    async def run(self) -> Summary:
        """Follow the task to its end, or to a refusal, and say how it went.

        Cancelling this and running a new agent on the same vault later is safe at any moment.

        Raises
        ------
        InvalidInput, OutsideDomain
            If the position or the value does not fit the task.
        BudgetExceeded
            If the vault's caps do not allow the task.
        Unreachable
            If the server is away for too long.
        """
        if self._channel is not None:
            return await self._run(self._channel)
        client = new_client(connections=4) if self._client is None else self._client
        channel = Channel(self._server, client)
        try:
            return await self._run(channel)
        finally:
            await channel.aclose()
            if self._client is None:
                await client.aclose()

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
                outcome = await self._partition()
                if outcome == "finished":
                    await self._values()
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
                check_server(self._vault.contents, self._server, task)
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
        line = self._vault.contents.ledger.line(self._task.id)
        assert line is not None
        pinned = entry.policy or self._policy
        policy = msgspec.structs.replace(
            pinned, max_epsilon=float(line.reserved("epsilon")), max_exposure=float(line.reserved("exposure")),
            min_side=longer_sides(pinned.min_side, self._policy.min_side),
        )  # fmt: skip
        secret = self._vault.contents.secret
        self._participant = SharedParticipant(
            self._task, entry.position, secret, policy, verdicts=self._verdicts, plan=self._plan, value=entry.value,
            state=entry.state, released=entry.values,
        )  # fmt: skip
        self._entry = entry

    def _new_entry(self, task: Task, plan: Plan) -> Membership:
        point = task.box.check([self._position])[0]
        # checks plan, policy and value, before anything is reserved
        participant = Participant(task, point, self._vault.contents.secret, self._policy, plan=plan, value=self._own)
        worst, exposure = worst_case(task, plan)
        ledger = self._vault.contents.ledger
        limits = [exposure]
        if self._policy.max_exposure is not None:
            limits.append(exact(self._policy.max_exposure))
        left = ledger.left("exposure")
        if left is not None:
            limits.append(max(left, exact(0.0)))
        if min(limits) < exact(task.epsilon):
            raise BudgetExceeded(
                f"one answer exposes epsilon = {task.epsilon:g} (positions in the same cell, delta = 0) to a server "
                f"that lies; your cap leaves {float(min(limits)):g}"
            )
        if min(limits) < exposure:
            answers = int(min(limits) / exact(task.epsilon))
            self._notify(
                f"Your cap on exposure ends your part after {number_of(answers, 'answer')}, perhaps without a region."
            )
        entry = Membership(
            server=self._server, task=task.to_bytes(), plan=encode(plan), position=self._position,
            value=self._own, state=participant.state, policy=self._policy, token=self._token,
        )  # fmt: skip
        self._vault.put(entry, ledger.reserve(task.id, epsilon=worst, exposure=min(limits)))
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
            raise ServerViolation(answer.token, enrolment_advice(answer.token, answer.detail))
        self._save(enrolled=True, token="")
        self._notify("Enrolled; waiting for the first round.")

    async def _partition(self) -> Outcome:
        participant = self._participant
        while participant.state.phase in ("waiting", "answered"):
            number = participant.state.round
            # -1 waits for the end of enrolment
            status = await self._until(partial(ServerStatus.asks, number=number), after=number - 2)
            if status.phase == "cancelled":
                return "cancelled"
            if participant.state.phase == "waiting":
                if status.closed >= number:
                    await self._follow(number)  # too late for an answer: it would be seen and not counted
                elif status.phase != "collecting":
                    raise ServerViolation("ended-early", f"the task ended, but your cell goes on to round {number}")
                elif await self._answer(number) == "cancelled":
                    return "cancelled"
            elif number not in self._delivered:
                if await self._answer(number) == "cancelled":
                    return "cancelled"
            else:
                status = await self._until(partial(ServerStatus.past, number=number), after=number - 1)
                if status.closed >= number:
                    await self._follow(number)
                elif status.phase == "finished":
                    raise ServerViolation("ended-early", f"the task ended without closing round {number}")
        if participant.state.phase == "lost":
            self._notify("A round closed without your answer: you are out.")
            return "lost"
        return "finished"

    async def _answer(self, number: int) -> Outcome:
        query = await self._link.message(f"{self._rounds(number)}/query", lambda data: decode(data, Query))
        if query is None:
            self._status = None  # the server was ahead of itself; look again
            return "unfinished"
        before = self._participant.state
        report = self._participant.receive(query)
        assert report is not None
        if self._participant.state != before:
            self._save()
        answer = await self._deliver(number, report)
        if answer.token in _OUT:
            # booked as spent all the same: the server has seen it
            self._participant.state = msgspec.structs.replace(self._participant.state, phase="lost")
            self._save()
        return "cancelled" if answer.token == _ENDED else "unfinished"

    async def _follow(self, number: int) -> None:
        closed = await self._link.message(f"{self._rounds(number)}/closed", _read_closed)
        if closed is None:
            self._status = None
            return
        message, digest = closed
        task, chain = self._participant.task, self._joined.seals
        followed = await follow_seals(self._link, task, chain, number) if task.server_key else chain
        if followed is None:
            self._status = None
            return
        self._participant.receive(message)
        self._save(closings=(*self._joined.closings, digest), seals=followed)

    # -- releases ----------------------------------------------------------------------------------------------

    async def _values(self) -> None:
        """Answer every value that the pinned plan asks for, each once."""
        last = 0
        asked = self._plan.asked
        while asked and last < (self._participant.released.first_round or 1) + len(asked) - 1:
            status = await self._until(partial(ServerStatus.releases, number=last), after=None)
            if status.ended:
                return
            number = status.round
            path = f"{self._rounds(number)}/query"
            query = await self._link.message(path, lambda data: decode(data, ValueQuery))
            if query is None:
                self._status = None
                continue
            if query.round != number:
                raise ServerViolation("skipped-round", f"round {number} holds the query of round {query.round}")
            report = self._value(query)
            answer = await self._deliver(number, report)
            if answer.token == _ENDED:
                return
            last = number
            if answer.token in _OUT:
                continue
            status = await self._until(partial(ServerStatus.past, number=number), after=number - 1)
            if status.closed >= number:
                await self._follow(number)

    def _value(self, query: ValueQuery) -> AnyReport:
        """The report for a value; the question is in the vault when this returns."""
        before = self._participant.released
        report = self._participant.receive(query)
        assert report is not None
        if self._participant.released != before:
            self._save()
            self._notify(f"Released {self._plan.releases[query.index]}.")
        return report

    # -- steps -------------------------------------------------------------------------------------------------

    async def _deliver(self, number: int, report: AnyReport) -> Reply:
        """Send a report until the server has it for good, or says why not."""
        if number in self._delivered:
            return Reply(200, b"")
        if self._spread:
            await self._link.clock.sleep(self._spread * self._link.jitter())
        answer = await self._link.send(
            "PUT",
            f"{self._rounds(number)}/reports/{report.pseudonym.hex()}",
            content=encode(report),
            headers={"Content-Type": "application/msgpack", "Authorization": f"Bearer {self._key().hex()}"},
        )
        if answer.status in (200, 201):
            self._delivered.add(number)
        elif answer.token not in (*_OUT, _ENDED):
            raise ServerViolation(answer.token, f"the server refused the answer to round {number}: {answer.detail}")
        return answer

    async def _until(self, done: Callable[[ServerStatus], bool], *, after: int | None) -> ServerStatus:
        """Poll until the server says so; ``after`` None waits for whatever is closed next."""
        if self._status is None:
            self._status, _ = await self._link.status(self._name)
        while not done(self._status):
            mark = self._status.closed if after is None else after
            status, took = await self._link.status(self._name, after=mark)
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
        if self._joined.seals.round:
            self._save(checkpoint=self._joined.seals.root)
            return
        number = self._participant.state.round
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
        values = self._participant.released
        entry = msgspec.structs.replace(
            self._joined, state=self._participant.state, values_from=values.first_round, released=values.answered,
            **changes,
        )  # fmt: skip
        ledger = self._vault.contents.ledger
        line = ledger.line(self._participant.task.id)
        epsilon, exposure = spent(self._participant)
        if line is not None and (line.spent_epsilon, line.spent_exposure) != (str(epsilon), str(exposure)):
            try:
                ledger = ledger.spend(self._participant.task.id, epsilon=epsilon, exposure=exposure)
            except BudgetExceeded as error:
                raise ServerViolation("over-exposure", str(error)) from None
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


def _read_closed(data: bytes) -> tuple[AnyClosed, bytes]:
    """A closing of either kind and its SHA-256."""
    return decode_closed(data), hashlib.sha256(data).digest()
