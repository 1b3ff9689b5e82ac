"""Inputs for ``slidejoin run`` and what must come out, by brute force over lists of rows."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

START = datetime(2024, 3, 1, 9, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def side(rng, rows, name, seconds=60.0, zone="UTC", disorder=0.0, nulls=0.1):
    """Rows in the order of time, but for up to ``disorder`` seconds; some values of every column are null."""
    at = np.sort(rng.uniform(0, seconds, rows))
    at = at[np.argsort(at + rng.uniform(0, disorder, rows), kind="stable")]
    micros = (at * 1e6).astype(np.int64) + int(START.timestamp() * 1e6)

    def some(values, type_):
        return pa.array(
            [
                None if missing else value
                for value, missing in zip(values, rng.random(rows) < nulls, strict=True)
            ],
            type_,
        )

    return pa.table(
        {
            name: np.arange(rows) + 2**60,  # beyond what a float can hold
            "symbol": some(rng.choice(["A", "B", "C"], rows).tolist(), pa.string()),
            "price": some(np.round(rng.uniform(0, 20, rows), 2).tolist(), pa.float64()),
            "amount": some((rng.integers(0, 1000, rows) + 2**53).tolist(), pa.int64()),
            "ts": some(micros.tolist(), pa.timestamp("us", zone)),
        }
    )


def write(table, path, files=1, format_="parquet"):
    """Write a table as some files of one directory, in the order of their names."""
    path.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(np.array_split(np.arange(table.num_rows), files)):
        part = table.slice(int(rows[0]) if len(rows) else 0, len(rows))
        file = path / f"{number:03}.{format_}"
        if format_ == "parquet":
            pyarrow.parquet.write_table(part, file)
        elif format_ == "csv":
            pyarrow.csv.write_csv(part, file)
        else:
            file.write_text("".join(json.dumps(row, default=str) + "\n" for row in part.to_pylist()))
    return path


def joined(left, right, matches, how="inner"):
    """The multiset of result rows, as tuples; ``matches`` tells of two rows (dicts) whether they do."""
    lefts, rights = left.to_pylist(), right.to_pylist()
    pairs = [(i, j) for i, a in enumerate(lefts) for j, b in enumerate(rights) if matches(a, b)]
    return rows_of_pairs(lefts, rights, pairs, how)


def rows_of_pairs(lefts, rights, pairs, how):
    """What a join type makes of pairs of row numbers."""
    nothing = [(None,) * len(side[0]) for side in (lefts, rights)]
    a, b = ([tuple(row.values()) for row in side] for side in (lefts, rights))
    with_left, with_right = {i for i, _ in pairs}, {j for _, j in pairs}
    alone_left = [i for i in range(len(a)) if i not in with_left]
    alone_right = [j for j in range(len(b)) if j not in with_right]
    one_sided = {
        "left_semi": (a, with_left),
        "left_anti": (a, alone_left),
        "right_semi": (b, with_right),
        "right_anti": (b, alone_right),
    }
    if how in one_sided:
        side, numbers = one_sided[how]
        return Counter(side[number] for number in numbers)
    rows = Counter(a[i] + b[j] for i, j in pairs)
    if how in ("left", "full"):
        rows.update(a[i] + nothing[1] for i in alone_left)
    if how in ("right", "full"):
        rows.update(nothing[0] + b[j] for j in alone_right)
    return rows


def near(before, after, within):
    """Same symbol, prices and times near each other; null matches nothing."""

    def matches(a, b):
        columns = ("symbol", "price", "ts")
        if any(row[column] is None for row in (a, b) for column in columns):
            return False
        return (
            a["symbol"] == b["symbol"]
            and a["price"] - within <= b["price"] <= a["price"] + within
            and -before * SECOND <= b["ts"] - a["ts"] <= after * SECOND
        )

    return matches


def result(directory):
    """The rows of an output directory, as a multiset of tuples."""
    table = pyarrow.dataset.dataset(directory, format="parquet").to_table()
    return Counter(tuple(row.values()) for row in table.to_pylist())
