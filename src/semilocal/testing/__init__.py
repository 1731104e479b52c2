"""Help for your own tests: populations, campaigns, a clock you move by hand, an application in process, a real server.

Everything is deterministic: populations and secrets come from seeds, time from :class:`MockClock`. Nothing here
protects anybody; never use it to collect real data.
"""

from .app import ADMIN_TOKEN, MockClock, RunningApp, build_app, client_of, keys_for_tests, running_app
from .campaign import ALLOW_ALL, Played, PlayedRound, cluster, participants_at, play, secret, secrets_of, unit_box
from .processes import Server, free_port, running_server

__all__ = [
    "ADMIN_TOKEN", "ALLOW_ALL", "MockClock", "Played", "PlayedRound", "RunningApp", "Server", "build_app", "client_of",
    "cluster", "free_port", "keys_for_tests", "participants_at", "play", "running_app", "running_server", "secret",
    "secrets_of", "unit_box",
]  # fmt: skip
