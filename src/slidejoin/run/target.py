"""Where a result goes: a file, a directory of Parquet files, or standard output; and what it may replace."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slidejoin.errors import SpecError, suggestion
from slidejoin.run.formats import ENDINGS, GZIP, STREAM_ENDING, check_format, format_of, known_endings

STDOUT = "-"


@dataclass(frozen=True)
class Target:
    """A place and a format; ``path`` is None for standard output."""

    path: Path | None
    format: str
    is_directory: bool = False

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard output" if self.path is None else str(self.path)

    @property
    def is_stream(self) -> bool:
        """Whether Arrow's stream format is written, not its file format."""
        return self.path is None or self.path.name.lower().endswith(STREAM_ENDING)


def find_target(output: str | Path, format_: str | None = None) -> Target:
    """Read ``--output`` and ``--output-format``.

    A name with a known ending, or a format, means a file. Names without an ending, existing directories and
    names that end with a slash mean a directory of Parquet files. Other endings are a SpecError.

    Examples
    --------
    >>> find_target("near.csv").format, find_target("near").is_directory, find_target("-").format
    ('csv', True, 'csv')
    """
    text = str(output)
    if format_ is not None:
        check_format("--output-format", format_)
    if text == STDOUT:
        return Target(None, format_ or "csv")
    path = Path(text)
    if path.name.lower().endswith(GZIP):
        raise SpecError(f"{text}: compressed text is not written; use '--output - | gzip', or Parquet")
    if text.endswith(os.sep) or path.is_dir():
        if format_ not in (None, "parquet"):
            raise SpecError(f"{text} is a directory, which holds Parquet; name a file for {format_}")
        return Target(path, "parquet", is_directory=True)
    told = format_ or format_of(path.name)
    if told is None and path.suffix:
        endings = [ending for known in ENDINGS.values() for ending in known]
        raise SpecError(
            f"{text}: the ending {path.suffix} tells no format ({known_endings()}); give --output-format for "
            f"a file of this name, or write {text}{os.sep} for a directory of Parquet files"
            f"{suggestion(path.suffix, endings)}"
        )
    return Target(path, told or "parquet", is_directory=told is None)


def check_free(target: Target, overwrite: bool) -> None:
    """Refuse to replace a result, unless it may be, and to write through a symbolic link."""
    path = target.path
    if path is None:
        return
    if path.is_symlink():
        raise SpecError(f"{path} is a symbolic link to {os.path.realpath(path)}; name that one as --output")
    if not target.is_directory:
        if path.is_dir():
            raise SpecError(f"{path} is a directory; name a file for {target.format}")
        if path.exists() and not overwrite:
            raise SpecError(f"{path} exists; choose another name or give --overwrite")
        return
    if path.exists() and not path.is_dir():
        raise SpecError(f"{path} is a file; expected a directory for the result")
    if not overwrite and path.is_dir() and any(path.iterdir()):
        raise SpecError(f"{path} is not empty; choose another directory or give --overwrite")


def check_inputs_stay(target: Target, paths: Iterable[str], files: Iterable[str]) -> None:
    """Refuse a target that would replace an input file, or be read by the next run.

    Parameters
    ----------
    target : Target
        Where the result goes.
    paths, files : iterable of str
        The inputs as they were given, and their files.
    """
    if target.path is None:
        return
    place = Path(os.path.realpath(target.path))
    for file in files:
        real = Path(os.path.realpath(file))
        if real == place or place in real.parents:
            raise SpecError(f"--output {target.path} would replace the input {file}; choose another place")
    for path in paths:
        if os.path.isdir(path) and Path(os.path.realpath(path)) in place.parents:
            raise SpecError(f"--output {target.path} lies in the input {path}; choose a place outside of it")
