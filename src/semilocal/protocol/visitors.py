"""How many visitors the children of a cell have, from what is public, and how sure that is.

Moved people are spread evenly over the codes, so a child has a share of them in proportion to its weight. How many were
moved is an estimate. Its error and the scatter of people make a variance, the *doubt*. A TRIM moves the visitors of the
children that it leaves out once more, and estimates them again: so doubt does not pile up along a path.

All clients must get the same bits: every operation is rounded by itself, in the order written, and sums go from the
first child to the last (spec/protocol.md, section 10). Knows the numbers of a round. Decides nothing.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..arrays import Flags, Floats

__all__ = ["already_there", "coming"]


def already_there(visitors: Floats, doubt: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Visitors in each child before the verdict, and their variance: float64[m, c] each.

    Parameters
    ----------
    visitors, doubt : float64[m]
        Of the cells.
    weights : float64[m, c]
        Of their children; 0 where there is none.
    """
    whole = _in_order(weights)[:, None]
    own, share = visitors[:, None] * weights / whole, weights / whole
    return own, doubt[:, None] * share * share + own * (1.0 - share)


def coming(own: Floats, weights: Floats, kept: Flags, estimates: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Visitors that come to each kept child if the others are left out, and their variance: float64[m, c] each.

    At least the visitors of the other children come, so that no TRIM makes visitors fewer.

    Parameters
    ----------
    own, weights, estimates : float64[m, c]
    kept : bool[m, c]
    noise : float64[m]
        Variance of the estimated number of people in the children that are left out; 0 if there are none.
    """
    stays, inside = kept | (weights == 0), np.where(kept, weights, 0.0)
    moved = np.maximum(_in_order(np.where(stays, 0.0, estimates)), _in_order(np.where(stays, 0.0, own)))
    room = _in_order(inside)[:, None]
    room = np.where(room > 0, room, np.inf)  # nobody comes where nothing is kept
    come, part = moved[:, None] * inside / room, inside / room
    return come, part * part * noise[:, None] + come * (1.0 - part)


def _in_order(rows: Floats) -> Floats:
    """Sums over the columns, from the first to the last: float64[m]."""
    return np.asarray(reduce(np.add, rows.T))
