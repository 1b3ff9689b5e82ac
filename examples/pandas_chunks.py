"""Join two CSV files with pandas, chunk by chunk: neither file is in memory as a whole.

Chunks are merged by time, so the result is the same for every size of chunks, and the window is all that the
join keeps.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import slidejoin as sj

rng = np.random.default_rng(1)
count = 20_000

with tempfile.TemporaryDirectory() as folder:
    paths = [Path(folder, name) for name in ("buoys.csv", "ships.csv")]
    for path, column in zip(paths, ("height", "draught"), strict=True):
        times = pd.Timestamp("2024-05-01") + pd.to_timedelta(np.sort(rng.uniform(0, 86_400, count)), unit="s")
        frame = {"ts": times, "km": rng.uniform(0, 500, count), column: rng.uniform(0, 9, count)}
        pd.DataFrame(frame).to_csv(path, index=False)

    buoys, ships = (pd.read_csv(path, parse_dates=["ts"], chunksize=3000) for path in paths)
    join = sj.WindowJoin(sj.band("km", within=0.5), sj.within("10min", time="ts"), how="right")
    rows = alone = 0
    for out in join.run(left=buoys, right=ships):
        frame = out.to_pandas()
        rows += len(frame)
        alone += int(frame["height"].isna().sum())

print(f"{rows - alone:,} pairs of a buoy and a ship within 500 m and 10 minutes; {alone:,} ships met none")
