"""MetricsCollector: joins as something that a registry of ``prometheus_client`` collects from."""

from collections.abc import Iterator, Mapping
from typing import Any

from slidejoin.errors import SpecError
from slidejoin.metrics import Family, Labels, families, metrics_text
from slidejoin.sampling import Reading
from slidejoin.window_join import WindowJoin


class MetricsCollector:
    """The metrics of one or several joins, for a registry or as one text.

    Parameters
    ----------
    joins : WindowJoin, or mapping of str to WindowJoin
        A mapping adds a label ``join`` with the name of each.
    labels : dict of str, optional
        Added to every sample.

    Notes
    -----
    ``prometheus_client.REGISTRY.register(collector)`` is all that is needed; slidejoin does not import it.
    Any thread may collect at any time, also while a push runs. The collector keeps its joins alive. Cost:
    below a millisecond for each join.

    Examples
    --------
    >>> import slidejoin as sj
    >>> near = sj.WindowJoin(sj.band("price", within=1), sj.rows(100))
    >>> far = sj.WindowJoin(sj.band("price", within=9), sj.rows(100))
    >>> collector = sj.MetricsCollector({"near": near, "far": far})
    >>> rows = next(family for family in collector.collect() if family.name == "slidejoin_matches")
    >>> [(sample.labels, sample.value) for sample in rows.samples]
    [({'join': 'near'}, 0), ({'join': 'far'}, 0)]
    """

    def __init__(self, joins: WindowJoin | Mapping[str, WindowJoin], labels: Labels | None = None) -> None:
        self._labels = dict(labels or {})
        self._joins = _named(joins)
        if len(self._joins) and "join" in self._labels and "" not in self._joins:
            raise SpecError("label 'join' is given, and the joins have names of their own; leave one out")
        self.collect()  # what is wrong with labels is said here

    def collect(self) -> list[Family]:
        """The families as they are now: what a registry calls."""
        return families(self._readings())

    def __iter__(self) -> Iterator[Family]:
        return iter(self.collect())

    def text(self, format: str = "prometheus") -> str:  # noqa: A002
        """As :meth:`slidejoin.WindowJoin.metrics`, of all joins."""
        return metrics_text(self._readings(), format)

    def _readings(self) -> list[tuple[Labels, Reading]]:
        return [
            ({**self._labels, **({"join": name} if name else {})}, join._reading())
            for name, join in self._joins.items()
        ]


def _named(joins: Any) -> dict[str, WindowJoin]:
    named = dict(joins) if isinstance(joins, Mapping) else {"": joins}
    for name, join in named.items():
        if not isinstance(join, WindowJoin):
            raise SpecError(f"{join!r} is not a join; expected a WindowJoin, or a dict of them by name")
        if isinstance(joins, Mapping) and (not isinstance(name, str) or not name):
            raise SpecError(f"{name!r} is not the name of a join; expected a text")
    return named
