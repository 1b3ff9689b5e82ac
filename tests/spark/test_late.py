"""Late rows: which rows are late, that each counts once, and how they come out."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from spark.streams import (
    LONG,
    SECOND,
    Streams,
    assert_same,
    combined,
    counted,
    embedded,
    parts,
    random_streams,
    run,
    times,
)

from slidejoin.spark import join, metrics


def with_late(truth, how):
    """Results and late rows of an embedded join in the columns of a join with late="return"."""
    table = truth.table.append_column("late", pa.nulls(len(truth.table), pa.string()))
    parts = [table]
    for side, rows in zip(("left", "right"), truth.late, strict=True):
        if not how.endswith(("semi", "anti")) or how.startswith(side):
            both = "id_right" in table.column_names
            own = [f"{name}_right" if side == "right" and both else name for name in rows.column_names]
            known = dict(zip(own, rows.columns, strict=True), late=pa.array([side] * len(rows), pa.string()))
            columns = [known.get(field.name, pa.nulls(len(rows), field.type)) for field in table.schema]
            parts.append(pa.table(columns, schema=table.schema))
    return pa.concat_tables(parts)


# (partitions, joins) of one query each.
QUERIES = [
    (
        3,
        {
            "left_semi": sj.less("x"),  # right rows are copied to all partitions, and do not come out
            "full": sj.band("k", within=3),  # every row goes to partitions of both halves
        },
    )
]
if LONG:
    QUERIES += [(8, {"inner": sj.less("x"), "right": sj.bands("k", ranges=[(-500, -400), (0, 1)])})]


@pytest.mark.parametrize(("partitions", "joins"), QUERIES)
def test_late_rows_count_once_and_come_out_once(spark, tmp_path, partitions, joins):
    streams = random_streams(seed=21)
    window = sj.interval("1s", "1s", time="ts", lateness="3s", late="return")
    files = streams.write(tmp_path / "in")
    frames = {
        how: join(*files.read(spark), on, window, how, partitions=partitions, name=how)
        for how, on in joins.items()
    }
    rows, query = run(combined(frames), tmp_path)
    figures = metrics(query)["joins"]
    assert figures.keys() == joins.keys()
    for how, result in parts(rows, frames).items():
        truth = embedded(streams, joins[how], window, how)
        late = [len(table) for table in truth.late]
        assert min(late) > 5
        assert frames[how].columns[-1] == "late"
        assert_same(result, with_late(truth, how))

        total = figures[how]["total"]
        assert [total["late_left"], total["late_right"]] == late
        assert total["rows_left"] == total["rows_right"] == sum(len(table) for table in streams.left)
        assert total["results"] == result.num_rows


def test_a_row_is_late_before_the_watermark_and_not_at_it(spark, tmp_path):
    """Null keys can be late, null times not."""
    schema = pa.schema([("id", pa.string()), ("ts", times([0]).type), ("k", pa.int64())])

    def batch(*rows):
        ids, stamps, keys = zip(*rows, strict=True) if rows else ((), (), ())
        stamped = times([stamp or 0 for stamp in stamps], mask=np.array([stamp is None for stamp in stamps]))
        return pa.table([list(ids), stamped, pa.array(keys, pa.int64())], schema=schema)

    mark = 15 * SECOND  # of the second micro-batch
    first = mark + 4_999_500
    left = [
        batch(("old", mark, 1), ("first", first, 2)),
        batch(
            *(("before", mark - 1, 1), ("at", mark, 1), ("no time", None, 1)),
            *(("null before", mark - 1, None), ("null at", mark, None)),
        ),
    ]
    right = [
        batch(("first", first + 700, 2)),
        batch(("before", mark - 1, 1), ("at", mark, 1), ("long ago", mark - SECOND, 2), ("last", first, 2)),
    ]
    streams = Streams(left, right)
    window = sj.interval("5s", "5s", time="ts", lateness="4999.5ms", late="return")
    joined = join(*streams.write(tmp_path / "in").read(spark), sj.equal("k"), window, "full", partitions=2)
    result, _ = run(joined, tmp_path)
    # The last watermark is that of the second micro-batch: no row leaves the window unmatched.
    assert counted(result.select(["id", "id_right", "late"])) == Counter(
        [
            ("old", "at", None),
            ("at", "at", None),
            ("first", "first", None),
            ("first", "last", None),
            ("null at", None, None),
            ("no time", None, None),
            ("before", None, "left"),
            ("null before", None, "left"),
            (None, "before", "right"),
            (None, "long ago", "right"),
        ]
    )
