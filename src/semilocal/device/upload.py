"""One upload to two servers: checked against the owner's policy, sealed, stored, sent until it is acknowledged.

    it does                         and before that, the vault has
    send the upload                 the pair task pinned, the sealed upload, and the loss booked in the ledger
    stop                            the leader's signed receipt, or the reason

After a crash at any moment the next run sends the same bytes. The report is derived from the secret, the task and the
deepest cell; its envelopes are sealed once and stored. Whether, when and how often something is sent depends on the
task, the policy and the servers' answers, never on the position.

Experimental: nobody independent has reviewed this mode yet. Knows the order of the steps. Knows no sockets
(``channel.py``) and no files (``vault.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from ..arrays import exact
from ..errors import InvalidInput, ServerViolation, printable
from ..geometry.units import at_least, lengths_words, side_unit
from ..protocol.keys import pseudonym, rounding_word, upload_entropy
from ..protocol.policy import Policy, check_sides
from ..sharing.pair import PairTask
from ..sharing.report import shard
from ..sharing.sealing import Role, seal
from ..sharing.wire import Receipt, Upload
from .channel import MSGPACK, Channel, split_url
from .summary import ADVICE, Summary, summarise_upload
from .vault import PairUpload, Vault, check_servers, origin, read_task


def make_upload(
    pair: PairTask, position: Sequence[float], secret: bytes, *, token: str = "", value: float | None = None
) -> Upload:
    """The upload of one person: the position, and a value if the task asks for one, in two shares; each is sealed.

    The public part and the seeds follow from the secret, the task and the deepest cell that holds the position. The
    envelopes differ every time, so an upload is stored before it is sent. The position is empty if the task needs no
    place; ``value`` is the owner's own, needed exactly if the task asks for one.
    """
    code = int(pair.pooled.hierarchy.codes([position])[0]) if pair.maps else 0
    bucket, path = pair.place(code)
    number = _encoded(pair, position, secret, value)
    entropy = upload_entropy(secret, pair.id, code, 2 * pair.shape.private_bytes, value=number)
    name = pseudonym(secret, pair.id)
    report = shard(pair.id, name, pair.shape, path, entropy, value=number)
    roles: tuple[Role, Role] = ("leader", "helper")
    leader, helper = (
        seal(
            plain, pair.operator(role).sealing_key, role=role, task=pair.id, report=name, public=report.public,
            bucket=bucket, token=token,
        )
        for plain, role in zip(report.private, roles, strict=True)
    )  # fmt: skip
    return Upload(name, report.public, leader, helper, token or None, bucket)


def _encoded(pair: PairTask, position: Sequence[float], secret: bytes, value: float | None) -> int | None:
    """The value as it is sent; None if the task asks for none."""
    asked = pair.asked
    if asked is None or not asked.own:
        if value is not None:
            raise InvalidInput("the task asks for no value of your own; leave it out")
        if asked is None:
            return None
        value = float(asked.build()([position])[0])
    elif value is None:
        raise InvalidInput(f"the task asks for {asked.words}: give your value")
    return asked.encode(value, rounding_word(secret, pair.id))


def check_pair(pair: PairTask, policy: Policy, *, allow_bucket: bool = False) -> None:
    """Refuse a pair task that the owner forbids. Nothing here depends on the position."""
    if pair.bucket_depth and not allow_bucket:
        raise ServerViolation(
            "public-bucket",
            f"the task makes every device's cell of depth {pair.bucket_depth} public; the owner does not allow that",
        )
    if not pair.epsilon <= policy.max_epsilon:
        limit = f"your max_epsilon allows {policy.max_epsilon:g}"
        raise ServerViolation("over-budget", f"the task costs {pair.loss_words}; {limit}")
    if policy.min_side and pair.maps:
        found = pair.pooled.hierarchy.smallest_sides  # the same for every position
        check_sides(policy, len(found))
        if not at_least([found], policy.min_side)[0]:
            least = np.broadcast_to(np.array(policy.min_side), found.shape)
            narrowest = f"{lengths_words(found)} {side_unit(pair.pooled.box)}".rstrip()
            raise ServerViolation(
                "small-cell",
                f"the upload holds the position to {narrowest}, which both operators together could read; "
                f"the owner allows nothing below {lengths_words(least)}",
            )


async def fetch_both(name: str, server: str, connect: Callable[[str], Channel]) -> PairTask:
    """The pair task as both operators show it, each at its own origin; ``server`` is the one that the owner gave."""
    pair = await _fetch(name, connect(server))
    if origin(server) not in (pair.leader.origin, pair.helper.origin):
        raise ServerViolation(
            "other-origin",
            f"the task names {pair.leader.origin} and {pair.helper.origin}, but it was found at {server}; use the "
            "address of one of the operators",
        )
    for operator in (pair.leader, pair.helper):
        if await _fetch(name, connect(operator.origin)) != pair:
            raise ServerViolation("other-task", f"{operator.name} at {operator.origin} shows another task")
    return pair


async def _fetch(name: str, channel: Channel) -> PairTask:
    found = await channel.message(f"/tasks/{name}", lambda data: read_task(data, name))
    if not isinstance(found, PairTask):
        raise ServerViolation("malformed", f"{channel.url} shows no task of two servers")
    return found


class Uploader:
    """One device and its one upload.

    Parameters
    ----------
    url : str
        ``https://server/tasks/{id}`` of either operator.
    vault : Vault
        Open, and not used by another agent.
    connect : callable
        Gives the channel to an origin; the same one every time. The caller closes it.
    position : sequence of float
        In the order of the task's axes; empty if the task needs no place. It leaves in shares only.
    value : float, optional
        The owner's own value, if the task asks for one. It leaves in shares only.
    allow_bucket : bool
        Whether the owner allows a task that makes a coarse cell of every participant public.
    spread : float
        The upload is sent up to this many seconds late, by jitter.
    new_server : bool
        Whether the owner means operators, or keys of them, that the vault does not know.
    """

    def __init__(
        self, url: str, vault: Vault, *, connect: Callable[[str], Channel], position: Sequence[float], policy: Policy,
        token: str = "", value: float | None = None, allow_bucket: bool = False,
        notify: Callable[[str], None] = lambda line: None, spread: float = 0.0, new_server: bool = False,
    ) -> None:  # fmt: skip
        self._server, self._name = split_url(url)
        if not self._name:
            raise InvalidInput(f"give the URL of the task, https://server/tasks/ID; got {url!r}")
        self._vault, self._connect = vault, connect
        self._position = tuple(float(number) for number in position)
        self._policy, self._token, self._value, self._allow_bucket = policy, token, value, allow_bucket
        self._notify, self._spread, self._new_server = notify, spread, new_server
        self._pair: PairTask | None = None

    async def run(self) -> Summary:
        """Upload, and keep the receipt. Running it again is safe at any moment; a second time nothing is sent.

        Raises ``InvalidInput`` for another position than the one that was sealed, or an operator or key that the vault
        does not know, ``BudgetExceeded``, and ``Unreachable`` if a server is away for too long.
        """
        try:
            entry = await self._prepare()
            if not entry.receipt:
                await self._send(entry)
        except ServerViolation as refusal:
            return self._refuse(refusal)
        return self.summary()

    def summary(self) -> Summary:
        """What the vault knows of this upload now."""
        entry = self._vault.contents.upload(bytes.fromhex(self._name))
        return Summary(outcome="unfinished") if entry is None else summarise_upload(self._vault.contents, entry)

    # -- steps -------------------------------------------------------------------------------------------------

    async def _prepare(self) -> PairUpload:
        """The upload as it is stored: made, booked and saved now, or by an earlier run."""
        entry = self._vault.contents.upload(bytes.fromhex(self._name))
        if entry is None:
            self._pair = await fetch_both(self._name, self._server, self._connect)
            if not self._new_server:
                check_servers(self._vault.contents, self._pair, self._server)
            check_pair(self._pair, self._policy, allow_bucket=self._allow_bucket)
            await self._check_open(self._pair)
            return self._store(self._pair)
        self._pair = PairTask.from_bytes(entry.task)
        return entry if entry.receipt else self._resumed(self._pair, entry)

    async def _check_open(self, pair: PairTask) -> None:
        """Refuse before anything is sealed where an honest pair would not take it."""
        for operator in (pair.leader, pair.helper):
            phase = await self._connect(operator.origin).phase(self._name)
            if phase != "open":
                token = {"confirming": "not-confirmed", "cancelled": "campaign-ended"}.get(phase, "uploads-closed")
                raise ServerViolation(
                    token,
                    f"the task is {printable(phase, most=20)} at {operator.name}; it takes uploads when it is open",
                )

    def _store(self, pair: PairTask) -> PairUpload:
        """Seal, book and save, before anything leaves."""
        data = self._upload_of(pair, token=self._token).to_bytes()
        cost = exact(pair.epsilon)
        ledger = self._vault.contents.ledger.reserve(pair.id, cost)
        ledger = ledger.spend(pair.id, cost).settle(pair.id)
        entry = PairUpload(task=pair.to_bytes(), digest=hashlib.sha256(data).digest(), upload=data)
        self._vault.put(entry, ledger)
        self._notify(f"Sealed one upload for {pair.leader.name} and {pair.helper.name}; the loss is booked.")
        return entry

    def _upload_of(self, pair: PairTask, *, token: str) -> Upload:
        return make_upload(pair, self._position, self._vault.contents.secret, token=token, value=self._value)

    def _resumed(self, pair: PairTask, entry: PairUpload) -> PairUpload:
        """The stored upload, with another token if the owner gives one."""
        kept, other = Upload.from_bytes(entry.upload), self._upload_of(pair, token=self._token)
        if other.public != kept.public:
            raise InvalidInput(
                "this vault holds an upload for the task with another position or value; both are fixed for a task, "
                "because two different uploads could be compared. Give the same ones"
            )
        if self._token and self._token != kept.token:
            data = other.to_bytes()
            entry = msgspec.structs.replace(entry, upload=data, digest=hashlib.sha256(data).digest())
            self._vault.put(entry)
        return entry

    async def _send(self, entry: PairUpload) -> None:
        assert self._pair is not None
        channel = self._connect(self._pair.leader.origin)
        if self._spread:
            await channel.clock.sleep(self._spread * channel.jitter())
        answer = await channel.send(
            "PUT", f"/tasks/{self._name}/uploads/{Upload.from_bytes(entry.upload).id.hex()}", content=entry.upload,
            headers={"Content-Type": MSGPACK}, accept=MSGPACK, check=Receipt.from_bytes,
        )  # fmt: skip
        if answer.status not in (200, 201):
            refused = f"the leader refused the upload: {answer.detail}"
            raise ServerViolation(answer.token, ADVICE.get(answer.token, refused))
        if not Receipt.from_bytes(answer.body).is_good(self._pair, entry.upload):
            raise ServerViolation("bad-receipt", "the receipt is not for this upload, or not signed by the leader")
        self._vault.put(msgspec.structs.replace(entry, upload=b"", receipt=answer.body, refusal=""))

    def _refuse(self, refusal: ServerViolation) -> Summary:
        self._notify(f"Refused: {refusal.reason} [{refusal.token}]")
        entry = self._vault.contents.upload(bytes.fromhex(self._name))
        if entry is None:
            return Summary(outcome="refused", token=refusal.token, reason=refusal.reason, task=self._pair)
        # The loss stays booked: the leader has seen the upload, and an honest answer cannot be told from a lie.
        self._vault.put(msgspec.structs.replace(entry, refusal=f"{refusal.token}: {refusal.reason}"))
        return self.summary()
