"""How we measure: contenders take turns, at least five rounds, medians of ratios within a round.

Load on a machine comes and goes; contenders that alternate A/B/A/B share it, and a ratio taken
within one round loses most of it. The spread tells how far to trust a median.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median, quantiles

MIN_ROUNDS = 5


def alternate(
    contenders: Mapping[str, Callable[[], float]], rounds: int = MIN_ROUNDS, warmups: int = 1
) -> dict[str, list[float]]:
    """Let the contenders take turns, and return what each measured, round by round.

    Parameters
    ----------
    contenders : mapping of name to function
        A call does one run and returns its figure, in any unit.
    rounds : int
        Rounds that count; below ``MIN_ROUNDS`` only for a smoke run.
    warmups : int
        Rounds before them that do not.

    Examples
    --------
    >>> alternate({"a": lambda: 1.0, "b": lambda: 2.0}, rounds=2)
    {'a': [1.0, 1.0], 'b': [2.0, 2.0]}
    """
    if rounds < 1 or not contenders:
        raise ValueError(f"{rounds} rounds of {len(contenders)} contenders; expected at least one")
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(warmups + rounds):
        for name, run in contenders.items():
            figure = run()
            if turn >= warmups:
                samples[name].append(figure)
    return samples


def ratios(numerator: Sequence[float], denominator: Sequence[float]) -> list[float]:
    """Divide the two figures of each round."""
    return [above / below for above, below in zip(numerator, denominator, strict=True)]


def rates(seconds: Sequence[float], count: int) -> list[float]:
    """Millions a second, where each run did ``count``."""
    return [count / each / 1e6 for each in seconds]


def spread(samples: Sequence[float]) -> float:
    """Return the distance of the quartiles as a share of the median.

    Examples
    --------
    >>> spread([9.0, 10.0, 11.0])
    0.1
    """
    middle = median(samples)
    if len(samples) < 2 or middle == 0:
        return 0.0
    first, _, third = quantiles(samples, n=4, method="inclusive")
    return abs((third - first) / middle)


@contextlib.contextmanager
def one_core() -> Iterator[int | None]:
    """Keep this process and the ones it starts on one core, where the system can; yield it."""
    if not hasattr(os, "sched_setaffinity"):
        yield None
        return
    allowed = os.sched_getaffinity(0)
    core = max(allowed)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, allowed)
