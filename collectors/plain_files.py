"""Reads files that settings name and somebody else writes: never endless, never waiting."""

from __future__ import annotations

import errno
import os
import stat


def read_plain_file(path: str, limit_bytes: int) -> bytes:
    """All that is in the file.

    Raises OSError, with what is wrong as its `strerror`: also for what is no plain file (a pipe keeps whoever
    reads it waiting, a device may never end) and for a larger one; ValueError for a name with a NUL.
    """
    # O_NONBLOCK: opening a pipe that nobody writes to would wait.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 (of a descriptor)
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no plain file", path)
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {limit_bytes // 1024} KiB", path)
    return data
