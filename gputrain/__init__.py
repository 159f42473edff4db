"""From a ``train.py`` and the words ``gpu="H100:2"`` to a multi-GPU PyTorch job, here or on Google Cloud.

Nothing heavy is imported until a name is asked for (PEP 562).
This file also travels inside jobs, where only `gputrain.ddp` and `gputrain.entrypoint` exist,
so its syntax stays within Python 3.7.
"""

__version__ = "0.1.0"

_HOMES = {
    "AccessError": "errors",
    "ApiDisabledError": "errors",
    "AuthError": "errors",
    "CapacityError": "errors",
    "GputrainError": "errors",
    "JobError": "errors",
    "JobFailedError": "errors",
    "JobLostError": "errors",
    "JobTimeoutError": "errors",
    "NoFitError": "errors",
    "NoPlacementError": "errors",
    "OrgPolicyError": "errors",
    "PermissionDeniedError": "errors",
    "ProviderError": "errors",
    "QuotaExceededError": "errors",
    "RequestError": "errors",
    "SpecError": "errors",
    "TransientError": "errors",
    "UnknownGpuError": "errors",
    "ProvisioningModel": "catalog",
    "State": "lifecycle",
    "TrainingSpec": "spec",
    "Candidate": "planning",
    "Plan": "trainer",
    "Refusal": "planning",
    "Local": "backends.local",
    "Job": "job",
    "Trainer": "trainer",
    "attach": "trainer",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name):  # type: ignore[no-untyped-def]  # typed in __init__.pyi; 3.7 syntax here
    if name in _HOMES:
        from importlib import import_module

        try:
            value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith(__name__):
                raise
            raise ImportError(
                f"gputrain.{name} is not part of the copy of gputrain that travels inside a job; "
                "only gputrain.ddp and gputrain.entrypoint are"
            ) from error
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():  # type: ignore[no-untyped-def]  # as above
    return sorted(set(globals()) | set(_HOMES))
