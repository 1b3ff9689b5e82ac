"""What can go wrong, as exceptions: every error of slidejoin is an :class:`Error`."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any


class Error(Exception):
    """Base class of all errors that slidejoin raises."""


class SpecError(Error, ValueError):
    """The description of a join makes no sense: a bound, a window, a name."""


class SchemaError(Error, TypeError):
    """The data does not fit the join: a type, a shape, a missing column."""


class OrderError(Error, ValueError):
    """A row breaks the order of time that its window needs."""

    refused: tuple[int, int, int]  # by the core: the row, its time, and the latest time before it


class CapacityError(Error):
    """A stated limit would be passed, or memory ran out.

    Nothing of the batch was applied, unless the message says that its rows were joined: their results then
    come first in the next result.
    """


class StateError(Error):
    """The state of a join is unusable: an unreadable snapshot, a broken invariant, memory that ran out."""


class UsageError(Error, RuntimeError):
    """A call that is not possible now: the join is closed, or busy in another thread."""


def raised_in(text: str) -> str | None:
    r"""The message of the last error of slidejoin in a traceback, or in another text that has one.

    Examples
    --------
    >>> raised_in("Traceback ...\nslidejoin.errors.StateError: a run is gone\nSQLSTATE: 38000")
    'a run is gone'
    """
    found = re.findall(r"slidejoin\.errors\.\w+: (.+)", text)
    return found[-1].strip() if found else None


def suggestion(given: Any, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known name that it resembles, or nothing.

    Examples
    --------
    >>> suggestion("prcie", ["ts", "price"])
    "; did you mean 'price'?"
    """
    if not isinstance(given, str):
        return ""
    lower = {name.lower(): name for name in known}
    close = get_close_matches(given.lower(), lower, 1) or [
        name for name in lower if given and name.startswith(given.lower())
    ]
    return f"; did you mean {lower[close[0]]!r}?" if close else ""


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names in a message: the first ones, and how many more there are.

    Examples
    --------
    >>> listed(["ts", "price", "shares"], most=2)
    "'ts', 'price' and 1 more"
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more or "none"


def missing_column(owner: str, name: str, names: Sequence[str], origin: str = "") -> SchemaError:
    """The error about a column that a table does not have; ``origin`` says what names it."""
    what = f"{owner} has no column {name!r}; it has {listed(names)}"
    return SchemaError(f"{what}{'; ' * bool(origin)}{origin}{suggestion(name, names)}")
