"""Makes a folder that the disk keeps apart from its parent.

ext4 puts a new folder, and all files below it, into the block group of its parent. Where many files were deleted within the last minutes, that
group is full of inodes that must not be used again yet, and making a file means walking over all of them: half a millisecond instead of
15 microseconds. Only folders whose parent is marked as the top of a hierarchy get a group of their own, chosen by their name.

So a data folder is made inside a folder that has this mark, under a name nobody has used, and then moved to where it belongs. On disks that
don't know the mark it is an ordinary new folder.
"""

from __future__ import annotations

import fcntl
import os
import struct

# From linux/fs.h: _IOR('f', 1, long), _IOW('f', 2, long) and the flag that `chattr +T` sets.
_GET_FLAGS, _SET_FLAGS, _TOP_OF_HIERARCHY = 0x80086601, 0x40086602, 0x00020000
_FLAGS = struct.Struct("@i")


def make_folder_apart(path: str) -> None:
    """Make a folder, in a place of its own where the disk allows. OSError where no folder can be made."""
    nursery = f"{path}.new"
    born = f"{nursery}/{os.urandom(8).hex()}"
    try:
        os.mkdir(nursery)
    except FileExistsError:
        os.mkdir(path)  # A start that was killed in between left it; it does no harm.
        return
    try:
        _mark(nursery)
        os.mkdir(born)
        os.rename(born, path)
    except OSError:
        if os.path.isdir(born):
            os.rmdir(born)
        os.mkdir(path)
    finally:
        os.rmdir(nursery)


def _mark(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        (flags,) = _FLAGS.unpack(fcntl.ioctl(fd, _GET_FLAGS, bytes(_FLAGS.size)))
        fcntl.ioctl(fd, _SET_FLAGS, _FLAGS.pack(flags | _TOP_OF_HIERARCHY))
    finally:
        os.close(fd)
