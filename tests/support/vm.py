"""An emulated cloud as one of its VMs reaches it."""

import contextlib

import gputrain_emulator
from gputrain_emulator.metadata import Account, Metadata, MetadataServer
from gputrain_emulator.storage import Storage


@contextlib.contextmanager
def cloud_of_a_vm(monkeypatch):
    """A cloud with the empty bucket ``my-bucket``, and a metadata server with the account of a VM there."""
    with gputrain_emulator.start() as cloud:
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        caller = cloud.world.callers.add("vm@p")
        account = Account(email="vm@p", scopes=("x",), mint=lambda: (cloud.world.callers.issue(caller), 3600))
        server = MetadataServer(Metadata(read=lambda: {"instance": {}}, accounts={"vm@p": account}))
        monkeypatch.setenv("GCE_METADATA_HOST", server.host)
        yield cloud
        server.close()
