"""Instances with real processes behind them."""

from __future__ import annotations

import os
from typing import Any

from google.cloud import compute_v1

import gputrain_emulator
from emulator.tests.live_guests import PATIENCE_S, nap, needs_walls, running, until
from gputrain_emulator import Cloud
from gputrain_emulator.live import LiveMode

ZONE = "us-central1-a"
SPOT = {"provisioning_model": "SPOT", "on_host_maintenance": "TERMINATE"}
# The runner's pipe is broken by the time that the last sweep's signal comes: bash must not write to it.
HEARS = "exec 2>/dev/null; trap 'echo got SIGTERM > /dev/console; exit 0' TERM"
READ = 'curl -s -H Metadata-Flavor:Google "http://$GCE_METADATA_HOST/computeMetadata/v1/instance/{}"; echo'


def boot(cloud: Cloud, name: str, script: str, **changes: Any) -> Any:
    """Insert an instance with a startup script through Google's client; returns that client."""
    client = compute_v1.InstancesClient(credentials=cloud.credentials, client_options=cloud.client_options)
    image = "projects/debian-cloud/global/images/family/debian-12"
    items = [{"key": "startup-script", "value": script}, *changes.pop("items", ())]
    resource = {
        "name": name,
        "machine_type": f"zones/{ZONE}/machineTypes/g2-standard-24",
        "disks": [{"boot": True, "auto_delete": True, "initialize_params": {"source_image": image}}],
        "network_interfaces": [{"network": "global/networks/default"}],
        "metadata": {"items": items},
        "scheduling": {"on_host_maintenance": "TERMINATE"},
        **changes,
    }
    client.insert_unary(
        project=cloud.project, zone=ZONE, instance_resource=resource, timeout=PATIENCE_S, retry=None
    )
    return client


def serial(cloud: Cloud, name: str) -> str:
    client = compute_v1.InstancesClient(credentials=cloud.credentials, client_options=cloud.client_options)
    output = client.get_serial_port_output(
        project=cloud.project, zone=ZONE, instance=name, timeout=PATIENCE_S, retry=None
    )
    return str(output.contents)


def status(cloud: Cloud, name: str) -> str:
    return str(cloud.compute.find_vm(name).resource["status"])


def says(cloud: Cloud, name: str, words: str) -> bool:
    """Wait until the VM has printed `words` on its serial port."""

    def printed() -> bool:
        found = [vm for vm in cloud.compute.vms.values() if vm.name == name]
        return bool(found) and words.encode() in found[0].serial.kept

    return until(cloud, printed)


@needs_walls
def test_a_startup_script_runs_and_prints_on_the_serial_port(live: Cloud) -> None:
    boot(live, "vm-1", "#!/bin/bash\necho hello from $(hostname)\nnvidia-smi -L\nexit 3\n")
    assert says(live, "vm-1", "Finished running startup scripts")
    printed = serial(live, "vm-1")
    assert "startup-script: hello from vm-1" in printed
    assert "GPU 1: NVIDIA L4" in printed
    assert 'Script "startup-script" failed with error: exit status 3' in printed
    assert status(live, "vm-1") == "RUNNING"


@needs_walls
def test_a_vm_reads_itself_on_its_metadata_server(live: Cloud) -> None:
    script = """
get() { curl -s -H Metadata-Flavor:Google "http://$GCE_METADATA_HOST/computeMetadata/v1/$1"; echo; }
get instance/name; get instance/attributes/greeting; get project/project-id
get instance/network-interfaces/0/ip
getent hosts metadata.google.internal
"""
    boot(live, "vm-1", script, items=[{"key": "greeting", "value": "bonjour"}])
    assert says(live, "vm-1", "Finished running startup scripts")
    address = live.compute.find_vm("vm-1").resource["networkInterfaces"][0]["networkIP"]
    printed = [line.partition("startup-script: ")[2] for line in serial(live, "vm-1").splitlines()]
    assert ["vm-1", "bonjour", live.project, address] == printed[2:6]
    assert printed[6].split() == [address, "metadata.google.internal", "metadata"]


@needs_walls
def test_a_vm_calls_the_cloud_as_its_own_service_account(live: Cloud) -> None:
    email = "trainer@my-project.iam.gserviceaccount.com"
    live.caller(email, {"storage.buckets.list"})
    script = """#!/usr/bin/env python3
import os, google.auth, google.auth.transport.requests
credentials, project = google.auth.default()
session = google.auth.transport.requests.AuthorizedSession(credentials)
url = os.environ["STORAGE_EMULATOR_HOST"]
print("listed", session.get(f"{url}/storage/v1/b?project={project}").status_code)
print("created", session.post(f"{url}/storage/v1/b?project={project}", json={"name": "b-1"}).status_code)
"""
    boot(
        live,
        "vm-1",
        script,
        service_accounts=[{"email": email, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}],
    )
    assert says(live, "vm-1", "Finished running startup scripts")
    printed = serial(live, "vm-1")
    assert "listed 200" in printed
    assert "created 403" in printed
    assert {seen.caller for seen in live.requests if seen.path == "/storage/v1/b"} == {email}


@needs_walls
def test_a_guest_that_powers_off_leaves_a_terminated_instance(live: Cloud) -> None:
    boot(live, "vm-1", "/sbin/shutdown -h now\n")
    assert until(live, lambda: "vm-1" in str(live.compute.vms) and status(live, "vm-1") == "TERMINATED")
    kinds = [operation.document["operationType"] for operation in live.compute.operations.values()]
    assert "compute.instances.guestTerminate" in kinds


@needs_walls
def test_a_reboot_runs_the_script_again_on_the_same_disk(live: Cloud) -> None:
    boot(
        live,
        "vm-1",
        "[ -e /var/booted ] && echo second boot && exit; touch /var/booted; reboot; exec sleep 60\n",
    )
    assert says(live, "vm-1", "startup-script: second boot")
    assert status(live, "vm-1") == "RUNNING"
    assert not os.path.exists("/var/booted")


@needs_walls
def test_a_vm_that_this_computer_cannot_bring_up_says_why_and_ends(live: Cloud) -> None:
    client = boot(live, "vm-1", "echo ready\n")
    assert says(live, "vm-1", "startup-script: ready")
    names = {"project": live.project, "zone": ZONE, "instance": "vm-1", "timeout": PATIENCE_S, "retry": None}
    client.stop_unary(**names)
    assert until(live, lambda: status(live, "vm-1") == "TERMINATED")
    (machine,) = live.world.runtime.vms.values()  # type: ignore[attr-defined]  # this runtime is live mode
    machine.folder.rename(machine.folder.with_name("elsewhere"))
    machine.folder.touch()
    client.start_unary(**names)
    assert says(live, "vm-1", "this machine cannot be brought up")
    assert until(live, lambda: status(live, "vm-1") == "TERMINATED")


@needs_walls
def test_a_preempted_vm_sees_the_notice_before_the_signal(live: Cloud) -> None:
    ask = READ.format("preempted")
    script = f"{HEARS}; {ask}; while :; do sleep 0.02; done"
    boot(live, "vm-1", script, scheduling=SPOT, items=[{"key": "shutdown-script", "value": ask}])
    assert says(live, "vm-1", "startup-script: FALSE")
    live.preempt("vm-1")
    assert until(live, lambda: status(live, "vm-1") == "TERMINATED")
    printed = serial(live, "vm-1")
    assert printed.index("shutdown-script: TRUE") < printed.index("got SIGTERM")


@needs_walls
def test_two_vms_reach_each_other_by_name_on_the_same_port(live: Cloud) -> None:
    listen = """#!/usr/bin/env python3
import socket
with socket.create_server((socket.gethostbyname(socket.gethostname()), 2222)) as server:
    print("listening", flush=True)
    server.accept()[0].sendall(b"hello from " + socket.gethostname().encode())
"""
    ask = """#!/usr/bin/env python3
import socket
own = socket.create_server((socket.gethostbyname(socket.gethostname()), 2222))
other = socket.create_connection(("vm-1.us-central1-a.c.my-project.internal", 2222))
print(other.recv(99).decode(), flush=True)
"""
    boot(live, "vm-1", listen)
    assert says(live, "vm-1", "startup-script: listening")
    boot(live, "vm-2", ask)
    assert says(live, "vm-2", "startup-script: hello from vm-1")


@needs_walls
def test_deleting_a_vm_ends_its_processes(live: Cloud) -> None:
    client = boot(live, "vm-1", f"echo up; exec {nap(67)}\n")
    assert says(live, "vm-1", "startup-script: up")
    client.delete_unary(project=live.project, zone=ZONE, instance="vm-1", timeout=PATIENCE_S, retry=None)
    assert until(live, lambda: not live.compute.vms and running(nap(67)) == [])


@needs_walls
def test_closing_the_cloud_leaves_nothing_behind() -> None:
    with gputrain_emulator.start(wall_clock=True) as cloud:
        mode = LiveMode(cloud.world)
        cloud.attach(mode)
        cloud.compute.settings.provision_s = cloud.compute.settings.staging_s = 0.02
        boot(cloud, "vm-1", f"echo up > /root/file; (setsid {nap(68)} &); echo up; exec {nap(69)}\n")
        assert says(cloud, "vm-1", "startup-script: up")
        folder = mode.folder
        assert folder.exists()
    assert running(nap(68)) == running(nap(69)) == []
    assert not folder.exists()


MOUNTS = """
mkdir -p /gcs/my-bucket
gcsfuse --foreground --no-such-flag my-bucket /gcs/my-bucket
gcsfuse --foreground not-there /gcs/not-there
gcsfuse --foreground --implicit-dirs my-bucket /gcs/my-bucket &
sleep 0.5
echo "$(cat /gcs/my-bucket/there)" > /gcs/my-bucket/here
kill $!
wait $!
echo unmounted $?
"""


@needs_walls
def test_gcsfuse_shows_a_bucket_and_ends_when_what_was_written_is_there(live: Cloud) -> None:
    live.add_bucket("my-bucket")
    objects = live.storage.objects
    objects.put("my-bucket", "there", objects.folder.keep(b"of another"))
    boot(live, "vm-1", MOUNTS)
    assert says(live, "vm-1", "unmounted 0"), serial(live, "vm-1")
    found = {one.name: one.content.read() for one in objects.walk("my-bucket")}
    assert found == {"there": b"of another", "here": b"of another\n"}
    assert "unknown flag: --no-such-flag" in serial(live, "vm-1")
    assert "bucket not-there: 404" in serial(live, "vm-1")
