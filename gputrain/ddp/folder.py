"""The files of one checkpoint on disk, as one process sees them: names, marker, sizes, hashes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple, Union

from gputrain.ddp.errors import CheckpointError

SHARED = "shared.pt"
METADATA = ".metadata"
MARKER = "COMPLETE"
_STEP = re.compile(r"^step-(\d{12})$")
_SHARD = re.compile(r"^__\d+_\d+\.distcp$")
_MARKER_LIMIT = 16 * 2**20
"""Bytes; a marker has about 110 per rank, so anything longer is none of ours."""


class Marker(NamedTuple):
    """What makes a checkpoint count: size in bytes and sha256 of each file, by name."""

    step: int
    world_size: int
    files: Dict[str, Tuple[int, str]]

    @property
    def shards(self) -> list[str]:
        """The files of torch.distributed.checkpoint, if there are any."""
        return sorted(name for name in self.files if name == METADATA or _SHARD.match(name))


def rank_file(rank: int) -> str:
    """Name of the file with a rank's own state."""
    return f"rank-{rank}.pt"


def step_path(directory: str, step: int) -> str:
    """Path of a step's folder."""
    return os.path.join(directory, f"step-{step:012d}")


def steps_in(directory: str) -> list[int]:
    """Steps that have a folder, complete or not, oldest first."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(found.group(1)) for found in map(_STEP.match, names) if found)


def remove_step(directory: str, step: int) -> None:
    """Remove a step's folder, its marker first, so that no half of it ever counts."""
    import shutil

    path = step_path(directory, step)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(path, MARKER))
        _flush_folder(path)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def write_state(path: str, name: str, state: Any) -> Tuple[int, str]:
    """Write one file down to the disk; its size and the sha256 of what was meant to be written."""
    import torch

    with hashing(os.path.join(path, name)) as sink:
        torch.save(state, sink)
    return sink.facts()


@contextlib.contextmanager
def hashing(path: str) -> Iterator[Hashing]:
    """A new file that is hashed as it is written, and is down on the disk afterwards.

    Raises the disk's own error, whatever torch has made of it.
    """
    with open(path, "wb") as file:
        sink = Hashing(file)
        try:
            yield sink
        except RuntimeError:
            if sink.error is None:
                raise
        if sink.error is not None:
            raise sink.error
        file.flush()
        os.fsync(file.fileno())


class Hashing:
    """A file that counts and hashes what passes, and keeps the disk's error."""

    def __init__(self, file: Any) -> None:
        import hashlib

        self._file = file
        self._digest = hashlib.sha256()
        self._size = 0
        self.error: Optional[OSError] = None

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                self._file.write(data)
            except OSError as error:
                self.error = error
        self._digest.update(data)
        size = len(data)
        self._size += size
        return size

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Nothing: all is flushed once, at the end."""

    def close(self) -> None:
        """Nothing: whoever opened the file closes it."""

    def facts(self) -> Tuple[int, str]:
        return self._size, self._digest.hexdigest()


def read_state(path: str, name: str) -> Any:
    """Read one file back on the CPU; tensors and plain values only."""
    import torch

    return torch.load(os.path.join(path, name), map_location="cpu", weights_only=True)


def verify(path: str, name: str, expected: Tuple[int, str]) -> None:
    """Compare a file with its marker."""
    import hashlib

    digest, size = hashlib.sha256(), 0
    try:
        with open(os.path.join(path, name), "rb") as file:
            for block in iter(lambda: file.read(2**20), b""):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise CheckpointError(f"{name} cannot be read: {error.strerror}") from error
    if (size, digest.hexdigest()) != tuple(expected):
        how = "other bytes" if size == expected[0] else f"{size} bytes instead of {expected[0]}"
        raise CheckpointError(f"{name} is not what was saved: {how}")


def write_marker(directory: str, marker: Marker) -> None:
    """Make a checkpoint count: write the marker beside its place, flush it, rename it there."""
    path = step_path(directory, marker.step)
    document = {"format": 2 if marker.shards else 1, **marker._asdict()}
    draft = os.path.join(path, MARKER + ".tmp")
    with open(draft, "w", encoding="ascii") as file:
        json.dump(document, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    _flush_folder(path)
    os.rename(draft, os.path.join(path, MARKER))
    _flush_folder(path)
    _flush_folder(directory)


def has_marker(directory: str, step: int) -> bool:
    """Whether a step was ever marked complete."""
    return os.path.exists(os.path.join(step_path(directory, step), MARKER))


def read_marker(directory: str, step: int) -> Union[Marker, str]:
    """The marker of a step whose files all have their sizes; otherwise what is wrong, in words."""
    try:
        with open(os.path.join(step_path(directory, step), MARKER), encoding="ascii") as file:
            text = file.read(_MARKER_LIMIT)
    except FileNotFoundError:
        return "it was never completed"
    except (OSError, ValueError) as error:
        return f"its marker cannot be read: {error}"
    marker = _parsed(text, step)
    if marker is None:
        return "its marker is torn"
    return first_difference(directory, marker) or marker


def _parsed(text: str, step: int) -> Optional[Marker]:
    try:
        document = json.loads(text)
        world_size = document["world_size"]
        files = {str(name): (int(size), str(digest)) for name, (size, digest) in document["files"].items()}
        marker = Marker(step, world_size, files)
        plain = set(files) - set(marker.shards)
        whole = document["step"] == step and len(plain) == world_size + 1
        whole = whole and plain == {SHARED, *(rank_file(rank) for rank in range(world_size))}
        whole = whole and document["format"] == (2 if marker.shards else 1)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return marker if whole and (METADATA in files) == bool(marker.shards) else None


def first_difference(directory: str, marker: Marker) -> Optional[str]:
    """What keeps the files of a step from being those of its marker, by size; None when all are there."""
    path = step_path(directory, marker.step)
    for name, (size, _) in sorted(marker.files.items()):
        try:
            facts = os.lstat(os.path.join(path, name))
        except FileNotFoundError:
            return f"{name} is missing"
        if not stat.S_ISREG(facts.st_mode):
            return f"{name} is not a plain file"
        if facts.st_size != size:
            return f"{name} has {facts.st_size} bytes instead of {size}"
    return None


def _flush_folder(path: str) -> None:
    # Not every file system can flush a folder (gcsfuse cannot); there the rename is all there is.
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
