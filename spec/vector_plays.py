"""plays.json: whole campaigns, message by message, for both rules, all trees and one to three dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from vector_common import (
    CHAIN,
    CODES,
    CUTS,
    OPEN,
    ROUNDS,
    Json,
    build,
    cluster,
    plain,
    secret,
    slices_of,
    texts,
    uniforms,
    unit,
    with_laplace,
)  # fmt: skip

from semilocal.geometry.box import Box
from semilocal.hierarchy import BinaryTree, SphereTree
from semilocal.protocol.curator import Curator
from semilocal.protocol.messages import AnyReport, Closed, Event, Query, Report, ValueQuery, encode
from semilocal.protocol.participant import Participant
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.task import Task
from semilocal.randomizer.values import TwoPoint, best
from semilocal.transcript.checkpoints import transcript_root

__all__ = ["make_plays"]


class Play(NamedTuple):
    """A campaign: who is there, who is not, and whose reports are lost on the way."""

    name: str
    note: str
    task: Task
    points: list[list[float]]
    releases: tuple[Release, ...] = ()
    away: Mapping[int, list[int]] = MappingProxyType({})  # round -> who is not there and reads the log later
    lost: Mapping[int, list[int]] = MappingProxyType({})  # round -> participants whose reports never arrive


def play_list() -> list[Play]:
    """All campaigns."""
    wide = Box((-3.5, 10.0), (2.5, 90.0), names=("longitude", "latitude"))
    plane = [[round(6 * x - 3.5, 3), round(80 * y + 10, 3)] for x, y in cluster("c", 48, 2, 6, centre=0.4, width=0.3)]
    functions = (
        Release("mean", best(2.0), "coordinate", (0.0,)), Release("counts"),
        Release("values", best(1.5), "squared_norm", (-1.0, 40.0)),
        Release("values", TwoPoint(1.0), "gaussian_bump", (20.0, -1.0, 40.0)), Release("points"),
        Release("mean", best(3.0), "linear", (0.5, -2.0, 0.125)),
        Release("mean", TwoPoint(1.0), "indicator", (-2.0, 20.0, 1.0, 50.0)),
    )  # fmt: skip
    return [
        Play("cut-binary-1d", "one answer a person; splits, walls, and questions that only refine the estimate", build(
            unit(1), epsilon=2.0, max_depth=8), cluster("a", 60, 1, 20, centre=0.3, width=0.2)),
        Play("cut-binary-2d-away-and-late", "two answers a person; two are away and come back, one enrols late", build(
            unit(2), epsilon=4.0, max_depth=9), cluster("b", 80, 2, 30, centre=0.3, width=0.3),
            away={1: [7], 2: [7], 3: [4, 7], 4: [4, 9], 5: [4, 9], 6: [4, 9], 7: [9]}),
        Play("cut-binary-1d-lost", "reports are lost: who was asked is silent; who is left out of a split stops", build(
            unit(1), epsilon=8.0, max_depth=6), cluster("e", 30, 1, 10, centre=0.4, width=0.4),
            lost={2: list(range(0, 30, 4)), 4: list(range(1, 30, 4))}),
        Play("cut-quad-2d", "a box that is not the unit square, in kilometres; cells of a quadtree", build(
            wide, epsilon=6.0, tree="quad", max_depth=4, resolution=30.0), plane),
        Play("cut-binary-3d", "path bits are no multiple of the dimensions", build(
            unit(3), epsilon=6.0, max_depth=7), cluster("f", 40, 3, 12, centre=0.4, width=0.3)),
        Play("cut-sphere", "the whole Earth; positions at a pole and at the date line", build(
            hierarchy=SphereTree(14), epsilon=8.0, resolution=20.0),
            [[179.98, 0.5], [-179.98, -0.5], [12.3, 89.9], [100.0, -88.0],
             *([round(40 * x, 3), round(30 * y + 30, 3)] for x, y in cluster("k", 36, 2, 8, centre=0.4, width=0.3))]),
        Play("cut-table", "a tree given by cuts of one axis", build(hierarchy=CUTS, epsilon=6.0),
             [[round(120 * x, 3)] for x, in cluster("l", 40, 1, 12, centre=0.3, width=0.3)]),
        Play("cut-liars", "two devices may lie: two answers more on every side", build(
            unit(1), epsilon=8.0, max_depth=5, tolerate_liars=2), cluster("h", 40, 1, 12, centre=0.5, width=0.5)),
        Play("all-binary-1d", "rule all: everybody answers about the children of a cell", build(
            unit(1), epsilon=4.0, rule="all", max_depth=4), cluster("d", 40, 1, 16, centre=0.5, width=0.5)),
        Play("all-quad-2d", "four children at once", build(
            unit(2), epsilon=6.0, rule="all", tree="quad", max_depth=3),
            cluster("g", 40, 2, 25, centre=0.5, width=0.5)),
        Play("all-laplace-binary-1d", "discrete Laplace: an answer is a vector", with_laplace(
            BinaryTree(unit(1), 3), 12.0), cluster("j", 60, 1, 40, centre=0.5, width=0.5)),
        Play("all-labels", "cells with different numbers of children; positions are numbers of leaves + 1/2", build(
            hierarchy=CODES, epsilon=8.0, rule="all"),
            [[int(7 * x) + 0.5] for x, in cluster("m", 44, 1, 30, centre=0.4, width=0.4)]),
        Play("nobody-splits", "fewer participants than k: one region, the domain; all fields of a task", Task.build(
            unit(2), epsilon=1.0, quorum=0.75, window=86400, tolerate_liars=2, max_rounds=ROUNDS, chain=CHAIN.end,
            server_key=bytes(range(32)), resolution=0.01, label="2031-05-04"),
            cluster("i", 4, 2, 4, centre=0.5, width=0.5)),
        Play("values-cut-2d", "every mechanism and function, clipped; one misses a round of values", build(
            wide, epsilon=8.0, max_depth=5), plane[:30], functions, away={14: [4]}),
        Play("values-own-1d", "people's own values, beside a function of the position; a plan of two rounds", build(
            unit(1), epsilon=8.0, max_depth=3), cluster("z", 26, 1, 8, centre=0.4, width=0.3), (
            Release("values", best(1.0), "coordinate", (0.0,)), Release("counts"),
            Release("mean", best(2.0), "own:Fahrpreis in €", (-2.5, 100.0)))),
    ]  # fmt: skip


def make_plays() -> Json:
    """Whole campaigns, message by message."""
    return {
        "about": "Whole campaigns. reports: [participant, bytes] in the order of the transcript; slices follow from "
        "them. away: who neither answers nor is lost in a round; lost: whose report is made and does not arrive. "
        "Codes are decimal strings.",
        "plays": [one_play(play) for play in play_list()],
    }


def one_play(play: Play) -> Json:
    """A campaign played to its end."""
    task, plan = play.task, Plan(play.task.id, play.releases)
    secrets = [secret(f"{play.name} {number}") for number in range(len(play.points))]
    own = own_values(plan, play.name, len(play.points))
    people = [
        Participant(task, point, key, OPEN, plan=plan, value=value.get("value"))
        for point, key, value in zip(play.points, secrets, own, strict=True)
    ]
    index = {person.pseudonym: number for number, person in enumerate(people)}
    curator, rounds = Curator(task, plan, chain=CHAIN), []
    events: list[Event] = [task]
    while (query := curator.query()) is not None:
        values = isinstance(query, ValueQuery)
        events += [plan] if values and not curator.values else []
        reports: list[AnyReport] = []
        for number, person in enumerate(people):
            if number in play.away.get(query.round, []):
                if isinstance(query, Query):
                    person.observe(query)
                continue
            report = person.receive(query)
            if report is not None and number not in play.lost.get(query.round, []):
                reports.append(report)
        reports.sort(key=lambda report: report.pseudonym)
        closed = curator.close(reports)
        if isinstance(closed, Closed):
            slices = slices_of(report for report in reports if isinstance(report, Report))
            for person in people:
                person.close(closed, slices.get(person.log.region))
        events += [query, *reports, closed]
        rounds.append(
            {
                "round": query.round, "query": encode(query).hex(),
                "reports": [[index[report.pseudonym], encode(report).hex()] for report in reports],
                "closed": encode(closed).hex(),
            }
        )  # fmt: skip
    fields = {"name": play.name, "note": play.note, "task": plain(task), "bytes": task.to_bytes().hex()}
    return {
        **fields, "id": task.id.hex(), "plan": encode(plan).hex(),
        "participants": [
            {"point": point, "secret": key.hex(), **value, "pseudonym": person.pseudonym.hex(),
             "region": texts(person.region), "members": person.members, "answered": person.answered,
             "lines": texts(person.lines), "stopped": bool(person.state.stopped)}
            for point, key, value, person in zip(play.points, secrets, own, people, strict=True)
        ],
        **{name: {str(number): who for number, who in given.items()}
           for name, given in (("away", play.away), ("lost", play.lost))},
        "rounds": rounds, "root": transcript_root(events).hex(),
    }  # fmt: skip


def own_values(plan: Plan, name: str, people: int) -> list[dict[str, Any]]:
    """The own value of everybody, with three decimals; nothing if the plan asks for none."""
    if plan.own is None:
        return [{} for _ in range(people)]
    low, high = plan.own.parameters
    draw = uniforms(f"{name} own")
    return [{"value": round(low + (high - low) * next(draw), 3)} for _ in range(people)]
