"""What is written into a folder that is mirrored, and what of it is in the bucket."""

import errno
import io
import os
import time

STEP = "step-000000000004"


def write(made, **files):
    """Files of the folder, older than a script takes to close one."""
    for name, text in files.items():
        path = os.path.join(made.folder, name.replace("__", "/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


def sent(made):
    return set(made.store.items())


def until(is_so):
    """Wait for what is promised, and fail where it does not come."""
    late = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < late
        time.sleep(0.02)


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
