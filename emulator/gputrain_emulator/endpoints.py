"""Where the services of a running emulator are."""

from __future__ import annotations

from typing import Any

from gputrain_emulator.dispatch import Dispatcher


class Endpoints:
    """Addresses to hand to clients as ``api_endpoint``; one port answers all REST services."""

    def __init__(self, url: str, dispatcher: Dispatcher) -> None:
        self.url = url
        self.compute = self.aiplatform = self.storage = self.logging = url
        self.artifactregistry = self.cloudbuild = url
        self.cloudbilling = self.cloudquotas = self.serviceusage = self.resourcemanager = self.iam = (
            self.registry
        ) = self.secretmanager = url
        self.token_uri = f"{url}/token"
        self._dispatcher = dispatcher
        self._grpc: tuple[str, Any] | None = None

    @property
    def aiplatform_grpc(self) -> str:
        """``127.0.0.1:PORT`` of Vertex AI over gRPC (insecure channel); started when first asked for."""
        if self._grpc is None:
            from gputrain_emulator import vertex_grpc

            self._grpc = vertex_grpc.serve(self._dispatcher)
        return self._grpc[0]

    def close(self) -> None:
        if self._grpc is not None:
            self._grpc[1]()
            self._grpc = None
