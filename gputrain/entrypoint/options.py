"""What the node was asked to do: the command line over the environment over the defaults."""

from __future__ import annotations

import contextlib

from . import contract
from .addresses import is_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional, Sequence, Tuple

LAST_PORT = 65535
MANY = 1 << 16
"""Nodes of a job, and ranks of a node, at most."""

_PLATFORM = {contract.CHECKPOINT_DIR: "AIP_CHECKPOINT_DIR", contract.OUTPUT_DIR: "AIP_MODEL_DIR"}


class EnvironmentRefused(Exception):
    """The node cannot start; the text says what is wrong and what to do."""


class Program:
    """The user's program, by the words after ``--``: a Python script, a module, or any other command.

    >>> Program(["train.py", "--lr", "1"]).kind, Program(["-m", "pkg.train"]).kind
    ('script', 'module')
    """

    def __init__(self, words: Sequence[str]) -> None:
        if not words:
            raise EnvironmentRefused("nothing to run: end the command with `-- train.py args`")
        self.kind = "script" if words[0].endswith(".py") else "program"
        self.argv = list(words)
        if words[0] == "-m":
            self.kind = "module"
            del self.argv[0]
            if not self.argv:
                raise EnvironmentRefused("-m needs the name of a module: `-- -m package.train args`")


class Options:
    """The settings of one node, read once and never changed."""

    def __init__(self, settings: Mapping[str, str], target: Program) -> None:
        self._settings = settings
        self.target = target
        self.job = settings[contract.JOB_ID]
        self.attempt = settings[contract.ATTEMPT]
        self.run_dir = settings[contract.RUN_DIR]
        self.num_nodes = self._number(contract.NUM_NODES, least=1)
        self.node_rank = self._number(contract.NODE_RANK, least=0)
        self.node_names = tuple(filter(None, settings[contract.NODE_NAMES].split(",")))
        auto = settings[contract.NPROC_PER_NODE] in ("auto", "gpu", "")
        self.nproc_per_node = None if auto else self._number(contract.NPROC_PER_NODE, least=1)
        self.launcher = self._one_of(contract.LAUNCHER, "torchrun-env", "tensorflow", "none")
        self.log_format = self._one_of(contract.LOG_FORMAT, "text", "json")
        self.log_dir = settings[contract.LOG_DIR]
        self.result_dir = settings[contract.RESULT_DIR]
        self.output_dir = settings[contract.OUTPUT_DIR]
        self.checkpoint_dir = settings[contract.CHECKPOINT_DIR]
        self.code_dir = settings[contract.CODE_DIR]
        self.keeps_outputs = self._one_of(contract.KEEP_OUTPUTS, "", "1") == "1"
        if self.keeps_outputs and not self.output_dir:
            raise EnvironmentRefused(f"{_label(contract.KEEP_OUTPUTS)} needs {_label(contract.OUTPUT_DIR)}")
        self.join_timeout = self._seconds(contract.JOIN_TIMEOUT)
        self.hang_timeout = self._seconds(contract.HANG_TIMEOUT) if settings[contract.HANG_TIMEOUT] else None
        self.grace = self._seconds(contract.GRACE)
        self.master_addr = settings[contract.MASTER_ADDR]
        self.master_port = self._number(contract.MASTER_PORT, least=1, most=LAST_PORT)
        self.nccl_net = settings[contract.NCCL_NET]
        self.local_addr = settings[contract.LOCAL_ADDR]
        if self.local_addr and not is_address(self.local_addr):
            raise self._refused(contract.LOCAL_ADDR, "a numeric address")

    def for_ranks(self) -> Dict[str, str]:
        """The variables every rank sees: all that were set, except the run directory, which is the nodes'."""
        return {name: value for name, value in self._settings.items() if value and name != contract.RUN_DIR}

    def _number(self, name: str, least: int, most: int = MANY) -> Optional[int]:
        text = self._settings[name]
        if not text:
            return None
        value = whole(text)
        if value is None or not least <= value <= most:
            raise self._refused(name, f"a whole number of at least {least} and at most {most}")
        return value

    def _seconds(self, name: str) -> float:
        with contextlib.suppress(ValueError):
            if 0 <= (value := float(self._settings[name])) < 1e9:
                return value
        raise self._refused(name, "a number of seconds")

    def _one_of(self, name: str, *allowed: str) -> str:
        if self._settings[name] not in allowed:
            raise self._refused(name, " or ".join(allowed))
        return self._settings[name]

    def _refused(self, name: str, allowed: str) -> EnvironmentRefused:
        return EnvironmentRefused(f"{_label(name)} is {self._settings[name]!r}, but must be {allowed}")


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Options:
    """The options of this node.

    Raises EnvironmentRefused when an option is unknown, lacks its value or has one that makes no sense.
    """
    given, words = _split(argv)
    settings = {}
    for name, (_, default, _) in contract.ENVIRONMENT.items():
        value = given.get(name, environ.get(name, ""))
        settings[name] = value or environ.get(_PLATFORM.get(name, ""), "") or default
    return Options(settings, Program(words))


def usage() -> str:
    """The text that ``--help`` shows."""
    words = "train.py args | -m module args | program args"
    lines = [f"usage: python -m gputrain.entrypoint [options] -- {words}", ""]
    for name, (flag, default, meaning) in contract.ENVIRONMENT.items():
        lines.append(f"  {flag or '(no flag)'}, {name}" + (f" [{default}]" if default else ""))
        lines.append(f"      {meaning}")
    return "\n".join(lines)


def _split(argv: Sequence[str]) -> Tuple[Dict[str, str], List[str]]:
    flags = {flag: name for name, (flag, _, _) in contract.ENVIRONMENT.items() if flag}
    given: Dict[str, str] = {}
    words = list(argv)
    while words and words[0].startswith("--") and words[0] != "--":
        flag, equals, value = words.pop(0).partition("=")
        if flag not in flags:
            raise EnvironmentRefused(f"there is no option {flag}; the options are {', '.join(sorted(flags))}")
        if not equals:
            if not words:
                raise EnvironmentRefused(f"{flag} needs a value")
            value = words.pop(0)
        given[flags[flag]] = value
    return given, words[1:] if words[:1] == ["--"] else words


def whole(text: str) -> Optional[int]:
    """The number that plain digits write; None for anything else, which `int` may take or `isdigit` pass.

    >>> whole("29400"), whole("²"), whole("-1"), whole("9" * 5000)
    (29400, None, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _label(name: str) -> str:
    flag = contract.ENVIRONMENT[name][0]
    return f"{flag} ({name})" if flag else name
