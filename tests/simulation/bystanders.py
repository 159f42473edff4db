"""What others own in the same project: VMs, a custom job and objects of the same job's name, not ours."""

import json

from gputrain_emulator.exchanges import Request

ZONE, REGION = "us-central1-c", "us-central1"
ATTEMPT = "a000feed"
JOBS = 1
"""Custom jobs of theirs: they come before all others."""
OBJECTS = {
    ("other-bucket", "team/records/{job}.json"): b'{"theirs": 1}',
    ("my-bucket", "records/{job}.json"): b'{"theirs": 2}',
    ("my-bucket", "team2/jobs/{job}/cancel"): b"theirs",
}


def is_theirs(job):
    """Whether a custom job is somebody else's."""
    return job.document.get("labels", {}).get("gputrain-attempt") == ATTEMPT


class Bystanders:
    """Made before the first client comes."""

    def __init__(self, cloud, job_id, token):
        self.cloud, self.job_id, self.token = cloud, job_id, token
        labels = {"gputrain-job": job_id, "gputrain-attempt": ATTEMPT, "gputrain-home": "0123456789ab"}
        self.names = []
        for name, theirs in (("theirs-1", labels), ("theirs-2", {})):
            self._insert(name, theirs)
        cloud.clock.advance(30)
        self._submit(labels)
        for (bucket, name), body in OBJECTS.items():
            target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name.format(job=job_id)}"
            self.ask("POST", target, body)

    def own(self, vm):
        return vm.name in self.names

    def ask(self, verb, target, body=b""):
        reply = self.try_to(verb, target, body)
        assert reply.status == 200, reply
        return reply

    def try_to(self, verb, target, body=b""):
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        request = Request(verb=verb, target=target, headers=headers, body=body)
        return self.cloud.dispatcher.handle(request).reply

    def harmed(self):
        """What is not as it was."""
        there = {vm.name for vm in self.cloud.compute.vms.values() if vm.status == "RUNNING"}
        found = [name for name in self.names if name not in there]
        found += [job.id for job in self.cloud.vertex.jobs.values() if is_theirs(job) and job.ended]
        for (bucket, name), body in OBJECTS.items():
            named = name.format(job=self.job_id)
            there = self.cloud.storage.objects.buckets.get(bucket).live.get(named)
            if there is None or there.content.size != len(body):
                found.append(named)
        return found

    def _insert(self, name, labels):
        image = "projects/debian-cloud/global/images/family/debian-12"
        body = {
            "name": name, "labels": labels, "machineType": f"zones/{ZONE}/machineTypes/n1-standard-1",
            "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": image}}],
            "networkInterfaces": [{"network": "global/networks/default"}],
        }  # fmt: skip
        self.ask("POST", f"/compute/v1/projects/my-project/zones/{ZONE}/instances", json.dumps(body).encode())
        self.names.append(name)

    def _submit(self, labels):
        pool = {
            "replicaCount": 1, "machineSpec": {"machineType": "n1-standard-4"},
            "containerSpec": {"imageUri": "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4:latest"},
        }  # fmt: skip
        body = {"displayName": "theirs", "labels": labels, "jobSpec": {"workerPoolSpecs": [pool]}}
        target = f"/v1/projects/my-project/locations/{REGION}/customJobs"
        self.ask("POST", target, json.dumps(body).encode())
