"""Files of the state: a folder on a local disk, or at a URI that pyarrow knows (HDFS, S3, GCS, Azure).

Files are immutable: they get their final name once they are complete, and are never written again. So a copy
of one is as good as the file, and those of a remote folder are cached on local disk. Files are read by
mapping them into memory: workers of a host share them, and only what is touched is read.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from slidejoin.atomic_file import sync_path
from slidejoin.errors import SpecError, StateError

CACHE_BYTES = 2**33  # of files of remote folders on a host
_CACHE = "slidejoin-state-cache"


class Folder(Protocol):
    """Where the files of a state stand. Names are relative, with slashes."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none where there is no such folder."""

    def map(self, name: str) -> pa.Buffer:
        """The content of a file; FileNotFoundError where there is none."""

    def write(self, files: dict[str, pa.Buffer], sync: bool = True) -> None:
        """Write files, each as a whole, and name them in their order once those before are complete.

        With ``sync`` all of them are on the disk before the first has its name, and their names at the end.
        """

    def remove(self, names: Iterable[str]) -> None:
        """Remove files and empty folders; those that are gone already are no error."""


def open_folder(place: str, *below: str) -> Folder:
    """The folder of a local path or a URI, or one below it.

    Examples
    --------
    >>> type(open_folder("/tmp/state")).__name__
    'LocalFolder'
    """
    if place.startswith("file:"):
        place = "/" + place.removeprefix("file:").lstrip("/")
    if re.match(r"[a-zA-Z][\w+.-]+:/", place) is None:
        return LocalFolder(os.path.join(place, *below))
    path, mark, options = place.partition("?")
    try:
        system, path = fs.FileSystem.from_uri("/".join([path.rstrip("/"), *below]) + mark + options)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SpecError(
            f"state_dir={place!r} is no place that pyarrow can write to: {error}; give a path that all "
            "executors reach, or a URI such as s3://bucket/state"
        ) from None
    return LocalFolder(path) if isinstance(system, fs.LocalFileSystem) else RemoteFolder(system, path)


class LocalFolder:
    """A folder on a disk of this host, or on one that the system mounts."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __str__(self) -> str:
        return self.path

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(os.path.join(self.path, folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def map(self, name: str) -> pa.Buffer:
        path = os.path.join(self.path, name)
        with pa.memory_map(path) as file:
            return file.read_buffer()

    def write(self, files: dict[str, pa.Buffer], sync: bool = True) -> None:
        token = secrets.token_hex(8)
        written = []
        folders = _folders(os.path.abspath(self.path), files) if sync and os.name != "nt" else ()
        try:
            for number, (name, content) in enumerate(files.items()):
                path = os.path.join(self.path, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                temporary = os.path.join(os.path.dirname(path), f".{token}-{number}.tmp")
                written.append((temporary, path))
                with pa.OSFile(temporary, "wb") as file:
                    file.write(content)
            if sync:
                _sync([temporary for temporary, _ in written])
            for temporary, path in written:
                os.replace(temporary, path)
            for folder in folders:  # with the first of them most disks take all
                _sync([folder])
        except BaseException:
            for temporary, _ in written:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            raise

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            path = os.path.join(self.path, name)
            with contextlib.suppress(OSError):
                os.rmdir(path) if os.path.isdir(path) else os.unlink(path)


def _folders(top: str, files: Iterable[str]) -> Iterable[str]:
    """The folders that have the names of files below one and of their folders, and of what is to be made."""
    found = {top}
    for file in files:
        inner = os.path.dirname(file)
        while inner:
            found.add(os.path.join(top, inner))
            inner = os.path.dirname(inner)
    while not os.path.isdir(top):
        top = os.path.dirname(top)
        found.add(top)
    return found


def _sync(paths: list[str]) -> None:
    """Bring files to the disk, together: a disk takes several in little more than the time of one."""
    if len(paths) == 1:
        sync_path(paths[0])
    elif paths:
        with ThreadPoolExecutor(len(paths)) as pool:
            list(pool.map(sync_path, paths))


class RemoteFolder:
    """A folder of a distributed file system or an object store."""

    def __init__(self, system: fs.FileSystem, path: str) -> None:
        self._system = system
        self._path = path.rstrip("/")
        place = f"{system.type_name}:{self._path}".encode()
        self._cache = os.path.join(
            tempfile.gettempdir(), f"{_CACHE}-{os.getuid()}", hashlib.sha256(place).hexdigest()[:16]
        )

    def __str__(self) -> str:
        return f"{self._system.type_name}: {self._path}"

    def names(self, folder: str) -> list[str]:
        selector = fs.FileSelector(f"{self._path}/{folder}", allow_not_found=True)
        return [info.base_name for info in self._system.get_file_info(selector)]

    def map(self, name: str) -> pa.Buffer:
        cached, top = LocalFolder(self._cache), os.path.dirname(self._cache)
        if not name.startswith("runs/"):  # small, and read once
            return self._fetched(name)
        with contextlib.suppress(FileNotFoundError):
            known = os.lstat(top)
            if known.st_uid != os.getuid() or known.st_mode & 0o022:
                raise StateError(f"others can write to {top}; set TMPDIR to a place of your own")
            return cached.map(name)
        data = self._fetched(name)
        with contextlib.suppress(
            OSError
        ):  # a full disk, or another task that empties the cache, costs time only
            with contextlib.suppress(FileExistsError):
                os.mkdir(top, 0o700)
            os.makedirs(self._cache, mode=0o700, exist_ok=True)
            _make_room(self._cache, data.size)
            cached.write({name: data})  # synced: a torn file would be taken for damaged state
        return data

    def _fetched(self, name: str) -> pa.Buffer:
        with self._system.open_input_stream(f"{self._path}/{name}") as file:
            return file.read_buffer()

    def write(self, files: dict[str, pa.Buffer], sync: bool = True) -> None:  # noqa: ARG002
        for name, content in files.items():
            path = f"{self._path}/{name}"
            if self._system.type_name in _OBJECT_STORES:  # an object appears whole, under its final name
                with self._system.open_output_stream(path) as file:
                    file.write(content)
                continue
            folder, _, base = path.rpartition("/")
            self._system.create_dir(folder)
            temporary = f"{folder}/.{secrets.token_hex(8)}-{base}"
            with self._system.open_output_stream(temporary) as file:
                file.write(content)
            self._system.move(temporary, path)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):
                path = f"{self._path}/{name}"
                info = self._system.get_file_info(path)
                if info.type == fs.FileType.Directory:
                    if not self.names(name):
                        self._system.delete_dir(path)
                elif info.type == fs.FileType.File:
                    self._system.delete_file(path)


_OBJECT_STORES = ("s3", "gcs", "abfs")


def _make_room(cache: str, size: int) -> None:
    """Empty the cache where a file would make it too large: simple, and seldom."""
    used = sum(
        os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(cache) for name in names
    )
    if used + size > CACHE_BYTES:
        shutil.rmtree(cache, ignore_errors=True)
        os.makedirs(cache, mode=0o700, exist_ok=True)
