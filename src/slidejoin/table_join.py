"""The join of two whole tables: no window and no stream, all rows of both sides at once.

The conditions, types, join types and names are those of :class:`slidejoin.WindowJoin`, by the same code. The
core sorts both sides by what a window would index and merges them (``core/join/sort_merge.hpp``). Text is
numbered here, alike in both tables, and the rows of an outer join without a partner are put in.
"""

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin import _core
from slidejoin.column_store import native_kind
from slidejoin.columns import Layout, layout, sides_of
from slidejoin.errors import CapacityError, SpecError
from slidejoin.indexed import Plan, plan
from slidejoin.join_type import How, JoinType
from slidejoin.keys import COMPARISONS, BoundKey, bind
from slidejoin.native import Ranges, native_pairs
from slidejoin.predicate import Predicate
from slidejoin.result import RowStore, matched_rows
from slidejoin.source import plain_text
from slidejoin.spec import join_spec
from slidejoin.window import is_whole, rows

MAX_ROWS = 2**32 - 1  # of a table, that the core can number
LEAST_SHARE = 2**16  # rows for which another thread is worth its start
MAX_WORKERS = 2**16  # as many as all rows can be shared among

Numbers: TypeAlias = NDArray[np.int64]
# Rows of a result; of pairs that are not in memory where the core stores all columns.
Taken: TypeAlias = Numbers | _core.NativePairRows


def join(
    left: Any,
    right: Any,
    on: Predicate,
    how: How = "inner",
    *,
    suffixes: tuple[str, str] = ("", "_right"),
    workers: int = 1,
    limit: int | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Join two tables: every pair of rows that a condition holds for.

    Parameters
    ----------
    left, right
        pyarrow, pandas, Polars or DuckDB tables, anything else that Arrow can read, a dict of columns or a
        list of dicts; up to 2**32 - 1 rows each.
    on : Predicate
        Condition on columns of both sides: ``sj.band("price", within=0.5)``, ``sj.equal("symbol")`` and
        their like, joined by ``&``.
    how : str
        A name of ``slidejoin.How``, as for :class:`slidejoin.WindowJoin`. Semi joins return the rows of one
        side that have a partner, once each, anti joins those without one.
    suffixes : (str, str)
        Added to names that both sides have.
    workers : int
        Threads. They decide speed, never results.
    limit : int, optional
        Rows of the result at most; more are a CapacityError, before memory is spent on them where the
        condition is one range, else as soon as there are so many. What the memory of this machine holds,
        unless given.
    columns : list of str, optional
        Names of columns of the result, after suffixes, in the order in which they come out; all if None.
        Other columns are neither converted nor copied.

    Returns
    -------
    pyarrow.Table
        All left columns, then all right ones, or those of ``columns``; those of one side for semi and anti
        joins, in the order of its table. Otherwise rows are in the order of the left table, those of one left
        row in the order of the right one; a left row without a partner stands in its place, right rows
        without one come last, in their order.

    Notes
    -----
    Cost: a sort of both sides, and a copy of the columns for each row of the result: 0.03 to 0.1 µs a row
    of both tables where rows have two partners. What is indexed together (``WindowJoin.explain``) is found
    without a test; other conditions are tested for each candidate, for semi and anti joins up to
    the first partner.
    Memory besides the tables: about 50 bytes a row, and 8 for each row of the result and column of text.
    Outer joins, nested columns, conditions that are not one range and rows with hundreds of partners need 16
    bytes more for each row of the result.

    Examples
    --------
    >>> import slidejoin as sj
    >>> trades = {"trade": [1, 2], "price": [10.0, 20.0]}
    >>> quotes = {"quote": ["a", "b"], "price": [20.25, 30.0]}
    >>> sj.join(trades, quotes, sj.band("price", within=0.5)).to_pylist()
    [{'trade': 2, 'price': 20.0, 'quote': 'a', 'price_right': 20.25}]
    >>> sj.join(trades, quotes, sj.band("price", within=0.5), how="left_anti").to_pylist()
    [{'trade': 1, 'price': 10.0}]
    """
    # No window: of a table, all rows are there.
    spec = join_spec(on, rows(1), how, suffixes=suffixes, columns=columns)
    _check_number("workers", workers)
    if limit is not None:
        _check_number("limit", limit)
    workers = min(int(workers), MAX_WORKERS)
    sides = sides_of(spec)
    tables = _typed((sides[0].check(left), sides[1].check(right)), spec.on)
    for side, table in zip(sides, tables, strict=True):
        check_rows(side.name, table.num_rows)
    result = layout(spec, [table.schema for table in tables], [side.seen for side in sides])
    chosen = plan(bind(spec, tables[0].schema, tables[1].schema))
    returned = _returned(result, tables, spec.join_type)
    most = _rows_in_memory(returned) if limit is None else int(limit)
    try:
        blocks = all(native_kind(type_) is not None for table in returned for type_ in table.schema.types)
        numbers = _rows_of(_Keys(tables, chosen), tables, spec.join_type, workers, most, blocks)
        if max(map(len, numbers)) > most:
            raise CapacityError
    except CapacityError:
        bound, more = (
            ("which is what the memory of this machine holds", "give limit=")
            if limit is None
            else ("the limit that was set", "raise the limit")
        )
        raise CapacityError(
            f"the result has more than {most} rows, {bound}; narrow the condition, join in pieces or {more}"
        ) from None
    return taken(result, tables, numbers, spec.join_type, workers)


def _returned(result: Layout, tables: Sequence[pa.Table], type_: JoinType) -> list[pa.Table]:
    """The columns that a result has, of each side that it has columns of."""
    sides = [tables[side] for side in type_.sides]
    if result.picks is None:
        return sides
    return [table.select(some) for table, some in zip(sides, result.picks, strict=True)]


def _typed(tables: tuple[pa.Table, pa.Table], on: Predicate) -> tuple[pa.Table, pa.Table]:
    """Key columns without a type, as empty lists and lists of None have them, get that of their partners."""
    left, right = tables
    for conjunct in on.conjuncts:
        left = _typed_like(left, conjunct.left, right, conjunct.right)
        right = _typed_like(right, conjunct.right, left, conjunct.left)
    return left, right


def _typed_like(table: pa.Table, name: str, other: pa.Table, partner: str) -> pa.Table:
    at, its = table.schema.get_field_index(name), other.schema.get_field_index(partner)
    if at < 0 or its < 0 or not pa.types.is_null(table.schema.field(at).type):
        return table
    type_ = other.schema.field(its).type
    return table.set_column(at, pa.field(name, type_), pa.nulls(len(table), type_))


def check_rows(name: str, count: int) -> None:
    """Refuse a table with more rows than the core can number."""
    if count > MAX_ROWS:
        raise CapacityError(f"{name} has {count} rows; join() takes up to {MAX_ROWS}, join it in pieces")


class _Keys:
    """The keys of two tables for a plan: finds the pairs of their rows."""

    def __init__(self, tables: Sequence[pa.Table], chosen: Plan) -> None:
        on = [(key.key.name, *_columns(tables, key)) for key in chosen.keys]
        self._on = [(name, ranges) for name, ranges, _ in on]
        self._keys = [[columns[side] for _, _, columns in on] for side in (0, 1)]
        self._chosen = chosen

    def pairs(self, workers: int, limit: int, blocks: bool) -> tuple[Any, Any]:
        """The rows of each pair, not in memory where ``blocks`` allows; CapacityError beyond a limit."""
        found = self._found(None, workers, limit, blocks)
        return found[0], found[1]

    def matched(self, side: int, workers: int) -> NDArray[np.bool_]:
        """Which rows of one side have a partner."""
        flags: NDArray[np.bool_] = self._found(side, workers, 0)[0].view(np.bool_)
        return flags

    def _found(self, flags_of: int | None, workers: int, limit: int, blocks: bool = False) -> tuple[Any, ...]:
        return native_pairs(
            self._on,
            self._keys,
            equalities=self._chosen.equalities,
            banded=self._chosen.banded_conjunct,
            flags_of=flags_of,
            workers=workers,
            share=LEAST_SHARE,
            limit=limit,
            blocks=blocks,
        )


def taken(
    result: Layout,
    tables: Sequence[pa.Table],
    numbers: Sequence[Taken],
    type_: JoinType,
    workers: int = 1,
) -> pa.Table:
    """The result of a join type, by the numbers of its left and right rows; -1 for no partner."""
    if not len(numbers[type_.sides[0]]):
        return result.schema.empty_table()
    crew = _core.NativeCrew(workers) if workers > 1 else None
    returned = zip(_returned(result, tables, type_), (numbers[side] for side in type_.sides), strict=True)
    sides = [(_store(table, crew), rows_) for table, rows_ in returned if table.num_columns]
    return matched_rows(result._replace(picks=None), sides)


def _store(table: pa.Table, crew: _core.NativeCrew | None) -> RowStore:
    """The rows of a table to take from, in place where they are in one piece."""
    store = RowStore(table.schema, crew=crew)
    store.add(table.num_rows, store.batch(table), store.extended(table), borrow=True)
    return store


def _check_number(name: str, value: Any) -> None:
    if not is_whole(value) or value < 1:
        raise SpecError(f"{name}={value!r}; expected a whole number, 1 at least")


def _rows_in_memory(tables: Sequence[pa.Table]) -> int:
    """How many rows of both tables side by side, with their numbers, this machine's memory holds."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    width = sum(table.nbytes / max(table.num_rows, 1) for table in tables)
    texts = sum((native_kind(type_) or 0) < 0 for table in tables for type_ in table.schema.types)
    return int(memory / (16 + 8 * texts + width))  # taking texts notes where each begins


def _rows_of(
    keys: _Keys, tables: Sequence[pa.Table], type_: JoinType, workers: int, limit: int, blocks: bool
) -> tuple[Taken, Taken]:
    """Numbers of the left and the right rows of a result; -1 for no partner."""
    if type_.only is not None:
        matched = keys.matched(type_.only, workers)
        rows_, none = np.flatnonzero(matched == type_.is_semi), np.empty(0, np.int64)
        return (none, rows_) if type_.only else (rows_, none)
    left, right = pairs = keys.pairs(workers, limit, blocks and not any(type_.preserves))
    if type_.preserves[0]:
        alone = _unmatched(tables[0], pairs[0])
        places = np.searchsorted(left, alone)
        left, right = np.insert(left, places, alone), np.insert(right, places, -1)
    if type_.preserves[1]:
        alone = _unmatched(tables[1], pairs[1])
        left, right = np.concatenate([left, np.full(len(alone), -1)]), np.concatenate([right, alone])
    return left, right


def _unmatched(table: pa.Table, numbers: Numbers) -> Numbers:
    """The rows of a table that are in no pair."""
    unmatched = np.ones(len(table), np.bool_)
    unmatched[numbers] = False
    return np.flatnonzero(unmatched)


def _columns(tables: Sequence[pa.Table], key: BoundKey) -> tuple[Ranges, list[tuple[NDArray[Any], Any]]]:
    """The ranges of a condition and the keys of both tables. Text is numbered, alike in both."""
    if key.verify is None:
        return key.ranges, [key.extract(table, side) for side, table in enumerate(tables)]
    texts = [
        plain_text(table.column(name), key.common)
        for table, name in zip(tables, (key.left, key.right), strict=True)
    ]
    chunks = [chunk for text in texts for chunk in text.chunks]
    together = pa.chunked_array(chunks, key.common).combine_chunks()
    numbers = pc.dictionary_encode(together).indices if len(together) else pa.array([], pa.int32())
    columns = []
    for start, text in zip((0, len(texts[0])), texts, strict=True):
        part = numbers.slice(start, len(text))
        nulls = part.is_null().to_numpy(zero_copy_only=False) if part.null_count else None
        columns.append((part.fill_null(0).to_numpy(zero_copy_only=False).astype(key.key), nulls))
    return COMPARISONS[key.op], columns
