"""The degree of declustering: how many nodes take part.

Section V.A of the shared-nothing join: one node fewer when there is no supplier, one more when
``N_sup > β·N_con``. As it stands, this rule never rests: without a supplier it shrinks until one appears, and
then it grows. :class:`Declustering` keeps the rule and adds patience: a growth soon after a shrink shows that
the shrink was wrong, and doubles the number of quiet epochs before the next one. Under a steady load the
number of changes then grows with the logarithm of time only. Cost: O(1).
"""

from dataclasses import dataclass, replace

from slidejoin.errors import SpecError
from slidejoin.model.arguments import as_count, as_number

MOST_PATIENCE = 1 << 20


def degree(suppliers: int, consumers: int, active: int, available: int, beta: float = 0.5) -> int:
    """The number of nodes for the next epoch, by the paper's rule alone.

    Parameters
    ----------
    suppliers, consumers : int
        How many of the active nodes are suppliers, and consumers.
    active, available : int
        Nodes that take part now, and at most.
    beta : float
        The granularity β, between 0 and 1.

    Examples
    --------
    >>> degree(0, 2, active=4, available=8), degree(2, 2, 4, 8), degree(1, 3, 4, 8)
    (3, 5, 4)
    """
    as_number("beta", beta, "above 0 and below 1", above=0)
    if beta >= 1:
        raise SpecError(f"beta {beta}; expected a number above 0 and below 1")
    if not 1 <= active <= available:
        raise SpecError(f"{active} active nodes of {available}; expected 1 to all of them")
    if suppliers < 0 or consumers < 0 or suppliers + consumers > active:
        raise SpecError(
            f"{suppliers} suppliers and {consumers} consumers of {active} nodes; count each node once"
        )
    if suppliers == 0:
        return max(active - 1, 1)
    if suppliers > beta * consumers:
        return min(active + 1, available)
    return active


@dataclass(frozen=True)
class Declustering:
    """The paper's rule with patience; immutable, each step returns the next one.

    Parameters
    ----------
    beta : float
        As for :func:`degree`.
    patience : int
        Quiet epochs, without a supplier, before a node leaves. 1 is the paper's rule at the start.
    adaptive : bool
        Whether patience doubles after a shrink that a growth revokes.

    Examples
    --------
    >>> rule, active = Declustering(), [4]
    >>> for suppliers in (0, 1, 0, 0):  # a shrink, its revocation, then two quiet epochs for the next one
    ...     rule, wanted = rule.step(suppliers, 0, active[-1], 8)
    ...     active.append(wanted)
    >>> active
    [4, 3, 4, 4, 3]
    """

    beta: float = 0.5
    patience: int = 1
    adaptive: bool = True
    quiet: int = 0
    since_shrink: int = MOST_PATIENCE

    def __post_init__(self) -> None:
        as_count("patience", self.patience)
        degree(0, 0, 1, 1, self.beta)

    def step(self, suppliers: int, consumers: int, active: int, available: int) -> tuple["Declustering", int]:
        """The rule after an epoch, and the number of nodes for the next one. Cost: O(1)."""
        wanted = degree(suppliers, consumers, active, available, self.beta)
        after = replace(
            self, quiet=self.quiet + 1 if suppliers == 0 else 0, since_shrink=self.since_shrink + 1
        )
        if wanted > active:
            revoked = self.adaptive and after.since_shrink <= 2 * self.patience
            patience = min(2 * self.patience, MOST_PATIENCE) if revoked else self.patience
            return replace(after, patience=patience, since_shrink=MOST_PATIENCE), wanted
        if wanted < active:
            if after.quiet < self.patience:
                return after, active
            return replace(after, quiet=0, since_shrink=0), wanted
        return after, wanted
