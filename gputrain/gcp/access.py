"""`Access`: who calls Google, for which project, and where its APIs are."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import attrs

from gputrain.gcp.errors import UnclearError
from gputrain.gcp.refusals import to_error
from gputrain.gcp.translate import answer_of_response, translated
from gputrain.secrets import redacted

T = TypeVar("T")
TIMEOUT_S = 60.0


class Api(enum.Enum):
    """The APIs that gputrain calls; each word is an attribute of `Endpoints`."""

    AIPLATFORM = "aiplatform"
    AIPLATFORM_GRPC = "aiplatform_grpc"
    CLOUDBILLING = "cloudbilling"
    CLOUDQUOTAS = "cloudquotas"
    COMPUTE = "compute"
    IAM = "iam"
    LOGGING = "logging"
    REGISTRY = "registry"
    RESOURCEMANAGER = "resourcemanager"
    SECRETMANAGER = "secretmanager"
    SERVICEUSAGE = "serviceusage"
    STORAGE = "storage"


@attrs.frozen(kw_only=True)
class Endpoints:
    """Addresses of the APIs: Google's own unless said.

    ``{region}`` in an address is filled in, and ``{host}`` with the name of an image's registry.
    ``aiplatform_grpc`` is ``host:port``; an address of this machine is spoken to without TLS.
    Any object with such attributes will do instead, an emulator's for one; what it lacks is not called.
    """

    aiplatform: str = "https://{region}-aiplatform.googleapis.com"
    aiplatform_grpc: str = "{region}-aiplatform.googleapis.com:443"
    cloudbilling: str = "https://cloudbilling.googleapis.com"
    cloudquotas: str = "https://cloudquotas.googleapis.com"
    compute: str = "https://compute.googleapis.com"
    iam: str = "https://iam.googleapis.com"
    logging: str = "https://logging.googleapis.com"
    registry: str = "https://{host}"
    resourcemanager: str = "https://cloudresourcemanager.googleapis.com"
    secretmanager: str = "https://secretmanager.googleapis.com"
    serviceusage: str = "https://serviceusage.googleapis.com"
    storage: str = "https://storage.googleapis.com"


GOOGLE = Endpoints()


class _Shared:
    """What the calls of one `Access` share: credentials, clients, and what was asked once."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.made: dict[str, Any] = {}


@attrs.frozen(kw_only=True, eq=False)
class Access:
    """One tenant's way to Google Cloud: two of them share nothing.

    Args:
        project: the project's id.
        credentials: google.auth credentials; this environment's default ones unless given.
        endpoints: where the APIs are.
        sleep, now: the clock that waiting uses, in seconds.

    >>> Access(project="my-project").url(Api.AIPLATFORM, region="us-central1")
    'https://us-central1-aiplatform.googleapis.com'
    """

    project: str
    credentials: Any = attrs.field(default=None, repr=False)
    endpoints: Any = attrs.field(default=GOOGLE, repr=False)
    sleep: Callable[[float], None] = attrs.field(default=time.sleep, repr=False)
    now: Callable[[], float] = attrs.field(default=time.time, repr=False)
    _shared: _Shared = attrs.field(init=False, factory=_Shared, repr=False)

    def url(self, api: Api, *, region: str = "") -> str:
        """The address of an API, without a slash at its end; empty where these endpoints have none."""
        address = str(getattr(self.endpoints, api.value, ""))
        return address.replace("{region}", region).rstrip("/")

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What ``make`` returned the first time ``key`` was asked for; other threads wait for it."""
        made = self._shared.made
        if key not in made:
            with self._shared.lock:
                if key not in made:
                    made[key] = make()
        found: T = made[key]
        return found

    def locked_credentials(self) -> Any:
        """The credentials behind a lock, shared by every client made here.

        Raises:
            AuthError: none were given, and this environment has no default ones.
        """
        from gputrain.gcp.credentials import locked

        with translated("find credentials"):
            return self.once("credentials", lambda: locked(self.credentials))

    def sign_in(self) -> str:
        """Have a token ready; the word for whoever it speaks for, as `member` says it.

        Raises:
            AuthError: there are no credentials, or no token is given for them.
            TransientError: nobody answered.
        """
        from google.auth.transport.requests import Request

        credentials = self.locked_credentials()
        with translated("get a token"):
            credentials.before_request(Request(), "GET", "", {})
        return self.member

    @property
    def member(self) -> str:
        """Who calls, as IAM policies name it; ``user:YOU`` where the credentials do not tell."""
        account = self.locked_credentials().account
        return f"serviceAccount:{account}" if account else "user:YOU"

    def translated(self, action: str, *, place: str = "") -> AbstractContextManager[None]:
        """Let what the official clients raise inside come out as gputrain's errors, as `gcp.translated` does.

        Args:
            action: what is being done, for the message: ``"create the job"``.
            place: the zone or region that is asked.
        """
        return translated(action, project=self.project, place=place, now=self.now)

    def rest(
        self,
        method: str,
        url: str,
        *,
        action: str,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """One HTTP call with our credentials; never repeated.

        Args:
            action: what is being done, for the error's text.
            accept: statuses of 300 or more that the caller understands; all others raise.

        Returns:
            The `requests.Response`.

        Raises:
            AccessError, RequestError, CapacityError, TransientError, ProviderError: as the answer says.
        """
        with self.translated(action):
            response = self.once("session", self._session).request(
                method, url, params=params, json=json, data=data, headers=headers, timeout=timeout_s,
                allow_redirects=False,
            )  # fmt: skip
        if response.status_code >= 300 and response.status_code not in accept:
            raise to_error(answer_of_response(response), action, project=self.project, now=self.now())
        return response

    def rest_json(self, method: str, url: str, *, action: str, **options: Any) -> dict[str, Any]:
        """As `rest`, and the JSON object that was answered."""
        response = self.rest(method, url, action=action, **options)
        with translated(action):
            body = response.json()
        if not isinstance(body, dict):
            raise UnclearError(
                f"could not {action}: the answer is not what was asked for",
                why=f"a JSON object was due, {type(body).__name__} came",
                fix="check what stands between this machine and Google: a proxy may answer for it",
                raw=redacted(body),
            )
        return body

    def _session(self) -> Any:
        from google.auth.transport.requests import AuthorizedSession
        from requests.adapters import HTTPAdapter

        session = AuthorizedSession(self.locked_credentials())
        adapter = HTTPAdapter(pool_maxsize=64)  # as many connections as threads, each kept open
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        return session
