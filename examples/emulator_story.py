"""A gang of 2 x 8 GPUs in the emulated cloud: a full zone, a quota, a preemption, a second life, the end.

Uses Google's own Compute client; nothing leaves this machine and nothing costs money.
"""

from google.cloud import compute_v1 as compute

import gputrain_emulator

MACHINE = "a2-highgpu-8g"
IMAGE = "projects/deeplearning-platform-release/global/images/family/common-cu128-ubuntu-2204-nvidia-570"


def gang() -> compute.BulkInsertInstanceResource:
    """Two Spot VMs with eight A100 each, all or none."""
    disk = compute.AttachedDiskInitializeParams(source_image=IMAGE, disk_size_gb=100)
    properties = compute.InstanceProperties(
        machine_type=MACHINE,
        scheduling={"provisioning_model": "SPOT", "on_host_maintenance": "TERMINATE"},
        disks=[compute.AttachedDisk(boot=True, auto_delete=True, initialize_params=disk)],
        network_interfaces=[compute.NetworkInterface(network="global/networks/default")],
    )
    gang = compute.BulkInsertInstanceResource(count=2, instance_properties=properties)
    gang.per_instance_properties = {"bert-0": {}, "bert-1": {}}
    return gang


def main() -> None:
    with gputrain_emulator.start(project="lab") as cloud:
        options = {"credentials": cloud.credentials, "client_options": cloud.client_options}
        instances, operations = compute.InstancesClient(**options), compute.ZoneOperationsClient(**options)

        def attempt(zone: str) -> list[str]:
            where = {"project": "lab", "zone": zone}
            made = instances.bulk_insert_unary(**where, bulk_insert_instance_resource_resource=gang())
            done = operations.wait(**where, operation=made.name)
            return [error.code for error in done.error.errors]

        cloud.quota("PREEMPTIBLE_NVIDIA_A100_GPUS", 8)
        cloud.stock("us-central1-a", MACHINE, 0)
        print("zone a, out of stock:", attempt("us-central1-a"))
        print("zone b, quota of 8:  ", attempt("us-central1-b"))
        cloud.quota("PREEMPTIBLE_NVIDIA_A100_GPUS", 16)
        cloud.clock.advance(60)  # what was made of the first gang is rolled back
        print("zone b, quota of 16: ", attempt("us-central1-b") or "it runs")

        cloud.clock.advance(3600)
        cloud.preempt("bert-1")
        cloud.clock.advance(600)
        again = instances.start_unary(project="lab", zone="us-central1-b", instance="bert-1")
        operations.wait(project="lab", zone="us-central1-b", operation=again.name)
        cloud.clock.advance(3600)
        for name in ("bert-0", "bert-1"):
            instances.delete_unary(project="lab", zone="us-central1-b", instance=name)
        cloud.clock.advance(120)
        print(f"\n{cloud.ledger}\n\nIt would have cost {cloud.cost_usd:.2f} US dollars.")


if __name__ == "__main__":
    main()
