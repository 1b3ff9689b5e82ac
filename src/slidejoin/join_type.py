"""Join types: which rows and which columns each of them returns. The reference has a list of its own."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from slidejoin.errors import SpecError, suggestion

How: TypeAlias = Literal[
    "inner", "left", "right", "full", "left_semi", "left_anti", "right_semi", "right_anti"
]


@dataclass(frozen=True)
class JoinType:
    """A join type by its properties. Sides are numbered: 0 is left, 1 is right.

    Attributes
    ----------
    name : str
        What users pass as ``how``.
    preserves : (bool, bool)
        For each side, whether its rows are returned once they can no longer match and never did.
    only : int, optional
        Semi and anti joins: the one side whose rows and columns are returned, each row once at most.
    """

    name: How
    preserves: tuple[bool, bool] = (False, False)
    only: int | None = None

    @property
    def is_semi(self) -> bool:
        """Whether rows of one side are returned at their first match."""
        return self.only is not None and not self.preserves[self.only]

    @property
    def returns_unmatched(self) -> bool:
        """Whether any unmatched rows are returned."""
        return any(self.preserves)

    @property
    def sides(self) -> tuple[int, ...]:
        """The sides whose columns results have."""
        return (0, 1) if self.only is None else (self.only,)

    @property
    def home(self) -> int | None:
        """The side whose rows must meet all their partners in one place; ``None`` if both sides must."""
        if all(self.preserves):
            return None
        return 0 if self.preserves[0] or self.only == 0 else 1  # of an inner join either could be


_LEFT, _RIGHT = (True, False), (False, True)

JOIN_TYPES: dict[str, JoinType] = {
    type_.name: type_
    for type_ in (
        JoinType("inner"),
        JoinType("left", _LEFT),
        JoinType("right", _RIGHT),
        JoinType("full", (True, True)),
        JoinType("left_semi", only=0),
        JoinType("left_anti", _LEFT, only=0),
        JoinType("right_semi", only=1),
        JoinType("right_anti", _RIGHT, only=1),
    )
}


def join_type(how: Any) -> JoinType:
    """The join type of a name; SpecError for another name.

    Examples
    --------
    >>> join_type("right_anti").sides
    (1,)
    """
    if not isinstance(how, str) or how not in JOIN_TYPES:
        meant = str(how).lower().replace("outer", "").strip("_ ") or "full"
        raise SpecError(
            f"how={how!r}; expected one of {', '.join(JOIN_TYPES)}{suggestion(meant, JOIN_TYPES)}"
        )
    return JOIN_TYPES[how]
