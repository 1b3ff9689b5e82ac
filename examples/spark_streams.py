"""Two file streams on Spark, joined by nearness: an oven's readings and a probe's that agree.

A reading and a probe agree when their temperatures differ by at most 0.2 degrees and their times by at most
two seconds. No key is equal on both sides, so Spark itself refuses this join of two streams. A script needs
only the import and the call of ``join`` below.
Needs Java 17 and slidejoin[spark].
"""

import os
import random
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

import slidejoin as sj
from slidejoin.spark import join

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="ovens-"))
chance = random.Random(7)

# Files as they would arrive: five minutes in each, rows up to ten seconds out of order.
for side, every in (("ovens", 1.0), ("probes", 7.0)):
    (folder / side).mkdir(parents=True)
    for number in range(4):
        rows = []
        for row in range(int(300 / every)):
            second = number * 300 + row * every - chance.uniform(0, 10)
            time = datetime(2024, 3, 1, 9) + timedelta(seconds=second)
            rows.append(f"{side[0]}{number}-{row},{time.isoformat()},{chance.gauss(180, 3):.2f}\n")
        file = folder / side / f"{number}.csv"
        file.write_text("".join(rows))
        os.utime(file, (number + 1, number + 1))  # Spark takes the oldest file first

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the Python that has slidejoin
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
files = spark.readStream.option("maxFilesPerTrigger", 2)
ovens = files.csv(str(folder / "ovens"), schema="oven string, ts timestamp, degrees double")
probes = files.csv(str(folder / "probes"), schema="probe string, ts timestamp, degrees double")

agreeing = join(
    ovens,
    probes,
    on=sj.band("degrees", within=0.2),
    window=sj.interval(before="2s", after="2s", time="ts", lateness="15s"),
    partitions=2,
    state_dir=folder / "state",
)

query = (
    agreeing.writeStream.format("parquet")
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(availableNow=True)
    .start(str(folder / "agreeing"))
)
query.awaitTermination()

results = spark.read.parquet(str(folder / "agreeing")).orderBy("ts", "ts_right").collect()
for row in results:
    print(row.oven, row.probe, row.degrees, row.degrees_right)
print(f"{len(results)} readings agree, in {folder / 'agreeing'}")
spark.stop()
