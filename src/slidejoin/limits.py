"""Limits: how much a join may hold and return, and what happens beyond that."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slidejoin.errors import SpecError, suggestion
from slidejoin.sizes import parse_bytes
from slidejoin.window import is_whole

WHEN_FULL = ("error", "drop_oldest")


@dataclass(frozen=True)
class Limits:
    """The checked limits of a join; None stands for no limit. Made by :func:`check_limits`."""

    max_rows: tuple[int, int] | None = None  # that are held, of each side
    max_memory: int | None = None  # bytes
    max_fanout: int | None = None  # matches of one row
    when_full: str = "error"

    def __bool__(self) -> bool:
        """Whether a batch can be refused."""
        return self.refused_rows is not None or self.max_memory is not None or self.max_fanout is not None

    @property
    def refused_rows(self) -> tuple[int, int] | None:
        """How many rows of each side can be held; a batch that brings more is refused."""
        return None if self.drops else self.max_rows

    @property
    def kept_rows(self) -> tuple[int, int]:
        """How many rows of each side are kept; older ones are dropped. 0: any number."""
        return self.max_rows if self.drops and self.max_rows is not None else (0, 0)

    @property
    def drops(self) -> bool:
        """Whether the oldest rows make room for new ones."""
        return self.when_full == "drop_oldest"

    def to_json(self) -> dict[str, Any]:
        """The limits as JSON values, in the form of the arguments; those that are not given are left out."""
        given: dict[str, Any] = {"max_rows": None if self.max_rows is None else list(self.max_rows)}
        given |= {"max_memory": self.max_memory, "max_fanout": self.max_fanout}
        given |= {"when_full": self.when_full if self.drops else None}
        return {name: value for name, value in given.items() if value is not None}


NO_LIMITS = Limits()


def check_limits(
    max_rows: int | Sequence[int] | None,
    max_memory: int | float | str | None,
    max_fanout: int | None,
    when_full: str,
    self_join: bool = False,
) -> Limits:
    """Check the limits of a WindowJoin and normalize them.

    Examples
    --------
    >>> check_limits(1000, "2GB", None, "error").max_memory
    2000000000
    """
    if when_full not in WHEN_FULL:
        raise SpecError(
            f"when_full={when_full!r}; expected 'error' or 'drop_oldest'{suggestion(when_full, WHEN_FULL)}"
        )
    rows = None if max_rows is None else _checked_rows(max_rows, self_join)
    if when_full == "drop_oldest" and rows is None:
        raise SpecError("when_full='drop_oldest' needs max_rows, the rows that are kept of each side")
    if max_fanout is not None and (not is_whole(max_fanout) or max_fanout < 1):
        raise SpecError(f"max_fanout={max_fanout!r}; expected the most matches of a row, 1 at least, or None")
    memory = None
    if max_memory is not None:
        if isinstance(max_memory, bool):
            raise SpecError(f"max_memory={max_memory!r}; expected bytes, such as 2_000_000_000 or '2GB'")
        memory = int(parse_bytes(max_memory, "max_memory"))
    return Limits(rows, memory, None if max_fanout is None else int(max_fanout), when_full)


def _checked_rows(max_rows: Any, self_join: bool) -> tuple[int, int]:
    given = (max_rows, max_rows) if is_whole(max_rows) else max_rows
    if (
        not isinstance(given, tuple | list)
        or len(given) != 2
        or not all(is_whole(count) and count > 0 for count in given)
    ):
        raise SpecError(
            f"max_rows={max_rows!r}; expected the most rows that are held of each side, 1 at least, or a "
            "pair (left, right)"
        )
    if self_join and given[0] != given[1]:
        raise SpecError(f"max_rows={max_rows!r}; a self-join has one stream, give one number")
    return int(given[0]), int(given[1])
