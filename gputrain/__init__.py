"""Run a PyTorch script on multiple GPUs, on this machine or on Google Cloud.

Modules are imported when a name of theirs is first used (PEP 562). This file also runs inside jobs, beside
`gputrain.ddp` and `gputrain.entrypoint` alone, so its syntax stays within Python 3.9.
"""

__version__ = "0.2.0"

_MODULES = {
    "errors": """
        AccessError AuthError CapacityError
        GputrainError JobError JobFailedError JobLostError
        JobTimeoutError NoFitError NoPlacementError
        PermissionDeniedError QuotaExceededError RequestError
        SpecError StoppedError TransientError UnknownGpuError
    """,
    "catalog": "ProvisioningModel",
    "lifecycle": "State",
    "jobstore": "ConflictError",
    "spec": "Image TrainingSpec",
    "backends.local": "Local",
    "backends.compute": "ComputeEngine",
    "backends.vertex": "VertexAI",
    "experiments": "Experiment compare grid",
    "job": "Job JobEvent",
    "trainer": "Plan Trainer attach",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

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
                f"gputrain.{name} is not part of the copy of gputrain inside a job; "
                "only gputrain.ddp and gputrain.entrypoint are"
            ) from error
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
