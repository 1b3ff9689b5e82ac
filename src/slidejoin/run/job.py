"""A run: what it joins, and the summary at its end."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from slidejoin.columns import output_schema
from slidejoin.errors import SpecError, missing_column
from slidejoin.run.encode import check_types
from slidejoin.run.files import STDIN, Input, open_input
from slidejoin.run.target import Target, check_inputs_stay, find_target
from slidejoin.run.text import parse_condition, parse_window
from slidejoin.spec import JoinSpec, join_spec
from slidejoin.window import rows

Pair = tuple[str, str]


@dataclass(frozen=True)
class Job:
    """Two inputs, a join, and a place for its result.

    Attributes
    ----------
    has_window : bool
        Otherwise the join is of all rows, and the window of ``spec`` means nothing.
    columns : list of str
        The columns of the result, in order.
    arrive_by : (str, str), optional
        The left and the right column that rows arrive in the order of; by position unless given.
    sorts : bool
        Whether the inputs are sorted by these columns first.
    """

    left: Input
    right: Input
    spec: JoinSpec
    target: Target
    columns: list[str]
    has_window: bool = True
    arrive_by: Pair | None = None
    sorts: bool = False
    overwrite: bool = False

    @property
    def inputs(self) -> tuple[Input, Input]:
        """Both sides."""
        return self.left, self.right

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result with their types, as the inputs have them."""
        whole = _result_schema(self.spec, self.left, self.right)
        return pa.schema([whole.field(name) for name in self.columns])

    @cached_property
    def read(self) -> tuple[Input, Input]:
        """Both sides with the columns that the join, the order of arrivals or the result needs, no others."""
        left, right = (
            side.with_columns([*self.spec.reads(number), *self._arrival_column(number), *picked])
            for number, (side, picked) in enumerate(zip(self.inputs, self._picked, strict=True))
        )
        return left, right

    @cached_property
    def places(self) -> list[int]:
        """Where the columns of the result are in a join of what is read, whose suffixes may be others."""
        only = self.spec.join_type.only
        sides = [[] if only == 1 - number else side.schema.names for number, side in enumerate(self.read)]
        return [
            len(sides[0]) * number + sides[number].index(column)
            for number, column in map(self._origins.__getitem__, self.columns)
        ]

    def picked(self, table: pa.Table) -> pa.Table:
        """The columns of the result, from a table that the join of what is read has returned."""
        return table.select(self.places).rename_columns(self.columns)

    @cached_property
    def _origins(self) -> dict[str, tuple[int, str]]:
        """The side and the column that each column of the result is taken from."""
        only = self.spec.join_type.only
        columns = [
            (number, name)
            for number, side in enumerate(self.inputs)
            if only in (None, number)
            for name in side.schema.names
        ]
        return dict(zip(_result_schema(self.spec, *self.inputs).names, columns, strict=True))

    @property
    def _picked(self) -> tuple[list[str], list[str]]:
        """The columns of each side that are in the result."""
        origins = [self._origins[name] for name in self.columns]
        return [name for side, name in origins if side == 0], [name for side, name in origins if side == 1]

    def _arrival_column(self, side: int) -> list[str]:
        return [] if self.arrive_by is None else [self.arrive_by[side]]


@dataclass(frozen=True)
class Summary:
    """The figures of a finished run; None for those that an engine does not know."""

    engine: str
    left_rows: int | None
    right_rows: int | None
    result_rows: int
    files: int
    seconds: float
    output: str
    late_rows: int | None = None
    notes: list[str] = field(default_factory=list)

    def print(self, console: Console) -> None:
        """Print the table, and notes below it."""
        table = Table("slidejoin run", self.engine, show_header=True)
        table.columns[1].justify = "right"
        known = [rows for rows in (self.left_rows, self.right_rows) if rows is not None]
        figures = [
            ("left rows", self.left_rows),
            ("right rows", self.right_rows),
            ("result rows", self.result_rows),
            ("late rows", self.late_rows),
        ]
        for what, number in figures:
            if number is not None:
                table.add_row(what, f"{number:,}")
        table.add_row("seconds", f"{self.seconds:.2f}")
        if len(known) == 2:
            table.add_row("rows per second", f"{sum(known) / max(self.seconds, 1e-9):,.0f}")
        table.add_row("files", f"{self.files:,}")
        console.print(table)
        for note in self.notes:
            console.print(note, highlight=False, markup=False, soft_wrap=True)
        console.print(f"result in {self.output}", highlight=False, markup=False, soft_wrap=True)


def make_job(
    left: str,
    right: str,
    *,
    on: str,
    output: str | Path,
    window: str | None = None,
    how: str = "inner",
    suffixes: Pair = ("", "_right"),
    format_: str | None = None,
    output_format: str | None = None,
    columns: str | None = None,
    merge_by: str | None = None,
    sort_by: str | None = None,
    overwrite: bool = False,
) -> Job:
    """Parse the texts, find the files, and check what can be checked without reading rows.

    Parameters
    ----------
    columns : str, optional
        Names of columns of the result, with commas between.
    format_, merge_by, sort_by : str, optional
        One text for the left and one for the right side with a comma between, or one for both.
    """
    # The full order makes equal runs write equal files, whatever the index and the batches.
    spec = join_spec(
        parse_condition(on), rows(1) if window is None else parse_window(window), how, order="full",
        suffixes=suffixes,
    )  # fmt: skip
    if spec.window.returns_late:
        raise SpecError("slidejoin run counts late rows and does not return them; leave late='return' out")
    arrive_by = _arrival(spec, window is not None, merge_by, sort_by)
    target = find_target(output, output_format)
    if left == right == STDIN:
        raise SpecError("both inputs are standard input (-); name a file for one of them")
    formats = side_pair("--format", format_ or "", "csv,parquet")
    times = arrive_by or ("", "")
    opened = [
        open_input(*given) for given in zip((left, right), (f or None for f in formats), times, strict=True)
    ]
    check_inputs_stay(target, (left, right), [file for side in opened for file in side.files])
    job = Job(
        opened[0], opened[1], spec, target, _result_schema(spec, *opened).names,
        has_window=window is not None, arrive_by=arrive_by, sorts=sort_by is not None, overwrite=overwrite,
    )  # fmt: skip
    if columns is not None:
        job = _with_columns(job, columns)
    check_types(target, job.schema)
    return job


def _arrival(spec: JoinSpec, has_window: bool, merge_by: str | None, sort_by: str | None) -> Pair | None:
    """The columns that rows arrive in the order of."""
    given = sort_by if merge_by is None else merge_by
    if given is None:
        return spec.time
    option = "--sort-by" if merge_by is None else "--merge-by"
    if not has_window:
        raise SpecError(f"{option} is for a join with --window; without one, all rows meet in any order")
    pair = side_pair(option, given, "ts,time")
    if merge_by is not None and sort_by not in (None, merge_by):
        raise SpecError(f"--merge-by {merge_by} and --sort-by {sort_by} differ; --sort-by alone does both")
    if spec.time is None:
        return pair
    if merge_by is not None:
        raise SpecError("--merge-by is for rows(...); the window has a time column, which rows are merged by")
    if pair != spec.time:
        wanted = ",".join(dict.fromkeys(spec.time))
        raise SpecError(f"--sort-by {sort_by} is not the time of the window; give --sort-by {wanted}")
    return pair


def side_pair(option: str, given: str, example: str, single: bool = True) -> Pair:
    """A text for each side, with a comma between; if ``single``, one text is for both."""
    parts = given.split(",")
    if len(parts) == 1 and single:
        return given, given
    if len(parts) != 2:
        raise SpecError(f"{option} {given!r}; expected two texts with a comma between: {example}")
    return parts[0], parts[1]


def _result_schema(spec: JoinSpec, left: Input, right: Input) -> pa.Schema:
    return output_schema(left.schema, right.schema, spec.suffixes, spec.join_type.only)


def _with_columns(job: Job, columns: str) -> Job:
    wanted = [name.strip() for name in columns.split(",")]
    for name in wanted:
        if name not in job.columns:
            raise missing_column("the result", name, job.columns, "--columns names it")
    if len(set(wanted)) < len(wanted):
        twice = next(name for name in wanted if wanted.count(name) > 1)
        raise SpecError(f"--columns has {twice!r} twice; name each column once")
    return replace(job, columns=wanted)
