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


def start(
    *,
    project: str = "my-project",
    wall_clock: bool | None = None,
    live: bool = False,
    allow_unconfined: bool = False,
    userland: str = "",
    host: str = "127.0.0.1",
    port: int = 0,
    rate_limits: bool = True,
    anonymous: bool = True,
    polls_move_clock: bool = False,
) -> Cloud:
    """A running emulator; close it, or use it in a ``with`` statement.

    Args:
        project: the project that exists from the start; ``cloud.add_project`` makes more.
        wall_clock: let time pass by itself; otherwise only ``cloud.clock.advance`` (and a waiting client)
            moves it. None: as ``live`` says.
        live: run startup scripts and container commands as real processes of this machine
            (``gputrain_emulator.live``), by the wall's clock; it then takes its own tokens only.
        allow_unconfined: in live mode, run replicas as ordinary processes where the kernel gives no
            namespaces to confine them.
        userland: in live mode, the image that virtual machines boot (``gputrain_emulator.live.USERLAND``).
        host: a loopback address; anything else raises ValueError.
        port: TCP port, 0 for a free one.
        rate_limits: enforce Google's requests per minute.
        polls_move_clock: whoever looks a second time at an operation, an instance or a job that is under way
            moves a standing clock on to what happens next, as a client does that waits.
        anonymous: take requests without a token, as gcloud sends them when its credentials are switched off.

    Raises:
        ValueError: the address is no loopback's, something is asked of a live mode that is off, or live mode
            cannot be had here or by a standing clock.
        OSError: the port is not free.
    """
    if (userland or allow_unconfined) and not live:
        raise ValueError("userland and allow_unconfined are for guests that run: they need live mode too")
    if live and wall_clock is False:
        raise ValueError("live guests take real time: live mode cannot have a frozen clock")
    cloud = Cloud(
        project=project,
        wall_clock=live if wall_clock is None else wall_clock,
        host=host,
        port=port,
        rate_limits=rate_limits,
        anonymous=anonymous,
        polls_move_clock=polls_move_clock,
    )
    if live:
        from gputrain_emulator.live import LiveMode

        try:
            cloud.attach(LiveMode(cloud.world, allow_unconfined=allow_unconfined, userland=userland))
        except (OSError, ValueError):
            cloud.close()
            raise
    return cloud
