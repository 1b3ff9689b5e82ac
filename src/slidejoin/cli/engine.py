"""The engines that a command offers, and options that are for one of them only."""

from enum import StrEnum

from slidejoin.cli.failure import fail


class Backend(StrEnum):
    """Where a join runs."""

    embedded = "embedded"
    spark = "spark"


def only_for(engine: Backend, wanted: Backend, **given: object) -> None:
    """Refuse options that were given and belong to the other engine."""
    for name, value in given.items():
        if value is not None and engine is not wanted:
            fail(f"--{name.replace('_', '-')} is for --engine {wanted}; leave it out or change the engine")
