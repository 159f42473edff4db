"""Waits, and files that cannot be read."""

import errno
import io
import os


def stop(board):
    """End the thread of a board, which would ask a cloud that has gone."""
    board._is_over = True
    board._has_news.set()
    if board._thread.is_alive():
        board._thread.join()


class BadSector(io.FileIO):
    """A file that a disk lets be opened, and fails to read."""

    def read(self, *_):
        raise OSError(errno.EIO, "Input/output error")


def opener(name):
    """Opens files as always, but that of a name from a bad sector."""

    def opened(file, *words, **how):
        path = os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else file
        return BadSector(file) if path.endswith(name) else open(file, *words, **how)

    return opened
