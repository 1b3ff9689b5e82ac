"""Match clicks with purchases by event time although both arrive out of order.

A click and a purchase belong together when they are of the same user and the purchase follows within a
minute. Rows may be up to 20 seconds late; rows that are later are returned by take_late().
"""

import numpy as np
import pyarrow as pa

import slidejoin as sj

rng = np.random.default_rng(11)
n = 20_000


def stream(name: str, count: int) -> pa.Table:
    """Rows in the order of arrival: most are a few seconds late, some much more."""
    seconds = np.sort(rng.uniform(0, 3600, count))
    delay = rng.exponential(4, count) + (rng.random(count) < 0.01) * 60
    table = pa.table(
        {
            name: np.arange(count),
            "user": rng.integers(0, 500, count).astype("U"),
            "ts": (seconds * 1e6).astype("datetime64[us]"),
            "arrives": seconds + delay,
        }
    )
    return table.sort_by("arrives")


clicks, purchases = stream("click", n), stream("purchase", n)
window = sj.interval(before="0s", after="60s", time="ts", lateness="20s", late="return")
with sj.WindowJoin(sj.equal("user"), window) as join:
    matches = 0
    for second in range(0, 3800, 10):  # the arrivals of the next ten seconds, of both sides
        for side, table in (("left", clicks), ("right", purchases)):
            arrives = table["arrives"].to_numpy()
            first, last = np.searchsorted(arrives, [second, second + 10])
            matches += join.push(**{side: table.slice(first, last - first)}).num_rows
    stats = join.stats
    late = join.take_late("left").num_rows + join.take_late("right").num_rows

print(f"{2 * n:,} rows, {matches:,} purchases within a minute of a click, {late} rows too late")
print(f"{stats['stored_left']} clicks and {stats['stored_right']} purchases still in the window")
