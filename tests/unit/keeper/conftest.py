"""Folders that are kept like places in an emulated bucket."""

from urllib.parse import quote

import pytest

import gputrain_emulator
from gputrain.keeper.cloud import call
from gputrain.keeper.mirror import Mirror
from gputrain.keeper.store import Store
from gputrain.keeper.whole import Wholeness
from gputrain_emulator.metadata import Account, Metadata, MetadataServer
from gputrain_emulator.storage import Storage


@pytest.fixture
def cloud(monkeypatch):
    """An emulated cloud with an empty bucket, and a metadata server that speaks for a VM there."""
    with gputrain_emulator.start() as cloud:
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        caller = cloud.world.callers.add("vm@p")
        account = Account(
            email="vm@p", scopes=("x",), mint=lambda _: (cloud.world.callers.issue(caller), 3600)
        )
        server = MetadataServer(Metadata(read=lambda: {"instance": {}}, accounts={"vm@p": account}))
        monkeypatch.setenv("GCE_METADATA_HOST", server.host)
        yield cloud
        server.close()


@pytest.fixture
def mirror(cloud, tmp_path):
    """Makes a mirror of an empty folder and of a place that holds what is given."""

    def make(content, node=0):
        folder = tmp_path / ("folder" if node == 0 else f"folder-{node}")
        folder.mkdir()
        store = Store(cloud.endpoints.storage, "my-bucket", "ckpt/", node)
        for name, data in content.items():
            store.put(f"ckpt/{name}", data)
        return Mirror(store, str(folder), node, Wholeness(str(tmp_path / "killed"), is_strict=True))

    return make


@pytest.fixture
def at_once(monkeypatch):
    """Files go without settling, lists and tries follow each other without a pause."""
    monkeypatch.setattr("gputrain.keeper.whole.SETTLE_S", 0.0)
    monkeypatch.setattr("gputrain.keeper.mirror.LIST_EVERY_S", 0.0)
    monkeypatch.setattr("gputrain.keeper.cloud.PAUSES_S", (0,))


@pytest.fixture
def held(mirror):
    """Makes a mirror of objects under a hold, which Google refuses to replace or delete."""

    def make(*names):
        made = mirror(dict.fromkeys(names, b"first"))
        base = f"{made.store._storage}/storage/v1/b/my-bucket/o/"
        for name in names:
            url = base + quote(f"ckpt/{name}", safe="")
            call("PATCH", url, b'{"temporaryHold": true}', headers={"Content-Type": "application/json"})
        made.fill()
        return made

    return make
