"""Settings and small steps that tests of the protocol share; :func:`semilocal.testing.play` plays whole campaigns."""

from __future__ import annotations

import numpy.typing as npt
from hypothesis import HealthCheck, settings

from semilocal import Closed, Curator, Query

# A busy machine is no failure, and a failure must come back.
STEADY = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def opened(curator: Curator) -> Query:
    """The open round's query, one of the partition."""
    query = curator.query()
    assert isinstance(query, Query)
    return query


def closed(curator: Curator, responders: npt.ArrayLike, tally: npt.ArrayLike) -> Closed:
    """Close a round of the partition."""
    message = curator.close(responders, tally)
    assert isinstance(message, Closed)
    return message
