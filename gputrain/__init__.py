"""From a ``train.py`` and the words ``gpu="H100:2"`` to a multi-GPU PyTorch job, here or on Google Cloud.

Nothing heavy is imported until a name is asked for (PEP 562).
This file also travels inside jobs, where only `gputrain.ddp` and `gputrain.entrypoint` exist,
so its syntax stays within Python 3.7.
"""

__version__ = "0.2.0"

_ROOMS = {
    "errors": """
        AccessError ApiDisabledError AuthError CapacityError
        GputrainError JobError JobFailedError JobLostError
        JobTimeoutError NoFitError NoPlacementError OrgPolicyError
        PermissionDeniedError ProviderError QuotaExceededError RequestError
        Scope SpecError StoppedError TransientError UnknownGpuError
    """,
    "catalog": "ProvisioningModel",
    "lifecycle": "State",
    "records": "ConflictError",
    "spec": "Image TrainingSpec",
    "planning": "Attempt Candidate Ledger Plan Refusal",
    "preflight": "Check Checks",
    "backends.local": "Local",
    "backends.compute": "ComputeEngine",
    "backends.vertex": "VertexAI",
    "experiments": "Experiment compare grid",
    "job": "Job JobEvent",
    "trainer": "PlannedJob Trainer attach",
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        from importlib import import_module

        home = f"{__name__}.{_HOMES[name]}"
        try:
            value = getattr(import_module(home), name)
        except ModuleNotFoundError as error:
            if not f"{home}.".startswith(f"{error.name}."):
                raise
            raise ImportError(
                f"gputrain.{name} is not part of the copy of gputrain that travels inside a job; "
                "only gputrain.ddp and gputrain.entrypoint are"
            ) from error
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list:  # type: ignore[type-arg]  # list[str] is no annotation on Python 3.7
    return sorted(set(globals()) | set(_HOMES))
