"""The indexes by name, with their parameters: ``"pim-tree"``, ``"pim-tree(merge_ratio=0.0625)"``.

An index decides speed, never results. ``docs/indexes.md`` says what each of them is and when to choose it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slidejoin import _core
from slidejoin.errors import SpecError, suggestion


@dataclass(frozen=True)
class Parameter:
    """A number that an index takes; the core has the list of them (``core/catalog.hpp``)."""

    name: str
    default: int | float
    least: int | float
    most: int | float
    about: str

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers only."""
        return isinstance(self.default, int)


PARAMETERS = {
    name: tuple(Parameter(*each) for each in parameters) for name, parameters in _core.indexes().items()
}

# How several workers share a join, with the numbers that they take (docs/concurrency.md).
STRATEGIES = {
    "auto": (),
    "phases": (),
    "shared-index": (
        Parameter("task_size", 32, 1, 2**16, "arrivals that a worker takes at a time"),
        Parameter("blocking_merge", 0, 0, 1, "1: all workers wait while the index is merged"),
    ),
    "round-robin": (),
    "subwindows": (
        Parameter("count", 8, 2, 1024, "subwindows of a window; at least two for each worker are made"),
        Parameter("batch", 4096, 32, 2**20, "arrivals that close a batch"),
        Parameter("batch_us", 0, 0, 10**9, "microseconds that close a batch; 0: arrivals alone close it"),
    ),
}

_FORM = re.compile(r"([a-z-]+)\s*(?:\((.*)\))?", re.DOTALL)


def parse_index(text: str) -> tuple[str, dict[str, int | float]]:
    """The name of an index and the parameters given with it.

    Raises
    ------
    SpecError
        There is no such index or parameter, or a value is out of its range.

    Examples
    --------
    >>> parse_index("pim-tree(merge_ratio=0.0625, insertion_depth=3)")
    ('pim-tree', {'merge_ratio': 0.0625, 'insertion_depth': 3})
    """
    return _parse("index", text, {**PARAMETERS, "auto": ()})


def parse_strategy(text: str) -> tuple[str, dict[str, int | float]]:
    """The name of a strategy of several workers and the parameters given with it.

    Examples
    --------
    >>> parse_strategy("shared-index(task_size=4)")
    ('shared-index', {'task_size': 4})
    """
    return _parse("strategy", text, STRATEGIES)


def _parse(
    what: str, text: str, known: Mapping[str, tuple[Parameter, ...]]
) -> tuple[str, dict[str, int | float]]:
    form = _FORM.fullmatch(text) if isinstance(text, str) else None
    if form is None or form[1] not in known:
        meant = suggestion(str(text).split("(")[0], known)
        raise SpecError(f"{what}={text!r}; expected one of {', '.join(known)}{meant}")
    name, given = form[1], form[2]
    parameters = {parameter.name: parameter for parameter in known[name]}
    options: dict[str, int | float] = {}
    for part in filter(None, (part.strip() for part in (given or "").split(","))):
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if option not in parameters or not equals:
            meant = suggestion(option, parameters)
            raise SpecError(
                f"{what}={text!r}: {part!r} is not a parameter of {name}, which has "
                f"{', '.join(parameters) or 'none'}{meant}"
            )
        if option in options:
            raise SpecError(f"{what}={text!r}: {option} is given twice")
        options[option] = _value(f"{what}={text!r}", parameters[option], value)
    return name, options


def _value(where: str, parameter: Parameter, given: str) -> int | float:
    try:
        value: Any = int(given) if parameter.whole else float(given)
    except ValueError:
        value = math.nan
    if not parameter.least <= value <= parameter.most:
        kind = "a whole number" if parameter.whole else "a number"
        raise SpecError(
            f"{where}: {parameter.name}={given}; expected {kind} from {parameter.least} to "
            f"{parameter.most}: {parameter.about}"
        )
    return value  # type: ignore[no-any-return]


def check_index(index: str) -> str:
    """An index with its parameters; ``auto`` is the core's to decide, by what it sees."""
    parse_index(index)
    return index
