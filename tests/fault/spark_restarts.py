"""A Spark driver that restarts one query again and again: replays of micro-batches, and other joins.

``python spark_restarts.py settings.json`` (keys ``data``, ``waiting``, ``rest``, ``out``); prints JSON: for
each restart its error, if any, and the micro-batches it ran. Files come to ``data`` from ``waiting``.
"""

import json
import shutil
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from spark_driver import SCHEMA, inputs, joined, session, start

NAME = "left"
OTHERS = {
    "predicate": {"on": "wider"},
    "window": {"before": "4s"},
    "inner": {"how": "inner"},
    "full": {"how": "full"},
    "schema": {},
}


def arrive(settings, numbers):
    """Let files arrive, as they were written."""
    for side in ("left", "right"):
        for number in numbers:
            place = Path(settings["data"], side, f"{number}.parquet")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(settings["waiting"], side, place.name), place)


def forget(out, from_batch, also_results):
    """Take a checkpoint back to where a micro-batch was not committed, or not even its results written."""
    places = [out / f"{NAME}.checkpoint" / "commits"]
    if also_results:
        places.append(out / NAME / "_spark_metadata")
    offsets = out / f"{NAME}.checkpoint" / "offsets"
    for place, first in [(place, from_batch) for place in places] + [(offsets, from_batch + 1)]:
        for path in place.iterdir():
            name = path.name.removeprefix(".").removesuffix(".crc").removesuffix(".compact")
            if name.isdigit() and int(name) >= first:
                path.unlink()


def run(result, out, name=NAME):
    """Run a query to its end: its error, or nothing, the micro-batches that it ran, and how much it read."""
    query = start(result, out, name)
    error = ""
    try:
        query.awaitTermination()
    except StreamingQueryException as raised:
        error = str(raised)
    return {
        "error": error,
        "batches": [progress["batchId"] for progress in query.recentProgress],
        "rows": sum(progress["numInputRows"] for progress in query.recentProgress),
    }


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    spark, out, said = session(settings["master"], settings["conf"]), Path(settings["out"]), {}
    arrive(settings, range(3))
    result = joined(inputs(spark, settings["data"]), out, how="left")
    said["first run"] = run(result, out)
    forget(out, 2, also_results=False)
    said["replay"] = run(result, out)
    forget(out, 1, also_results=True)
    said["replay with results"] = run(result, out)
    arrive(settings, [3])
    refused = {}
    for name, options in OTHERS.items():
        schema = SCHEMA + ", more string" if name == "schema" else SCHEMA
        another = joined(inputs(spark, settings["data"], schema), out, **{"how": "left", **options})
        refused[name] = run(another, out)
    arrive(settings, settings["rest"])
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    again = joined(inputs(spark, settings["data"]), out, how="left", partitions=5)
    said["another zone and partitions"] = run(again, out)
    said["full"] = run(joined(inputs(spark, settings["data"]), out, how="full"), out, "full")
    print(json.dumps({"went on": said, "refused": refused}))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
