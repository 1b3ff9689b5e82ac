"""Match trades with quotes: prices at most 5 cents apart, at most 2 seconds apart, in one process.

Prices are whole cents, so that the band is exact. The two feeds arrive merged in the order of time, a
batch at a time; matches come back as positions, which find the rows in any table that the feeds fill.
"""

import numpy as np

import slidejoin as sj

rng = np.random.default_rng(7)
n = 100_000
sides = rng.integers(0, 2, n).astype(np.uint8)  # 0: a trade, 1: a quote
cents = 10_000 + np.cumsum(rng.integers(-2, 3, n)).astype(np.int32)
times = np.datetime64("2024-03-01T09:30:00", "us") + np.cumsum(rng.integers(0, 200_000, n))

join = sj.NumericJoin(sj.within("2s"), lower=-5, upper=5, key=np.int32)
trades, quotes = cents[sides == 0], cents[sides == 1]

matches = 0
for start in range(0, n, 8192):
    batch = slice(start, start + 8192)
    trade, quote = join.push(sides[batch], cents[batch], times[batch])
    matches += len(trade)
    assert np.all(np.abs(quotes[quote] - trades[trade]) <= 5)

print(f"{n:,} rows, {matches:,} matches, {join.stats['stored_left']} trades still in the window")
