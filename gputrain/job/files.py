"""What a job leaves behind: its outputs and checkpoints, listed and downloaded from wherever they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import attrs

from gputrain.backends.base import Backend, JobFile
from gputrain.display.table import TextDisplay
from gputrain.errors import RequestError, TransientError

CHUNK_BYTES = 32 << 20
"""What is read in one call, and read again where that fails."""
Progress = Callable[[int, int], None]
"""Called with the bytes that have come and the total."""


@attrs.frozen(kw_only=True)
class JobFiles(TextDisplay):
    """The outputs or the checkpoints of a job."""

    uri: str
    """Where they are: a path or ``gs://``; empty: not known yet."""
    _backend: Backend | None = attrs.field(repr=False)

    def __str__(self) -> str:
        return self.uri

    def list(self) -> tuple[JobFile, ...]:
        """The files that are there now, by name.

        Raises:
            RequestError: the job has no place yet, or its backend is not set up here.
            AccessError, TransientError: they cannot be listed.
        """
        return tuple(self._reader().list_files(self.uri))

    def download(self, to: str | os.PathLike[str], *, progress: Progress | None = None) -> tuple[Path, ...]:
        """Copy all of them into a folder of this machine; each appears whole or not at all.

        Args:
            to: the folder, which is made where it is missing; files of the same names are replaced.
            progress: called with the bytes that have come and the total.

        Returns:
            The files that were written.

        Raises:
            RequestError: a name leads out of the folder, or a file cannot be written here.
            TransientError: a file changed while it was read.
            AccessError: they cannot be read.
        """
        folder = Path(to).expanduser()
        found = [(one, _inside(folder, one.name)) for one in self.list()]
        total, done = sum(one.size for one, _ in found), 0

        def shown(count: int) -> None:
            nonlocal done
            done += count
            if progress is not None:
                progress(done, total)

        try:
            for one, path in found:
                self._fetch(one, path, shown)
        except OSError as error:
            what = f"cannot write into {folder}: {error.filename or ''} {error.strerror}"
            raise RequestError(what, fix="make room there, or name another folder") from error
        return tuple(path for _, path in found)

    def _fetch(self, file: JobFile, path: Path, shown: Callable[[int], object]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        with open(part, "wb") as out:
            while left := file.size - out.tell():
                content = self._reader().read_file(self.uri, file, out.tell(), min(left, CHUNK_BYTES))
                if not content:
                    break
                out.write(content)
                shown(len(content))
        if left:
            part.unlink()
            raise TransientError(f"{file.name} changed while it was downloaded", fix="download it again")
        os.replace(part, path)

    def _reader(self) -> Backend:
        if self._backend is None or not self.uri:
            fix = "wait until it runs; or attach to it with the backend that runs it"
            raise RequestError("the place of the job's files is not known here", fix=fix)
        return self._backend


def _inside(folder: Path, name: str) -> Path:
    """The file's path here. Jobs choose its name, so it is refused where it leads anywhere else."""
    parts = name.split("/")
    is_foreign = os.sep == "\\" and bool({"\\", ":"} & set(name))
    if {"", ".", ".."} & set(parts) or not name.isprintable() or is_foreign:
        raise RequestError(
            f"{name[:100]!r} is no name of a file to download",
            why="it would be written outside of the folder, or hide what it is",
            fix="copy what you trust with: gcloud storage cp",
        )
    return folder.joinpath(*parts)
