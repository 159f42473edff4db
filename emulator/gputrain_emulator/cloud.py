"""The handle of a running emulator: where it is, what it holds, and how to make it go wrong."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gputrain_emulator import facts
from gputrain_emulator.admin import run_command
from gputrain_emulator.clock import Clock
from gputrain_emulator.compute import Compute, lifecycle
from gputrain_emulator.dispatch import Dispatcher
from gputrain_emulator.exchanges import Seen
from gputrain_emulator.faults import Fault, Order
from gputrain_emulator.ledger import Ledger
from gputrain_emulator.quotas import GLOBAL, GLOBAL_METRICS, Key as QuotaKey, Quotas
from gputrain_emulator.routes import all_routes
from gputrain_emulator.runtime import Runtime
from gputrain_emulator.server import Server, require_loopback
from gputrain_emulator.world import Caller, World

if TYPE_CHECKING:
    from gputrain_emulator.storage import Storage
    from gputrain_emulator.vertex import Vertex


class Endpoints:
    """Addresses to hand to clients as ``api_endpoint``; one port answers all REST services."""

    def __init__(self, url: str) -> None:
        self.url = self.compute = self.aiplatform = self.storage = self.logging = self.registry = url
        self.artifactregistry = self.cloudbuild = self.cloudbilling = self.cloudquotas = url
        self.serviceusage = self.resourcemanager = self.iam = self.secretmanager = url
        self.token_uri = f"{url}/token"


class Cloud:
    """A running emulator. Use it as a context manager, or call ``close()``.

    ``compute``, ``vertex`` and ``storage`` hold what exists in each service; ``compute.settings`` and
    ``vertex.settings`` say how long things take and decide what Google does not document.

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
        anonymous: take requests without a token, as gcloud sends them when its credentials are switched off.
        polls_move_clock: whoever looks a second time at an operation, an instance or a job that is under way
            moves a standing clock on to what happens next, as a client does that waits.

    Raises:
        ValueError: the address is no loopback's, something is asked of a live mode that is off, or live mode
            cannot be had here or by a standing clock.
        OSError: the port is not free.
    """

    def __init__(
        self,
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
    ) -> None:
        if (userland or allow_unconfined) and not live:
            raise ValueError("userland and allow_unconfined are for guests that run: they need live mode too")
        if live and wall_clock is False:
            raise ValueError("live guests take real time: live mode cannot have a frozen clock")
        require_loopback(host)
        self.clock = Clock(wall=live if wall_clock is None else wall_clock)
        self.world = World(clock=self.clock, rate_limits=rate_limits, anonymous=anonymous)
        self.project = self.world.add_project(project).id
        self.compute = self.world.part(Compute)
        self.dispatcher = Dispatcher(self.world, all_routes(), polls_move_clock=polls_move_clock)
        self.dispatcher.admin = self.admin
        self.clock.failed = self.dispatcher.fail
        self.server = Server(self.dispatcher, host=host, port=port)
        self.world.base_url = self.server.url
        self.endpoints = Endpoints(self.server.url)
        self.owner = self.world.callers.add(f"owner@{project}.example.com")
        self.server.start()
        if live:
            from gputrain_emulator.live import LiveMode

            try:
                self.attach(LiveMode(self.world, allow_unconfined=allow_unconfined, userland=userland))
            except (OSError, ValueError):
                self.close()
                raise

    def __enter__(self) -> Cloud:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything; safe to call twice."""
        self.dispatcher.stopping.set()
        self.world.runtime.close()
        self.server.stop()
        self.clock.close()
        self.world.close()

    @functools.cached_property
    def vertex(self) -> Vertex:
        """Vertex AI: its jobs and settings; loaded when first asked for."""
        from gputrain_emulator.vertex import Vertex

        return self.world.part(Vertex)

    @functools.cached_property
    def storage(self) -> Storage:
        """Cloud Storage: its buckets and what lies in them."""
        from gputrain_emulator.storage import Storage

        return self.world.part(Storage)

    @property
    def credentials(self) -> Any:
        """google.auth credentials of the project's owner, fit for every official client."""
        return self.credentials_of(self.owner)

    def credentials_of(self, caller: Caller) -> Any:
        """google.auth credentials of ``caller``, which refresh themselves at our token endpoint."""
        from google.oauth2.credentials import Credentials

        return Credentials(
            token=self.world.callers.issue(caller),
            refresh_token=caller.refresh_token,
            token_uri=self.endpoints.token_uri,
            client_id="emulator",
            client_secret="emulator",  # noqa: S106 - no secret: our own token endpoint takes any
        )

    def url_of(self, caller: Caller) -> str:
        """An address that speaks for ``caller``, for clients that send no token; it is as secret as one."""
        return f"{self.endpoints.url}/_emulator/as/{self.world.callers.issue(caller)}"

    @property
    def client_options(self) -> Any:
        """``google.api_core`` client options that point an official client here."""
        from google.api_core.client_options import ClientOptions

        return ClientOptions(api_endpoint=self.server.url)

    def caller(self, email: str, permissions: Iterable[str] | None = None) -> Caller:
        """Someone with just these IAM permissions (None: all of them)."""
        return self.world.callers.add(email, None if permissions is None else frozenset(permissions))

    def add_project(self, name: str, number: str = "") -> None:
        """Another project in the same cloud."""
        self.world.add_project(name, number)

    def enable_api(self, api: str, *, enabled: bool = True, project: str = "") -> None:
        """Switch ``compute``, ``aiplatform``, ... on or off for a project."""
        apis = self.world.projects[project or self.project].apis
        (apis.add if enabled else apis.discard)(api)

    def add_bucket(self, name: str, *, location: str = "us-central1", project: str = "") -> None:
        """A Cloud Storage bucket, of the first project unless another is named."""
        with self.world.lock:
            self.storage.add_bucket(name, location=location, project=project)

    def add_image(self, name: str, platforms: Iterable[str] = ("linux/amd64",)) -> None:
        """A container image in Artifact Registry, ``HOST/PROJECT/REPOSITORY/IMAGE:TAG``."""
        from gputrain_emulator.registry import Registry

        with self.world.lock:
            self.world.part(Registry).add(name, tuple(platforms))

    def rate_limit(self, pool: str, per_minute: int) -> None:
        """Set a pool's calls a minute. Raises as `Rates.change`."""
        self.world.rates.change(pool, per_minute)

    def quota(
        self, metric: str, limit: float, *, region: str = "*", family: str = "", project: str = ""
    ) -> None:
        """Grant ``limit`` of a metric: in ``region``, or everywhere that has no limit of its own.

        ``metric`` is Compute's (``NVIDIA_L4_GPUS``, ``GPUS_ALL_REGIONS``; ``GPUS_PER_GPU_FAMILY`` with
        ``family`` NVIDIA_H100 and so on) or Vertex AI's
        (``aiplatform.googleapis.com/custom_model_training_...``).
        """
        place = GLOBAL if metric in GLOBAL_METRICS else region
        key = QuotaKey(project=project or self.project, metric=metric, region=place, family=family)
        with self.world.lock:
            self.world.part(Quotas).set_limit(key, limit)

    def stock(self, zone: str, machine: str, count: int | None) -> None:
        """A zone has ``count`` free VMs of a machine type (for N1: accelerator type); None is plenty."""
        with self.world.lock:
            if count is None:
                self.compute.stock.pop((zone, machine), None)
            else:
                self.compute.stock[(zone, machine)] = count

    def offer(self, what: str | facts.Machine, zone: str, *, offered: bool = True) -> None:
        """A zone sells a machine type, or has an accelerator type, from now on; or no longer.

        A `facts.Machine` of your own is listed from now on, and cannot be made.
        """
        with self.world.lock:
            self.compute.offer(what, zone, offered=offered)

    def price(self, part: str, region: str, model: str, usd: float | None) -> None:
        """The list price of a part of machines from now on; None takes its SKU off the list.

        ``part`` is an accelerator type, ``G2 core``, ``G2 ram`` or ``local SSD`` (see data/skus.csv),
        ``model`` STANDARD, SPOT or FLEX_START. What runs is metered at the price it was made for.
        """
        from gputrain_emulator.cloudbilling import PriceList

        with self.world.lock:
            self.world.part(PriceList).set_price(
                part, region, model, None if usd is None else Decimal(str(usd))
            )

    def settings(self, **values: float | bool) -> None:
        """Set fields of ``compute.settings``. Raises as `Settings.change`."""
        with self.world.lock:
            self.compute.settings.change(values)

    def preempt(self, instance: str, *, to_stock: bool = False) -> None:
        """Google reclaims a Spot VM; its capacity is lost unless ``to_stock``."""
        with self.world.lock:
            vm = self.compute.find_vm(instance)
            if vm.model != "SPOT":
                raise ValueError(f"Google preempts Spot VMs only, and {vm.name} is {vm.model}")
            lifecycle.preempt(self.compute, vm, to_stock=to_stock)

    def host_error(self, instance: str) -> None:
        """The VM's host is lost this instant."""
        with self.world.lock:
            lifecycle.host_error(self.compute, self.compute.find_vm(instance))

    def maintenance(self, instance: str) -> None:
        """The VM's host goes into maintenance; a GPU VM is terminated for it."""
        with self.world.lock:
            lifecycle.maintain(self.compute, self.compute.find_vm(instance))

    def power_off(self, instance: str) -> None:
        """The guest powers itself off."""
        with self.world.lock:
            lifecycle.guest_terminated(self.compute, self.compute.find_vm(instance))

    def serial(self, instance: str, text: str) -> None:
        """The guest writes to its serial port."""
        with self.world.lock:
            self.compute.find_vm(instance).serial.append(text)

    def fail(
        self,
        method: str,
        fault: Fault | str,
        *,
        times: int | None = 1,
        caller: str | None = None,
        **details: Any,
    ) -> Order:
        """Make calls of ``method`` go wrong: ``times`` times (None: always), for one caller or all.

        ``fault`` is a value of ``gputrain_emulator.faults``, a row of ``gputrain_emulator.failures``
        (``"C01"``), or a name of ``faults.NAMED`` with its ``details``.
        ``method`` is an id as in Google's discovery documents, and may hold ``*`` for anything.
        Raises LookupError for a method or a row that there is not, ValueError for details that cannot be.
        """
        from gputrain_emulator import failures, faults

        self.dispatcher.routes.require(method)
        if isinstance(fault, str) and fault in faults.NAMED:
            fault = faults.named(fault, **details)
        elif isinstance(fault, str):
            fault = failures.fault(fault, **self._names())
        return self.world.faults.order(method, fault, times=times, caller=caller)

    def _names(self) -> dict[str, str]:
        number = self.world.projects[self.project].number
        place = {"zone": "us-central1-a", "region": "us-central1", "name": "instance-1"}
        return {"project": self.project, "number": number, **place}

    @property
    def ledger(self) -> Ledger:
        """Everything committed; ``print(cloud.ledger)`` shows a table."""
        return self.world.ledger

    @property
    def cost_usd(self) -> float:
        """What everything has cost until now."""
        with self.world.lock:
            return self.ledger.cost_usd

    @property
    def requests(self) -> list[Seen]:
        """The last few thousand requests, oldest first."""
        return list(self.dispatcher.requests)

    def attach(self, runtime: Runtime) -> None:
        """Let ``runtime`` run the guests from now on; the one before it is closed."""
        with self.world.lock:
            before, self.world.runtime = self.world.runtime, runtime
        before.close()

    def admin(self, command: str, arguments: dict[str, Any]) -> Any:
        """What ``POST /_emulator/COMMAND`` does."""
        return run_command(self, command, arguments)
