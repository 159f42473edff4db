# ruff: noqa: S606  # exec is the purpose
"""What a job requires beyond what is installed: an environment above the one that is there, which stays.

What is installed is seen and not brought again, and torch keeps its version with the libraries that belong to
it: another one may know no driver of this machine, nor its GPU. A requirement that wants another is refused.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from typing import Any

from . import contract, result

KEPT = ("torch", "triton", "pytorch-triton")
KEPT_FAMILY = "nvidia-"
ELSEWHERE = ("PIP_PREFIX", "PIP_ROOT", "PIP_TARGET", "PIP_USER")
"""Variables of an image by which pip would install somewhere else."""

READY = "ready"
_FILE = re.compile(r"\s*(?:-[rc]|--requirement|--constraint)[\s=]*(\S+)")
_PATH = re.compile(r"\s*(?:(?:-e|--editable)[\s=]*)?(?:[\w.-]+\s*@\s*)?(?:file://)?(\.{0,2}/[^\s;\[]+|\.)")
SHOWN = 4000
"""Characters of pip's output that are shown."""


class Refused(Exception):
    """The job cannot begin here; the text says why."""

    kind = contract.REFUSED
    lines: Sequence[str] = ()


class Unmet(Refused):
    """What is required cannot be installed."""

    kind = contract.UNMET

    def __init__(self, what: str, said: str) -> None:
        self.lines = said.strip()[-SHOWN:].splitlines()
        errors = said.partition("ERROR: ")[2].splitlines() or _cause_of_build(said) or self.lines[-1:]
        super().__init__("{}: {}".format(what, " ".join(filter(None, map(str.strip, errors)))[:SHOWN]))


def _cause_of_build(said: str) -> list[str]:
    """The last line of what a failed build printed, and of which requirement: pip ends with a note only."""
    build = re.search(r"\[\d+ lines? of output\]\n(.*?)\n\s*\[end of output\]", said, re.DOTALL)
    lines = [line.strip() for line in build[1].splitlines() if line.strip()] if build else []
    of = (
        re.findall(r"^ *(?:Processing|Collecting) (\S+)", said[: build.start()], re.MULTILINE)
        if build
        else []
    )
    return [f"{of[-1]}: {lines[-1]}" if of else lines[-1]] if lines else []


class Environment:
    """An environment's folders."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.programs = os.path.join(root, "bin")
        self.python = os.path.join(self.programs, "python")
        self.packages = sysconfig.get_path("purelib", "posix_prefix", {"base": root})

    def variables(self, known: Any) -> dict[str, str]:
        """What its processes see: its programs, and its packages before those of a PYTHONPATH."""
        inherited = known.get("PYTHONPATH")
        found = {"PATH": os.pathsep.join([self.programs, known.get("PATH") or os.defpath])}
        if inherited:
            found["PYTHONPATH"] = os.pathsep.join([self.packages, inherited])
        return found


def install(requirements: Any, folder: str, outer: Any = None) -> Environment:
    """The environment in a folder that has the requirements; the same ones of one Python are installed once.
    Raises Unmet, or OSError.

    Args:
        outer: where what is installed lies, in its order; this Python's own by default.
    """
    import fcntl  # not on Windows, where `Local` says so itself

    words = list(requirements)
    asked = inputs(words)
    below = list(installed() if outer is None else outer)
    about = [sys.version, sys.prefix, below, asked]
    key = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
    environment = Environment(os.path.join(folder, "gputrain-packages-" + key))
    with open(environment.root + ".lock", "w") as lock:  # another process of this machine may be at it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(environment.root, READY)):
            shutil.rmtree(environment.root, ignore_errors=True)
            _fill(environment, words, below)
            with open(os.path.join(environment.root, READY), "w"):
                pass
    return environment


def read_file(path: str) -> str:
    """The text of a file of requirements, as pip reads it: by its byte order mark, else UTF-8."""
    with open(path, "rb") as file:
        content = file.read()
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf_16 else "utf-8-sig", "replace")


def inputs(words: Sequence[str]) -> list[str]:
    """What pip reads for requirements: them, the files they include, and packages named by their path."""
    found, seen = list(words), set()
    lines = [(" ".join(words), "")] if words[:1] == ["-r"] else [(word, "") for word in words]
    while lines:
        line, folder = lines.pop()
        file, package = _FILE.match(line), _PATH.match(line)
        path = os.path.realpath(os.path.join(folder, file[1])) if file else package[1] if package else ""
        if not path or path in seen or not os.path.exists(path):
            continue
        seen.add(path)
        if file:
            text = read_file(path)
            found.append(text)
            lines += [(one, os.path.dirname(path)) for one in text.splitlines()]
        else:
            found += _stamps(path)
    return found


def _stamps(path: str) -> list[str]:
    """Size and time of a file, or of each file in a folder."""
    files = [path] if os.path.isfile(path) else []
    files += [os.path.join(top, name) for top, _, names in os.walk(path) for name in names]
    stats = [(one, os.stat(one)) for one in sorted(files) if os.path.isfile(one)]
    return [f"{one} {stat.st_size} {stat.st_mtime_ns}" for one, stat in stats]


def installed() -> list[str]:
    """Where this Python finds what is installed, in its order."""
    return [path for path in sys.path if path.endswith("-packages") and os.path.isdir(path)]


def _fill(environment: Environment, words: list[str], below: list[str]) -> None:
    import venv  # only where something is required: images without it train too

    venv.EnvBuilder(symlinks=True, with_pip=False).create(environment.root)
    with open(os.path.join(environment.packages, "gputrain-outer.pth"), "w", encoding="utf-8") as file:
        for path in below:
            file.write(f"import site; site.addsitedir({path!r})\n")  # with the .pth files that lie there
    kept = _kept(environment)
    limits = os.path.join(environment.root, "constraints.txt")
    with open(limits, "w", encoding="utf-8") as file:
        file.write("".join(f"{name}=={version}\n" for name, version in kept))
    code, said = _pip(environment, "install", "--no-input", "--constraint", limits, *words)
    if code:
        stays = ", ".join(f"{name} {version}" for name, version in kept)
        raise Unmet("pip could not install the requirements" + (stays and f" beside {stays}"), said)


def _kept(environment: Environment) -> list[tuple[str, str]]:
    """What keeps its version, as pip lists it; nothing where there is no torch."""
    code, said = _pip(environment, "list", "--format", "json", errors=subprocess.PIPE)
    try:
        listed = json.loads("" if code else said.strip().rpartition("\n")[2])  # an image may greet before
    except ValueError:
        raise Unmet(f"pip does not run on {sys.executable}", said) from None
    rows = [(row["name"].lower().replace("_", "-"), row["version"]) for row in listed]
    kept = [(name, version) for name, version in rows if name in KEPT or name.startswith(KEPT_FAMILY)]
    return kept if any(name == "torch" for name, _ in kept) else []


def _pip(environment: Environment, *words: str, errors: int = subprocess.STDOUT) -> tuple[int, str]:
    """Run the pip that is there already, on the environment's Python: its status, and what it said."""
    env = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    done = subprocess.run(
        [environment.python, *contract.PROGRAM, "pip", "--disable-pip-version-check", *words],
        env={**env, **environment.variables(env)},
        stdout=subprocess.PIPE,
        stderr=errors,
        check=False,
    )
    said = done.stdout if done.returncode == 0 else done.stdout + (done.stderr or b"")
    return done.returncode, said.decode("utf-8", "replace")


def say(message: str, severity: str = "INFO") -> None:
    """One structured line for the platform's log."""
    sys.stdout.write(json.dumps({"severity": severity, "message": "gputrain: " + message}) + "\n")
    sys.stdout.flush()


def refuse(error: Exception) -> int:
    """Tell why the job cannot begin here, in its log and as its result; the answer is the exit code."""
    lines = getattr(error, "lines", ())
    say("\n".join([str(error), *lines]), "ERROR")
    return result.refuse(os.environ, str(error), getattr(error, "kind", contract.REFUSED), lines)


def main() -> None:
    """Continue in an environment beside the file that says what it has: ``FILE words...`` for its Python."""
    path, words = sys.argv[1], sys.argv[2:]
    try:
        with open(path, encoding="utf-8") as file:
            order = json.load(file)
        environment = install(order["requirements"], os.path.dirname(path), order["installed"])
    except (OSError, Refused) as error:
        sys.exit(refuse(error))
    os.environ.update(environment.variables(os.environ))
    os.execv(environment.python, [environment.python, *words])
