"""Where the services of a running emulator are."""

from __future__ import annotations


class Endpoints:
    """Addresses to hand to clients as ``api_endpoint``; one port answers all REST services."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.compute = self.aiplatform = self.storage = self.logging = url
        self.artifactregistry = self.cloudbuild = url
        self.cloudbilling = self.cloudquotas = self.serviceusage = self.resourcemanager = self.iam = (
            self.registry
        ) = self.secretmanager = url
        self.token_uri = f"{url}/token"
