"""Sums over the remainders of an arithmetic progression, without going through it.

How long tuples wait for streams of one other rate is a question about m·step mod period for m = 0, 1, 2, …:
how many of these remainders are up to a limit, and what is their sum? Both follow from sums of rounded-down
quotients, which Euclid's algorithm finds in O(log) steps. All numbers are whole and exact.
"""

import math
from collections.abc import Sequence


def sum_of_longest(count: int, step: int, period: int, starts: Sequence[int], least: int, parts: int) -> int:
    """The sum of max(least, longest) over m below ``count``.

    ``longest`` is the greatest of (start - m·step·parts) mod (period·parts) over the ``starts``: the wait of
    tuple m for the last of several streams with one period. O(streams · log).

    Examples
    --------
    Streams at 1, 11, 21, … and at 4, 14, …; tuples at 0, 3 and 6 wait for 4, 8 and 8.

    >>> sum_of_longest(3, step=3, period=10, starts=[1, 4], least=5, parts=1)
    21
    """
    found = _Remainders(count, step, period)
    period *= parts
    places = sorted({start % period for start in starts})
    total = 0
    before, reach = -1, places[-1]  # a tuple behind ``before`` waits until ``reach``
    for place in (*places, period - 1):
        limit = min(place, reach - least)
        if limit > before:
            tuples, ahead = (
                one - other
                for one, other in zip(found.up_to(limit // parts), found.up_to(before // parts), strict=True)
            )
            total += reach * tuples - parts * ahead
            count -= tuples
        before, reach = place, place + period
    return total + least * count


class _Remainders:
    """m·step mod period for m below ``count``: how many are up to a limit, and their sum."""

    def __init__(self, count: int, step: int, period: int) -> None:
        self._common = math.gcd(step, period)
        self._count = count
        self._step = step // self._common
        self._period = period // self._common
        self._quotients = floor_sums(count, self._step, 0, self._period)

    def up_to(self, limit: int) -> tuple[int, int]:
        """Let f = ⌊m·step/period⌋ and f' = ⌊(m·step + period - limit - 1)/period⌋.

        Then f' - f is 1 where the remainder is above the limit, and 0 elsewhere: it equals its square, from
        which the sum of f·f' follows.
        """
        limit //= self._common
        if limit < 0:
            return 0, 0
        plain, plain_m, plain_squared = self._quotients
        total = self._step * (self._count * (self._count - 1) // 2) - self._period * plain
        if limit >= self._period - 1:
            return self._count, self._common * total
        moved, moved_m, moved_squared = floor_sums(
            self._count, self._step, self._period - limit - 1, self._period
        )
        above = self._step * (moved_m - plain_m)
        above -= self._period * (moved_squared - plain_squared - moved + plain) // 2
        return self._count + plain - moved, self._common * (total - above)


def floor_sums(count: int, a: int, b: int, c: int) -> tuple[int, int, int]:
    """The sums of q, m·q and q² with q = ⌊(a·m + b)/c⌋ over m below ``count``.

    Examples
    --------
    >>> floor_sums(4, 3, 1, 2)  # q = 0, 2, 3, 5
    (10, 23, 38)
    """
    if count <= 0:
        return 0, 0, 0
    n = count - 1
    by_a, a = divmod(a, c)
    by_b, b = divmod(b, c)
    rows = (a * n + b) // c
    f = g = h = 0
    if rows:  # count the points below the line by rows, not by columns
        f_rows, g_rows, h_rows = floor_sums(rows, c, c - b - 1, a)
        f = n * rows - f_rows
        g = (rows * n * count - h_rows - f_rows) // 2
        h = n * rows * (rows + 1) - 2 * (g_rows + f_rows) - f
    first = n * count // 2
    second = first * (2 * n + 1) // 3
    return (
        f + by_a * first + by_b * count,
        g + by_a * second + by_b * first,
        h + 2 * (by_b * f + by_a * g + by_a * by_b * first) + by_a * by_a * second + by_b * by_b * count,
    )
