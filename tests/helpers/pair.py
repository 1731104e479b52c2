"""Settings that tests of the protocol share; :func:`semilocal.testing.play` plays whole campaigns."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine is no failure, and a failure must come back.
STEADY = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
