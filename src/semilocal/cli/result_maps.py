"""Maps of what a campaign found: the options of ``results`` that draw, and what they write.

Knows files and what is public. Computes nothing itself.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..io.map_rows import Rows
from ..io.plots import PICTURES, need_matplotlib, save_picture
from ..io.regions import AnyPartition
from ..protocol.promise import Guarantee
from .jobs import HTML, check_basemap
from .options import FILE, group

if TYPE_CHECKING:
    from ..hierarchy.base import Hierarchy

__all__ = ["Drawings"]


@group("Files")
@dataclass(frozen=True, kw_only=True)
class Drawings:
    """Drawings of the regions.

    Attributes
    ----------
    plot
        draw the regions: .png, .svg or .pdf
    html
        write an interactive map, one file that needs no net
    basemap
        lines behind the map of --html, GeoJSON; else the coast
    """

    plot: Annotated[Path | None, FILE] = None
    html: Annotated[Path | None, FILE] = None
    basemap: Annotated[Path | None, FILE] = None

    @property
    def asked(self) -> bool:
        """Whether anything is to be drawn."""
        return self.plot is not None or self.html is not None

    @property
    def outputs(self) -> dict[str, tuple[Path | None, Sequence[str]]]:
        """Files to write and how their names may end, by option; refuses what cannot be drawn."""
        if self.plot is not None:
            need_matplotlib()
        check_basemap(self.html, self.basemap)
        return {"--plot": (self.plot, PICTURES), "--html": (self.html, HTML)}

    def draw(self, partition: AnyPartition) -> None:
        """Write the picture, if it is asked for."""
        if self.plot is not None:
            save_picture(partition, self.plot)
            print(f"wrote {self.plot}", file=sys.stderr)

    def write_map(
        self, title: str, rounds: Sequence[Rows], tree: Hierarchy, promise: Guarantee, numbers: Mapping[str, str]
    ) -> None:
        """Write the interactive map."""
        from ..io.files import write_text
        from ..page.single import map_html

        assert self.html is not None
        write_text(self.html, map_html(rounds, tree, promise, title=title, numbers=numbers, basemap=self.basemap))
        print(f"wrote {self.html}", file=sys.stderr)
