"""Two whole tables: ``sj.join`` against DuckDB and Polars, which join by buckets; one core, and threads.

Both tables have an int64 ``id`` and a uniform int32 ``key``; the band is so wide that a left row meets
``matches`` right ones. Engines with equality joins are given what their users write for a band: the key
divided by the band's width is a bucket, a left row looks into the two buckets that its band touches, and the
pairs are filtered. All contenders return the same four columns; sums of ids and keys must agree in every
round. Lines "each by itself" repeat one contender before the next one, so that each finds the memory that it
gave back; where a hypervisor takes free memory away, a contender that allocates after another waits for it.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import machine
from benchmarks.foundation import Agreement, Answer
from benchmarks.measure import MIN_ROUNDS, alternate, one_core, rates, ratios
from benchmarks.report import Report, Result, Target, measured, missing
from benchmarks.workload import Workload
from slidejoin.predicate import band
from slidejoin.table_join import join


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rows: int = 10_000_000  # of each table
    matches: int = 2
    rounds: int = MIN_ROUNDS
    workers: int = 2

    @property
    def shape(self) -> str:
        """The tables as lines of a report name them."""
        return f"two tables of {self.rows} rows, {self.matches} matches a row"


QUICK = Sizes(rows=20_000, rounds=1)
TARGET = Target(">=", 4)
SHIFT = 2**33  # makes sums of keys and bounds positive, for divisions that round to zero


@dataclass(frozen=True)
class Tables:
    """The two tables and the band that joins them."""

    left: pa.Table
    right: pa.Table
    workload: Workload

    @classmethod
    def of(cls, sizes: Sizes) -> "Tables":
        """Make the tables; the same for the same sizes."""
        workload = Workload(sizes.rows, sizes.matches)
        ids = np.arange(sizes.rows)
        left, right = (workload.keys(start, sizes.rows) for start in (0, sizes.rows))
        return cls(pa.table({"id": ids, "key": left}), pa.table({"id": ids, "key": right}), workload)

    @property
    def bounds(self) -> tuple[int, int, int]:
        """The band's bounds, and the width of a bucket."""
        return self.workload.lower, self.workload.upper, self.workload.width


def by_slidejoin(tables: Tables, workers: int = 1) -> pa.Table:
    """Join by ``sj.join``."""
    lower, upper, _ = tables.bounds
    return join(tables.left, tables.right, band("key", lower=lower, upper=upper), workers=workers)


def by_duckdb(tables: Tables, connection: Any) -> pa.Table:
    """Join by buckets in SQL."""
    lower, upper, width = tables.bounds
    connection.register("l", tables.left)
    connection.register("r", tables.right)
    first = f"(key::BIGINT + {lower + SHIFT}) // {width}"
    return connection.sql(
        f"WITH a AS (SELECT *, {first} AS bucket FROM l UNION ALL SELECT *, {first} + 1 AS bucket FROM l), "
        f"b AS (SELECT *, (key::BIGINT + {SHIFT}) // {width} AS bucket FROM r) "
        "SELECT a.id, a.key, b.id AS id_right, b.key AS key_right FROM a JOIN b USING (bucket) "
        f"WHERE b.key >= a.key::BIGINT + {lower} AND b.key <= a.key::BIGINT + {upper}"
    ).to_arrow_table()


def by_polars(tables: Tables) -> Any:
    """Join by buckets of Polars' DataFrames."""
    import polars as pl

    lower, upper, width = tables.bounds
    left, right = (pl.DataFrame(table).lazy() for table in (tables.left, tables.right))
    key = pl.col("key").cast(pl.Int64)
    first = (key + lower + SHIFT) // width
    both = pl.concat([left.with_columns(bucket=first), left.with_columns(bucket=first + 1)])
    found = both.join(right.with_columns(bucket=(key + SHIFT) // width), on="bucket")
    near = (pl.col("key_right") >= key + lower) & (pl.col("key_right") <= key + upper)
    return found.filter(near).select("id", "key", "id_right", "key_right").collect()


def run(quick: bool, say: Callable[[str], None]) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    sizes = QUICK if quick else Sizes()
    where = machine.describe(None)
    found = list(results(sizes, say))
    return Report("join", quick, machine.finished(where), asdict(sizes), found)


def results(sizes: Sizes, say: Callable[[str], None]) -> Iterable[Result]:
    """Lines of a report: the join of two tables against its peers on one core, and its threads."""
    tables = Tables.of(sizes)
    what = sizes.shape
    say(f"{what}: one core")
    with one_core():
        contenders, absent = _contenders(tables)
        agreeing = _agreeing(contenders)
        samples = alternate(agreeing, sizes.rounds)
        alone = {name: alternate({name: run}, sizes.rounds)[name] for name, run in agreeing.items()}
    for name in contenders:
        if name != "sj.join":
            ratio = ratios(samples[name], samples["sj.join"])
            yield measured(f"sj.join / {name} by buckets, {what}, one core", ratio, "x", TARGET)
    for name in absent:
        note = f"{name.lower()} is not installed: pip install {name.lower()}"
        yield missing(f"sj.join / {name} by buckets, {what}, one core", "x", TARGET, note)
    for form, times in (("one core", samples), ("one core, each by itself", alone)):
        for name, seconds in times.items():
            yield measured(f"{name}, {what}, {form}", rates(seconds, 2 * sizes.rows), "M rows/s")
    for name in list(contenders)[1:]:
        ratio = ratios(sorted(alone[name]), sorted(alone["sj.join"]))
        yield measured(f"sj.join / {name} by buckets, {what}, one core, each by itself", ratio, "x")
    say(f"{what}: {sizes.workers} workers")
    yield several(tables, sizes, sizes.workers)


def several(tables: Tables, sizes: Sizes, workers: int, target: Target | None = None) -> Result:
    """A line of a report: so many workers against one."""
    threads = {f"{count} workers": _by_workers(tables, count) for count in (1, workers)}
    one, more = alternate(_agreeing(threads), sizes.rounds).values()
    return measured(f"sj.join, {workers} workers / 1, {sizes.shape}", ratios(one, more), "x", target)


def _by_workers(tables: Tables, workers: int) -> Callable[[], pa.Table]:
    return lambda: by_slidejoin(tables, workers)


def _contenders(tables: Tables) -> tuple[dict[str, Callable[[], Any]], list[str]]:
    """Who is installed, and the names of the others."""
    contenders: dict[str, Callable[[], Any]] = {"sj.join": _by_workers(tables, 1)}
    if find_spec("duckdb"):
        import duckdb

        connection = duckdb.connect(config={"threads": 1})
        contenders["DuckDB"] = lambda: by_duckdb(tables, connection)
    if find_spec("polars"):
        contenders["Polars"] = lambda: by_polars(tables)
    return contenders, [name for name in ("DuckDB", "Polars") if name not in contenders]


def _agreeing(contenders: Mapping[str, Callable[[], Any]]) -> dict[str, Callable[[], float]]:
    """Contenders as runs that are timed, and whose sums are compared afterwards."""
    agreement = Agreement()

    def timed(make: Callable[[], Any]) -> Callable[[], Answer]:
        def once() -> Answer:
            begin = time.perf_counter()
            table = make()
            seconds = time.perf_counter() - begin
            columns = pa.table(table).columns
            return Answer(seconds, len(table), sum(pc.sum(column).as_py() or 0 for column in columns))

        return once

    return {name: agreement.contender(timed(make)) for name, make in contenders.items()}
