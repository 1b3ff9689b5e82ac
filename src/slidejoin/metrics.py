"""Metrics: the figures of joins as families of samples, and these as text for Prometheus and OpenMetrics.

A family has the attributes that ``prometheus_client`` expects of a custom collector's metrics, so a registry
takes it as it is; nothing is imported for that. docs/watch.md lists the names, which do not change.
"""

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from slidejoin.errors import SpecError, suggestion
from slidejoin.sampling import Reading
from slidejoin.window import Rows

Labels: TypeAlias = Mapping[str, str]
Number: TypeAlias = int | float

QUANTILES = (0.5, 0.9, 0.99, 1.0)
_LATENCY_BITS = range(13, 35)  # upper ends of the histogram: powers of two from 8 us to 17 s
_OWN_LABELS = ("side", "index", "le", "quantile", "how", "on", "window")


class MetricSample(NamedTuple):
    """A number with its name and labels."""

    name: str
    labels: dict[str, str]
    value: Number
    timestamp: None = None
    exemplar: None = None
    native_histogram: None = None


@dataclass
class Family:
    """Samples that belong together: one metric.

    Attributes
    ----------
    name : str
        Without the endings of its samples, such as ``_total``.
    type : str
        ``counter``, ``gauge``, ``histogram``, ``summary`` or ``info``.
    unit : str
        The end of the name, or empty.
    """

    name: str
    documentation: str
    type: str
    unit: str = ""
    samples: list[MetricSample] = field(default_factory=list)

    def add(self, value: Number, labels: Labels, ending: str = "", **more: str) -> None:
        """Add a sample; ``ending`` follows the name."""
        self.samples.append(MetricSample(self.name + ending, {**labels, **more}, value))


def families(readings: Iterable[tuple[Labels, Reading]]) -> list[Family]:
    """The metrics of joins, each with its labels; the wall clock tells how far watermarks are behind."""
    result = [Family(*described) for described in _FAMILIES]
    by_name = {family.name.removeprefix("slidejoin_"): family for family in result}
    for labels, reading in readings:
        _check(labels)
        _add(by_name, labels, reading)
    return [family for family in result if family.samples]


def metrics_text(readings: Iterable[tuple[Labels, Reading]], format_: str) -> str:
    """The metrics of joins as text."""
    return text_of(families(readings), format_)


def family(name: str) -> Family:
    """One of the metrics by its name, without samples."""
    return Family(*next(described for described in _FAMILIES if described[0] == name))


def text_of(metrics: Iterable[Family], format_: str) -> str:
    """Families as text."""
    if format_ not in _FORMATS:
        raise SpecError(
            f"format={format_!r}; expected {' or '.join(map(repr, _FORMATS))}{suggestion(format_, _FORMATS)}"
        )
    return _FORMATS[format_](metrics)


def content_type(format_: str) -> str:
    """The media type of a text."""
    if format_ == "openmetrics":
        return "application/openmetrics-text; version=1.0.0; charset=utf-8"
    return "text/plain; version=0.0.4; charset=utf-8"


# --- what is measured ---

_FAMILIES = (
    ("slidejoin_join", "What is joined.", "info"),
    ("slidejoin_rows", "Rows that arrived in time.", "counter"),
    ("slidejoin_matches", "Pairs found.", "counter"),
    ("slidejoin_late_rows", "Rows that came after the watermark had passed them.", "counter"),
    ("slidejoin_null_rows", "Rows with a null key or timestamp.", "counter"),
    ("slidejoin_stored_rows", "Rows in the window, which may still match.", "gauge"),
    ("slidejoin_window_rows", "Rows that a window of rows can hold.", "gauge"),
    ("slidejoin_memory_bytes", "Memory of the join.", "gauge", "bytes"),
    ("slidejoin_watermark", "The watermark, where timestamps are integers.", "gauge"),
    ("slidejoin_watermark_timestamp_seconds", "The watermark as Unix time.", "gauge", "seconds"),
    ("slidejoin_watermark_delay_seconds", "Wall clock minus watermark.", "gauge", "seconds"),
    ("slidejoin_index", "The index in use.", "info"),
    ("slidejoin_index_changes", "How often another index was chosen.", "counter"),
    ("slidejoin_workers", "Threads that share the work of a push.", "gauge"),
    ("slidejoin_ended", "1 if the join takes no more rows.", "gauge"),
    ("slidejoin_rows_per_second", "Rows per second, over the last ten seconds.", "gauge"),
    ("slidejoin_push_duration_seconds", "Time that a push took to join its rows.", "histogram", "seconds"),
    ("slidejoin_push_recent_seconds", "The same, over the last ten seconds.", "summary", "seconds"),
    ("slidejoin_sample_age_seconds", "Age of these figures; grows while a push runs.", "gauge", "seconds"),
)  # fmt: skip


def _add(to: Mapping[str, Family], labels: Labels, reading: Reading) -> None:
    sample, spec = reading.sample, reading.spec
    stats: Any = sample.stats
    to["join"].add(1, labels, "_info", how=spec.how, on=repr(spec.on), window=repr(spec.window))
    for side in ("left",) if spec.self_join else ("left", "right"):
        to["rows"].add(stats[f"rows_{side}"], labels, "_total", side=side)
        to["late_rows"].add(stats[f"late_{side}"], labels, "_total", side=side)
        to["null_rows"].add(stats[f"null_{side}"], labels, "_total", side=side)
        to["stored_rows"].add(stats[f"stored_{side}"], labels, side=side)
        if isinstance(spec.window, Rows):
            to["window_rows"].add(getattr(spec.window, side), labels, side=side)
    to["matches"].add(stats["matches"], labels, "_total")
    to["memory_bytes"].add(stats["memory_bytes"], labels)
    watermark = stats["watermark"]
    if isinstance(watermark, int):
        to["watermark"].add(watermark, labels)
    elif watermark is not None:
        to["watermark_timestamp_seconds"].add(unix_seconds(watermark), labels)
        to["watermark_delay_seconds"].add(time.time() - unix_seconds(watermark), labels)
    if sample.index is not None:
        to["index"].add(1, labels, "_info", index=sample.index[0])
        to["index_changes"].add(sample.index[2], labels, "_total")
    to["workers"].add(sample.workers, labels)
    to["ended"].add(int(bool(sample.ended)), labels)
    to["rows_per_second"].add(reading.rows_per_second, labels)
    _add_latencies(to["push_duration_seconds"], to["push_recent_seconds"], labels, reading)
    to["sample_age_seconds"].add((reading.at - sample.at) / 1e9, labels)


def _add_latencies(histogram: Family, summary: Family, labels: Labels, reading: Reading) -> None:
    latencies = reading.latencies
    for bits in _LATENCY_BITS:
        histogram.add(latencies.up_to(2**bits), labels, "_bucket", le=_number(2**bits / 1e9))
    histogram.add(latencies.pushes, labels, "_bucket", le="+Inf")
    for quantile in QUANTILES:
        summary.add(reading.recent.quantile(quantile), labels, quantile=_number(quantile))
    for family in (histogram, summary):
        family.add(latencies.pushes, labels, "_count")
        family.add(latencies.seconds, labels, "_sum")


def unix_seconds(instant: datetime | np.datetime64) -> float:
    """A point in time as seconds since 1970; without a zone it is in UTC.

    Examples
    --------
    >>> unix_seconds(datetime(1970, 1, 1, 0, 1)), unix_seconds(np.datetime64("1970-01-01T00:00:00.5"))
    (60.0, 0.5)
    """
    if isinstance(instant, np.datetime64):
        return int(instant.astype("datetime64[ns]").astype(np.int64)) / 1e9
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()


def _check(labels: Labels) -> None:
    for name, value in labels.items():
        if not isinstance(name, str) or not re.fullmatch(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", name):
            raise SpecError(f"label {name!r}; expected letters, digits and _, no digit and no __ first")
        if name in _OWN_LABELS:
            raise SpecError(f"label {name!r} is one of the metrics' own; take another name")
        if not isinstance(value, str):
            raise SpecError(f"label {name}={value!r}; expected a text")


# --- text ---


def _prometheus(metrics: Iterable[Family]) -> str:
    lines = []
    for family in metrics:
        ending = {"counter": "_total", "info": "_info"}.get(family.type, "")
        type_ = "gauge" if family.type == "info" else family.type
        lines += [f"# HELP {family.name}{ending} {family.documentation}"]
        lines += [f"# TYPE {family.name}{ending} {type_}", *map(_line, family.samples)]
    return "\n".join([*lines, ""])


def _openmetrics(metrics: Iterable[Family]) -> str:
    lines = []
    for family in metrics:
        lines += [f"# HELP {family.name} {family.documentation}", f"# TYPE {family.name} {family.type}"]
        lines += [f"# UNIT {family.name} {family.unit}"] * bool(family.unit)
        lines += map(_line, family.samples)
    return "\n".join([*lines, "# EOF", ""])


_FORMATS: dict[str, Callable[[Iterable[Family]], str]] = {
    "prometheus": _prometheus,
    "openmetrics": _openmetrics,
}


def _line(sample: MetricSample) -> str:
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
    return f"{sample.name}{'{' * bool(labels)}{labels}{'}' * bool(labels)} {_number(sample.value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: Number) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(value)
