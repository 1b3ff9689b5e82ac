"""A client of Spark Connect that tests start: joins two directories of files as streams, into Parquet.

``python on_connect.py folder how …``: ``folder`` has ``left`` and ``right``; results of each join type go to
``folder/to/<how>``. The server is a local one, and ends with this process.
"""

import os
import sys

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession

import slidejoin as sj
from slidejoin.spark import join

SCHEMA = "id string, ts timestamp, k bigint, x double, sym string, big bigint"
ON = sj.equal("sym") & sj.band("k", within=20)
WINDOW = sj.interval("8s", "7s", time="ts", lateness="8s")


def main():
    folder, *hows = sys.argv[1:]
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    assert "connect" in type(spark).__module__
    for how in hows:
        sides = [
            spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{folder}/{side}")
            for side in ("left", "right")
        ]
        result = join(*sides, ON, WINDOW, how, partitions=2, state_dir=f"{folder}/state")
        writer = result.writeStream.format("parquet").option(
            "checkpointLocation", f"{folder}/to/{how}.checkpoint"
        )
        writer.trigger(availableNow=True).start(f"{folder}/to/{how}").awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
