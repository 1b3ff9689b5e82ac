"""Tasks on either end of the stateful operator: rows to blobs by group, and blobs of results to rows.

Both run in ``mapInArrow``. A row of the router is a blob: the group it goes to, its side, how many rows of
the input it counts for (a row that is copied counts once), and the rows themselves.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from slidejoin.spark import blobs, recipe
from slidejoin.spark.columns import conformed

ROUTED = "group int, side tinyint, counted int, data binary"
GUARD = -1  # the key whose state tells what join a checkpoint is of

_ROUTED = pa.schema(
    [("group", pa.int32()), ("side", pa.int8()), ("counted", pa.int32()), ("data", pa.binary())]
)


def route(text: str, side: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of a side as blobs, one for each group and some 100,000 rows; with each micro-batch, one guard."""
    context = TaskContext.get()
    if context is None or context.partitionId() == 0:
        yield _routed([GUARD], side, [0], [b""])
    yield from route_rows(text, side, batches)


def route_rows(text: str, side: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of a side as blobs."""
    plan = recipe.read(text)
    ids = np.array(plan.ids, np.int32)
    for batch in blobs.gathered(conformed(batch, plan.schemas[side]) for batch in batches):
        for half, routing in enumerate(plan.routings):
            routed = routing.route(pa.Table.from_batches([batch]), side)
            copies = batch if routing.groups == 1 else batch.take(pa.array(routed.rows))
            starts = np.flatnonzero(np.diff(routed.groups, prepend=-1))
            stops = np.append(starts[1:], len(routed.groups))
            data = [
                blobs.encode(copies.slice(start, stop - start))
                for start, stop in zip(starts, stops, strict=True)
            ]
            counted = [0 if half else batch.num_rows] + [0] * (len(starts) - 1)
            groups = routed.groups[starts] + half * routing.groups
            yield _routed(ids[groups], side, counted, data)


def _routed(groups: object, side: int, counted: list[int], data: list[bytes]) -> pa.RecordBatch:
    columns = (groups, np.full(len(data), side, np.int8), counted, data)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ROUTED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ROUTED)


def unpack(text: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of results; a blob without any bytes has none."""
    schema = recipe.read(text).output
    for batch in batches:
        for blob in batch.column("data"):
            buffer = blob.as_buffer()
            if buffer is not None and buffer.size:
                yield blobs.decode(buffer, schema)
