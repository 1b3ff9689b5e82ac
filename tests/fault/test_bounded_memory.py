"""A join with max_memory stays near it, whatever the keys: in a process of its own, by its resident size."""

import json
import subprocess
import sys

import pytest

MIB = 2**20
CAP = 128 * MIB
SLACK = 64 * MIB

PROGRAM = """
import json, resource, sys
import numpy as np
import pyarrow as pa
import slidejoin as sj

cap, payload = int(sys.argv[1]), sys.argv[2]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def rows(count):
    columns = {"k": np.full(count, 7), "n": np.arange(count)}
    if payload == "text":
        columns["text"] = pa.array(["some words that take room"] * count)
    return pa.table(columns)


warm = sj.WindowJoin(sj.equal("k"), sj.rows(1000))
warm.push(left=rows(1000))
for _ in warm.push_iter(right=rows(10)):
    pass
before = peak()
join = sj.WindowJoin(sj.equal("k"), sj.rows(10**8), max_memory=cap)
held, pairs, refused = 0, 0, 0
while True:
    try:
        join.push(left=rows(20_000))
        held += 20_000
    except sj.CapacityError:
        refused += 1
        break
for _ in range(3):
    for chunk in join.push_iter(right=rows(2)):
        pairs += chunk.num_rows
join.check()
print(json.dumps({"grown": peak() - before, "held": held, "pairs": pairs, "refused": refused}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sizes are those of Linux")
@pytest.mark.parametrize("payload", ["numbers", "text"])
def test_all_equal_keys_stay_within_the_limit(payload):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(CAP), payload], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["refused"] == 1
    assert answer["pairs"] == 6 * answer["held"]
    assert answer["held"] > 300_000
    assert answer["grown"] <= CAP + SLACK, f"{answer['grown'] / MIB:.0f} MiB"
