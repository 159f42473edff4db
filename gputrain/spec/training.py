"""`TrainingSpec`: one training job, as the user asks for it."""

from __future__ import annotations

import difflib
import enum
import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gputrain.arguments import refusing
from gputrain.catalog import ProvisioningModel
from gputrain.fields import FaultCollector, refused
from gputrain.secrets import looks_secret, redact, without_secrets
from gputrain.spec import read
from gputrain.spec.durations import format_duration
from gputrain.spec.gpu import GpuRequest
from gputrain.spec.image import Image
from gputrain.spec.typed import DEFAULTS, NAMES, EntryKind, Launcher, SpecFields
from gputrain.tables import Shown, Table, as_cell

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _redacted(value: object) -> str:
    return redact(repr(value))


@attrs.frozen(kw_only=True, init=False)
class TrainingSpec(Shown):
    """A training job: what to run, on what, and within which limits.

    Exactly one of ``script``, ``module``, ``command`` and ``function`` is given.

    Args:
        script: a Python file, relative to ``source_dir``.
        module: a module, started as ``python -m`` would.
        command: a program and its arguments, started without a shell.
        function: a Python function; it travels by value. Its arguments, if it needs any, come with
            `functools.partial` where a trainer is handed it.
        args: arguments of the script or module.
        gpu: kind and count **per node**, ``"H100:2"``, or a list in order of preference; Google's names
            do too. A count alone (``2``) means GPUs of this machine. None: all GPUs of this machine, or
            CPU ranks where it has none.
        num_nodes: how many machines.
        nproc_per_node: ranks on each machine; one per GPU unless said.
        provisioning_model: ``standard``, ``spot``, ``flex-start`` or ``reservation-bound``, or a list
            in order of preference.
        reservation: the reservation to use: its name, its full name
            (``projects/P/zones/Z/reservations/R``, of A4 and A3 Ultra ``.../reservationBlocks/B``), or
            ``any``: one that is open to any VM, where there is one.
        machine_type: Google's machine type, where the GPU and count leave a choice.
        image: container image to run in, best by digest; or an `Image` or a Dockerfile's path, to be built.
        env: environment of the ranks. Never secrets: those go by reference in ``secrets``.
        secrets: variable name to ``secret://projects/P/secrets/S/versions/V``, resolved inside the job.
        source_dir: folder that travels with the job; the script's own folder unless said.
        requirements: pip requirements to install before the ranks start, or ``"requirements.txt"``.
        checkpoint_dir: where state lives between attempts (a path, or ``gs://``).
        output_dir: where results go.
        keep_outputs: copy what the ranks write beside the code to where results go, when they have ended.
        max_run_duration: hard limit on running, all attempts together: ``"90m"``, ``"12h"``, ``"1d"``
            or a timedelta. The platform enforces it.
        max_wait_duration: hard limit on waiting for capacity. Where it is given, a submit that finds no room
            anywhere waits and goes round again until then; otherwise it tells so at once.
        hang_timeout: end the job as ``hang``, with the stacks of all ranks, once none of them has said,
            reported or stepped anything for so long. Off unless given; choose three times the longest
            silence of a healthy run, such as a checkpoint or an evaluation.
        max_cost: US dollars for the whole job, compiled into ``max_run_duration`` at the dated price.
        max_restarts: restarts after preemption or infrastructure failure.
        min_nodes: after the loss of a node, go on with as few as these where there is no room for all, from
            the last checkpoint; Compute Engine only, as elsewhere all come again. All unless given.
        labels: put on everything that is made.
        name: the job's name; one is made from the entry unless said.
        launcher: who starts the ranks; ``torchrun-env`` for scripts, modules and functions, ``none``
            for commands, unless said.

    Raises:
        SpecError: with **all** faults, before any file or network is touched.

    >>> spec = TrainingSpec(script="train.py", gpu="nvidia-h100-80gb:2", max_run_duration="12h")
    >>> str(spec.gpu[0])
    'H100:2'
    >>> spec.replace(num_nodes=2).num_nodes
    2
    """

    script: str | None
    module: str | None
    command: tuple[str, ...] | None = attrs.field(repr=_redacted)
    function: Callable[[], object] | None
    args: tuple[str, ...] = attrs.field(repr=_redacted)
    gpu: tuple[GpuRequest, ...] = attrs.field(repr=_redacted)
    num_nodes: int
    nproc_per_node: int | None
    provisioning_model: tuple[ProvisioningModel, ...]
    reservation: str | None = attrs.field(repr=_redacted)
    machine_type: str | None
    image: str | Image | None = attrs.field(repr=_redacted)
    env: Mapping[str, str] = attrs.field(repr=lambda env: _redacted(without_secrets(env)))
    secrets: Mapping[str, str] = attrs.field(repr=_redacted)
    source_dir: str | None = attrs.field(repr=_redacted)
    requirements: tuple[str, ...] = attrs.field(repr=_redacted)
    checkpoint_dir: str | None = attrs.field(repr=_redacted)
    output_dir: str | None = attrs.field(repr=_redacted)
    keep_outputs: bool
    max_run_duration: timedelta
    max_wait_duration: timedelta | None
    hang_timeout: timedelta | None
    max_cost: float | None
    max_restarts: int
    min_nodes: int | None
    labels: Mapping[str, str] = attrs.field(repr=_redacted)
    name: str | None
    launcher: Launcher

    @refusing({})
    def __init__(self, **fields: Unpack[SpecFields]) -> None:
        faults = FaultCollector("the spec")
        unknown = {key: value for key, value in fields.items() if key not in NAMES}
        for key, value in unknown.items():
            near = difflib.get_close_matches(key, NAMES, n=1)
            faults.add(key, value, "no such field", f"did you mean {near[0]}?" if near else "leave it out")
        given = {name: fields.get(name, DEFAULTS.get(name)) for name in NAMES}
        result = read.fields(given, faults)
        faults.raise_if_any()
        self.__attrs_init__(**result)
        _warn_of_secrets(self)

    @property
    def entry_kind(self) -> EntryKind:
        """Which of script, module, command and function is set."""
        return next(kind for kind in EntryKind if getattr(self, kind.value) is not None)

    @property
    def title(self) -> str:
        """A few words for what is run: ``train.py``, ``-m pkg.train``, the program, the function's name."""
        value = getattr(self, self.entry_kind.value)
        match self.entry_kind:
            case EntryKind.MODULE:
                return f"-m {value}"
            case EntryKind.COMMAND:
                return str(value[0])
            case EntryKind.FUNCTION:
                return str(value.__name__)
        return str(value)

    @property
    def image_name(self) -> str | None:
        """The image's name; of one that is yet to be named, what it is made from."""
        if isinstance(self.image, Image):
            return self.image.base or self.image.dockerfile
        return self.image

    @property
    def longest_queue(self) -> timedelta:
        """How long a platform that queues jobs may let it wait: ``max_wait_duration``, or a day."""
        return timedelta(days=1) if self.max_wait_duration is None else self.max_wait_duration

    def replace(self, **changes: Unpack[SpecFields]) -> TrainingSpec:
        """This spec with some fields changed, checked anew as a whole."""
        return TrainingSpec(**{**self._fields(), **changes})

    def to_dict(self) -> dict[str, Any]:
        """The spec as JSON types, without the fields left at their defaults; `from_dict` reads it back.

        Raises:
            SpecError: the entry is a function, which has no JSON form.
        """
        fields = self._fields()
        if self.function is not None:
            fix = "put it in a script or module"
            raise refused("function", self.title, "a function cannot be written as JSON", fix)
        plain = {name: _plain(value) for name, value in fields.items()}
        return {name: value for name, value in plain.items() if value not in (None, False, [], {})}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TrainingSpec:
        """Read what `to_dict` wrote; errors as for the constructor."""
        try:
            said = {str(name): value for name, value in fields.items()}
        except Exception as error:
            raise refused("fields", fields, "a mapping, as to_dict gives", "spec.to_dict()") from error
        return cls(**said)

    @classmethod
    def from_gcloud(cls, config: str | Mapping[str, Any]) -> TrainingSpec:
        """The job that a ``config.yaml`` of ``gcloud ai custom-jobs create`` describes.

        What such a file says of the project's choices (account, network, disk) is no part of a spec:
        ``VertexAI.from_gcloud`` reads it, and a warning names it here.

        Args:
            config: the file's text (YAML needs the extra ``gcloud``), or what it holds.

        Raises:
            SpecError: with everything in it that cannot be said.

        >>> pool = {"machineSpec": {"machineType": "g2-standard-24"}, "containerSpec":
        ...     {"imageUri": "us-docker.pkg.dev/p/r/i", "command": ["python3", "train.py"]}}
        >>> str(TrainingSpec.from_gcloud({"workerPoolSpecs": pool}).gpu[0])
        'L4:2'
        """
        from gputrain.spec.gcloud import read_config

        read = read_config(config)
        if read.settings:
            named = ", ".join(sorted(read.settings))
            warnings.warn(f"{named}: not of the spec; VertexAI.from_gcloud(...) reads them", stacklevel=2)
        return cls(**read.fields)

    @property
    def table(self) -> Table:
        """What was given, and what was filled in; what looks secret is hidden."""
        said = {**self._fields(), "env": without_secrets(self.env)}
        said |= {"function": self.function and self.title, "image": self.image_name}
        rows = [(name, _plain(value)) for name, value in said.items() if value not in (None, False, (), {})]
        told = [(name, redact(as_cell(value))) for name, value in rows]
        return Table(title=f"Spec of {self.title}", columns=("field", "value"), rows=told)

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (
            {k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in self._fields().items()},
        )


def _rebuild(fields: dict[str, Any]) -> TrainingSpec:
    """The spec from fields that were checked when it was first made."""
    spec = object.__new__(TrainingSpec)
    frozen: dict[str, Any] = {k: MappingProxyType(v) if isinstance(v, dict) else v for k, v in fields.items()}
    spec.__attrs_init__(**frozen)
    return spec


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


def _warn_of_secrets(spec: TrainingSpec) -> None:
    suspects = [f"env[{name!r}]" for name, value in spec.env.items() if looks_secret(value, name=name)]
    for field in ("args", "command", "requirements"):
        texts = getattr(spec, field) or ()
        suspects += [f"{field}[{n}]" for n, value in enumerate(texts) if looks_secret(value)]
    suspects += [f for f in ("checkpoint_dir", "output_dir") if looks_secret(getattr(spec, f) or "")]
    suspects += ["image"] * looks_secret(spec.image_name or "")
    suspects += [f"labels[{name!r}]" for name, value in spec.labels.items() if looks_secret(value)]
    if suspects:
        warnings.warn(
            f"{', '.join(suspects)} looks like a secret: everybody who may read the job can read it. "
            "Give it by reference: secrets={'NAME': 'secret://projects/P/secrets/S/versions/V'}",
            stacklevel=4,
        )
