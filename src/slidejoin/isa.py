"""Instruction sets of the native core.

The core exists once per level (``portable``, ``avx2``, ``avx512``) and a join runs on the fastest one
that the processor supports. All levels give the same answers. ``SLIDEJOIN_ISA=avx2`` in the environment,
or :func:`use` in a test, forces a level for the joins that are created under it.
"""

import contextlib
import os
from collections.abc import Iterator

from slidejoin import _core
from slidejoin.errors import SpecError

_forced: str | None = None


def available() -> tuple[str, ...]:
    """Levels that this processor can run, slowest first."""
    return tuple(_core.levels())


def current() -> str:
    """Level that a join created now would use."""
    level = _forced or os.environ.get("SLIDEJOIN_ISA", "")
    if not level:
        return available()[-1]
    if level not in available():
        raise SpecError(f"instruction set {level!r}; this machine has {', '.join(available())}")
    return level


@contextlib.contextmanager
def use(level: str) -> Iterator[None]:
    """Create joins on the given level inside a ``with`` block.

    Examples
    --------
    >>> import slidejoin.isa
    >>> with slidejoin.isa.use("portable"):
    ...     slidejoin.isa.current()
    'portable'
    """
    global _forced  # noqa: PLW0603 - one process-wide setting, for tests
    before = _forced
    _forced = level
    try:
        current()
        yield
    finally:
        _forced = before
