"""refusals.json: for every check of a device, and of a server, a message that it must refuse.

Every vector is tried on the machines while it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
from vector_common import OPEN, TASKS, Json, plain, refuse_report, secret, token_of

from semilocal import Closed, Curator, Participant, Policy, Query, Report, Task
from semilocal.protocol.messages import AnyReport, encode
from semilocal.protocol.rule import decide, frontier_at

__all__ = ["make_refusals"]


class Story:
    """A device and a server that may say anything; remembers what was said."""

    def __init__(self, task: Task, point: list[float], label: str, policy: Policy) -> None:
        self.task, self.point, self.label, self.policy = task, point, label, policy
        self.device = Participant(task, point, secret(label), policy)
        self.history: list[Query | Closed] = []

    def tell(self, message: Query | Closed) -> AnyReport | None:
        """Deliver a legal message."""
        report = self.device.receive(message)
        self.history.append(message)
        return report

    def query(self, *others: int) -> Query:
        """The legal next query: the device's cell, and others."""
        state = self.device.state
        return Query(self.task.id, state.round, tuple(sorted({state.cell, *others})))

    def close(self, responders: int, *tally: int, kept: tuple[int, ...] | None = None) -> Closed:
        """A closing of the open round with this tally for the device's cell; its verdict is right if none is given."""
        state, last = self.device.state, self.history[-1]
        assert isinstance(last, Query)
        if kept is None and last.round > self.task.max_rounds:
            kept = ()
        elif kept is None:
            frontier = frontier_at([state.cell], trims=state.trims, visitors=state.visitors, doubt=state.doubt)
            wide = [*tally, *[0] * (self.task.hierarchy.fanout - len(tally))]
            kept = tuple(np.flatnonzero(decide(self.task, frontier, [responders], [wide]).kept[0]).tolist())
        widths = self.task.hierarchy.fanouts(np.array(last.cells, dtype=np.uint64)).tolist()
        rows = [
            (responders, tally, kept) if cell == state.cell else (0, (0,) * (width if tally else 0), ())
            for cell, width in zip(last.cells, widths, strict=True)
        ]
        sizes, tallies, keeps = zip(*rows, strict=True)
        return Closed(self.task.id, last.round, last.cells, sizes, tallies, keeps)


Made = tuple[Story, Query | Closed, Query | Closed]
STRICT = Policy(max_epsilon=3.0, max_exposure=2.0, min_k=5, max_delta=0.2)


def story(task: str, *, policy: Policy = OPEN) -> Story:
    """The device of the refusals."""
    point = {"quad": [0.3, 0.8], "table": [20.0], "sphere": [12.0, 50.0]}.get(task, [0.3])
    return Story(TASKS[task], point, f"refused {task}", policy)


def answered(task: str, **options: Any) -> Story:
    """After the query of round 1."""
    made = story(task, **options)
    made.tell(made.query())
    return made


def second(task: str, **options: Any) -> Story:
    """Waiting in round 2, after an honest split."""
    made = answered(task, **options)
    made.tell(made.close(1000, *SPLIT[task]))
    return made


SPLIT = {
    "all": (500, 500), "trim": (500, 500), "quad": (250, 250, 250, 250), "laplace": (500, 500), "short": (500, 500),
    "each": (500, 500), "liars": (500, 500), "coarse": (500, 500),
    "table": (330, 340, 330), "sphere": (500, 500),
}  # fmt: skip


def other(message: Query | Closed, **changes: Any) -> Any:
    """The message with something changed."""
    return msgspec.structs.replace(message, **changes)


def refusal_list() -> Iterator[tuple[str, str, str, Callable[[], Made]]]:
    """Name, token, what is wrong, and the story with the message that is refused and one that is legal after it."""

    def made(start: Story, bad: Query | Closed, then: Query | Closed) -> Callable[[], Made]:
        return lambda: (start, bad, then)

    def queried(start: Story, then: Query | None = None, /, **changes: Any) -> Callable[[], Made]:
        legal = start.query() if then is None else then
        return made(start, other(legal, **changes), legal)

    def closed(start: Story, legal: Closed, /, **changes: Any) -> Callable[[], Made]:
        return made(start, other(legal, **changes), legal)

    yield "query-of-another-task", "other-task", "the id is not the pinned one", queried(story("all"), task=bytes(32))
    start = answered("all")
    yield "closing-of-another-task", "other-task", "the id is not the pinned one", closed(
        start, start.close(1000, 500, 500), task=bytes(32))  # fmt: skip
    yield "query-skips-a-round", "skipped-round", "round 2 before round 1", queried(story("all"), round=2, cells=(2, 3))
    start = answered("all")
    yield "query-before-the-closing", "skipped-round", "round 2 while round 1 is open", made(
        start, Query(start.task.id, 2, (2, 3)), start.close(1000, 500, 500))  # fmt: skip
    start = answered("all")
    yield "closing-skips-a-round", "skipped-round", "the closing of round 2 while round 1 is open", closed(
        start, start.close(1000, 500, 500), round=2, cells=(2,))  # fmt: skip
    start = second("all")
    yield "query-repeats-a-round", "repeated-round", "round 1 again after its closing", made(
        start, start.history[0], start.query())  # fmt: skip
    start = second("all")
    yield "closing-repeats-a-round", "repeated-round", "the closing of round 1 again", made(
        start, start.history[1], start.query())  # fmt: skip
    start = second("all")
    yield "closing-of-round-one-with-another-tally", "repeated-round", "another closing of a closed round", made(
        start, other(start.history[1], tally=((600, 400),)), start.query())  # fmt: skip
    start = second("all")
    start.tell(start.query(3))
    yield "query-changed-after-the-answer", "changed-query", "the same round with other cells", made(
        start, Query(start.task.id, 2, (2,)), start.history[-1])  # fmt: skip
    start = second("all")
    start.tell(start.query(3))
    legal = start.close(1000, 500, 500)
    yield "closing-of-other-cells", "changed-query", "the closing leaves out a cell of the query", made(
        start, Closed(legal.task, 2, (2,), (1000,), ((500, 500),), ((0, 1),)), legal)  # fmt: skip
    yield "query-without-the-device-s-cell", "foreign-cells", "only the sibling is asked about", queried(
        second("all"), cells=(3,))  # fmt: skip
    yield "query-of-no-cells", "foreign-cells", "nothing is asked about", queried(second("all"), cells=())
    yield "query-of-shallow-cells", "wrong-depth", "the root in round 2", queried(second("all"), cells=(1,))
    yield "query-with-one-deep-cell", "wrong-depth", "the device's cell, and one that is too deep", queried(
        second("all"), cells=(2, 6))  # fmt: skip
    yield "query-of-another-tree-s-depth", "wrong-depth", "binary cells in a quadtree", queried(
        second("quad"), cells=(2, 5))  # fmt: skip
    yield "query-of-no-cells-of-a-table", "wrong-depth", "the table has 20 cells", queried(
        second("table"), cells=(3, 99))  # fmt: skip
    yield "query-of-cells-of-a-table-s-next-level", "wrong-depth", "cell 5 has depth 2", queried(
        second("table"), cells=(3, 5))  # fmt: skip
    yield "query-of-deep-cells-of-the-sphere", "wrong-depth", "cell 4 has depth 2", queried(
        second("sphere"), cells=(2, 4))  # fmt: skip
    start = answered("table")
    yield "closing-with-a-sum-too-few", "impossible-tally", "the root of the table has three children", closed(
        start, start.close(1000, 330, 340, 330), tally=((500, 500),))  # fmt: skip
    start = second("table")
    start.tell(start.query(2))
    yield "closing-with-the-width-of-another-cell", "impossible-tally", "the cell has one child, not three", closed(
        start, start.close(1000, 1000), tally=((0, 0, 0), (400, 300, 300)))  # fmt: skip
    start = second("table")
    start.tell(start.query())
    yield "only-child-that-does-not-hold-all", "impossible-tally", "999 of 1000 are in the only child", closed(
        start, start.close(1000, 1000), tally=((999,),))  # fmt: skip
    start = second("table")
    start.tell(start.query())
    yield "only-child-that-stops", "wrong-verdict", "a cell with one child always goes on", closed(
        start, start.close(1000, 1000), kept=((),))  # fmt: skip
    yield "query-beyond-the-last-round", "beyond-depth", "later than the roll call", queried(
        story("short"), round=3, cells=(4, 5))  # fmt: skip
    yield "query-far-beyond-the-last-round", "beyond-depth", "the largest round there is", queried(
        story("all"), round=65536, cells=(2**63,))  # fmt: skip
    start = second("all", policy=STRICT)
    start.tell(start.query())
    start.tell(start.close(1000, 500, 500))
    missed = Closed(start.task.id, 3, (start.device.state.cell,), (900,), ((450, 450),), ((0, 1),))
    yield "query-over-the-exposure", "over-exposure", "a third answer at epsilon 1 with a limit of 2", made(
        start, start.query(), missed)  # fmt: skip

    start = second("all", policy=other_policy(min_side=(0.6 * TASKS["all"].box.upper[0],)))
    missed = Closed(start.task.id, 2, (start.device.state.cell,), (900,), ((450, 450),), ((0, 1),))
    yield "query-of-a-cell-below-the-owner-s", "small-cell", "half of the domain, with 0.6 of it as the smallest", made(
        start, start.query(), missed)  # fmt: skip

    start = answered("all")
    yield "closing-counts-nobody", "not-counted", "no responder in a cell that was answered for", closed(
        start, start.close(1000, 500, 500), responders=(0,), tally=((0, 0),), kept=((),))  # fmt: skip
    for name, why, responders, tally in (
        ("does-not-add-up", "the counts add up to less than the responders", 1000, (499, 500)),
        ("adds-up-to-more", "the counts add up to more than the responders", 999, (500, 500)),
        ("is-negative", "a count is negative", 1000, (1001, -1)),
        ("is-short", "one number for two children", 1000, (1000,)),
        ("is-long", "three numbers for two children", 1000, (500, 500, 0)),
        ("is-empty", "no numbers in a round that asks", 1000, ()),
    ):
        start = answered("all")
        yield f"tally-{name}", "impossible-tally", why, closed(
            start, start.close(1000, 500, 500), responders=(responders,), tally=(tally,))  # fmt: skip
    edge = int(TASKS["laplace"].randomizer.alphabet[0][-1])  # type: ignore[union-attr]
    for name, entry in (("above", edge * 1000 + 1), ("below", (1 - edge) * 1000 - 1)):
        start = answered("laplace")
        yield f"laplace-tally-{name}-the-alphabet", "impossible-tally", f"{name} what 1000 reports can sum to", closed(
            start, start.close(1000, 500, 500), tally=((500, entry),))  # fmt: skip

    start = answered("all")
    yield "split-although-a-child-failed", "wrong-verdict", "child 1 did not pass", closed(
        start, start.close(1000, 730, 270), kept=((0, 1),))  # fmt: skip
    start = answered("all")
    yield "stop-although-all-passed", "wrong-verdict", "every child passed", closed(
        start, start.close(1000, 500, 500), kept=((),))  # fmt: skip
    start = answered("all")
    yield "split-of-a-small-cell", "wrong-verdict", "fewer responders than k", closed(
        start, start.close(19, 10, 9), kept=((0, 1),))  # fmt: skip
    start = second("coarse")
    start.tell(start.query())
    yield "split-below-the-shortest-side", "wrong-verdict", "a quarter of the domain, with 0.3 as the shortest", closed(
        start, start.close(1000, 500, 500), kept=((0, 1),))  # fmt: skip
    start = second("coarse")
    start.tell(start.query())
    yield "trim-below-the-shortest-side", "wrong-verdict", "a quarter of the domain, with 0.3 as the shortest", closed(
        start, start.close(1000, 731, 269), kept=((0,),))  # fmt: skip
    start = answered("all")
    yield "trim-with-rule-all", "wrong-verdict", "this rule never trims", closed(
        start, start.close(1000, 731, 269), kept=((0,),))  # fmt: skip
    start = answered("liars")
    yield "split-that-liars-can-make", "wrong-verdict", "child 1 would not pass without 100 liars", closed(
        start, start.close(1000, 640, 360), kept=((0, 1),))  # fmt: skip
    start = answered("trim")
    yield "trim-to-the-wrong-child", "wrong-verdict", "child 1 is the sparse one", closed(
        start, start.close(1000, 731, 269), kept=((1,),))  # fmt: skip
    start = answered("trim")
    yield "trim-of-too-many", "wrong-verdict", "child 1 fails, but is not surely below the share tau", closed(
        start, _failing_but_not_sparse(start), kept=((0,),))  # fmt: skip
    start = answered("trim")
    start.tell(start.close(1000, 731, 269))
    start.tell(start.query())
    yield "trim-beyond-max-trims", "wrong-verdict", "the path has no trims left", closed(
        start, start.close(1000, 731, 269), kept=((0,),))  # fmt: skip
    for name, why, tally, kept in (
        (
            "split-that-ignores-visitors",
            "child 1 has k people, but about 36 of them were moved there",
            (685, 315),
            (0, 1),
        ),
        (
            "split-that-ignores-the-doubt",
            "child 1 has twice the visitors, but not if there are more than estimated",
            (655, 345),
            (0, 1),
        ),
        ("stop-that-invents-visitors", "both children have twice the visitors and more", (500, 500), ()),
    ):
        start = answered("trim")
        start.tell(start.close(1000, 698, 302))  # a TRIM that moves about 72
        start.tell(start.query())
        yield name, "wrong-verdict", why, closed(start, start.close(1000, *tally), kept=(kept,))
    for name, why, tally in (
        ("trim-that-makes-too-many-visitors", "more than a tenth would have been moved", (2720, 1280)),
        ("trim-that-ignores-the-doubt", "more than a tenth could have been moved", (2840, 1160)),
    ):
        start = answered("visitors")
        start.tell(start.close(4000, 2900, 1100))
        start.tell(start.query())
        yield name, "wrong-verdict", why, closed(start, start.close(4000, *tally), kept=((0,),))
    start = answered("quad")
    yield "trim-keeps-a-child-that-failed", "wrong-verdict", "child 2 did not pass", closed(
        start, start.close(1000, 560, 230, 105, 105), kept=((0, 1, 2),))  # fmt: skip
    start = answered("all")
    yield "child-that-does-not-exist", "wrong-verdict", "a third child of two", closed(
        start, start.close(1000, 500, 500), kept=((0, 1, 2),))  # fmt: skip
    start = answered("each")
    yield "each-keeps-a-child-that-failed", "wrong-verdict", "child 1 did not pass", closed(
        start, start.close(1000, 731, 269), kept=((0, 1),))  # fmt: skip
    for name, why, changes in (
        ("verdict", "a roll call decides nothing", {"kept": ((0, 1),)}),
        ("tally", "a roll call has no tally", {"tally": ((500, 500),)}),
    ):
        start = second("short")
        start.tell(start.query())
        yield f"roll-call-with-a-{name}", "wrong-verdict", why, closed(start, start.close(500), **changes)
    start = second("short")
    start.tell(start.query())
    yield "roll-call-counts-nobody", "not-counted", "no responder in a cell that was answered for", closed(
        start, start.close(500), responders=(0,))  # fmt: skip


def _failing_but_not_sparse(start: Story) -> Closed:
    """The first tally, from the sparsest up, whose second child fails without being sparse."""
    for count in range(27, 50):
        closing = start.close(100, 100 - count, count)
        if closing.kept == ((),):
            return closing
    raise AssertionError("every failing tally is sparse")


def make_refusals() -> Json:
    """One device and one message that it must refuse, per entry."""
    return {
        "about": "messages: history was accepted; message must be refused with the token and change nothing; then must "
        "still work, with this report (if it is a query) and leading to this phase. joining: the task must be refused "
        "with this policy (max_exposure null is no limit). reports: what a server must refuse after these closings; "
        "before was accepted.",
        "tasks": {name: {"task": plain(task), "bytes": task.to_bytes().hex()} for name, task in TASKS.items()},
        "joining": [joining(*entry) for entry in joining_list()],
        "messages": [refused(*entry) for entry in refusal_list()],
        "reports": [refused_report(*entry) for entry in report_list()],
    }


def joining_list() -> Iterable[tuple[str, str, str, str, Policy]]:
    """Name, token, task, what is wrong, policy."""
    return [
        ("float-noise", "simulation-only", "simulation", "paper-laplace is for simulation", OPEN),
        ("rule-each", "no-crowd", "each", "rule each keeps no crowd", other_policy(allow_no_crowd=False)),
        ("printed-margin", "no-crowd", "printed-margin", "the printed margin keeps no crowd, with simulation allowed",
         other_policy(allow_no_crowd=False, allow_simulation=True)),
        ("k-below-the-owner-s", "small-crowd", "all", "k is 20", other_policy(min_k=21)),
        ("delta-above-the-owner-s", "weak-crowd", "all", "delta is 0.05", other_policy(max_delta=0.04)),
        ("delta-with-trims-above-the-owner-s", "weak-crowd", "trim", "delta is 0.05 for everybody, however often moved",
         other_policy(max_delta=0.04)),
        ("epsilon-above-the-owner-s", "over-budget", "all", "epsilon_worst is 1", other_policy(max_epsilon=0.99)),
        ("epsilon-of-the-moved-above-the-owner-s", "over-budget", "quad", "epsilon_worst is 3 times 2",
         other_policy(max_epsilon=5.9)),
        ("nothing-left", "over-budget", "all", "the budget is spent", other_policy(max_epsilon=0.0)),
        ("domain-below-the-owner-s", "small-cell", "all", "the whole domain is smaller", other_policy(min_side=(1e6,))),
    ]  # fmt: skip


def other_policy(**changes: Any) -> Policy:
    """The open policy with something changed."""
    policy: Policy = msgspec.structs.replace(OPEN, **changes)
    return policy


def joining(name: str, token: str, task: str, why: str, policy: Policy) -> Json:
    """A task that a device must refuse to join."""
    assert token_of(lambda: story(task, policy=policy)) == token, name
    return {"name": name, "token": token, "why": why, "task": task, "policy": plain(policy)}


def refused(name: str, token: str, why: str, make: Callable[[], Made]) -> Json:
    """A message that a device must refuse, tried out."""
    start, bad, then = make()
    before = start.device.state
    assert token_of(lambda: start.device.receive(bad)) == token, name
    assert start.device.state == before, name
    entry = {
        "name": name, "token": token, "why": why, "task": next(t for t in TASKS if TASKS[t] is start.task),
        "policy": plain(start.policy), "point": start.point, "secret": secret(start.label).hex(),
        "history": [encode(message).hex() for message in start.history], "message": encode(bad).hex(),
        "then": encode(then).hex(),
    }  # fmt: skip
    report = start.device.receive(then)
    return entry | {"report": None if report is None else encode(report).hex(), "phase": start.device.state.phase}


def report_list() -> Iterable[tuple[str, str, str, str, list[tuple[int, list[int]]], Callable[[Report], Report]]]:
    """Name, token, what is wrong, task, closings before (responders, tally of the root), what is done to a report."""

    def change(**changes: Any) -> Callable[[Report], Report]:
        return lambda report: msgspec.structs.replace(report, **changes)

    after = [(1000, [500, 500])]
    return [
        ("report-of-another-task", "other-task", "the id is not the task's", "all", [], change(task=bytes(32))),
        ("report-too-early", "other-round", "round 2 while round 1 is open", "all", [], change(round=2, cell=2)),
        ("report-too-late", "other-round", "round 1 while round 2 is open", "all", after, change(round=1, cell=1)),
        ("report-of-a-cell-not-asked", "unknown-cell", "a cell of the right depth is not in the frontier", "quad",
         [(1000, [560, 230, 105, 105])], change(cell=7)),
        ("report-of-another-depth", "unknown-cell", "the root in round 2", "all", after, change(cell=1)),
        ("answer-above-the-children", "bad-answer", "child 2 of 0 and 1", "all", [], change(answer=2)),
        ("answer-below-zero", "bad-answer", "child -1", "all", [], change(answer=-1)),
        ("answer-is-a-vector", "bad-answer", "randomized response is one integer", "all", [], change(answer=(0, 1))),
        ("answer-is-missing", "bad-answer", "nil outside a roll call", "all", [], change(answer=None)),
        ("answer-in-a-roll-call", "bad-answer", "a roll call takes nil", "short", after, change(answer=0)),
        ("laplace-answer-is-one-number", "bad-answer", "discrete Laplace is a vector", "laplace", [], change(answer=1)),
        ("laplace-answer-is-short", "bad-answer", "one entry for two children", "laplace", [], change(answer=(1,))),
        ("laplace-answer-beyond-the-alphabet", "bad-answer", "an entry of 999", "laplace", [], change(answer=(999, 0))),
        ("answer-above-the-children-of-the-cell", "bad-answer", "cell 3 of the table has one child", "table",
         [(1000, [330, 340, 330])], change(cell=3, answer=1)),
        ("report-twice", "reported-twice", "two reports under one pseudonym", "all", [], change()),
    ]  # fmt: skip


def refused_report(
    name: str, token: str, why: str, task: str, closings: list[tuple[int, list[int]]], spoil: Callable[[Report], Report]
) -> Json:
    """A report that a server must refuse."""
    curator = Curator(TASKS[task])
    events = [curator.close([size], [tally]) for size, tally in closings]
    query = curator.query()
    assert isinstance(query, Query)
    answer: Any = None if curator.roll_call else (0, 1) if task == "laplace" else 0
    legal = Report(curator.task.id, query.round, bytes(16), query.cells[0], answer)
    bad = spoil(legal)
    assert refuse_report(curator, legal, bad) == token, name
    return {
        "name": name, "token": token, "why": why, "task": task, "closings": [encode(event).hex() for event in events],
        "before": encode(legal).hex(), "report": encode(bad).hex(),
    }  # fmt: skip
