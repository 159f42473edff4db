"""Each kind of refusal as Google says it, and what a reader should know beside the fix.

The examples prove that the table of `gputrain.gcp.kinds` knows them; the page of errors shows both.
"""

# ruff: noqa: E501  # Google's words stand whole, one row a sentence

import attrs

from gputrain.gcp.answer import Answer, QuotaFact, Surface
from gputrain.gcp.kinds.kind import words

_LOGIN = "run `gcloud auth application-default login`, or pass credentials="
_SA = "trainer@my-project.iam.gserviceaccount.com"
_CROWDED = words("CONCURRENT_OPERATIONS_QUOTA_EXCEEDED")


@attrs.frozen(kw_only=True)
class Told:
    """What stands of one kind on the page of errors."""

    advice: str
    example: Answer
    """As Google says it."""


TOLD = {
    "credentials_missing": Told(
        advice="Nothing was sent to Google. On a machine of Google's the service account of the machine is found by"
        " itself; elsewhere `GOOGLE_APPLICATION_CREDENTIALS` may name a key file, and must not name one that is gone.",
        example=Answer(
            surface=Surface.AUTH,
            codes=words("DefaultCredentialsError"),
            message="Your default credentials were not found. To set up Application Default Credentials, see"
            " https://cloud.google.com/docs/authentication/external/set-up-adc for more information.",
        ),
    ),
    "clock_skew": Told(
        advice="Google takes a signed request for a few minutes around its own time only. The key is fine.",
        example=Answer(
            surface=Surface.AUTH,
            status=400,
            codes=words("invalid_grant"),
            message="Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
            "Check your iat and exp values in the JWT claim.",
        ),
    ),
    "credentials_scope": Told(
        advice="Typical of a notebook on a VM that was made with the default scopes. Roles do not help here: scopes "
        f"limit the token whatever the account may do. Your own login works as well: {_LOGIN}.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=403,
            codes=words("forbidden"),
            reasons=words("ACCESS_TOKEN_SCOPE_INSUFFICIENT"),
            message="Request had insufficient authentication scopes.",
        ),
    ),
    "credentials_refused": Told(
        advice="A login runs out, and a key can be deleted or disabled; a token was asked for again before this was told.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=401,
            canonical="UNAUTHENTICATED",
            codes=words("authError"),
            message="Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or "
            "other valid authentication credential.",
        ),
    ),
    "api_disabled": Told(
        advice="Once for each project and API. The other backend needs another API: it may work meanwhile.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=403,
            codes=words("accessNotConfigured"),
            reasons=words("SERVICE_DISABLED"),
            metadata={"service": "compute.googleapis.com", "consumer": "projects/123456789012"},
            message="Compute Engine API has not been used in project 123456789012 before or it is disabled. Enable it "
            "by visiting https://console.developers.google.com/apis/api/compute.googleapis.com/overview?project="
            "123456789012 then retry.",
        ),
    ),
    "billing_off": Told(
        advice="A project that pays nothing runs nothing, whatever its quotas say. `gcloud billing accounts list` shows"
        " the accounts that you may link; it takes a few minutes until every service knows.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=403,
            canonical="PERMISSION_DENIED",
            codes=words("forbidden"),
            reasons=words("BILLING_DISABLED"),
            message="This API method requires billing to be enabled. Please enable billing on project #123456789012.",
        ),
    ),
    "not_offered": Told(
        advice="No role helps, and no quota: the whole project lacks it. Projects of training labs and free trials have no"
        " accelerators; previews and some models are opened to a project by Google's support or sales.",
        example=Answer(
            surface=Surface.VERTEX,
            status=400,
            canonical="INVALID_ARGUMENT",
            message="List of found errors: 1.Field: job_spec.worker_pool_specs[0].machine_spec.accelerator_count; Message:"
            " Accelerators are not supported for this project.",
        ),
    ),
    "perimeter": Told(
        advice="The account may have every role: what counts is where the call comes from and whose project it names."
        " The identifier in the answer leads the administrator to the rule, and for a few days only.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=403,
            canonical="PERMISSION_DENIED",
            reasons=words("SECURITY_POLICY_VIOLATED"),
            message="Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: eYhDkfYCu-dOC",
        ),
    ),
    "act_as": Told(
        advice="Whoever starts a machine as a service account needs this on the account itself, also where the account is"
        " one's own. Google does not tell whether the account exists: look with `gcloud iam service-accounts list`.",
        example=Answer(
            surface=Surface.VERTEX,
            status=400,
            canonical="INVALID_ARGUMENT",
            message=f"You do not have permission to act as service_account: {_SA}. (or it may not exist).",
        ),
    ),
    "service_account_missing": Told(
        advice="An account that was made in the last two minutes may not be known everywhere yet: wait, and try again.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("invalid"),
            message=f"Invalid value for field 'resource.serviceAccounts[0].email': '{_SA}'. Service account {_SA} "
            "does not exist.",
        ),
    ),
    "service_agent": Told(
        advice="Google acts through an account of its own in your project; its role was removed, or a network or key of"
        " another project is not shared with it.",
        example=Answer(
            surface=Surface.OPERATION,
            codes=words("PERMISSIONS_ERROR"),
            message="The service agent lacks permissions on the network of the host project.",
        ),
    ),
    "org_policy_location": Told(
        advice="`gcloud resource-manager org-policies describe gcp.resourceLocations --project PROJECT --effective` lists"
        " the regions that are allowed.",
        example=Answer(
            surface=Surface.OPERATION,
            status=412,
            codes=words("CONDITION_NOT_MET"),
            message="Instance 'job-1' creation failed: Constraint constraints/gcp.resourceLocations violated for project"
            " 123456789012.",
        ),
    ),
    "org_policy": Told(
        advice="The policy holds for the whole project, in every zone: going elsewhere does not help.",
        example=Answer(
            surface=Surface.OPERATION,
            status=412,
            codes=words("CONDITION_NOT_MET"),
            message="Instance 'job-1' creation failed: Constraint constraints/compute.vmExternalIpAccess violated for"
            " project 123456789012. Add instance projects/my-project/zones/us-central1-a/instances/job-1 to the"
            " constraint to use external IP with it.",
        ),
    ),
    "permission": Told(
        advice="Which roles hold a permission: https://cloud.google.com/iam/docs/permissions-reference."
        " `trainer.doctor()` asks for all permissions at once, so that they can be granted together.",
        example=Answer(
            surface=Surface.VERTEX,
            status=403,
            canonical="PERMISSION_DENIED",
            reasons=words("IAM_PERMISSION_DENIED"),
            message="Permission 'aiplatform.customJobs.create' denied on resource '//aiplatform.googleapis.com/projects/"
            "my-project/locations/us-central1' (or it may not exist).",
        ),
    ),
    "daily_limit": Told(
        advice="It looks like a limit per minute and is not: trying again within the day only adds to the count.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=403,
            codes=words("rateLimitExceeded"),
            message="Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service "
            "'compute.googleapis.com' for consumer 'project_number:123456789012'.",
        ),
    ),
    "quota_project": Told(
        advice="It counts the GPUs of all regions together: no other zone or region helps. A new project has 0 of it."
        " `gputrain.quota.request_increase(...)` prepares the request. Vertex AI has quotas of its own.",
        example=Answer(
            surface=Surface.OPERATION,
            status=403,
            codes=words("QUOTA_EXCEEDED"),
            message="Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.",
            quota=QuotaFact(
                metric="compute.googleapis.com/gpus_all_regions",
                limit_name="GPUS-ALL-REGIONS-per-project",
                limit=0.0,
                dimensions={"global": "global"},
            ),
        ),
    ),
    "quota_region": Told(
        advice="A quota holds for one region, one kind of GPU and one way to pay: `spot` and `flex-start` draw on the"
        " preemptible ones. Another zone of the region does not help, another region may. A limit of 0 never clears"
        " by waiting. `trainer.quotas()` shows them all; `gputrain.quota.request_increase(...)` asks for more.",
        example=Answer(
            surface=Surface.VERTEX,
            status=429,
            canonical="RESOURCE_EXHAUSTED",
            message="The following quota metrics exceed quota limits: "
            "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus",
        ),
    ),
    "live_migration": Told(
        advice="gputrain always sets it; a request of your own making must, too.",
        example=Answer(
            surface=Surface.OPERATION,
            status=400,
            codes=words("UNSUPPORTED_OPERATION"),
            message="Instance job-1 creation failed: Instances with guest accelerators do not support live migration",
        ),
    ),
    "gpu_misfit": Told(
        advice="The counts of Vertex AI are stricter than Compute Engine's for machines that GPUs are attached to.",
        example=Answer(
            surface=Surface.VERTEX,
            status=400,
            canonical="INVALID_ARGUMENT",
            message='The accelerator count "8" is not allowed. The allowed numbers of accelerator "NVIDIA_L4" to use '
            'with machine type "g2-standard-8" are: [1].',
        ),
    ),
    "disk_misfit": Told(
        advice="Each series of machines has its list of disk types; the newest take Hyperdisk only.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("badRequest"),
            message="[pd-extreme] features and [instance_type: VIRTUAL_MACHINE\nfamily: COMPUTE_OPTIMIZED] "
            "InstanceTaxonomies are not compatible for creating instance.",
        ),
    ),
    "disk_too_small": Told(
        advice="The images with drivers and CUDA need 50 GB and more.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("invalid"),
            message="Invalid value for field 'resource.disks[0].initializeParams.diskSizeGb': '10'. Requested disk size "
            "cannot be smaller than the image size (50 GB)",
        ),
    ),
    "image_missing": Told(
        advice="A family disappears when its last image is retired, and an image of another project must be shared.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=404,
            codes=words("notFound"),
            message="The resource 'projects/deeplearning-platform-release/global/images/family/common-cu110' was not found",
        ),
    ),
    "subnet_missing": Told(
        advice="A network in custom mode has subnetworks only where somebody made them.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("invalid"),
            message="Invalid value for field 'resource.networkInterfaces[0].subnetwork': "
            "'regions/us-central1/subnetworks/none'. The referenced subnetwork resource cannot be found.",
        ),
    ),
    "network_missing": Told(
        advice="A network is one for all regions, so no other region mends it.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("invalid"),
            message="Invalid value for field 'resource.networkInterfaces[0].network': "
            "'global/networks/none'. The referenced network resource cannot be found.",
        ),
    ),
    "in_use": Told(
        advice="A disk can be written by one machine only, and a placement policy serves one gang.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("resourceInUseByAnotherResource"),
            message="The disk resource 'projects/my-project/zones/us-central1-a/disks/job-1' is already being used by "
            "'projects/my-project/zones/us-central1-a/instances/other'",
        ),
    ),
    "reservation_unusable": Told(
        advice="A reservation serves its own machine type in its own zone; a shared one must be shared with this project.",
        example=Answer(
            surface=Surface.OPERATION,
            status=412,
            codes=words("CONDITION_NOT_MET"),
            message="Specified reservation 'mine' does not exist.",
        ),
    ),
    "bucket_location": Told(
        advice="Vertex AI reads and writes in the region of the job only; a bucket of a whole continent does not do.",
        example=Answer(
            surface=Surface.VERTEX,
            status=400,
            canonical="FAILED_PRECONDITION",
            message="The Cloud Storage bucket of gs://my-bucket is in location us. It must be in the same regional "
            "location as the service location us-central1.",
        ),
    ),
    "retained": Told(
        advice="No role helps: a retention policy and a hold bind everybody.",
        example=Answer(
            surface=Surface.STORAGE,
            status=403,
            codes=words("retentionPolicyNotMet"),
            message="Object 'my-bucket/records/bert-1.json' is subject to bucket's retention policy and cannot be"
            " deleted, overwritten or archived until 2026-12-01T10:00:00.000000-08:00",
        ),
    ),
    "missing": Told(
        advice="What may not be seen is told as missing, too.",
        example=Answer(
            surface=Surface.VERTEX, status=404, canonical="NOT_FOUND", message="The CustomJob does not exist."
        ),
    ),
    "name_taken": Told(
        advice="gputrain looks by itself: what bears the job's label is taken up, a stranger's is left alone. The name of"
        " a VM that could not be made stays taken for a minute.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=409,
            codes=words("alreadyExists"),
            message="The resource 'projects/my-project/zones/us-central1-a/instances/job-1' already exists",
        ),
    ),
    "changed": Told(
        advice="Somebody else was quicker. Nothing was written over.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=412,
            codes=words("conditionNotMet"),
            message="Supplied fingerprint does not match current metadata fingerprint.",
        ),
    ),
    "request": Told(
        advice="The same request is refused everywhere. `plan.requests` shows what would be sent.",
        example=Answer(
            surface=Surface.VERTEX,
            status=400,
            canonical="INVALID_ARGUMENT",
            message="List of found errors:\t1.Field: display_name; Message: Required field is not set.",
        ),
    ),
    "not_in_zone": Told(
        advice="Not a matter of stock: the zone never had this machine, or your project may not see the zone."
        " `gputrain gpus` lists the zones of each GPU.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("invalid"),
            message="Invalid value for field 'resource.machineType': 'zones/europe-west2-b/machineTypes/a2-highgpu-1g'. "
            "Machine type with name 'a2-highgpu-1g' does not exist in zone 'europe-west2-b'.",
        ),
    ),
    "not_in_region": Told(
        advice="Vertex AI offers fewer machines in fewer regions than Compute Engine does.",
        example=Answer(
            surface=Surface.VERTEX,
            status=400,
            canonical="INVALID_ARGUMENT",
            message='Machine type "a2-highgpu-1g" is not supported.',
        ),
    ),
    "network_elsewhere": Told(
        advice="A network for RDMA is made for a single zone.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("badRequest"),
            message="Network profile only allows resource creation in location us-central1-a",
        ),
    ),
    "addresses_exhausted": Told(
        advice="Every VM takes an address, also one without an address on the internet.",
        example=Answer(
            surface=Surface.OPERATION,
            status=400,
            codes=words("IP_SPACE_EXHAUSTED"),
            message="IP space of 'projects/my-project/regions/us-central1/subnetworks/default' is exhausted.",
        ),
    ),
    "reservation_full": Told(
        advice="`gcloud compute reservations describe NAME --zone ZONE` shows how many of it are in use.",
        example=Answer(
            surface=Surface.OPERATION,
            status=412,
            codes=words("CONDITION_NOT_MET"),
            message="Specified reservation 'mine' does not have available resources for the request.",
        ),
    ),
    "stockout_region": Told(
        advice="All zones of the region were tried by Google itself. On Vertex AI it is the job that fails, after some"
        " minutes; gputrain makes it again in the next region that you allow.",
        example=Answer(
            surface=Surface.VERTEX,
            status=429,
            canonical="RESOURCE_EXHAUSTED",
            message="Resources are insufficient in region: us-central1. Please try a different region or use a different "
            "accelerator.",
        ),
    ),
    "stockout": Told(
        advice="Not a quota: Google has no such machine free there now. Zones that Google names instead are in"
        " `error.zones_available`, and `submit` tries these first. Spot and Flex-start draw on other stock.",
        example=Answer(
            surface=Surface.OPERATION,
            status=503,
            codes=words("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"),
            reasons=words("resource_availability"),
            metadata={
                "vmType": "n1-standard-4",
                "attachment": "nvidia-tesla-t4:1",
                "zone": "us-central1-b",
                "zonesAvailable": "us-central1-a,us-central1-f",
            },
            message="The zone 'projects/my-project/zones/us-central1-b' does not have enough resources available to "
            "fulfill the request.  '(resource type:compute)'.",
        ),
    ),
    "reclaimed": Told(
        advice="Spot machines can be taken back before they have started. gputrain waits until nothing of the gang is left.",
        example=Answer(
            surface=Surface.OPERATION,
            status=404,
            codes=words("RESOURCE_NOT_FOUND"),
            message="The resource 'projects/my-project/zones/us-central1-a/instances/job-1' was not found",
        ),
    ),
    "failed_inside": Told(
        advice="The commonest passing failure of Compute Engine. What was made is seen to be gone, and the next place is"
        " asked; this one again where the job may wait.",
        example=Answer(
            surface=Surface.OPERATION,
            codes=words("INTERNAL_ERROR"),
            message="Internal error. Please try again or contact Google Support. (Code: '5F864782189D7.6B5868C.50A111B')",
        ),
    ),
    "gang_incomplete": Told(
        advice="Told only where Google names no cause for any of the VMs. Those that were made are deleted again.",
        example=Answer(
            surface=Surface.OPERATION,
            status=503,
            codes=words("VM_MIN_COUNT_NOT_REACHED"),
            message="Requested minimum count of 4 VMs could not be created.",
        ),
    ),
    "concurrency": Told(
        advice="Google runs ten calls for many VMs at a time. gputrain waits and tries again by itself.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=403,
            codes=words("rateLimitExceeded"),
            reasons=_CROWDED,
            message="Rate Limit Exceeded",
        ),
    ),
    "rate": Told(
        advice="gputrain waits and tries again by itself. The limit refills at the full minute; it holds for the whole"
        " project, so somebody else's script may be what uses it up.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=403,
            codes=words("rateLimitExceeded"),
            message="Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service "
            "'compute.googleapis.com' for consumer 'project_number:123456789012'.",
        ),
    ),
    "source_busy": Told(
        advice="Many machines that copy one source at the same moment run into it.",
        example=Answer(
            surface=Surface.OPERATION,
            codes=words("RESOURCE_OPERATION_RATE_EXCEEDED"),
            message="Too frequent operations from the source resource",
        ),
    ),
    "not_ready": Told(
        advice="A VM that is stopping cannot be started or deleted for a minute. gputrain waits by itself.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("resourceNotReady"),
            message="The resource 'projects/my-project/zones/us-central1-a/instances/job-1' is not ready",
        ),
    ),
    "reservation_not_ready": Told(
        advice="A reservation is made in minutes; one for a date is ready on that date.",
        example=Answer(
            surface=Surface.OPERATION,
            status=412,
            codes=words("CONDITION_NOT_MET"),
            message="Cannot insert instance to a reservation with status: CREATING, as it requires reservation to be in "
            "READY state.",
        ),
    ),
    "token_unavailable": Told(
        advice="The request itself was not sent: nothing was made. gputrain tries again by itself.",
        example=Answer(
            surface=Surface.AUTH,
            status=503,
            message="TransportError: Failed to retrieve http://metadata.google.internal/computeMetadata/v1/instance/"
            "service-accounts/default/token from the Google Compute Engine metadata service.",
        ),
    ),
    "unclear": Told(
        advice="A connection broke, or a proxy answered for Google. A read is tried again by itself. A write is repeated"
        " only under the same request id, or after a look at what is there: never a second job.",
        example=Answer(
            surface=Surface.VERTEX,
            status=503,
            canonical="UNAVAILABLE",
            message="The service is currently unavailable.",
        ),
    ),
}
"""By the name of the kind."""
