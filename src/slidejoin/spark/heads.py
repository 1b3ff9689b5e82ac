"""Heads: what the state of a join is after each micro-batch, one file for each partition.

Files of a state, all immutable::

    <state_dir>/<query id>/<name of the join>/
        heads/<batch>/<partition>-<partitions>-….head    JSON: the live runs of a partition, and the watermark
        heads/<batch>/….figures                          JSON: counters of a task, for readers only
        heads/<batch>/<run>-<token>.begun                empty: tasks of a join that is not inner have begun
        runs/<batch>/<partition>-<token>-….arrow         rows in the order of their keys; bits of rows

A head is written last, so what it names is complete.
"""

import json
import zlib
from dataclasses import dataclass
from typing import Any

from slidejoin.errors import StateError
from slidejoin.spark.files import Folder

VERSION = 2  # of the files; 1 was the state in Spark's own store


@dataclass(frozen=True)
class StoredRun:
    """A run as a head has it: a file of rows of one side, in the order of their keys."""

    file: str
    checksum: int
    size: int  # bytes
    rows: int
    least: int  # timestamps: the least, the median and the greatest
    middle: int
    greatest: int
    bits: str | None = None  # file that tells which rows have matched; ``None``: no row has
    bits_checksum: int = 0


@dataclass
class Head:
    """The state of a partition after a micro-batch.

    Attributes
    ----------
    watermark : int, optional
        That of the micro-batch: rows before it were late.
    runs : list of ([StoredRun, …], [StoredRun, …])
        The live runs of both sides, the oldest first; a full join may have two such halves.
    """

    query: str
    meaning: dict[str, Any]
    watermark: int | None
    runs: list[tuple[list[StoredRun], list[StoredRun]]]
    greatest: tuple[int | None, int | None] = (None, None)
    seen: tuple[int | None, int | None] = (None, None)

    def to_json(self) -> bytes:
        """As the content of a file."""
        runs = [[[vars(run) for run in side] for side in half] for half in self.runs]
        data = {
            "slidejoin state": VERSION, "query": self.query, "meaning": self.meaning,
            "watermark": self.watermark, "greatest": self.greatest, "seen": self.seen, "runs": runs,
        }  # fmt: skip
        return json.dumps({**data, "checksum": _checksum(data)}).encode()

    @classmethod
    def read(cls, folder: Folder, name: str) -> "Head":
        """Read a head; StateError if it is not one."""
        try:
            data = json.loads(folder.map(name).to_pybytes())
            if data["slidejoin state"] != VERSION:
                raise StateError(
                    f"{name} has state of version {data['slidejoin state']!r}, this slidejoin reads version "
                    f"{VERSION}; use the one that wrote it, or start with a new checkpointLocation"
                )
            if data.pop("checksum") != _checksum(data):
                raise ValueError("its checksum is another one")
            runs = [tuple([StoredRun(**run) for run in side] for side in half) for half in data["runs"]]
            known = data["query"], data["meaning"], data["watermark"]
            return cls(*known, runs, tuple(data["greatest"]), tuple(data["seen"]))  # type: ignore[arg-type]
        except FileNotFoundError:
            raise StateError(f"{name} is gone; the state directory must stay as the query left it") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(f"{name} is damaged: {error!r}") from None


def _checksum(data: Any) -> int:
    return zlib.crc32(json.dumps(data).encode())
