"""Blobs: rows of one side for one group, as one binary value.

Spark hands rows to a stateful Python operator one by one; a blob is one row to it. It is the body of an
Arrow record batch, without its schema, which both ends know. Cost: a copy of the rows, and some 20 µs.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

ROWS = 2**17  # rows that are routed, or written out, together
BYTES = 2**24


def encode(batch: pa.RecordBatch) -> bytes:
    """The rows of a batch, without its schema."""
    return batch.serialize().to_pybytes()  # type: ignore[no-any-return]


def decode(blob: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a blob, in its memory."""
    return pa.ipc.read_record_batch(pa.py_buffer(blob), schema)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about ``ROWS`` rows or ``BYTES``, whatever the size they come in."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROWS or size >= BYTES:
            yield one_batch(held)
            held, rows, size = [], 0, 0
    if held:
        yield one_batch(held)


def one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Several batches, at least one, as one. Cost: a copy, for more than one."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """A result in batches that are blobs of a moderate size."""
    rows = ROWS
    if table.num_rows:
        rows = max(1, min(ROWS, BYTES * table.num_rows // max(table.nbytes, 1)))
    for batch in table.combine_chunks().to_batches(max_chunksize=rows):
        if batch.num_rows:
            yield batch
