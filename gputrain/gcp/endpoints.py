"""Which APIs gputrain calls, and where they are."""

from __future__ import annotations

import enum

import attrs

from gputrain.gcp.addresses import check_address


class Api(enum.Enum):
    """The APIs that gputrain calls; each word is an attribute of `Endpoints`."""

    AIPLATFORM = "aiplatform"
    AIPLATFORM_GRPC = "aiplatform_grpc"
    ARTIFACTREGISTRY = "artifactregistry"
    CLOUDBILLING = "cloudbilling"
    CLOUDBUILD = "cloudbuild"
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
    Tokens and code are sent there, so an address is ``https``, or of this machine.

    Raises:
        SpecError: an address is neither, or holds more than a host, a port and a path.
    """

    aiplatform: str = "https://{region}-aiplatform.googleapis.com"
    aiplatform_grpc: str = "{region}-aiplatform.googleapis.com:443"
    artifactregistry: str = "https://artifactregistry.googleapis.com"
    cloudbilling: str = "https://cloudbilling.googleapis.com"
    cloudbuild: str = "https://cloudbuild.googleapis.com"
    cloudquotas: str = "https://cloudquotas.googleapis.com"
    compute: str = "https://compute.googleapis.com"
    iam: str = "https://iam.googleapis.com"
    logging: str = "https://logging.googleapis.com"
    registry: str = "https://{host}"
    resourcemanager: str = "https://cloudresourcemanager.googleapis.com"
    secretmanager: str = "https://secretmanager.googleapis.com"
    serviceusage: str = "https://serviceusage.googleapis.com"
    storage: str = "https://storage.googleapis.com"

    def __attrs_post_init__(self) -> None:
        for api in Api:
            check_address(api.value, getattr(self, api.value))


GOOGLE = Endpoints()
