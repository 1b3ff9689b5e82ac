"""Benchmarks: every figure that slidejoin claims is the output of one of them.

They need a checkout, and run as ``python -m benchmarks NAME [--quick] [--json FILE] [--plot DIR]``.

``workload`` makes the streams, ``peer`` runs the native programs of ``benchmarks/peers``,
``measure`` alternates the contenders and takes medians, ``machine`` says where it ran, ``report``
prints and writes the result. A benchmark is a module with a ``run(quick, say)`` that returns a
Report; it is registered here. Results that are kept live in ``benchmarks/results/NAME.json``,
those of further machines in ``NAME-*.json``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks import (
    bucket,
    cluster,
    foundation,
    index_claims,
    indexes,
    model,
    parallel,
    product,
    streams,
    two_tables,
    window,
)
from benchmarks.report import Report
from slidejoin.run.session import check_spark

Say: TypeAlias = Callable[[str], None]


def _spark(quick: bool, say: Say) -> Report:
    """Run the Spark benchmark; who does not want it needs no Spark."""
    check_spark()
    from benchmarks import spark

    return spark.run(quick, say)


@dataclass(frozen=True)
class Benchmark:
    """A registered benchmark: its name, one line about it, and what runs it."""

    name: str
    about: str
    run: Callable[[bool, Say], Report]


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "foundation",
            "the b-tree against absl::btree_multimap, and what a call from Python costs; one core",
            foundation.run,
        ),
        Benchmark(
            "window",
            "WindowJoin on tables of Arrow against NumericJoin on their keys; one core",
            window.run,
        ),
        Benchmark(
            "product",
            "large results in chunks, rows on disk, stream drivers, the command line",
            product.run,
        ),
        Benchmark(
            "streams",
            "all join types, many sources, recovery; one core",
            streams.run,
        ),
        Benchmark(
            "indexes",
            "every index: against absl::btree_multimap, NumPy and each other, and its memory; one core",
            indexes.run,
        ),
        Benchmark(
            "claims",
            "what the papers say about their indexes, measured on ours; one core, 12 minutes",
            index_claims.run,
        ),
        Benchmark(
            "join",
            "two whole tables against DuckDB and Polars, which join by buckets; one core, and threads",
            two_tables.run,
        ),
        Benchmark(
            "bucket",
            "the bucket-tree: against absl, the papers' structures and NumPy, all kinds of keys; one core",
            bucket.run,
        ),
        Benchmark(
            "parallel",
            "several workers: every strategy against one, and what the papers say of theirs; all cores",
            parallel.run,
        ),
        Benchmark(
            "model",
            "the performance model against the running join; one core, 4 minutes",
            model.run,
        ),
        Benchmark(
            "cluster",
            "the simulated cluster: what the paper says of its own, and how long simulations take; one core, "
            "3 minutes",
            cluster.run,
        ),
        Benchmark(
            "spark",
            "the join on Spark against another checkout, the work-around and an empty task; two cores, "
            "25 minutes",
            _spark,
        ),
    )
}
