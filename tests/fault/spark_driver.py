"""A Spark driver that tests start and kill: streaming joins of two directories of files into Parquet.

``python spark_driver.py settings.json``: keys ``data`` (has ``left`` and ``right``), ``out``, ``master``,
``conf``, ``joins`` (each with a ``name`` and options of ``arguments``; all run at once). It ends when all the
files are joined. An error of a query is written to stderr, and the exit code is 1.
"""

import json
import os
import sys

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession

import slidejoin as sj
from slidejoin.spark import join

SCHEMA = "ts timestamp, k bigint, id bigint"


# A JVM of a minute's life: the best compilers, Java's and Spark's, would take more time than they save.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(master="local[2]", conf=None):
    builder = SparkSession.builder.master(master)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": BRIEF,
        "spark.executor.extraJavaOptions": BRIEF,
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.minBatchesToRetain": "3",
        **(conf or {}),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def arguments(on="band", before="3s", after="2s", how="inner", partitions=2):
    """Arguments of ``join``, from what settings say."""
    predicates = {"band": sj.band("k", within=3), "wider": sj.band("k", within=4), "less": sj.less("k")}
    window = sj.interval(before, after, time="ts", lateness="3s")
    return {"on": predicates[on], "window": window, "how": how, "partitions": partitions}


def joined(sides, out, **options):
    """The join that settings ask for, with its state beside the checkpoints."""
    return join(*sides, **arguments(**options), state_dir=f"{out}/state")


def inputs(spark, data, schema=SCHEMA):
    return [
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{data}/{side}")
        for side in ("left", "right")
    ]


def start(result, out, name):
    """Begin or go on with a query; it stops when all files are joined."""
    writer = result.writeStream.format("parquet").option("checkpointLocation", f"{out}/{name}.checkpoint")
    return writer.trigger(availableNow=True).queryName(name).start(f"{out}/{name}")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    spark = session(settings["master"], settings.get("conf"))
    out = settings["out"]
    results, queries = {}, []
    for options in settings["joins"]:
        name = options.pop("name")
        told = json.dumps(options, sort_keys=True)
        if told not in results:  # the same join twice: two queries from one DataFrame
            results[told] = joined(inputs(spark, settings["data"]), out, **options)
        queries.append(start(results[told], out, name))
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
