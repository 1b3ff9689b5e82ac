"""Tidying up: what no micro-batch will need any more is removed."""

from slidejoin.spark.files import Folder
from slidejoin.spark.heads import Head
from slidejoin.spark.marks import batches, head_folder, marks_of

KEPT = 100  # batches


def tidy(folder: Folder, batch: int, kept: int = KEPT) -> None:
    """Remove the heads of old micro-batches, and the runs that no kept head names.

    Cost: O(kept heads), so it is called now and then.
    """
    old = batch - kept
    if old <= 0:
        return
    there = batches(folder)
    last = max((number for number in there if number < batch), default=-1)  # the base, however old
    stale = [number for number in there if number < min(old, last)]
    named: set[str] = set()
    for number in there:
        if number in stale:
            continue
        for mark in marks_of(folder, number):
            for half in Head.read(folder, f"{head_folder(number)}/{mark.name}").runs:
                for run in (*half[0], *half[1]):
                    named.update(file for file in (run.file, run.bits) if file is not None)
    for number in stale:
        _remove_folder(folder, head_folder(number), set())
    for name in folder.names("runs"):
        if name.isdigit() and int(name) < old:
            _remove_folder(folder, f"runs/{name}", named)


def _remove_folder(folder: Folder, path: str, named: set[str]) -> None:
    names = [f"{path}/{name}" for name in folder.names(path)]
    unused = [name for name in names if name not in named]
    folder.remove(unused)
    if len(unused) == len(names):
        folder.remove([path])
