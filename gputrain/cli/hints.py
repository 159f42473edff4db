"""Words that a command does not know: what was meant, and where a script's own words go."""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's, which takes long to load
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

_HINTS = {
    "--nodes": "--num-nodes", "--nnodes": "--num-nodes", "--num-machines": "--num-nodes",
    "--gpus": "--gpu", "--accelerator": "--gpu", "--accelerators": "--gpu", "--num-gpus": "--gpu",
    "--nproc": "--nproc-per-node", "--num-processes": "--nproc-per-node", "--ranks": "--nproc-per-node",
    "--spot": "--provisioning-model spot", "--use-spot": "--provisioning-model spot",
    "--preemptible": "--provisioning-model spot", "--timeout": "--max-run-duration",
    "--time": "--max-run-duration", "--budget": "--max-cost", "--envs": "--env", "--secret": "--secrets",
    "--label": "--labels", "--cloud": "--backend", "--backends": "--backend", "--regions": "--region",
    "--zone": "--region", "--workdir": "--source-dir", "--machine": "--machine-type", "--lines": "--tail",
    "--instance-type": "--machine-type", "--job-name": "--name", "-n": "--tail",
}  # fmt: skip
"""What other launchers call it."""
_BY_ITSELF = ("--node-rank", "--master-addr", "--master-port", "--rdzv-backend", "--rdzv-endpoint",
              "--rdzv-id", "--standalone", "--rdzv-conf")  # fmt: skip
"""Flags of torchrun's for what gputrain finds out by itself."""
_COMMANDS = {
    "run": "submit", "launch": "submit", "train": "submit", "create": "submit", "start": "submit",
    "list": "jobs", "ls": "jobs", "ps": "jobs", "queue": "jobs", "squeue": "jobs", "status": "show",
    "describe": "show", "get": "show", "info": "show", "log": "logs", "tail": "logs", "stop": "cancel",
    "kill": "cancel", "delete": "cancel", "down": "cancel", "scancel": "cancel", "sweep": "clean-up",
    "check": "doctor", "quota": "quotas", "gpu": "gpus", "show-gpus": "gpus", "attach": "wait",
}  # fmt: skip
"""What other programs call it."""
_ALONE = {"help": "--help", "-?": "--help", "version": "--version", "-V": "--version", "-v": "--version"}
_STARTERS = frozenset({"python", "python3", "torchrun", "accelerate", "launch", "deepspeed", "-u"})
"""What starts ranks elsewhere, and stands before the script."""
_GRUMBLES = (
    (r"the following arguments are required: (.+)", r"\1 is missing"),
    (r"argument (?:\S+/)?(\S+): expected one argument", r"\1 wants a value"),
    (r"argument (?:\S+/)?(\S+): invalid (?:int|float) value: (.*)", r"\1 is a number, and not \2"),
    (r"argument (?:\S+/)?(\S+): invalid choice: (\S+) \(choose from (.*)\)", r"\1 is one of \3, and not \2"),
    (r"argument (?:\S+/)?(\S+): ignored explicit argument (.*)", r"\1 takes no value, and not \2"),
)
"""What argparse says, and how one says it to a person."""
TORCHRUN = {"--nproc_per_node": "--nproc-per-node", "--max_restarts": "--max-restarts",
            "--num_nodes": "--num-nodes"}  # fmt: skip
"""Flags that are ours and torchrun's: written with underscores, they are meant for us."""


class Slip(Exception):
    """A command line that says nothing we know: what is wrong, and how to say it."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


def in_plain_words(grumble: str) -> str:
    """What argparse complains of, without its own words."""
    import re

    for pattern, plain in _GRUMBLES:
        grumble = re.sub(f"^{pattern}$", plain, grumble)
    return grumble


def check_command(words: Sequence[str], commands: Iterable[str]) -> None:
    """Raise Slip unless the first word is a command, or a flag that stands alone."""
    known = list(commands)
    first = words[0] if words else ""
    if not first:
        raise Slip("no command was given", f"one of {', '.join(known)}; gputrain --help tells what each does")
    if first in (*known, "-h", "--help", "--version"):
        return
    if first in _ALONE:
        of_one = [word for word in words[1:2] if word in known]
        raise Slip(f"gputrain has no command {first}", " ".join(["gputrain", *of_one, _ALONE[first]]))
    if first.startswith("-"):
        raise Slip(f"{first} stands before the command", "put flags behind it: gputrain jobs --json")
    if first.endswith(".py"):
        import shlex

        raise Slip(f"{first} is no command", f"gputrain submit {shlex.join(words)}")
    import difflib  # only on a slip, as shlex below: nobody waits for either before --help

    near = [_COMMANDS[first]] if first in _COMMANDS else difflib.get_close_matches(first, known, n=1)
    meant = f"did you mean gputrain {near[0]}?" if near else f"one of {', '.join(known)}"
    raise Slip(f"gputrain has no command {first}", meant)


def normal(words: Iterable[str]) -> list[str]:
    """The words with torchrun's spelling of what we share with it turned into ours."""
    split = (word.partition("=") for word in words)
    return [TORCHRUN.get(flag, flag) + equals + value for flag, equals, value in split]


def check_words(
    command: str, words: Sequence[str], rest: Sequence[str], parser: argparse.ArgumentParser
) -> None:
    """Raise Slip where a command is given words that are not its own, and say where they go."""
    loose, kept = _sorted(words, parser)
    _check_ranks(kept)
    takes_script = parser.get_default("takes_script")
    has_module = any(word.partition("=")[0] in ("-m", "--module") for word in kept)
    own = [] if has_module and takes_script else _positional(loose, parser, takes_script)
    strangers = list(loose)
    for word in own:
        strangers.remove(word)
    if not strangers:
        return
    hints = [hint for hint in (_hint(word, parser) for word in strangers) if hint]
    hints += _unflagged(words, strangers, parser)
    if takes_script:
        import shlex
        from itertools import takewhile

        starters = list(takewhile(lambda word: word.rpartition("/")[2] in _STARTERS, loose))
        hints += [f"leave {' '.join(starters)} out: the ranks are started by themselves"] if starters else []
        theirs = [*_without_torchruns([one for one in strangers if one not in starters]), *rest]
        line = shlex.join(["gputrain", command, *own, *kept, *(["--", *theirs] if theirs else [])])
        only = f"what {'only ' if hints else ''}the script is to get follows --: {line}"
        hints.append(only if len(theirs) > len(rest) else line)
    elif not hints:
        hints.append(f"gputrain {command} --help tells what it takes")
    flags = [word.partition("=")[0] for word in strangers if word.startswith("-")] or strangers
    raise Slip(f"gputrain {command} does not know {', '.join(dict.fromkeys(flags))}", "\n       ".join(hints))


def _check_ranks(words: Sequence[str]) -> None:
    """torchrun counts ranks by a word, too: ``--nproc_per_node gpu``."""
    said = " ".join(words).replace("=", " ").partition("--nproc-per-node ")[2].partition(" ")[0]
    if said in ("gpu", "auto"):
        fix = "leave it out: one rank a GPU, of those that --gpu names or this machine has"
    elif said == "cpu":
        import os

        fix = f"--nproc-per-node {os.cpu_count()}"
    else:
        return
    raise Slip(f"--nproc-per-node is a number, and not {said}", fix)


def _without_torchruns(strangers: Sequence[str]) -> list[str]:
    """The words without the flags of torchrun's that nobody needs here, and without their values."""
    kept: list[str] = []
    takes_value = False
    for word in strangers:
        flag, equals, _ = word.partition("=")
        is_torchruns = flag.replace("_", "-") in _BY_ITSELF
        if not is_torchruns and (word.startswith("-") or not takes_value):
            kept.append(word)
        takes_value = is_torchruns and not equals and flag != "--standalone"
    return kept


def _sorted(words: Sequence[str], parser: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """Words that are no flag of the parser's and no value of one; and those that are."""
    loose: list[str] = []
    kept: list[str] = []
    left = 0
    for word in words:
        action = parser._option_string_actions.get(word.partition("=")[0])
        if left and not (word.startswith("--") and len(word) > 2):
            left -= 1
            kept.append(word)
        elif action is not None:
            left = int(action.nargs is None and "=" not in word)
            kept.append(word)
        else:
            left = 0
            loose.append(word)
    return loose, kept


def _positional(loose: Sequence[str], parser: argparse.ArgumentParser, takes_script: bool) -> list[str]:
    """The command's own word among the loose ones, if it takes one."""
    if not parser._get_positional_actions():
        return []
    plain = [word for word in loose if not word.startswith("-")]
    scripts = [word for word in plain if word.endswith(".py")] if takes_script else []
    follows_a_stranger = bool(loose) and loose[0].startswith("-")
    return scripts[:1] or ([] if takes_script and follows_a_stranger else plain[:1])


def _unflagged(words: Sequence[str], strangers: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """How one says what stands behind the value of a flag that is repeated, and lacks the flag."""
    hints, flag = [], ""
    for word in words:
        if word.startswith("-"):
            action = parser._option_string_actions.get(word.partition("=")[0])
            flag = word.partition("=")[0] if type(action).__name__ == "_AppendAction" else ""
        elif flag and word in strangers:
            hints.append(f"each value with its flag: {flag} {word}")
    return hints


def _hint(word: str, parser: argparse.ArgumentParser) -> str:
    """Which flag was meant; empty where none comes near."""
    if not word.startswith("-"):
        return ""
    name = word.partition("=")[0].replace("_", "-")
    known = [flag for flag in parser._option_string_actions if flag.startswith("--")]
    if name in _BY_ITSELF:
        return f"leave {word.partition('=')[0]} out: every rank is told by itself"
    meant = _HINTS.get(name, "")
    if meant.partition(" ")[0] not in known:
        import difflib

        meant = next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.75)), "")
    return f"{word.partition('=')[0]}: did you mean {meant}?" if meant else ""
