"""What makes an unmodified ``gcloud`` speak to an emulator, and to nothing else."""

from __future__ import annotations

import os

_STEM = "CLOUDSDK_"
_PATHS = {
    "AIPLATFORM": "", "CLOUDQUOTAS": "", "CLOUDRESOURCEMANAGER": "", "COMPUTE": "compute/v1/", "IAM": "",
    "LOGGING": "", "SERVICEUSAGE": "", "STORAGE": "storage/v1/",
}  # fmt: skip
"""The services by gcloud's names for them, and what follows the address of each."""


def overrides(url: str) -> dict[str, str]:
    """Variables that say where each service is, and no more.

    Args:
        url: `Endpoints.url`, or one that speaks for somebody (`Cloud.url_of`).
    """
    return {f"{_STEM}API_ENDPOINT_OVERRIDES_{name}": f"{url}/{path}" for name, path in _PATHS.items()}


def environment(
    url: str, folder: str | os.PathLike[str], *, project: str = "", zone: str = ""
) -> dict[str, str]:
    """Variables for a ``gcloud`` that asks nothing, sends no token, and knows of no account of its user's.

    Args:
        url: as `overrides` takes it.
        folder: where it keeps what it writes: its settings and logs.
        project: of commands that name none.
        zone: likewise; its region too.

    Example:
        >>> import gputrain_emulator
        >>> from gputrain_emulator import gcloud
        >>> with gputrain_emulator.start() as cloud:
        ...     variables = gcloud.environment(cloud.endpoints.url, "/tmp/gcloud", project=cloud.project)
        >>> variables["CLOUDSDK_CORE_PROJECT"]
        'my-project'
    """
    region = zone.rpartition("-")[0]
    settings = {
        "CONFIG": os.fspath(folder),
        "AUTH_DISABLE_CREDENTIALS": "true",
        "COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "CORE_DISABLE_PROMPTS": "1",
        "CORE_DISABLE_USAGE_REPORTING": "true",
        "CORE_PROJECT": project,
        "COMPUTE_ZONE": zone,
        "COMPUTE_REGION": region,
        "AI_REGION": region,
    }
    return {**overrides(url), **{f"{_STEM}{name}": value for name, value in settings.items() if value}}
