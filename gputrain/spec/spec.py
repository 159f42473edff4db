"""`TrainingSpec`: one training job, as the user asks for it."""

from __future__ import annotations

import difflib
import enum
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gputrain.catalog import ANY_RESERVATION, ProvisioningModel
from gputrain.display.table import Table, TableDisplay, as_cell
from gputrain.fields import (
    Errors,
    field,
    instance,
    invalid,
    is_text,
    many,
    matching,
    named,
    number,
    one_of,
    path,
    read_fields,
    reader,
    short_repr,
    texts,
    whole,
    words,
)
from gputrain.runtime import contract
from gputrain.spec.duration import format_duration, parse_duration
from gputrain.spec.gpu import GpuRequest, parse_gpus
from gputrain.spec.image import Image, read_image, read_requirements
from gputrain.spec.types import EntryKind, Launcher, SpecFields, synonyms
from gputrain.text import HIDDEN, hide_secret_args, hide_secrets, looks_secret, redact

if TYPE_CHECKING:
    from typing_extensions import Unpack

MAX_ARGUMENT_BYTES, MAX_ARGUMENTS_BYTES = 128 << 10, 1 << 20
"""One argument or variable, and all of them, as Linux starts programs. Source: execve(2), read 2026-11-23: 32
pages each, and a quarter of the stack's limit together, mostly 2 MiB, of which half is left to the machine's
own environment."""
MAX_GRACE_S = 3600
"""The longest time that ranks may take to save before they are killed; machines are billed until then."""
NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,47}[a-z0-9])?")
"""63 is Compute's limit for an instance name; the job's suffix and a node's number take up to 14."""
MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def _read_requirements(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, os.PathLike)):
        if not path(value).endswith(".txt"):
            raise ValueError
        return ("-r", path(value).replace(os.sep, "/"))
    found = texts(value)
    if found[:1] == ("-r",) and len(found) == 2:
        return found
    if len(found) == 1 and found[0].endswith(".txt"):
        return _read_requirements(found[0])
    return read_requirements(found)


def _read_place(value: Any) -> str:
    """A path on the job's machine, or ``gs://`` with names that are files in a mounted bucket too."""
    found = value.as_posix() if isinstance(value, PurePath) and path(value) else path(value)
    names = found.removeprefix("gs://").rstrip("/").split("/")
    if found.startswith("gs://") and (
        {"", ".", ".."} & set(names) or re.search(r"[\x00-\x1f\x7f-\x9f]", found)
    ):
        raise ValueError(
            "a place in a bucket is gs://BUCKET/NAMES without '.', '..', empty names or control characters"
        )
    return found


def _pairs(name: str, check: Callable[[str, Any, Any, Errors], None]) -> Callable[[Any], Mapping[str, str]]:
    """A mapping of names to texts, each pair checked."""

    def read_pairs(value: Any) -> Mapping[str, str]:
        if not isinstance(value, Mapping):
            raise ValueError
        errors = Errors("")
        for key, one in value.items():
            check(f"{name}[{short_repr(key)}]", key, one, errors)
        errors.raise_if_any()
        return MappingProxyType({str(key): str(one) for key, one in value.items()})

    return read_pairs


def _check_variable(at: str, name: Any, errors: Errors) -> bool:
    is_name = isinstance(name, str) and bool(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name))
    errors.check(is_name, at, name, "the name of an environment variable", "letters, digits and _")
    return is_name


def _check_env(at: str, name: Any, value: Any, errors: Errors) -> None:
    if not _check_variable(at, name, errors):
        return
    if name == contract.GRACE:
        is_number = isinstance(value, str) and re.fullmatch(r"\d{1,4}(\.\d{1,3})?", value, re.ASCII)
        is_grace = is_number and float(value) <= MAX_GRACE_S
        errors.check(bool(is_grace), at, value, f"seconds from 0 to {MAX_GRACE_S}, as text", f"{name}='60'")
    elif name.startswith("GPUTRAIN_"):
        errors.add(at, name, "", "another name", problem="gputrain sets the GPUTRAIN_ variables itself")
    elif not is_text(value):
        fix = f"env={{{name!r}: '{value}'}}" if isinstance(value, (int, float)) else ""
        errors.add(at, value, "text without NUL", fix)


def _check_secret(at: str, name: Any, value: Any, errors: Errors) -> None:
    _check_variable(at, name, errors)
    if not isinstance(value, str) or not re.fullmatch(r"secret://[^\s]{1,500}", value):
        fix = "store it in Secret Manager and give secret://projects/P/secrets/S/versions/V"
        problem = "the value is not a reference"  # it may be the secret itself
        errors.add(at, HIDDEN, "", fix, problem=problem)


def _check_label(at: str, name: Any, value: Any, errors: Errors) -> None:
    if not is_text(name) or not name.strip():
        errors.add(at, name, "a key as text", "labels={'team': 'nlp'}")
    elif name.startswith("gputrain"):
        errors.add(at, name, "", "another name", problem="gputrain sets the labels that begin with gputrain")
    errors.check(is_text(value), at, value, "a value as text", "labels={'team': 'nlp'}")


def _redacted(value: object) -> str:
    return redact(repr(value))


def _redacted_args(value: Sequence[str] | None) -> str:
    return repr(value and hide_secret_args(value))


_OF_RANK = "RANK LOCAL_RANK GROUP_RANK NODE_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT"
RANK_VARIABLES = {
    Launcher.TORCHRUN_ENV: frozenset(_OF_RANK.split()),
    Launcher.TENSORFLOW: frozenset({"TF_CONFIG"}),
    Launcher.NONE: frozenset[str](),
}
"""Variables that each launcher sets for every rank."""
_duration = ("a positive duration", "'90m', '12h', '1d', '1h30m', or a timedelta")
_path = ("a path", "a path, or a place in a bucket as text: 'gs://...'")
_models = many(one_of(ProvisioningModel), or_one=True)


@attrs.frozen(kw_only=True, init=False)
class TrainingSpec(TableDisplay):
    """A training job: what to run, on what, and within which limits.

    Exactly one of ``script``, ``module``, ``command`` and ``function`` is given; or none, and ``image`` runs
    as it is: with its own entry point and working directory, and nothing of this machine is uploaded.

    Args:
        script: a Python file, relative to ``source_dir``.
        module: a module, started as ``python -m`` would.
        command: a program and its arguments, started without a shell.
        function: a Python function, sent by value. Pass its arguments with `functools.partial` to a trainer.
        entrypoint: with an image as it is, what replaces its ENTRYPOINT; empty: its own.
        args: arguments of the script or module; of an image as it is, what replaces its CMD.
        gpu: GPU and count **per node**, ``"H100:2"``, or a list in order of preference; Google's names work
            too. A count alone (``2``) means GPUs of this machine. Default: all GPUs of this machine, or CPU
            ranks where it has none.
        num_nodes: number of machines.
        nproc_per_node: ranks per machine; default: one per GPU.
        provisioning_model: ``standard``, ``spot``, ``flex-start`` or ``reservation-bound``, or a list in
            order of preference.
        reservation: the reservation to use: its name, its full name
            (``projects/P/zones/Z/reservations/R``, of A4 and A3 Ultra ``.../reservationBlocks/B``), or
            ``any``: one that is open to any VM, where there is one.
        machine_type: Google's machine type, where GPU and count leave a choice.
        image: container image to run in, best by digest; or an `Image` or a Dockerfile's path, to be built.
        env: environment variables of the ranks. Pass secrets by reference in ``secrets``.
        secrets: variable name to ``secret://projects/P/secrets/S/versions/V``, resolved inside the job.
        source_dir: folder that is uploaded with the job; default: the script's own folder.
        requirements: pip requirements to install before the ranks start, or ``"requirements.txt"``.
        checkpoint_dir: where checkpoints are kept between attempts (a path, or ``gs://``).
        output_dir: where results go.
        keep_outputs: copy the files that ranks write beside the code to ``output_dir`` at the end.
        max_run_duration: hard limit on running, all attempts together: ``"90m"``, ``"12h"``, ``"1d"`` or a
            timedelta. The platform enforces it.
        max_wait_duration: hard limit on waiting for capacity. With it, a submit that finds no capacity waits
            and tries again until then; without it, it fails at once.
        hang_timeout: end the job as ``hang``, with the stacks of all ranks, once no rank has logged, reported
            or stepped for this long. Default: off. Choose three times the longest silence of a healthy run.
        max_cost: US dollars for the whole job, converted to ``max_run_duration`` at the dated price.
        price_per_hour: US dollars an hour for one machine, for ``max_cost`` where no dated price is known.
        max_restarts: restarts after preemption or infrastructure failure.
        min_nodes: after losing a node, continue from the last checkpoint with at least this many where there
            is no capacity for all; Compute Engine only. Default: all.
        labels: put on every resource that is created.
        name: the job's name; default: made from the script, module, command or function.
        launcher: who starts the ranks; default: ``none`` for commands, else ``torchrun-env``.

    Raises:
        SpecError: with **all** faults, before any file or network is touched.
        TypeError: an argument has another name.

    >>> spec = TrainingSpec(script="train.py", gpu="nvidia-h100-80gb:2", max_run_duration="12h")
    >>> str(spec.gpu[0])
    'H100:2'
    >>> spec.replace(num_nodes=2).num_nodes
    2
    """

    # fmt: off
    script: str | None = field(path, "the path of a Python file", "script='train.py'")
    module: str | None = field(matching(MODULE), "a module's dotted name", "module='package.train'")
    command: tuple[str, ...] | None = field(
        reader(lambda value: bool(texts(value)) and bool(value[0]), texts),
        "a program and its arguments, each as text", "command=['python3', 'train.py']",
        show=_redacted_args)
    function: Callable[[], object] | None = field(
        reader(lambda value: callable(value) and hasattr(value, "__name__")),
        "a Python function", "function=train, without calling it")
    entrypoint: tuple[str, ...] | None = field(
        texts, "a list of texts", "entrypoint=['python3', 'train.py']", show=_redacted_args)
    args: tuple[str, ...] = field(
        texts, "a list of texts", "args=['--lr', '3e-4']; numbers as str(...)", default=(), is_needed=True,
        show=_redacted_args)
    gpu: tuple[GpuRequest, ...] = field(
        parse_gpus, "a GPU and a count such as 'H100:2', or a list of them",
        "gpu='H100:2', or gpu=2 on Local", is_needed=True)
    num_nodes: int = field(
        whole(1, 1000), "a whole number from 1 to 1000", "num_nodes=2", default=1, is_needed=True)
    nproc_per_node: int | None = field(
        whole(1, 64), "a whole number from 1 to 64", "leave it out for one rank per GPU")
    provisioning_model: tuple[ProvisioningModel, ...] = field(
        lambda value: _models(value or ()), words(ProvisioningModel), "provisioning_model='spot'",
        is_needed=True)
    reservation: str | None = field(
        named(), "the name of a reservation, or any", "see `gcloud compute reservations list`",
        show=_redacted)
    machine_type: str | None = field(
        named("(?=.{1,100}$){word}"), "the name of a machine type", "machine_type='a3-highgpu-8g'")
    image: str | Image | None = field(
        read_image, "a container image, or what to build one from",
        "image='REGION-docker.pkg.dev/P/R/I@sha256:…', or gputrain.Image(...)", show=_redacted)
    env: Mapping[str, str] = field(
        _pairs("env", _check_env), "a mapping of names to texts", "env={'NAME': 'value'}",
        show=lambda env: _redacted(hide_secrets(env)))
    secrets: Mapping[str, str] = field(
        _pairs("secrets", _check_secret), "a mapping of names to references",
        "secrets={'NAME': 'secret://...'}", show=_redacted)
    source_dir: str | None = field(path, *_path, show=_redacted)
    requirements: tuple[str, ...] = field(
        _read_requirements, "a list of pip requirements or the path of a .txt file",
        "requirements=['einops==0.8.0']", default=(), is_needed=True, show=_redacted)
    checkpoint_dir: str | None = field(_read_place, *_path, show=_redacted)
    output_dir: str | None = field(_read_place, *_path, show=_redacted)
    keep_outputs: bool = field(
        instance(bool), "True or False", "keep_outputs=True", default=False, is_needed=True)
    max_run_duration: timedelta = field(parse_duration, *_duration, default="1d", is_needed=True)
    max_wait_duration: timedelta | None = field(parse_duration, *_duration)
    hang_timeout: timedelta | None = field(parse_duration, *_duration)
    max_cost: float | None = field(number(0, 1e9), "a positive number of US dollars", "max_cost=400")
    price_per_hour: float | None = field(
        number(0, 1e5), "a positive number of US dollars", "price_per_hour=88.5")
    max_restarts: int = field(
        whole(0, 1000), "a whole number from 0 to 1000", "max_restarts=3", default=0, is_needed=True)
    min_nodes: int | None = field(whole(1, 1000), "a whole number from 1 to 1000", "min_nodes=2")
    labels: Mapping[str, str] = field(
        _pairs("labels", _check_label), "a mapping of names to texts", "labels={'team': 'nlp'}",
        show=_redacted)
    name: str | None = field(
        matching(NAME), "at most 49 lower-case letters, digits and hyphens, starting with a letter",
        "name='bert-base'")
    launcher: Launcher = field(one_of(Launcher), words(Launcher), "leave it out")
    # fmt: on

    def __init__(self, **fields: Unpack[SpecFields]) -> None:
        for key in fields:
            if key not in NAMES:
                wrong = f"TrainingSpec() got an unexpected keyword argument {key!r}"
                raise TypeError(f"{wrong}; did you mean {nearest_field(key)}?")
        self._set(fields)

    def _set(self, given: Mapping[str, Any]) -> None:
        errors = Errors("the spec")
        for key in [one for one in given if one not in NAMES]:
            errors.add(key, given[key], "", nearest_field(key), problem="no such field")
        result = read_fields(TrainingSpec, given, errors)
        for mapping in ("env", "secrets", "labels"):
            result[mapping] = result[mapping] or MappingProxyType({})
        _check_entry(result, given, errors)
        _check_together(result, errors)
        _check_size(result, errors)
        errors.raise_if_any()
        self.__attrs_init__(**result)
        _warn_of_secrets(self)

    @property
    def entry_kind(self) -> EntryKind:
        """Which of script, module, command, function and entrypoint is set; the last: an image as it is."""
        return next(kind for kind in EntryKind if getattr(self, kind.value) is not None)

    @property
    def title(self) -> str:
        """What is run, in a few words: ``train.py``, ``-m pkg.train``, the program, the function's name."""
        value = getattr(self, self.entry_kind.value)
        match self.entry_kind:
            case EntryKind.MODULE:
                return f"-m {value}"
            case EntryKind.COMMAND:
                return str(value[0])
            case EntryKind.FUNCTION:
                return str(value.__name__)
            case EntryKind.ENTRYPOINT:
                return (self.image_name or "").partition("@")[0]
        return str(value)

    @property
    def runs_image(self) -> bool:
        """Whether the image runs as it is, with nothing of this machine in it."""
        return self.entrypoint is not None

    @property
    def image_name(self) -> str | None:
        """The image's name; for one that is not built yet, its base or Dockerfile."""
        if isinstance(self.image, Image):
            return self.image.base or self.image.dockerfile
        return self.image

    @property
    def longest_queue(self) -> timedelta:
        """How long a platform that queues jobs may let it wait: ``max_wait_duration``, or a day."""
        return timedelta(days=1) if self.max_wait_duration is None else self.max_wait_duration

    def replace(self, **changes: Unpack[SpecFields]) -> TrainingSpec:
        """A copy with some fields changed, checked as a whole."""
        return TrainingSpec(**{**self._fields(), **changes})

    def to_dict(self) -> dict[str, Any]:
        """The fields that differ from None, False and empty, as JSON types; `from_dict` reads them back.

        Raises:
            SpecError: the entry is a function, which has no JSON form.
        """
        if self.function is not None:
            problem = "a function cannot be written as JSON"
            raise invalid("function", self.title, "", "put it in a script or module", problem=problem)
        plain = {name: _plain(value) for name, value in self._fields().items()}
        return {name: value for name, value in plain.items() if value not in (None, False, [], {})}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TrainingSpec:
        """Read the result of `to_dict`; unknown fields are faults, like all others."""
        if not isinstance(fields, Mapping):
            raise invalid("fields", fields, "a mapping", "spec.to_dict()")
        spec = object.__new__(cls)
        spec._set({str(name): value for name, value in fields.items()})
        return spec

    @classmethod
    def from_gcloud(cls, config: object) -> TrainingSpec:
        """The job of a ``config.yaml`` for ``gcloud ai custom-jobs create``, or of a ``CustomJob`` call.

        Account, network and disk are no part of a spec: ``VertexAI.from_gcloud`` reads them, and a warning
        names them here.

        Args:
            config: the file's text (YAML needs pyyaml) or path, what it holds, a list of worker pools, or a
                job as ``gcloud ai custom-jobs describe`` prints it.

        Raises:
            SpecError: with everything in it that a spec cannot express.

        >>> pool = {"machineSpec": {"machineType": "g2-standard-24"}, "containerSpec":
        ...     {"imageUri": "us-docker.pkg.dev/p/r/i", "command": ["python3", "train.py"]}}
        >>> str(TrainingSpec.from_gcloud([pool]).gpu[0])
        'L4:2'
        """
        from gputrain.spec.gcloud import read_config

        fields, settings = read_config(config)
        if settings:
            names = ", ".join(sorted(settings))
            warnings.warn(f"{names}: not part of a spec; VertexAI.from_gcloud(...) reads them", stacklevel=2)
        return cls(**fields)

    @property
    def table(self) -> Table:
        """The fields that are set; secrets are hidden."""
        shown = {**self._fields(), "env": hide_secrets(self.env), "args": hide_secret_args(self.args)}
        shown |= {"command": self.command and hide_secret_args(self.command)}
        shown |= {"entrypoint": self.entrypoint and hide_secret_args(self.entrypoint)}
        shown |= {"function": self.function and self.title, "image": self.image_name}
        rows = [(name, _plain(value)) for name, value in shown.items() if value not in (None, False, (), {})]
        cells = [(name, redact(as_cell(value))) for name, value in rows]
        return Table(title=f"Spec of {self.title}", columns=("field", "value"), rows=cells)

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in NAMES}

    def __reduce__(self) -> tuple[Any, ...]:
        fields: dict[str, Any] = {
            name: dict(one) if isinstance(one, MappingProxyType) else one
            for name, one in self._fields().items()
        }
        return partial(TrainingSpec, **fields), ()


NAMES = tuple(attrs.fields_dict(TrainingSpec))
DEFAULTS = {one.name: one.default for one in attrs.fields(TrainingSpec)}


def nearest_field(name: str) -> str:
    """What to write instead of a field that does not exist: by what others call it, or by its spelling."""
    plain = name.lower().replace("-", "_")
    known = synonyms().get(plain)
    near = [known] if known else difflib.get_close_matches(plain, NAMES, n=1)
    return near[0] if near else "one of " + ", ".join(NAMES)


def _plain(value: object) -> object:
    match value:
        case tuple():
            return [_plain(one) for one in value]
        case enum.Enum():
            return value.value
        case timedelta():
            return format_duration(value)
        case GpuRequest():
            return str(value)
        case Image():
            return value.to_dict()
        case Mapping():
            return dict(value)
    return value


def _check_entry(result: dict[str, Any], given: Mapping[str, Any], errors: Errors) -> None:
    """Exactly one entry, or an image alone; the launcher follows from it."""
    kinds = [kind.value for kind in EntryKind if given.get(kind.value) is not None]
    expected = f"exactly one of {', '.join(kind.value for kind in EntryKind)}"
    if not kinds and result["image"] is not None:
        kinds, result["entrypoint"] = [EntryKind.ENTRYPOINT.value], ()
    if kinds == [EntryKind.ENTRYPOINT.value]:
        image, launcher, fix = result["image"], result["launcher"], "leave it out, or name a script"
        errors.check(
            image is not None, "image", None, "the image to run", "image='REGION-docker.pkg.dev/P/R/I'"
        )
        problem = "an image as it is gets nothing of this machine, and starts its ranks itself"
        for name in ("source_dir", "requirements", "keep_outputs", "nproc_per_node"):
            errors.check(not result[name], name, result[name], "", fix, problem=problem)
        is_own, problem = launcher in (None, Launcher.NONE), "an image as it is has its own"
        errors.check(is_own, "launcher", launcher, "", fix, problem=problem)
    if not kinds:
        errors.add("entry", None, expected, "script='train.py'")
    elif len(kinds) > 1:
        errors.add("entry", ", ".join(kinds), expected, f"keep {kinds[0]} and drop the others")
    if "command" in kinds and result["args"]:
        fix = "put them into command=[...]"
        errors.add("args", given["args"], "", fix, problem="a command has its own arguments")
    if result["launcher"] is None:
        is_own = kinds in (["command"], ["entrypoint"])
        result["launcher"] = Launcher.NONE if is_own else Launcher.TORCHRUN_ENV


def _check_together(result: Mapping[str, Any], errors: Errors) -> None:
    is_bound = ProvisioningModel.RESERVATION_BOUND in (result["provisioning_model"] or ())
    if is_bound and result["reservation"] in (None, ANY_RESERVATION):
        problem, fix = "reservation-bound needs a named reservation", "reservation='my-reservation'"
        errors.add("reservation", result["reservation"], "", fix, problem=problem)
    least, nodes, restarts = result["min_nodes"], result["num_nodes"], result["max_restarts"]
    if least is not None and nodes is not None:
        fix = f"min_nodes={nodes}, or leave it out"
        errors.check(least <= nodes, "min_nodes", least, f"at most num_nodes={nodes}", fix)
        problem = "continuing with min_nodes is a restart"
        errors.check(bool(restarts), "max_restarts", restarts, "", "max_restarts=10", problem=problem)
    env, secrets, problem = result["env"], result["secrets"], "gputrain sets it for each rank"
    for name in sorted(RANK_VARIABLES.get(result["launcher"], frozenset()) & {*env, *secrets}):
        errors.add(f"env[{name!r}]", env.get(name, HIDDEN), "", "leave it out", problem=problem)
    if both := sorted({*env} & {*secrets}):
        problem = f"{', '.join(both)} in env and in secrets"
        errors.add("secrets", both, "", "keep it in secrets", problem=problem)
    run = result["max_run_duration"]
    if run is not None and run > timedelta(days=28):
        fix = "split the work and resume from the checkpoint"
        errors.add("max_run_duration", format_duration(run), "at most 28 days", fix)


def _check_size(result: Mapping[str, Any], errors: Errors) -> None:
    given = {
        "command": result["command"] or result["entrypoint"] or (),
        "args": result["args"] or (),
        "env": [f"{name}={value}" for name, value in result["env"].items()],
    }
    sizes = {name: [len(one.encode(errors="surrogatepass")) + 1 for one in of] for name, of in given.items()}
    fix = "write it to a file beside the script, and pass its path"
    for name, each in sizes.items():
        longest = max(each, default=0)
        problem = f"one of {longest} bytes; at most {MAX_ARGUMENT_BYTES}"
        errors.check(longest <= MAX_ARGUMENT_BYTES, name, longest, "", fix, problem=problem)
    total, largest = sum(map(sum, sizes.values())), max(sizes, key=lambda name: sum(sizes[name]))
    problem = f"{total} bytes of arguments and env; at most {MAX_ARGUMENTS_BYTES}"
    errors.check(total <= MAX_ARGUMENTS_BYTES, largest, total, "", fix, problem=problem)


def _warn_of_secrets(spec: TrainingSpec) -> None:
    suspects = [f"env[{name!r}]" for name, value in spec.env.items() if looks_secret(value, name=name)]
    for name in ("args", "command", "entrypoint"):
        given = getattr(spec, name) or ()
        shown = hide_secret_args(given)
        suspects += [f"{name}[{n}]" for n, value in enumerate(given) if shown[n] != value]
    suspects += [f"requirements[{n}]" for n, value in enumerate(spec.requirements) if looks_secret(value)]
    suspects += [f for f in ("checkpoint_dir", "output_dir") if looks_secret(getattr(spec, f) or "")]
    suspects += ["image"] * looks_secret(spec.image_name or "")
    suspects += [f"labels[{name!r}]" for name, value in spec.labels.items() if looks_secret(value)]
    if suspects:
        warnings.warn(
            f"{', '.join(suspects)} looks like a secret, and everybody who may read the job can read it. "
            "Pass it by reference: secrets={'NAME': 'secret://projects/P/secrets/S/versions/V'}",
            stacklevel=4,
        )
