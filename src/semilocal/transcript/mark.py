"""The mark of a transcript that no devices made: a simulation, and its seed if the noise can be repeated.

It stands beside the events, not among them: the same events have the same root with and without it. It tells an honest
reader what the file is. It proves nothing against its writer, who could leave it out.

Knows seeds and words. Knows no events.
"""

from __future__ import annotations

import msgspec

from ..errors import InvalidInput
from ..protocol.canonical import read_canonical

__all__ = ["Simulation"]


class Simulation(msgspec.Struct, frozen=True, array_like=True, tag="simulation", forbid_unknown_fields=True):
    """One program played all participants, so the person who ran it is a curator.

    Attributes
    ----------
    seed : int or None
        Of the noise; None if it came from the operating system.
    """

    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise InvalidInput(f"seed must be a whole number from 0 to 2^63 - 1; got {self.seed}")

    def to_bytes(self) -> bytes:
        """Canonical bytes."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Simulation:
        """Read what :meth:`to_bytes` wrote; refuses everything else."""
        return read_canonical(data, _decoder, cls.__name__)

    @property
    def words(self) -> str:
        """For a person.

        Examples
        --------
        >>> Simulation(7).words.partition(":")[0]
        'This is a simulation with seed 7, not a collection'
        """
        if self.seed is None:
            return (
                "This is a simulation, not a collection: one program held all positions, so the person who ran it is a "
                "curator."
            )
        return (
            f"This is a simulation with seed {self.seed}, not a collection: one program held all positions, and its "
            "noise can be repeated, so it protects nobody."
        )


_decoder = msgspec.msgpack.Decoder(Simulation)
