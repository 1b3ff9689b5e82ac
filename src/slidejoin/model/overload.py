"""Work that does not fit into its interval is carried over, first in, first out: equations 10 to 15.

Each interval brings work and has a budget of seconds. What is left over comes first in the next interval, so
its matches are whole intervals late. Costs O(intervals).
"""

from collections import deque

import numpy as np

from slidejoin.model.rational import Floats

_ROUNDING = 1e-12  # of an interval's work; a smaller rest is not work but an error of rounding


def serve(
    work: Floats, comparisons: Floats, latency: Floats, budget: float, interval: float
) -> tuple[Floats, Floats]:
    """Comparisons done in each interval (y), and their mean latency.

    Parameters
    ----------
    work
        Seconds of work that each interval brings (K).
    comparisons
        Comparisons that this work consists of (c).
    latency
        Latency of the matches of each interval's tuples if their work starts at once.
    budget
        Seconds of work that can be done in an interval (ΘΔt, of all units).
    interval
        Seconds of an interval (Δt).

    Examples
    --------
    An interval brings 3 s of work, and 2 s can be done in each. In the second interval, the one second left
    over comes first, with matches that are 1 s late; then comes half a second of work of its own.

    >>> work = np.array([3.0, 0.5, 0.0])
    >>> serve(work, work * 100, np.full(3, 0.01), budget=2.0, interval=1.0)
    (array([200., 150.,   0.]), array([0.01      , 0.67666667, 0.01      ]))
    """
    done = np.zeros(len(work))
    late = latency.copy()  # where nothing was done, what equation 9 says
    waiting: deque[tuple[int, float]] = deque()  # intervals, and their work that is left
    for now, new in enumerate(work.tolist()):
        if new == 0.0:
            done[now] = comparisons[now]
        elif not waiting and new <= budget:
            done[now] = comparisons[now]
            continue
        else:
            waiting.append((now, new))
        used = weighted = 0.0
        while waiting and used < budget:
            origin, left = waiting.popleft()
            part = min(left, budget - used)  # w_{now,origin}
            if left - part > _ROUNDING * work[origin]:
                waiting.appendleft((origin, left - part))
            used += part
            weighted += part * (latency[origin] + (now - origin) * interval)
            done[now] += comparisons[origin] * (part / work[origin])
        if used:
            late[now] = weighted / used
    return done, late
