"""Columns: the schema of a DataFrame as the Arrow schema that its rows have in tasks and in state.

Times are in UTC whatever the session's zone, so that a restart under another zone finds its state again.
Everything may be null, since an outer join has rows without a side. Every type that cannot cross is a
SchemaError here, at the call, and not in a task.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types

from slidejoin.errors import SchemaError

DELAY = "spark.watermarkDelayMs"  # Spark marks the column of a watermark by this, in the field's metadata

_PLAIN = {
    "BooleanType": pa.bool_(),
    "ByteType": pa.int8(),
    "ShortType": pa.int16(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "FloatType": pa.float32(),
    "DoubleType": pa.float64(),
    "StringType": pa.string(),
    "CharType": pa.string(),
    "VarcharType": pa.string(),
    "BinaryType": pa.binary(),
    "DateType": pa.date32(),
    "TimestampType": pa.timestamp("us", "UTC"),
    "TimestampNTZType": pa.timestamp("us"),
    "DayTimeIntervalType": pa.duration("us"),
    "NullType": pa.null(),
}


def arrow_schema(schema: types.StructType, side: str) -> pa.Schema:
    """The Arrow columns of a side; SchemaError for types that cannot cross, and for two of one name."""
    fields: list[pa.Field] = []
    for field in schema.fields:
        if any(field.name == other.name for other in fields):
            raise SchemaError(f"{side} has two columns {field.name!r}; rename one of them")
        fields.append(pa.field(field.name, _arrow_type(field.dataType, f"{side} column {field.name!r}")))
    return pa.schema(fields)


def _arrow_type(type_: types.DataType, where: str) -> pa.DataType:
    kind = type(type_).__name__
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(type_, types.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, types.ArrayType):
        return pa.list_(pa.field("element", _arrow_type(type_.elementType, where)))
    if isinstance(type_, types.MapType):
        value = pa.field("value", _arrow_type(type_.valueType, where))
        return pa.map_(pa.field("key", _arrow_type(type_.keyType, where), nullable=False), value)
    if isinstance(type_, types.StructType):
        return pa.struct([pa.field(f.name, _arrow_type(f.dataType, where)) for f in type_.fields])
    raise SchemaError(
        f"{where} has the type {type_.simpleString()}, which does not cross to Python; cast it to another"
    )


def output_fields(inputs: Sequence[types.StructType], names: list[str]) -> list[Any]:
    """The fields of the result: those of the inputs under new names, nullable and without a watermark."""
    fields = [field for schema in inputs for field in schema.fields]
    return [
        types.StructField(
            name, field.dataType, True, {k: v for k, v in (field.metadata or {}).items() if k != DELAY}
        )
        for name, field in zip(names, fields, strict=True)
    ]
