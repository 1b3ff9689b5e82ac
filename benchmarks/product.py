"""The product around the join: chunks of large results, rows on disk, stream drivers, the command line."""

from collections.abc import Callable
from dataclasses import asdict

from benchmarks import machine, product_chunks, product_cli, product_drivers, product_spill
from benchmarks.report import Report, Result


def run(quick: bool, say: Callable[[str], None]) -> Report:
    """Measure everything; ``say`` is told what is under way."""
    where = machine.describe(None)
    found: list[Result] = []
    chunks = product_chunks.QUICK if quick else product_chunks.Sizes()
    spill = product_spill.QUICK if quick else product_spill.Sizes()
    drivers = product_drivers.QUICK if quick else product_drivers.Sizes()
    command = product_cli.QUICK if quick else product_cli.Sizes()
    found += product_chunks.lines(chunks, say)
    found += product_spill.lines(spill, say)
    found += product_drivers.lines(quick, say)
    found += product_cli.lines(command, say)
    parameters = {"chunks": asdict(chunks), "spill": asdict(spill), "drivers": asdict(drivers)}
    parameters["command"] = asdict(command)
    return Report("product", quick, machine.finished(where), parameters, found)
