"""Numbers of the model: floats in arrays, and the fractions that they stand for.

Rates such as 140/3 have no exact float, and periods that differ by a rounding error have another least common
multiple. So a float stands for the fraction next to it that has a small denominator.
"""

from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

MOST_RATE = 10**12  # tuples a second
_TIME_DENOMINATOR = 10**12


def nearby(seconds: float) -> Fraction:
    """The fraction that a duration stands for.

    Examples
    --------
    >>> nearby(0.1)
    Fraction(1, 10)
    """
    return Fraction(seconds).limit_denominator(_TIME_DENOMINATOR)


def nearby_rate(rate: float, denominator: int = 10**6) -> Fraction:
    """The fraction that a rate stands for: numerator up to 10^12, denominator up to 10^6 unless given.

    Examples
    --------
    >>> nearby_rate(140 / 3)
    Fraction(140, 3)
    """
    return Fraction(rate).limit_denominator(min(denominator, max(1, MOST_RATE // max(1, int(rate)))))
