"""A join that is killed and continues: increments of its state in a directory, no lost results.

The worker reads orders and payments batch by batch. After each batch it saves the new part of the
join's state, the number of batches that it has read and the number of results. It is killed several times, at
random points. After each restart it continues from the last complete state. In the end the results are those
of a run that was never killed. (To survive a power cut as well, sync files and directory before the rename.)
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import slidejoin as sj

BATCHES = 60
ON = sj.equal("customer") & sj.band("amount", "paid", within=0.05)
WINDOW = sj.interval(before=0, after=300, time="ts", lateness=30)


def batch(number: int) -> tuple[str, dict[str, object]]:
    """The rows of a batch: a source that can be read again."""
    rng = np.random.default_rng(number)
    side, n = ("left", "right")[number % 2], 400
    amount = ("amount", "paid")[number % 2]
    return side, {
        f"{side}_id": np.arange(n) + 1000 * number,
        "customer": rng.integers(0, 50, n),
        amount: np.round(rng.uniform(0, 100, n), 2),
        "ts": number * 20 + rng.integers(0, 40, n),
    }


def worker(directory: Path) -> None:
    """Join all batches; begin where an earlier worker stopped."""
    state = directory / "state.json"
    kept: set[str] = set()
    token, done, found = None, 0, 0
    join = sj.WindowJoin(ON, WINDOW, how="left")
    if state.exists():
        saved = json.loads(state.read_text())
        kept, token, done, found = set(saved["chunks"]), saved["token"], saved["done"], saved["found"]
        chunks = {name: (directory / name).read_bytes() for name in kept}
        join = sj.WindowJoin.restore((directory / saved["head"]).read_bytes(), chunks=chunks)
    for number in range(done, BATCHES):
        side, rows = batch(number)
        found += join.push(**{side: rows}).num_rows
        new = join.snapshot_since(token)
        # Write new files, make them the state by one rename, then delete the dead ones.
        for name, data in new.chunks.items():
            (directory / name).write_bytes(data)
        head = f"head-{number}"
        (directory / head).write_bytes(new.head)
        kept = (kept | set(new.chunks)) - set(new.dead)
        token = new.token
        saved = {"head": head, "chunks": sorted(kept), "token": token, "done": number + 1, "found": found}
        (directory / "new.json").write_text(json.dumps(saved))
        os.replace(directory / "new.json", state)
        for file in [*new.dead, f"head-{number - 1}"]:
            (directory / file).unlink(missing_ok=True)
    found += join.finish().num_rows
    (directory / "result").write_text(str(found))


def main() -> None:
    """Kill three workers, and let the next one finish."""
    join = sj.WindowJoin(ON, WINDOW, how="left")
    expected = sum(join.push(**{side: rows}).num_rows for side, rows in map(batch, range(BATCHES)))
    expected += join.finish().num_rows
    killed = 0
    moment = random.Random(3)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        while not (directory / "result").exists():
            process = subprocess.Popen([sys.executable, __file__, name])
            if killed < 3:
                begin = (directory / "state.json").stat().st_mtime_ns if killed else 0
                while process.poll() is None:  # wait for its first state
                    state = directory / "state.json"
                    if state.exists() and state.stat().st_mtime_ns != begin:
                        time.sleep(moment.uniform(0, 0.05))
                        process.send_signal(signal.SIGKILL)
                        killed += 1
                        break
            process.wait()
        found = int((directory / "result").read_text())
        bytes_kept = sum(file.stat().st_size for file in directory.iterdir())
    print(f"killed {killed} times, {found:,} results, {expected:,} without a kill; {bytes_kept:,} bytes kept")
    if found != expected:
        sys.exit("results differ")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        worker(Path(sys.argv[1]))
    else:
        main()
