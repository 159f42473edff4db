"""Servers of a test, and their end."""

import pytest

from tests.unit.google.answering import Server


@pytest.fixture
def serve():
    servers = []

    def start(answer):
        servers.append(Server(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
