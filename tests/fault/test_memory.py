"""Memory that runs out in the middle of a batch: an error now, an error afterwards, never a wrong answer."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import numpy as np
import slidejoin as sj

join = sj.NumericJoin(10**6, 0, 0, np.int32)
sides = np.repeat(np.array([0, 1], np.uint8), 20_000)
keys = np.zeros(40_000, np.int32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, resource.RLIM_INFINITY))
try:
    join.push(sides, keys)  # 400 million pairs
except MemoryError:
    print("MemoryError")
for call in (lambda: join.push(sides[:1], keys[:1]), join.check):
    try:
        call()
    except sj.StateError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on a process's memory")
def test_out_of_memory():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == [
        "MemoryError",
        "an earlier push ran out of memory; this join cannot go on",
        "an earlier push ran out of memory; this join cannot go on",
    ], run.stderr
