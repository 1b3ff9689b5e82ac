"""Tables as text, for the note of a snapshot: Arrow's stream format in base64."""

import base64

import pyarrow as pa


def to_text(table: pa.Table) -> str:
    """A table as text. Cost: a copy.

    Examples
    --------
    >>> from_text(to_text(pa.table({"x": [1, 2]}))).to_pydict()
    {'x': [1, 2]}
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode("ascii")


def from_text(text: str) -> pa.Table:
    """The table that :func:`to_text` wrote."""
    with pa.ipc.open_stream(base64.b64decode(text, validate=True)) as reader:
        return reader.read_all()
