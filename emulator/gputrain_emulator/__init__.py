"""Google Cloud's wire on this machine: Compute Engine, Vertex AI, Cloud Storage and their friends.

It is as strict as Google is: the official clients and ``gcloud`` work against it unmodified. It keeps
projects, quotas, stock, a clock that tests advance, and a ledger of everything committed; it can be told to
fail in every way a cloud fails. It binds to loopback only, needs no account and costs nothing.

Example:
    >>> import gputrain_emulator
    >>> from google.cloud import compute_v1
    >>> with gputrain_emulator.start() as cloud:
    ...     options = {"credentials": cloud.credentials, "client_options": cloud.client_options}
    ...     zones = compute_v1.ZonesClient(**options)
    ...     zones.get(project=cloud.project, zone="us-central1-a").status
    'UP'
"""

from __future__ import annotations

from gputrain_emulator.cloud import Cloud

__all__ = ["Cloud", "start"]
__version__ = "0.2.0"

start = Cloud
