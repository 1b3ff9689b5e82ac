"""Stream drivers: two sources in, tables of results out. What ``WindowJoin.run`` and ``run_async`` run.

- ``options``: the arguments of a run, checked.
- ``items``: what a source yields: rows, batches, batches with an offset.
- ``inbox``: the rows of both sources in the order of their arrival, and when a micro-batch is due.
- ``by_arrival``, ``by_time``: a micro-batch as arrivals, in the order in which they are joined.
- ``progress``, ``checkpoint``: how far each source was joined; snapshots that tell so, and the way back.
- ``session``: the join under a run. It knows neither threads nor tasks.
- ``bell``, ``readers``, ``run``: what wakes a thread; threads that read the sources; the iterator of results.
- ``tasks``, ``run_async``: the same with tasks of asyncio.
"""

from slidejoin.drive.items import Batch
from slidejoin.drive.run import Run
from slidejoin.drive.run_async import AsyncRun

__all__ = ["AsyncRun", "Batch", "Run"]
