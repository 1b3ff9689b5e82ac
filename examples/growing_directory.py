"""Join two directories in which files appear, while they appear; go on after a restart where it was.

Another program writes Parquet files whose names sort in the order of their time. It writes each file under a
hidden name and renames it, so a file is whole when it is seen. The offset of a source is the name of the last
file that was joined. Here a thread plays the other program. A file named "last" ends a source; without one,
run() waits for further files until it is stopped.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import slidejoin as sj

ON = sj.equal("machine") & sj.band("load", "power", within=2.0)
WINDOW = sj.within(30, time="ts")


def files_of(folder: Path) -> Callable[[Any], Iterator[sj.Batch | None]]:
    """A source for run(): the files of a folder by name, those after the offset."""

    def batches(offset: Any) -> Iterator[sj.Batch | None]:
        done = offset or ""
        while True:
            names = sorted(path.name for path in folder.glob("*.parquet"))
            is_over = (folder / "last").exists()
            for name in names:
                if name > done:
                    done = name
                    yield sj.Batch(pq.read_table(folder / name), offset=name)
            if is_over:
                return
            yield None  # nothing now
            time.sleep(0.02)

    return batches


def write(folder: Path, column: str, seed: int, files: int) -> None:
    """What the other program does."""
    rng = np.random.default_rng(seed)
    for number in range(files):
        table = pa.table(
            {
                "ts": np.sort(rng.integers(0, 100, 200)) + 100 * number,
                "machine": rng.integers(0, 20, 200),
                column: rng.uniform(0, 100, 200),
            }
        )
        pq.write_table(table, folder / ".part")
        (folder / ".part").rename(folder / f"{number:06}.parquet")
        time.sleep(0.01)
    (folder / "last").touch()


def main() -> None:
    """Join the files; stop in between, and go on with another join from the snapshot."""
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place, name) for name in ("loads", "powers")]
        writers = []
        for seed, (folder, column) in enumerate(zip(folders, ("load", "power"), strict=True)):
            folder.mkdir()
            writers.append(threading.Thread(target=write, args=(folder, column, seed, 20)))
            writers[-1].start()
        matches: list[pa.Table] = []
        for most in (5, None):
            join = sj.WindowJoin(ON, WINDOW)
            run = join.run(
                left=files_of(folders[0]),
                right=files_of(folders[1]),
                snapshot=Path(place, "join.state"),
                resume=True,
            )
            print(f"begins behind {run.offsets}")
            for table in run:
                matches.append(table)
                if len(matches) == most:
                    run.stop()  # joins what was read, and writes a snapshot
            print(f"{run.result_rows:,} matches, up to {run.offsets}")
        for writer in writers:
            writer.join()
        assert sum(table.num_rows for table in matches) == run.result_rows


if __name__ == "__main__":
    main()
