"""The product around the join: chunks of large results, rows on disk, stream drivers, the command line."""

from collections.abc import Callable
from dataclasses import asdict

from benchmarks import machine, product_chunks
from benchmarks.report import Report, Result


def run(quick: bool, say: Callable[[str], None]) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    where = machine.describe(None)
    found: list[Result] = []
    chunks = product_chunks.QUICK if quick else product_chunks.Sizes()
    found += product_chunks.lines(chunks, say)
    return Report("product", quick, machine.finished(where), {"chunks": asdict(chunks)}, found)
