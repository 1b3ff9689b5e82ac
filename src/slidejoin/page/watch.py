"""watch(): a live page for a join of this process."""

from typing import TYPE_CHECKING

from slidejoin.errors import SpecError
from slidejoin.window_join import WindowJoin

if TYPE_CHECKING:
    from slidejoin.page.server import PageServer


def watch(join: WindowJoin, port: int = 0, host: str = "127.0.0.1") -> "PageServer":
    """Serve a live page that shows how a join runs: throughput, latency, window, matches, memory, index.

    Parameters
    ----------
    join : WindowJoin
        May be used as before, by its thread. The page never waits for a push, nor does a push for it.
    port : int
        0 takes one that is free.
    host : str
        A loopback address: ``127.0.0.1``, ``::1`` or ``localhost``. Others are refused.

    Returns
    -------
    PageServer
        ``url`` is the address of the page; ``url + "metrics"`` has the text of ``join.metrics()``.
        ``close()`` ends it, as does a ``with`` block.

    Notes
    -----
    Cost: about 1 ms a second in a thread of its own. docs/watch.md has more.

    Examples
    --------
    >>> import slidejoin as sj
    >>> join = sj.WindowJoin(sj.equal("id"), sj.rows(10))
    >>> with sj.watch(join) as page:
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """
    from slidejoin.page.feed import JoinFeed  # a server is not needed by those who only join
    from slidejoin.page.server import PageServer

    if not isinstance(join, WindowJoin):
        raise SpecError(f"watch() got {join!r}; expected a WindowJoin. slidejoin.spark.watch is for queries")
    return PageServer(JoinFeed(join._reading), host, port)
