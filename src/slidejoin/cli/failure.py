"""How a command ends that cannot go on: one line that says why, and exit code 1."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Never

import pyarrow as pa
import typer
from rich.console import Console

from slidejoin.errors import Error


def fail(message: str, code: int = 1) -> Never:
    """Print a message as an error and end with an exit code."""
    Console(stderr=True).print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(code)


@contextmanager
def one_line() -> Iterator[None]:
    """End with a line that says what is wrong, if it is the input or the machine and not the program."""
    try:
        yield
    except (Error, pa.ArrowException, OSError) as error:
        fail(str(error))
