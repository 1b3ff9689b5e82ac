"""What the tests of the benchmarks share: the native programs, if they are there, and what makes a line."""

import math

import pytest

from benchmarks import peer

PROGRAM = peer.program()
ABSL = PROGRAM is not None and peer.about(PROGRAM)["absl"]

needs_programs = pytest.mark.skipif(PROGRAM is None, reason="needs `make peers`")
needs_absl = pytest.mark.skipif(not ABSL, reason="needs libabsl-dev and `make peers`")


def check_lines(results):
    assert len({result.what for result in results}) == len(results)
    for result in results:
        if result.note is None:
            assert math.isfinite(result.value), result.what
            assert result.value > 0, result.what
