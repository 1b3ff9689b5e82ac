"""Files that are replaced as a whole or not at all."""

import contextlib
import os
import secrets


def write_file(path: str | os.PathLike[str], data: bytes, sync: bool = True, mode: int = 0o666) -> None:
    """Replace a file by these bytes, or leave it as it was.

    The bytes go to a temporary file in the same directory, which takes the name once it is complete. A killed
    process may leave a ``.slidejoin-*.tmp`` behind.

    Parameters
    ----------
    path : path
        The file. A symbolic link stays one; its target is replaced.
    data : bytes
        The new content.
    sync : bool
        Whether the file must survive a power failure.
    mode : int
        Permissions of the file, less those of the umask.

    Raises
    ------
    OSError
        The old file is unchanged, unless only the directory could not be synced: then the new file is
        complete, but a power failure may bring the old one back.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     file = pathlib.Path(directory) / "state"
    ...     write_file(file, b"new")
    ...     file.read_bytes()
    b'new'
    """
    target = os.path.realpath(path)
    directory = os.path.dirname(target)
    temporary = os.path.join(directory, f".slidejoin-{secrets.token_hex(8)}.tmp")
    try:
        try:  # from before the file exists, since an interrupt may come between any two calls
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
            try:
                rest = memoryview(data)
                while rest:  # a disk may take less than it is given
                    rest = rest[os.write(file, rest) :]
                if sync:
                    os.fsync(file)
            finally:
                os.close(file)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if sync and os.name != "nt":
            sync_path(directory)
    except OSError as error:
        if error.filename2 is None:
            error.filename = os.fspath(path)
        raise


def sync_path(path: str) -> None:
    """Bring a file or a directory to the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
