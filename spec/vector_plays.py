"""plays.json: whole tasks, message by message, for every rule, randomizer, tree and one to three dimensions."""

from __future__ import annotations

from typing import Any

from vector_common import CODES, CUTS, OPEN, Json, cluster, plain, secret, unit

from semilocal import Box, Closed, Curator, Participant, Query, SphereTree, Task
from semilocal.protocol.curator import count_reports
from semilocal.protocol.messages import Message, encode
from semilocal.transcript.merkle import transcript_root

__all__ = ["make_plays"]


def play_list() -> list[tuple[str, str, Task, list[list[float]], dict[int, list[int]]]]:
    """Name, note, task, positions, and who is missing from which round."""
    small: dict[str, Any] = {"delta": 0.05, "k": 3}
    wide = Box((-3.5, 10.0), (2.5, 90.0), names=("longitude", "latitude"))
    return [
        ("all-binary-1d", "rule all: a sparse half stops the split", Task.build(
            unit(1), epsilon=4.0, rule="all", max_depth=4, **small), cluster("a", 22, 1, 8, centre=0.5, width=0.5), {}),
        ("trim-binary-2d", "path bits are no multiple of the dimensions; trims, moves and a roll call", Task.build(
            unit(2), epsilon=4.0, max_depth=5, max_rounds=4, tau=0.4, **small),
            cluster("b", 24, 2, 2, centre=0.3, width=0.2), {}),
        ("trim-quad-2d", "several children may be trimmed at once; a box that is not the unit square", Task.build(
            wide, epsilon=4.5, tree="quad", max_depth=3, max_rounds=3, tau=0.45, **small),
            [[round(6 * x - 3.5, 3), round(80 * y + 10, 3)] for x, y in cluster("c", 26, 2, 3, centre=0.4, width=0.3)],
            {}),
        ("trim-laplace-binary-2d", "discrete Laplace: an answer is a vector", Task.build(
            unit(2), epsilon=8.0, randomizer="discrete-laplace", max_depth=4, max_rounds=2, tau=0.4, **small),
            cluster("d", 20, 2, 3, centre=0.3, width=0.2), {}),
        ("all-laplace-quad-1d", "a quadtree in one dimension has two children", Task.build(
            unit(1), epsilon=8.0, rule="all", tree="quad", randomizer="discrete-laplace", max_depth=2, **small),
            cluster("e", 20, 1, 12, centre=0.5, width=0.5), {}),
        ("each-binary-3d", "rule each: failing children are regions at once, without a crowd", Task.build(
            unit(3), epsilon=4.0, rule="each", max_depth=5, max_rounds=5, **small),
            cluster("f", 22, 3, 6, centre=0.4, width=0.3), {}),
        ("each-laplace-quad-2d", "rule each with discrete Laplace", Task.build(
            unit(2), epsilon=12.0, rule="each", tree="quad", randomizer="discrete-laplace", max_depth=2, max_rounds=1,
            **small), cluster("j", 14, 2, 4, centre=0.3, width=0.2), {}),
        ("uniform-binary-1d", "accounting uniform: delta is split over the tests", Task.build(
            unit(1), epsilon=12.0, accounting="uniform", max_trims=2, max_depth=4, tau=0.4, **small),
            cluster("g", 22, 1, 2, centre=0.2, width=0.2), {}),
        ("trim-quad-3d", "eight children; some devices miss a round and are lost", Task.build(
            unit(3), epsilon=6.0, tree="quad", max_depth=2, tau=0.45, **small),
            cluster("h", 24, 3, 2, centre=0.3, width=0.25), {1: [5], 2: [0, 7]}),
        ("trim-sphere", "the whole Earth; positions at a pole and at the date line", Task.build(
            hierarchy=SphereTree(14), epsilon=4.0, max_rounds=9, tau=0.4, resolution=20.0, **small),
            [[179.98, 0.5], [-179.98, -0.5], [12.3, 89.9], [100.0, -88.0],
             *([round(40 * x, 3), round(30 * y + 30, 3)]
               for x, y in cluster("k", 22, 2, 3, centre=0.4, width=0.2))], {}),
        ("trim-table", "a number of children per cell; leaves that are reached early go on with one", Task.build(
            hierarchy=CUTS, epsilon=6.0, tau=0.4, **small),
            [[round(120 * x, 3)] for x, in cluster("l", 30, 1, 2, centre=0.2, width=0.2)], {}),
        ("each-labels", "a table of labels: positions are numbers of leaves and a half", Task.build(
            hierarchy=CODES, epsilon=5.0, rule="each", **small),
            [[int(7 * x) + 0.5] for x, in cluster("m", 26, 1, 5, centre=0.3, width=0.3)], {}),
        ("nobody-passes", "fewer participants than k: one region, the whole domain; all fields of a task", Task.build(
            unit(2), epsilon=1.0, delta=1e-6, k=20, quorum=0.75, window=86400, tolerate_liars=2,
            server_key=bytes(range(32)), resolution=0.01, label="2031-05-04"),
            cluster("i", 4, 2, 4, centre=0.5, width=0.5), {}),
    ]  # fmt: skip


def make_plays() -> Json:
    """Whole tasks, message by message."""
    return {
        "about": "Whole tasks. reports are in transcript order: [participant, cell, answer, bytes].",
        "plays": [one_play(*entry) for entry in play_list()],
    }


def one_play(name: str, note: str, task: Task, points: list[list[float]], missing: dict[int, list[int]]) -> Json:
    """A task played to its end."""
    secrets = [secret(f"{name} {number}") for number in range(len(points))]
    people = [Participant(task, point, key, OPEN) for point, key in zip(points, secrets, strict=True)]
    index = {person.pseudonym: number for number, person in enumerate(people)}
    curator, rounds = Curator(task), []
    events: list[Message] = [task]
    while (query := curator.query()) is not None:
        assert isinstance(query, Query)
        there = [person for number, person in enumerate(people) if number not in missing.get(query.round, [])]
        answers = [report for person in there if (report := person.receive(query)) is not None]
        answers.sort(key=lambda report: report.pseudonym)
        closed = curator.close(*count_reports(curator, answers))
        assert isinstance(closed, Closed)
        for person in people:
            person.receive(closed)
        events += [query, *answers, closed]
        rounds.append(
            {
                "round": query.round, "cells": list(query.cells), "query": encode(query).hex(),
                "reports": [[index[r.pseudonym], r.cell, plain(r.answer), encode(r).hex()] for r in answers],
                "responders": list(closed.responders), "tally": plain(closed.tally), "kept": plain(closed.kept),
                "closed": encode(closed).hex(),
            }
        )  # fmt: skip
    return {
        "name": name, "note": note, "task": plain(task), "bytes": task.to_bytes().hex(), "id": task.id.hex(),
        "participants": [
            {"point": point, "secret": key.hex(), "pseudonym": person.pseudonym.hex(),
             "region": person.region, "crowd": person.crowd, "moves": person.moves}
            for point, key, person in zip(points, secrets, people, strict=True)
        ],
        "missing": {str(number): who for number, who in missing.items()},
        "rounds": rounds, "root": transcript_root(events).hex(),
    }  # fmt: skip
