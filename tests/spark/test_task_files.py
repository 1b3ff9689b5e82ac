"""Files of the state that are gone, foreign, old, torn or damaged, and disks that are full.

A task says so with a StateError; it never gives a wrong result, and never raises another error.
"""

import errno
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

pytest.importorskip("pyspark")

from spark.streams import LONG
from spark.tasks import ON, Query, assert_right, at, forget_files, killed, recipe, small_streams

from slidejoin.errors import SpecError, StateError
from slidejoin.spark import files, runs, task

pytestmark = pytest.mark.usefixtures("no_sync")
HOW = "full"


@pytest.fixture(scope="module")
def streams():
    return small_streams(seed=21, batches=4, rows=10)


@pytest.fixture
def query(streams, tmp_path):
    """A query that has run three micro-batches; the rows of the fourth one are there."""
    query = Query(recipe(streams, tmp_path / "state", ON["hash+cells"], HOW))
    for batch in range(3):
        query.batch(batch, at(streams, batch))
    query.restart()
    forget_files()
    return query


def folder(query):
    return Path(query.plan.state_dir) / query.id / query.plan.name


def refused(query, streams, *words, batch=3):
    with pytest.raises(StateError) as caught:
        query.batch(batch, at(streams, batch))
    assert type(caught.value) is StateError
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, str(caught.value)


def used(query):
    """The files that the next micro-batch starts from."""
    found = list((folder(query) / "heads" / f"{2:012d}").glob("*.head"))
    for path in list(found):
        for half in json.loads(path.read_text())["runs"]:
            names = [run[kind] for side in half for run in side for kind in ("file", "bits") if run[kind]]
            found += [folder(query) / name for name in names]
    assert {path.suffix for path in found} == {".head", ".arrow", ".bits"}
    return found


# --- What is missing ---


def test_all_is_removed(query, streams):
    shutil.rmtree(query.plan.state_dir)
    refused(query, streams, "batch 3 of query query finds no state", "state directory removed", "startEmpty")


def test_another_state_directory_or_name(query, streams, tmp_path):
    query.restart(state_dir=str(tmp_path / "elsewhere"))
    refused(query, streams, "finds no state", "Start with the one that the query had")
    query.restart(state_dir=str(tmp_path / "state"), name="other")
    refused(query, streams, "finds no state")


def test_a_part_is_removed(query, streams, tmp_path):
    shutil.copytree(tmp_path / "state", tmp_path / "whole")
    noticed = 0
    for path in used(query) if LONG else used(query)[::4]:
        path.unlink()
        forget_files()
        words = "cannot go on from batch 2" if path.suffix == ".head" else f"{path.name} is gone"
        try:
            query.batch(3, at(streams, 3))
            assert_right(query.results, streams, "hash+cells", HOW)  # a run that no new row can match
        except StateError as error:
            noticed += words in str(error)
        shutil.rmtree(tmp_path / "state")
        shutil.copytree(tmp_path / "whole", tmp_path / "state")
    assert noticed > (10 if LONG else 3)
    shutil.rmtree(folder(query) / "heads" / f"{2:012d}")
    refused(query, streams, "batch 2", "left rows and no state")
    query.batch(2, at(streams, 2))  # whose state can be made again
    query.batch(3, at(streams, 3))
    assert_right(query.results, streams, "hash+cells", HOW)


# --- What is of others ---


def test_the_state_of_another_query_or_join(query, streams, tmp_path):
    query.id = "another"
    shutil.move(tmp_path / "state" / "query", tmp_path / "state" / "another")
    refused(query, streams, "is that of query query", "checkpointLocation")
    query.id = "query"
    shutil.move(tmp_path / "state" / "another", tmp_path / "state" / "query")
    for changes, words in {
        (("how", "left"),): "its how: 'full', now: 'left'",
        (("on", ON["cells"]),): "its join: ",
    }.items():
        options = {"on": ON["hash+cells"], "how": HOW} | dict(changes)
        other = Query(recipe(streams, tmp_path / "state", **options), run="another run")
        refused(other, streams, "the state of this query is of another join", words, "call join as before")


def test_the_state_of_another_version(query, streams):
    for path in used(query):
        if path.suffix == ".head":
            path.write_text(path.read_text().replace('"slidejoin state": 2', '"slidejoin state": 1'))
    refused(
        query, streams, "has state of version 1, this slidejoin reads version 2", "new checkpointLocation"
    )


# --- What is damaged ---


def test_every_byte_counts(query, streams):
    """Heads, runs and bits, torn or with a changed byte at any place."""
    sink = dict(query.sink)
    paths = {path.suffix: path for path in reversed(used(query))}
    step = 1 if LONG else 9
    for suffix, path in paths.items():
        content = path.read_bytes()
        damaged = [content[:length] for length in (0, 1, 8, len(content) // 2, len(content) - 1)]
        damaged += [
            content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]
            for place in range(
                0 if suffix == ".head" else 3, len(content), step if suffix == ".head" else 13 * step
            )
        ]
        for torn in damaged:
            replaced(path, torn)
            with pytest.raises(StateError, match=r"is damaged|is gone|of version|another join|that of query"):
                list(query.task(3, int(path.name[0]), []).results())
        replaced(path, content)
    query.sink = sink
    query.batch(3, at(streams, 3))
    assert_right(query.results, streams, "hash+cells", HOW)


def replaced(path, content):
    path.unlink()  # the old one may be mapped
    path.write_bytes(content)
    forget_files()


def test_files_that_belong_to_nobody(query, streams):
    """Leftovers and strange names in the folders are no state."""
    for place in ("heads", "runs"):
        for name in (
            "000000000002/.0a1b-0.tmp",
            "000000000002/notes.txt",
            "000000000002/1-2-3.head",
            "x/y.head",
        ):
            (folder(query) / place / name).parent.mkdir(exist_ok=True)
            (folder(query) / place / name).write_text("{")
    (folder(query) / "heads" / f"{3:012d}").mkdir()
    query.batch(3, at(streams, 3))
    assert_right(query.results, streams, "hash+cells", HOW)


# --- A full disk ---


class Full:
    """A file on a disk that has room for a number of files, and for half of another one."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def write(self, content):
        self._room[0] -= 1
        if self._room[0] < 0:
            self._file.write(memoryview(content)[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        self._file.write(content)


@pytest.mark.parametrize("how", ["inner", HOW])
def test_a_full_disk(streams, tmp_path, how):
    """At any file: the task fails, and the next attempt works once there is room."""
    query = Query(recipe(streams, tmp_path, ON["cells"], how))
    query.batch(0, at(streams, 0))
    failures = 0
    for batch in range(1, 4):
        for room in range(100):
            left, real = [room], pa.OSFile
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(pa, "OSFile", lambda *how, left=left, real=real: Full(real(*how), left))
                try:
                    query.batch(batch, at(streams, batch))
                except OSError:
                    failures += 1
                else:
                    break
            assert not any(tmp_path.rglob(".*.tmp"))
    assert failures >= 20
    assert_right(query.results, streams, "cells", how)


def test_few_files_stay_mapped(streams, tmp_path, monkeypatch):
    """The least recently used ones go; what a task has read does not depend on it."""
    for number, (most, size) in enumerate([(3, 2**30), (256, 5000), (256, 1)]):
        forget_files()
        monkeypatch.setattr(runs, "MAPPED", most)
        monkeypatch.setattr(runs, "MAPPED_BYTES", size)
        query = Query(recipe(streams, tmp_path / str(number), ON["cells"], HOW))
        query.all(streams)
        sizes = [size_ for _, size_ in runs._mapped.values()]
        assert len(sizes) <= most
        assert sum(sizes) <= size
        assert (len(sizes) > 1) == (size > 1)
        assert_right(query.results, streams, "cells", HOW)


def test_counters_that_cannot_be_written(streams, tmp_path):
    """Nothing depends on them: the task goes on."""
    write = files.LocalFolder.write

    def refuse(self, wanted, sync=True):
        if any(name.endswith(".figures") for name in wanted):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, wanted, sync)

    query = Query(recipe(streams, tmp_path, ON["cells"], HOW))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.LocalFolder, "write", refuse)
        query.all(streams)
    assert_right(query.results, streams, "cells", HOW)


# --- Remote folders ---


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """State directories are on a file system that is not local, and their caches are empty."""
    place = tmp_path / "far"
    place.mkdir()
    (tmp_path / "cache").mkdir()
    system = fs.SubTreeFileSystem(str(place), fs.LocalFileSystem())
    monkeypatch.setattr(
        task, "open_folder", lambda *path: files.RemoteFolder(system, "/".join(path).lstrip("/"))
    )
    monkeypatch.setattr(files.tempfile, "gettempdir", lambda: str(tmp_path / "cache"))
    return place


@pytest.mark.parametrize("stores", ["a file system", "an object store"])
def test_a_remote_folder(remote, streams, tmp_path, monkeypatch, stores):
    """With tasks that die, and a cache that is emptied between two batches or too small for any file."""
    if stores == "an object store":
        monkeypatch.setattr(files, "_OBJECT_STORES", ("subtree",))
        for name in ("heads", "runs"):  # which an object store does not need
            for batch in range(4):
                (remote / f"{tmp_path}/state/query/join/{name}/{batch:012d}".lstrip("/")).mkdir(parents=True)
    query = Query(recipe(streams, tmp_path / "state", ON["hash+cells"], HOW))
    for batch in range(4):
        with killed(batch) as killer:
            query.batch(batch, at(streams, batch), killer)
        query.restart()
        if batch == 2:
            shutil.rmtree(tmp_path / "cache")
        if batch == 3:
            monkeypatch.setattr(files, "CACHE_BYTES", 10)
        query.batch(batch, at(streams, batch))
    assert_right(query.results, streams, "hash+cells", HOW)
    assert list(remote.rglob("*.head"))


def test_a_cache_that_cannot_be_used(remote, tmp_path, monkeypatch):
    """Another task empties it, its disk is full: files are read from afar. It must be of the same user."""
    (remote / "state" / "runs").mkdir(parents=True)
    (remote / "state" / "runs" / "file").write_bytes(b"rows")
    (remote / "state" / "head").write_bytes(b"head")
    folder = task.open_folder("state")
    assert folder.map("head").to_pybytes() == b"head"
    assert not list((tmp_path / "cache").iterdir()), "heads are not cached"
    for name in ("makedirs", "walk"):
        with monkeypatch.context() as patch:
            patch.setattr(
                files.os, name, lambda *_, **__: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full"))
            )
            assert folder.map("runs/file").to_pybytes() == b"rows"
    assert not list((tmp_path / "cache").rglob("file"))
    assert folder.map("runs/file").to_pybytes() == b"rows"
    assert list((tmp_path / "cache").rglob("file"))
    (remote / "state" / "runs" / "file").unlink()
    assert folder.map("runs/file").to_pybytes() == b"rows"
    with pytest.raises(FileNotFoundError):
        folder.map("runs/another")
    monkeypatch.setattr(files.os, "getuid", lambda: 4242)
    with pytest.raises(StateError, match=r"others can write to .*; set TMPDIR"):
        folder.map("runs/file")


def test_a_cached_file_is_on_the_disk_before_it_has_its_name(remote, monkeypatch):
    """After a crash a torn one would be taken for damaged state."""
    (remote / "state" / "runs").mkdir(parents=True)
    (remote / "state" / "runs" / "file").write_bytes(b"rows")
    synced = []
    monkeypatch.setattr(files, "_sync", synced.extend)
    task.open_folder("state").map("runs/file")
    assert synced[0].endswith(".tmp")


def test_a_cache_that_others_can_write_to(remote, tmp_path):
    (remote / "state" / "runs").mkdir(parents=True)
    (remote / "state" / "runs" / "file").write_bytes(b"rows")
    folder = task.open_folder("state")
    folder.map("runs/file")
    (place,) = (tmp_path / "cache").iterdir()
    assert place.stat().st_mode & 0o777 == 0o700
    place.chmod(0o777)
    with pytest.raises(StateError, match="others can write to"):
        folder.map("runs/file")


def test_what_is_brought_to_the_disk(tmp_path, monkeypatch):
    """Files before they have their names; then the folders of all names that are new."""
    synced = []
    monkeypatch.setattr(files, "_sync", lambda paths: synced.append((paths, exists())))
    names = ["runs/7/one", "runs/7/two", "heads/7/head"]
    folder = files.LocalFolder(str(tmp_path / "state" / "query" / "join"))

    def exists():
        return [os.path.exists(f"{folder.path}/{name}") for name in names]

    def below(paths):
        return [os.path.relpath(path, tmp_path) for path in paths]

    folder.write({name: pa.py_buffer(b"") for name in names})
    (first, named), *rest = synced
    assert not any(named)
    assert [os.path.dirname(path) for path in first] == [
        f"{folder.path}/{x}/7" for x in ("runs", "runs", "heads")
    ]
    assert all(all(named) for _, named in rest)
    join = "state/query/join"
    inside = {f"{join}/runs/7", f"{join}/runs", f"{join}/heads/7", f"{join}/heads", join}
    assert {path for paths, _ in rest for path in below(paths)} == inside | {"state/query", "state", "."}
    synced.clear()
    folder.write({name: pa.py_buffer(b"") for name in names})
    assert {path for paths, _ in synced[1:] for path in below(paths)} == inside
    synced.clear()
    folder.write({name: pa.py_buffer(b"") for name in names}, sync=False)
    assert not synced


def test_folders_below_a_place(tmp_path):
    """The options of a URI stay behind its path."""
    assert files.open_folder(str(tmp_path), "query", "join").path == f"{tmp_path}/query/join"
    assert files.open_folder(f"file:{tmp_path}", "query").path == f"{tmp_path}/query"
    assert files.open_folder(f"file://{tmp_path}", "query").path == f"{tmp_path}/query"
    folder = files.open_folder("s3://bucket/state?region=eu-west-1", "query", "join")
    assert folder._path == "bucket/state/query/join"
    for place in ("hdfs:/state", "dbfs:/state", "nowhere://there"):
        with pytest.raises(SpecError, match="is no place that pyarrow can write to"):
            files.open_folder(place)
