"""Refusals that the account must mend: credentials, permissions, APIs, policies."""

# ruff: noqa: E501  # Google's words stand whole, one row a sentence

from __future__ import annotations

from gputrain.errors import ApiDisabledError, AuthError, OrgPolicyError, PermissionDeniedError, Scope
from gputrain.gcp.answer import Answer, Surface
from gputrain.gcp.kinds.kind import Kind, Mark, words

_CONSTRAINT = r"(?:[^:]{0,200}: )?Constraint (?P<constraint>constraints/%s) violated\b"
_PLUGIN = r"Getting metadata from plugin failed with error: .{0,400}"
_NO_ACCOUNT = r"TransportError: .{0,20}Failed to retrieve \S{1,300} from the Google Compute Engine metadata service\. Status: 404"
_LOGIN = "run `gcloud auth application-default login`, or pass credentials="
_SA = "trainer@my-project.iam.gserviceaccount.com"

KINDS = (
    Kind(
        name="credentials_missing",
        title="there are no credentials",
        error=AuthError,
        marks=(
            Mark(
                codes=words(
                    "DefaultCredentialsError MalformedError InvalidResource InvalidValue InvalidType OSError"
                )
            ),
            Mark(surfaces=frozenset({Surface.AUTH}), message=_NO_ACCOUNT),
        ),
        fix=_LOGIN,
        advice="Nothing was sent to Google. On a machine of Google's the service account of the machine is found by"
        " itself; elsewhere `GOOGLE_APPLICATION_CREDENTIALS` may name a key file, and must not name one that is gone.",
        example=Answer(
            surface=Surface.AUTH,
            codes=words("DefaultCredentialsError"),
            message="Your default credentials were not found. To set up Application Default Credentials, see"
            " https://cloud.google.com/docs/authentication/external/set-up-adc for more information.",
        ),
    ),
    Kind(
        name="clock_skew",
        title="the clock of this machine is wrong",
        error=AuthError,
        marks=(
            Mark(codes=words("invalid_grant"), message=r"Invalid JWT: Token must be a short-lived token\b"),
            Mark(message=r"(?:invalid_grant: )?Invalid JWT: Token must be a short-lived token\b"),
        ),
        fix="set this machine's clock (`sudo timedatectl set-ntp true`) and try again",
        advice="Google takes a signed request for a few minutes around its own time only. The key is fine.",
        example=Answer(
            surface=Surface.AUTH,
            status=400,
            codes=words("invalid_grant"),
            message="Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
            "Check your iat and exp values in the JWT claim.",
        ),
    ),
    Kind(
        name="credentials_scope",
        title="the credentials lack a scope",
        error=AuthError,
        marks=(
            Mark(reasons=words("ACCESS_TOKEN_SCOPE_INSUFFICIENT")),
            Mark(message=r"Request had insufficient authentication scopes\b"),
        ),
        fix="give the credentials the scope https://www.googleapis.com/auth/cloud-platform; on a VM, stop it and run "
        "gcloud compute instances set-service-account VM --scopes cloud-platform",
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
    Kind(
        name="credentials_refused",
        title="the credentials are not accepted",
        error=AuthError,
        marks=(
            Mark(
                codes=words(
                    "invalid_grant invalid_client invalid_rapt unauthorized_client RefreshError ReauthFailError "
                    "ReauthSamlChallengeFailError InvalidOperation UserAccessTokenError"
                )
            ),
            Mark(reasons=words("CREDENTIALS_MISSING ACCESS_TOKEN_EXPIRED ACCESS_TOKEN_TYPE_UNSUPPORTED")),
            Mark(message=_PLUGIN + r"(?:invalid_grant|invalid_client|invalid_rapt|[Rr]eauth|RefreshError)"),
            Mark(surfaces=frozenset({Surface.AUTH}), statuses=frozenset({400, 403, 404})),
            Mark(statuses=frozenset({401, "UNAUTHENTICATED", "authError"})),
        ),
        fix=_LOGIN,
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
    Kind(
        name="api_disabled",
        title="the API is switched off",
        error=ApiDisabledError,
        marks=(
            Mark(codes=words("accessNotConfigured")),
            Mark(reasons=words("SERVICE_DISABLED")),
            Mark(
                message=r"[\w .()-]{1,80} API has not been used in project [\w-]+ before or it is disabled\b"
            ),
        ),
        fix="gcloud services enable {api} --project {project}; then wait a few minutes",
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
    Kind(
        name="act_as",
        title="you may not act as the service account",
        error=PermissionDeniedError,
        told={"permission": "iam.serviceAccounts.actAs"},
        marks=(
            Mark(codes=words("SERVICE_ACCOUNT_ACCESS_DENIED")),
            Mark(
                reasons=words("IAM_PERMISSION_DENIED"),
                message=r"Permission '(?P<permission>iam\.service[aA]ccounts\.actAs)' denied\b",
            ),
            Mark(
                message=r"You do not have permission to act as service_account: (?P<account>[^\s@]+@[\w.-]*\w)"
            ),
            Mark(message=r"The user does not have access to service account '(?P<account>[^']+)'"),
            Mark(message=r"Permission '(?P<permission>iam\.service[aA]ccounts\.actAs)' denied\b"),
        ),
        fix="gcloud iam service-accounts add-iam-policy-binding {account} --member user:YOU"
        " --role roles/iam.serviceAccountUser",
        advice="Whoever starts a machine as a service account needs this on the account itself, also where the account is"
        " one's own. Google does not tell whether the account exists: look with `gcloud iam service-accounts list`.",
        example=Answer(
            surface=Surface.VERTEX,
            status=400,
            canonical="INVALID_ARGUMENT",
            message=f"You do not have permission to act as service_account: {_SA}. (or it may not exist).",
        ),
    ),
    Kind(
        name="service_account_missing",
        title="the service account does not exist",
        error=PermissionDeniedError,
        scope=Scope.PROJECT,
        marks=(
            Mark(
                message=r"(?:Invalid value for field '[^']{1,200}': '[^']{0,200}'\. )?[^.]{0,40}"
                r"Service account (?P<account>[^\s@]+@[\w.-]*\w) does not exist\b"
            ),
        ),
        fix="gcloud iam service-accounts list --project {project}; then name one of these as service_account=",
        advice="An account that was made in the last two minutes may not be known everywhere yet: wait, and try again.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("invalid"),
            message=f"Invalid value for field 'resource.serviceAccounts[0].email': '{_SA}'. Service account {_SA} "
            "does not exist.",
        ),
    ),
    Kind(
        name="service_agent",
        title="Google's own service agent lacks a permission",
        error=PermissionDeniedError,
        scope=Scope.PROJECT,
        marks=(Mark(codes=words("PERMISSIONS_ERROR")),),
        fix="gcloud beta services identity create --service compute.googleapis.com --project {project}; then give the agent"
        " the role that the answer names",
        advice="Google acts through an account of its own in your project; its role was removed, or a network or key of"
        " another project is not shared with it.",
        example=Answer(
            surface=Surface.OPERATION,
            codes=words("PERMISSIONS_ERROR"),
            message="The service agent lacks permissions on the network of the host project.",
        ),
    ),
    Kind(
        name="org_policy_location",
        title="an organization policy forbids this region",
        error=OrgPolicyError,
        scope=Scope.REGION,
        try_elsewhere=True,
        marks=(Mark(message=_CONSTRAINT % r"gcp\.resourceLocations"),),
        fix="allow a region that the policy {constraint} names",
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
    Kind(
        name="org_policy",
        title="an organization policy forbids it",
        error=OrgPolicyError,
        marks=(Mark(message=_CONSTRAINT % r"[\w.]+"),),
        fix="keep the policy: {remedy}; or ask the organization's administrator about {constraint}",
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
    Kind(
        name="permission",
        title="you lack a permission",
        error=PermissionDeniedError,
        marks=(
            Mark(reasons=words("IAM_PERMISSION_DENIED")),
            Mark(message=r"Permission '(?P<permission>[\w.]+)' denied\b"),
            Mark(message=r"Required '(?P<permission>[\w.]+)' permission\b"),
            Mark(
                message=r"\S{1,200} does not have (?P<permission>[\w.]+) access to the Google Cloud Storage\b"
            ),
            Mark(
                surfaces=frozenset(Surface) - {Surface.OPERATION, Surface.AUTH},
                statuses=frozenset({403, "PERMISSION_DENIED", "forbidden"}),
            ),
        ),
        fix="ask for a role with {permission}:"
        " gcloud projects add-iam-policy-binding {project} --member user:YOU --role ROLE",
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
)
