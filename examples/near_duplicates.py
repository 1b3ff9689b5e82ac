"""Find readings of a sensor that nearly repeat one of the last 1,000: a self-join of one stream."""

import numpy as np

import slidejoin as sj

readings = np.random.default_rng(3).normal(20.0, 5.0, 50_000)

join = sj.NumericJoin(window=1_000, lower=-0.0005, upper=0.0005, self_join=True)
left, right = join.push(None, readings)
# The earlier reading is the left one if the band holds in both directions. Float sums are rounded, so a
# difference of about 0.0005 may be in the band in one direction only.
earlier, later = np.minimum(left, right), np.maximum(left, right)

print(f"{len(later):,} near repetitions, the first: reading {later[0]} repeats {earlier[0]}")
print(f"{readings[earlier[0]]:.6f} ~ {readings[later[0]]:.6f}")
