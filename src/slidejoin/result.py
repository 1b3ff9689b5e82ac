"""Results: the rows of each side by position, and the table that a match becomes.

:class:`RowStore` keeps the rows of one side that may still match. Each column has a keeper by its type
(``slidejoin.column_store``). An append costs O(rows) amortised, a take O(positions), whatever the number of
live rows. Memory stays within a small factor of the live rows: input is copied, so no batch is kept alive by
a row of it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin import _core, column_store
from slidejoin.column_store import Keeper, appended, keeper, native_batch, native_kind, taken_batches
from slidejoin.columns import Layout
from slidejoin.errors import SchemaError, UsageError, listed


class RowStore:
    """Rows of one side, by position.

    Parameters
    ----------
    schema : pyarrow.Schema
        Columns of every table appended. A type that cannot be kept is a SchemaError.
    first : int
        Position of the first row.
    crew : NativeCrew, optional
        Threads that read, store and take rows.
    spill : NativeSpill, optional
        Files to keep the rows in, instead of memory (``slidejoin.spill``). Dictionaries stay in memory.

    Notes
    -----
    Values, types and nulls come out as they went in. A dictionary column may come out with another
    dictionary of the same values.

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> store = RowStore(pa.schema([("id", pa.int64()), ("name", pa.string())]))
    >>> store.append(pa.table({"id": [7, 8, 9], "name": ["a", None, "c"]}))
    >>> store.drop_before(1)
    >>> store.first, store.next
    (1, 3)
    >>> [column.to_pylist() for column in store.take(np.array([2, 1, 2, -1]))]
    [[9, 8, 9, None], ['c', None, 'c', None]]
    """

    def __init__(
        self,
        schema: pa.Schema,
        first: int = 0,
        crew: _core.NativeCrew | None = None,
        spill: _core.NativeSpill | None = None,
    ) -> None:
        self.schema = schema
        self._crew = crew
        self.spills = spill is not None
        kinds = [native_kind(field.type) for field in schema]
        self.places: dict[int, int] = {}  # of the columns that the core stores, among them
        for i, kind in enumerate(kinds):
            if kind is not None:
                self.places[i] = len(self.places)
        self.native = _core.NativeRows([kind for kind in kinds if kind is not None], first, crew, spill)
        # The positions of the rows, and the other columns: replaced as one, so that an interrupted call
        # leaves the old ones or the new ones.
        others = {i: keeper(field, first, crew, spill) for i, field in enumerate(schema) if kinds[i] is None}
        self._held: tuple[int, int, dict[int, Keeper]] = (first, first, others)

    @property
    def first(self) -> int:
        """Position of the oldest row kept."""
        return self._held[0]

    @property
    def next(self) -> int:
        """Position that the next row gets."""
        return self._held[1]

    @property
    def is_native(self) -> bool:
        """Whether the core stores all columns."""
        return not self._held[2]

    def __len__(self) -> int:
        return self._held[1] - self._held[0]

    @property
    def nbytes(self) -> int:
        """Bytes of memory, spare room included. Cost: O(columns), more for nested ones."""
        return self.native.nbytes + sum(column.nbytes for column in self._held[2].values())

    @property
    def spilled(self) -> int:
        """Bytes of files, spare room included. Cost: as for ``nbytes``."""
        return self.native.spilled + sum(column.spilled for column in self._held[2].values())

    def growth(self, batch: _core.NativeBatch) -> int:
        """Bytes that are allocated when a batch is added: columns that are full get twice the room."""
        others = sum(column.nbytes for column in self._held[2].values())
        return others + (self.native.growth(batch) if self.places else 0)

    def batch(self, table: pa.Table) -> _core.NativeBatch:
        """The columns of a table that the core stores, as it reads them.

        Files get room for them here: a full disk is a CapacityError before anything has changed.
        """
        batch = native_batch(table.select(list(self.places)) if self._held[2] else table, self._crew)
        if self.spills and self.places:
            self.native.reserve(batch)
        return batch

    def extended(self, table: pa.Table) -> dict[int, Keeper]:
        """The other columns with the rows of a table behind theirs; SchemaError if Arrow cannot read them.

        The store goes on with them once they are added, and until then as before. Cost: O(rows) amortised.
        """
        _, at, others = self._held
        if not others:
            return others
        return {i: appended(kept, at, table.column(i), self.schema.field(i)) for i, kept in others.items()}

    def add(
        self, count: int, batch: _core.NativeBatch, others: dict[int, Keeper], borrow: bool = False
    ) -> None:
        """Add rows of a table at the end, as :meth:`batch` and :meth:`extended` have prepared them.

        With ``borrow``, the memory of a table in one piece may be read as long as the rows are kept.
        """
        first, at, _ = self._held
        if self.places:
            self.native.write(at, batch, borrow)
        self._held = (first, at + count, others)

    def append(self, table: pa.Table) -> None:
        """Add rows at the end; their positions continue. A table that fails leaves nothing behind.

        Parameters
        ----------
        table : pyarrow.Table
            Has exactly the columns of the schema, in its order (:class:`slidejoin.source.Side` sees to it).

        Notes
        -----
        Cost: O(rows) amortised, a copy of the rows.
        """
        if not table.schema.equals(self.schema):
            raise SchemaError(f"rows have the schema\n{table.schema}\nexpected\n{self.schema}")
        self.add(table.num_rows, self.batch(table), self.extended(table))

    def repeat(self, positions: NDArray[np.int64]) -> None:
        """Add copies of rows at the end. Cost: O(positions)."""
        self.append(result_table(self.schema, self.take(positions)))

    def truncate(self, position: int) -> None:
        """Forget the rows from a position on: those of a refused batch or of a probe. Cost: O(columns)."""
        if not self.first <= position <= self.next:
            raise IndexError(f"truncate({position}); rows {self.first} to {self.next} are kept")
        self.limit(self.first, position)

    def drop_before(self, position: int) -> None:
        """Forget the rows before a position; at most ``next``. Cost: O(rows dropped), amortised."""
        if position > self.next:
            raise IndexError(f"drop_before({position}); rows {self.first} to {self.next} are kept")
        self.limit(max(position, self.first), self.next)

    def limit(self, first: int, after: int) -> None:
        """Forget the rows before ``first`` and from ``after`` on; can be repeated."""
        others = self._held[2]
        if self.places:
            self.native.limit(first, after)
        if others:
            others = {i: kept.limited(first, after) for i, kept in others.items()}
        self._held = (first, after, others)

    def take(
        self, positions: NDArray[np.int64], picks: Sequence[int] | None = None
    ) -> list[pa.Array | pa.ChunkedArray]:
        """Columns of the rows at these positions, all unless ``picks`` tells which; -1 is a row of nulls.

        Notes
        -----
        Cost: O(positions), about 1 ns for each value of fixed width and 3 ns for each short string in cache,
        several times as much beyond.
        """
        wanted = range(len(self.schema)) if picks is None else picks
        if not len(positions):
            return [pa.nulls(0, self.schema.field(i).type) for i in wanted]
        self._check(positions)
        columns: dict[int, Any] = {}
        native = [i for i in wanted if i in self.places]
        if native:
            places = [self.places[i] for i in native]
            batches = taken_batches(
                lambda rows: self.native.take(rows, column_store.MAX_BYTES, columns=places),
                pa.schema([self.schema.field(i) for i in native]),
                positions,
            )
            for at, i in enumerate(native):
                parts = [batch.column(at) for batch in batches]
                columns[i] = parts[0] if len(parts) == 1 else pa.chunked_array(parts)
        return [columns[i] if i in columns else self._held[2][i].take(positions) for i in wanted]

    def take_column(self, name: str, positions: NDArray[np.int64]) -> pa.Array | pa.ChunkedArray:
        """One column of the rows at these positions. Cost: O(positions)."""
        return self.take(positions, [self.schema.get_field_index(name)])[0]

    def place_of(self, name: str) -> int | None:
        """The number of a column of strings or bytes among those that the core stores, or None."""
        i = self.schema.get_field_index(name)
        kind = native_kind(self.schema.field(i).type)
        return self.places[i] if kind is not None and kind < 0 else None

    def _check(self, positions: NDArray[np.int64]) -> None:
        if self.is_native and self.places:
            return  # the core does
        first, after, _ = self._held
        wrong = (positions != -1) & ((positions < first) | (positions >= after))
        if wrong.any():
            raise IndexError(f"position {positions[wrong][0]}; rows {first} to {after} are kept")

    def table(self) -> pa.Table:
        """All rows kept, as a table. Cost: O(live rows)."""
        return pa.Table.from_arrays(self.take(np.arange(self.first, self.next)), schema=self.schema)


def matched_rows(layout: Layout, sides: Sequence[tuple[RowStore, Any]]) -> pa.Table:
    """The table of a result: the rows of one or two stores at these positions, side by side.

    ``sides`` has the store and the positions of each side that the result has columns of: arrays, or where
    the core stores all columns ``NativePairRows``. Cost: O(positions) for each column.
    """
    schema = layout.taken
    picks: Sequence[list[int] | None] = [None] * len(sides)
    if layout.picks is not None:  # nothing is looked up on a side that has no column here
        sides = [side for side, some in zip(sides, layout.picks, strict=True) if some]
        picks = [some for some in layout.picks if some]
    (left, rows), (right, others) = sides[0], sides[-1]
    if not len(schema) or left._held[2] or right._held[2]:
        columns = [store.take(at, pick) for (store, at), pick in zip(sides, picks, strict=True)]
        return layout.ordered(result_table(schema, *columns))
    native, limit = left.native, column_store.MAX_BYTES
    other = right.native if len(sides) > 1 else None
    batches = taken_batches(
        lambda part: native.take(part[0], limit, other, part[1], picks[0], picks[-1]), schema, (rows, others)
    )
    return layout.ordered(pa.Table.from_batches(batches))


def result_table(
    schema: pa.Schema,
    left: Sequence[pa.Array | pa.ChunkedArray],
    right: Sequence[pa.Array | pa.ChunkedArray] = (),
) -> pa.Table:
    """The table of a result: columns taken from the left and the right store. Cost: O(columns)."""
    return pa.Table.from_arrays([*left, *right], schema=schema)


def concat(results: Iterable[pa.Table]) -> pa.Table:
    """Results of a join as one table.

    Before the columns of both sides are known, results have neither rows nor columns, so that
    ``pyarrow.concat_tables`` refuses them; here they are left out. A join that is given ``schemas=`` knows
    all columns from the start.

    Parameters
    ----------
    results : iterable of pyarrow.Table
        What the calls of one join returned.

    Notes
    -----
    Cost: O(tables * columns); no row is copied.

    Examples
    --------
    >>> import slidejoin as sj
    >>> join = sj.WindowJoin(sj.equal("id"), sj.rows(10))
    >>> results = [join.push(left={"id": [1, 2]}), join.push(right={"id": [2]}), join.finish()]
    >>> sj.concat(results).to_pylist()
    [{'id': 2, 'id_right': 2}]
    """
    if hasattr(results, "columns") or not isinstance(results, Iterable):  # one table is iterable, too
        raise UsageError(
            f"results is a {type(results).__name__}; expected an iterable of tables, such as "
            "[join.push(...), join.finish()]"
        )
    known: list[pa.Table] = []
    for i, table in enumerate(results):
        if not isinstance(table, pa.Table):
            raise UsageError(f"results[{i}] is a {type(table).__name__}; expected a pyarrow Table")
        if not table.num_columns:
            continue
        known.append(table)
        if not table.schema.equals(known[0].schema):
            given, expected = (
                listed([f"{field.name}: {field.type}" for field in each.schema]) for each in (table, known[0])
            )
            raise SchemaError(
                f"results[{i}] has the columns {given}; expected {expected}; give results of one join"
            )
    return pa.concat_tables(known) if known else pa.table({})
