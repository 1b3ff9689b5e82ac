"""Tests of your own joins: generated streams, and comparisons that say what differs.

Streams are made from a seed: the same arguments give the same rows on every machine that runs the same NumPy.
Comparisons follow the order that a join promises: ``"full"`` compares row by row, ``"none"`` as multisets.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

Keys: TypeAlias = Literal["uniform", "zipf", "gaussian", "drifting"]
Pairs: TypeAlias = Iterable[tuple[int | None, int | None]] | tuple[NDArray[np.int64], NDArray[np.int64]]
Order: TypeAlias = Literal["full", "none"]

START = np.datetime64("2024-01-01T00:00:00", "us")
SHOWN = 5


def arrivals(
    n: int,
    seed: int = 0,
    *,
    keys: Keys = "uniform",
    domain: int = 1_000_000,
    dtype: DTypeLike = np.int64,
    skew: float = 1.0,
    rate: float = 1000.0,
    disorder: float = 0.0,
    right: float = 0.5,
    nulls: float = 0.0,
) -> pa.Table:
    """One table of interleaved arrivals of two streams, in the order of their arrival.

    Parameters
    ----------
    n : int
        Rows, of both sides together.
    seed : int
        Decides every value.
    keys : str
        Distribution of the keys over ``[0, domain)``. ``uniform``; ``zipf``: the k-th most frequent key in
        proportion to k**-skew, places shuffled; ``gaussian``: around the middle, with a standard deviation
        of domain / 8; ``drifting``: the same with domain / 32, around a mean that moves from 0 to ``domain``.
    domain : int
        Number of different integer keys.
    dtype : dtype
        Type of the keys. Floats are not rounded to whole numbers, except for ``zipf``.
    skew : float
        Exponent of ``zipf``; 0 is uniform.
    rate : float
        Arrivals in a second, of both sides together, on average: times between them are exponential.
    disorder : float
        The greatest delay of an arrival after its timestamp, in seconds. With a ``lateness`` of at least this
        much no row is late.
    right : float
        Fraction of right rows.
    nulls : float
        Fraction of null keys.

    Returns
    -------
    pyarrow.Table
        ``side`` ("left" or "right"), ``id`` (position on its side), ``ts`` (timestamp in microseconds),
        ``key``, ``payload`` (a text of the side and the id).

    Notes
    -----
    Cost: O(n), and O(domain) for ``zipf``.

    Examples
    --------
    >>> table = arrivals(1000, seed=7, keys="zipf", skew=1.1, disorder=0.5)
    >>> table.column_names
    ['side', 'id', 'ts', 'key', 'payload']
    >>> arrivals(1000, seed=7, keys="zipf", skew=1.1, disorder=0.5).equals(table)
    True
    """
    if n < 0 or domain < 1 or rate <= 0 or disorder < 0 or not 0 <= right <= 1 or not 0 <= nulls <= 1:
        raise ValueError(
            f"n={n}, domain={domain}, rate={rate}, disorder={disorder}, right={right}, nulls={nulls}; "
            "expected n and disorder >= 0, domain >= 1, rate > 0, fractions from 0 to 1"
        )
    if keys not in _KEYS:
        raise ValueError(f"keys={keys!r}; expected one of {', '.join(_KEYS)}")
    # A generator for each column: changing one argument leaves the other columns as they are.
    for_sides, for_times, for_keys, for_nulls = np.random.default_rng(seed).spawn(4)
    is_right = for_sides.random(n) < right
    ids = np.where(is_right, np.cumsum(is_right), np.cumsum(~is_right)) - 1
    arrived = np.cumsum(for_times.exponential(1e6 / rate, n)).astype(np.int64)
    delay = (for_times.random(n) * disorder * 1e6).astype(np.int64)
    key_type = np.dtype(dtype)
    key_values = np.clip(_KEYS[keys](for_keys, n, domain, skew), 0, np.nextafter(domain, 0))
    key_array = (np.floor(key_values) if key_type.kind in "iu" else key_values).astype(key_type)
    missing = for_nulls.random(n) < nulls if nulls else None
    sides = pa.array(is_right.astype(np.int8)).cast(pa.int32())
    names = pa.DictionaryArray.from_arrays(sides, ["left", "right"]).cast(pa.string())
    return pa.table(
        {
            "side": names,
            "id": ids.astype(np.int64),
            "ts": START + (arrived - delay),
            "key": pa.array(key_array, mask=missing),
            "payload": [f"{'LR'[side]}{i}" for side, i in zip(is_right.tolist(), ids.tolist(), strict=True)],
        }
    )


def streams(n: int, seed: int = 0, **options: Any) -> tuple[pa.Table, pa.Table]:
    """The left and the right rows of :func:`arrivals`, each in the order of its arrival.

    Parameters
    ----------
    n : int
        Rows, of both sides together.
    seed : int
        Decides every value.
    **options
        As of :func:`arrivals`.

    Examples
    --------
    >>> left, right = streams(1000, keys="gaussian", right=0.25)
    >>> left.num_rows + right.num_rows
    1000
    """
    table = arrivals(n, seed, **options)
    is_left = pc.equal(table["side"], "left")
    columns = table.drop_columns(["side"])
    return columns.filter(is_left), columns.filter(pc.invert(is_left))


def assert_tables_equal(actual: pa.Table, expected: pa.Table, order: Order = "full") -> None:
    """Raise AssertionError unless two tables have the same columns and rows.

    Parameters
    ----------
    actual, expected : pyarrow.Table
        Names and types of columns must agree, in their order. NaN equals NaN; 0.0 and -0.0 differ.
    order : str
        ``"full"``: row by row. ``"none"``: as multisets of rows.

    Notes
    -----
    Cost: O(rows), in Python.

    Examples
    --------
    >>> import pyarrow as pa
    >>> assert_tables_equal(pa.table({"a": [1, 2]}), pa.table({"a": [2, 1]}), order="none")
    >>> assert_tables_equal(pa.table({"a": [1, 2]}), pa.table({"a": [1, 3]}))
    Traceback (most recent call last):
        ...
    AssertionError: row 1 differs, of 2 rows and 2 expected
      actual   {'a': 2}
      expected {'a': 3}
    1 row missing: {'a': 3}
    1 row too many: {'a': 2}
    """
    given, wanted = ([(f.name, str(f.type)) for f in table.schema] for table in (actual, expected))
    if given != wanted:
        raise AssertionError(f"columns differ\n  actual   {given}\n  expected {wanted}")
    names = actual.column_names
    rows = [_rows(table) for table in (actual, expected)]
    _compare(rows[0], rows[1], order, lambda row: str(dict(zip(names, row, strict=True))), "row")


def assert_same_pairs(actual: Pairs, expected: Pairs, order: Order = "full") -> None:
    """Raise AssertionError unless two results have the same pairs of positions.

    Parameters
    ----------
    actual, expected : pairs
        Pairs ``(left, right)``, or a tuple of two arrays as ``NumericJoin.push`` returns it.
    order : str
        ``"full"``: pair by pair. ``"none"``: as multisets.

    Notes
    -----
    Cost: O(pairs).

    Examples
    --------
    >>> import numpy as np
    >>> assert_same_pairs((np.array([0, 1]), np.array([5, 6])), [(0, 5), (1, 6)])
    """
    _compare(_pairs(actual), _pairs(expected), order, str, "pair")


def _compare(
    actual: Sequence[Any], expected: Sequence[Any], order: str, show: Callable[[Any], str], noun: str
) -> None:
    if order not in ("full", "none"):
        raise ValueError(f"order={order!r}; expected 'full' or 'none'")
    if actual == expected:
        return
    given, wanted = Counter(actual), Counter(expected)
    if order == "none" and given == wanted:
        return
    lines = []
    counts = f"of {len(actual)} {noun}s and {len(expected)} expected"
    if order == "full":
        length = min(len(actual), len(expected))
        first = next((i for i in range(length) if actual[i] != expected[i]), length)
        lines.append(f"{noun} {first} differs, {counts}")
        for name, rows in (("actual  ", actual), ("expected", expected)):
            lines.append(f"  {name} {show(rows[first]) if first < len(rows) else 'none'}")
        if given == wanted:
            lines.append(f"only the order differs: the same {noun}s, once sorted")
    else:
        lines.append(f"{noun}s differ, {counts}")
    for title, extra in (("missing", wanted - given), ("too many", given - wanted)):
        if extra:
            total = extra.total()
            some = ", ".join(show(row) for row in list(extra.elements())[:SHOWN])
            rest = ", …" if total > SHOWN else ""
            lines.append(f"{total} {noun}{'s' * (total > 1)} {title}: {some}{rest}")
    raise AssertionError("\n".join(lines))


def _pairs(pairs: Pairs) -> list[tuple[Any, ...]]:
    if isinstance(pairs, tuple) and len(pairs) == 2:
        left, right = pairs
        if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
            return list(zip(left.tolist(), right.tolist(), strict=True))
    return [tuple(pair) for pair in pairs]


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows that can be compared and counted."""
    if not table.num_columns:
        return [()] * table.num_rows
    columns = []
    for column in table.columns:
        type_ = column.type
        values = column.to_pylist()
        simple = pa.types.is_integer(type_) or type_ in (pa.string(), pa.large_string(), pa.bool_())
        columns.append(values if simple else [_key(value) for value in values])
    return list(zip(*columns, strict=True))


def _key(value: Any) -> Any:
    """A hashable value in which NaN equals NaN, and 0.0 and -0.0 differ."""
    if isinstance(value, float):
        is_special = math.isnan(value) or (value == 0 and math.copysign(1, value) < 0)
        return str(value) if is_special else value
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in value.items())
    return value


# --- Distributions: floats in about [0, domain) ---


def _uniform(rng: np.random.Generator, n: int, domain: int, _skew: float) -> NDArray[np.float64]:
    return rng.random(n) * domain


def _zipf(rng: np.random.Generator, n: int, domain: int, skew: float) -> NDArray[np.float64]:
    heights = np.cumsum(np.arange(1, domain + 1, dtype=np.float64) ** -skew)
    ranks = np.searchsorted(heights, rng.random(n) * heights[-1], side="right")
    places: NDArray[np.int64] = rng.permutation(domain)[np.minimum(ranks, domain - 1)]
    return places.astype(np.float64)


def _gaussian(rng: np.random.Generator, n: int, domain: int, _skew: float) -> NDArray[np.float64]:
    return rng.normal(domain / 2, domain / 8, n)


def _drifting(rng: np.random.Generator, n: int, domain: int, _skew: float) -> NDArray[np.float64]:
    return np.linspace(0, domain, n) + rng.normal(0, domain / 32, n)


_KEYS = {"uniform": _uniform, "zipf": _zipf, "gaussian": _gaussian, "drifting": _drifting}
