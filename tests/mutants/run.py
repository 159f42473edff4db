"""How many single-line mutants the quick tests catch: `make mutants`, or with folders as words.

A mutant is judged by the quick tests that run the function it is in, here or in a process that they start,
until one fails: those first that run the least besides, which are of it, and as many as have their turn.
The one that fails has to pass without the mutant, or else it judges nothing.
Which test runs what is traced once, and again for the files of tests that changed since.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import json
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutants.draw import defined, mutants, scopes

ROOT = Path(__file__).parents[2]
ROOMS = ("trainer", "planning", "gcp", "staging", "backends/local", "backends/vertex", "backends/compute")
JUDGES = (
    "unit/**/test_*.py",
    "security/test_*.py",
    "contract/test_*.py",
    *(f"laws/test_{one}_laws.py" for one in ("catalog", "ladder", "planning", "quota", "refusal")),
    *(f"laws/test_{one}.py" for one in ("malformed_specs", "garbled_facts", "moved_tags")),
)
"""The tests that judge; those of style and of types see no behaviour."""

_TRACED = ROOT / ".venv-mutants/traced.json"
_TOGETHER_S = 120.0
"""What the tests of one mutant may compute, by what they did when they were traced."""
_NAMING_S = 30.0
"""The same of those besides that only name what is mutated, as one of a signature does."""

_FIRST = 12


class Traced(NamedTuple):
    """What a test takes, and what it runs."""

    took_s: float
    computed_s: float
    ran: set[str]


class Mutant(NamedTuple):
    """A file's text with one place changed."""

    path: str
    source: str
    line: int
    told: str


class Judge:
    """A copy of the tree, and a process that runs tests in it."""

    def __init__(self, folder: Path, python: str) -> None:
        self.tree, self._scratch = folder / "tree", folder / "scratch"
        listed = subprocess.run(
            ["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name)
        words = [python, "-m", "tests.mutants.judge"]
        environment = {**os.environ, "PYTHONPATH": str(self.tree)}
        self._process = subprocess.Popen(
            words,
            cwd=self.tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "told").open("w"),
            text=True,
        )
        self._ask(load=[str(path.relative_to(ROOT)) for path in _judging()])

    def _ask(self, **request: object) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def _fails(self, tests: list[str], patience_s: float) -> str:
        """The first test that fails; nothing where all pass."""
        first = self.tree / "first"
        first.unlink(missing_ok=True)
        status = self._ask(tests=tests, patience_s=patience_s, scratch=str(self._scratch), first=str(first))
        if status in (0, 5):
            return ""
        name = first.read_text() if first.exists() else ""
        return "time" if status is None else name or "import"

    def trace(self, file: str) -> dict[str, Any]:
        """What each test of a file runs of gputrain, and which of them fail."""
        told = self.tree / "traced.json"
        told.unlink(missing_ok=True)
        with _kept(self.tree / "gputrain/__init__.py"):
            self._ask(tests=[file], patience_s=900, scratch=str(self._scratch), trace=str(told))
        return json.loads(told.read_text()) if told.exists() else {"tests": {}, "failed": [file]}

    def caught_by(self, mutant: Mutant, tests: dict[str, float]) -> str:
        """The test that notices it and fails by nothing else, or nothing; one that never ends is noticed."""
        names = list(tests)
        # Most are noticed by the first few, and to collect all takes longer than those run.
        for part in (names[:_FIRST], names[_FIRST:]):
            left = part
            while left:
                path = self.tree / mutant.path
                with _kept(path):
                    path.write_text(mutant.source)
                    found = self._fails(left, 60 + 10 * sum(tests[name] for name in left))
                if not found:
                    break
                suspects = [name for name in left if f"{name}::".startswith(f"{found}::")] or left[:1]
                if found == "time" or not self._fails(suspects[:1], 60 + 10 * tests[suspects[0]]):
                    return found
                left = [name for name in left if name not in suspects]
        return ""

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def _kept(path: Path) -> Iterator[None]:
    """The file is as it was, afterwards."""
    source, times = path.read_text(), path.stat()
    try:
        yield
    finally:
        path.write_text(source)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


class Bench:
    """Judges that work side by side."""

    def __init__(self, folder: Path, python: str, count: int) -> None:
        self._idle: queue.Queue[Judge] = queue.Queue()
        self._pool = ThreadPoolExecutor(count)
        self._all = list(self._pool.map(lambda n: Judge(folder / str(n), python), range(count)))
        for one in self._all:
            self._idle.put(one)

    def map(self, work: Any, items: Any) -> Any:
        """What `work(judge, item)` says of each, in order."""

        def one(item: Any) -> Any:
            judge = self._idle.get()
            try:
                return work(judge, item)
            finally:
                self._idle.put(judge)

        return self._pool.map(one, items)

    def close(self) -> None:
        for one in self._all:
            one.close()


def traced(bench: Bench) -> dict[str, Traced]:
    """Of each quick test what it takes, and the functions that it runs."""
    known = json.loads(_TRACED.read_text()) if _TRACED.exists() else {}
    stamps = {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in _judging()
    }
    missing = [name for name, stamp in stamps.items() if known.get(name, {}).get("stamp") != stamp]
    for name, told in zip(missing, bench.map(Judge.trace, missing)):
        known[name] = {"stamp": stamps[name], **told}
        _TRACED.write_text(json.dumps(known))
        for failed in told["failed"]:
            print(f"fails without a mutant, and judges none: {failed}", flush=True)
    return {
        test: Traced(took_s, computed_s, set(ran))
        for name in stamps
        for test, (took_s, computed_s, ran) in known[name]["tests"].items()
    }


def _judging() -> list[Path]:
    return [path for judge in JUDGES for path in sorted((ROOT / "tests").glob(judge))]


def judges_of(mutant: Mutant, tests: dict[str, Traced], source: str) -> dict[str, float]:
    """The tests that run the function a mutant is in, or else what that stands in, with their seconds.

    Of what is no function's body, and so runs as it is imported, also those whose file has its name.
    """
    file = mutant.path.removeprefix("gputrain/")
    places = [f"{file}:{scope}" for scope in scopes(source, mutant.line)]
    found: list[str] = []
    for place in (*places, file, str(Path(file).parent)):
        found = [name for name, one in tests.items() if any(_is_within(each, place) for each in one.ran)]
        if found:
            break
    word = defined(source, mutant.line)
    naming = {name for name in tests if word and word in _words(name.partition("::")[0])} - {*found}
    return {**_cheapest(found, tests, _TOGETHER_S), **_cheapest(naming, tests, _NAMING_S)}


def _cheapest(names: Iterable[str], tests: dict[str, Traced], most_s: float) -> dict[str, float]:
    """Those that run the least besides, with their seconds; as many as compute no longer than so."""
    kept: dict[str, float] = {}
    together_s = 0.0
    for name in sorted(names, key=_breadth(tests)):
        if together_s + tests[name].computed_s <= most_s:
            together_s += tests[name].computed_s
            kept[name] = tests[name].took_s
    return kept


def _breadth(tests: dict[str, Traced]) -> Callable[[str], tuple[int, float, str]]:
    return lambda name: (len(tests[name].ran), tests[name].computed_s, name)


@functools.cache
def _words(test: str) -> frozenset[str]:
    """The names that a file of tests uses."""
    return frozenset(re.findall(r"\w+", (ROOT / test).read_text()))


def _is_within(function: str, place: str) -> bool:
    return function.startswith(place) and function[len(place) :][:1] in ("", ".", ":", "/")


def drawn(room: str, sample: int, seed: int) -> list[Mutant]:
    """Mutants of a folder; a file is drawn by its length."""
    draw = random.Random(f"{seed} {room}")
    sources = {path: path.read_text() for path in sorted((ROOT / "gputrain" / room).glob("**/*.py"))}
    streams = {path: mutants(source, draw) for path, source in sources.items()}
    found = []
    while len(found) < sample:
        (path,) = draw.choices(list(sources), [len(one) for one in sources.values()])
        source = next(streams[path], None)
        if source is not None:
            found.append(_mutant(str(path.relative_to(ROOT)), sources[path], source))
    return found


def _mutant(path: str, before: str, source: str) -> Mutant:
    old, new = [*before.splitlines(), ""], [*source.splitlines(), ""]
    line = next(number for number, pair in enumerate(zip(old, new)) if pair[0] != pair[1])
    told = new[line]
    while not old[line].strip():  # a decorator that is left out takes the blank line before it along
        line += 1
    return Mutant(path, source, line + 1, f"{old[line].strip()} -> {told.strip()}")


def main() -> int:
    """Draw, judge, tell; the exit status is 1 where a folder's rate is below what is asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rooms", nargs="*", default=ROOMS)
    parser.add_argument("--sample", type=int, default=25, help="mutants of each folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"), help="what runs the tests")
    parser.add_argument("--at-least", type=int, default=85, help="per cent")
    parser.add_argument("--side-by-side", type=int, default=2, help="how many mutants are judged at once")
    options = parser.parse_args()
    rates = {}
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        bench = Bench(Path(folder), options.python, options.side_by_side)
        try:
            samples = {room: drawn(room, options.sample, options.seed) for room in options.rooms}
            tests = traced(bench)
            for room, sample in samples.items():
                rates[room] = _rate(bench, tests, sample)
        finally:
            bench.close()
    for room, (caught, judged) in rates.items():
        print(f"{room:18} {caught} of {judged} caught, {100 * caught // max(1, judged)} %")
    return int(any(100 * caught < options.at_least * judged for caught, judged in rates.values()))


def _rate(bench: Bench, tests: Any, sample: list[Mutant]) -> tuple[int, int]:
    """How many mutants the tests caught, of how many."""

    def judged(judge: Judge, mutant: Mutant) -> tuple[str, int]:
        judges = judges_of(mutant, tests, (ROOT / mutant.path).read_text())
        return judge.caught_by(mutant, judges), len(judges)

    caught = 0
    for mutant, (found, count) in zip(sample, bench.map(judged, sample)):
        caught += bool(found)
        word = f"caught by {found}" if found else f"SURVIVED {count} tests"
        print(f"{mutant.path}:{mutant.line}: {mutant.told}\n    {word}", flush=True)
    return caught, len(sample)


if __name__ == "__main__":
    sys.exit(main())
