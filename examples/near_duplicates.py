"""Find readings of a sensor that nearly repeat one of the last 1,000: a self-join of one stream."""

import numpy as np

import slidejoin as sj

readings = np.random.default_rng(3).normal(20.0, 5.0, 50_000)

join = sj.NumericJoin(window=1_000, lower=-0.0005, upper=0.0005, self_join=True)
left, right = join.push(None, readings)
# The left one of a pair is the earlier one if the band holds both ways. It nearly always does here, but sums
# of floats are rounded: a difference of just 0.0005 may be in the band one way only.
earlier, later = np.minimum(left, right), np.maximum(left, right)

print(f"{len(later):,} near repetitions, the first: reading {later[0]} repeats {earlier[0]}")
print(f"{readings[earlier[0]]:.6f} ~ {readings[later[0]]:.6f}")
