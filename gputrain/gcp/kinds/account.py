"""Refusals that the account must mend: credentials, permissions, APIs, policies."""

# ruff: noqa: E501  # Google's words stand whole, one row a sentence

from __future__ import annotations

from gputrain.errors import (
    AccessError,
    ApiDisabledError,
    AuthError,
    OrgPolicyError,
    PermissionDeniedError,
    Scope,
)
from gputrain.gcp.answer import Surface
from gputrain.gcp.kinds.kind import Kind, Mark

_IN = r".{0,400}?\b"
"""Services quote each other: the sentence may begin anywhere."""
_BILLING = (
    r"(?:has billing disabled|has not configured billing|[Bb]illing must be enabled|requires billing to be enabled"
    r"|billing account for the owning project is disabled|with an? (?:absent|closed|disabled) billing account)"
)
_OFFERED = (
    r"(?:\b(?:is|are) not (?:supported|available|enabled|allowed|offered) (?:for|in|to|on) (?:this|your) project\b(?!')"
    r"|[Pp]roject \S{1,200} (?:is|has) not (?:been )?(?:allowed|authorized|permitted|granted access) to\b"
    r"|\bnot (?:been )?(?:allowlisted|whitelisted)\b|Required '\w+ Access' permission\b)"
)
"""Of a project, whatever its account may do: Google has not opened it."""
_CONSTRAINT = r"Constraint (?P<constraint>constraints/%s) violated\b"
_POLICY = r".{0,400}?\b[Oo]rg(?:anization)? [Pp]olic(?:y|ies)\b.{0,400}?(?P<constraint>constraints/%s)"
"""A policy of the organization and its constraint, in whichever service's sentence."""
_AT = r".{0,80}\bviolates constraint '?(?P<constraint>constraints/gcp\.resourceLocations)\b"
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
                codes="DefaultCredentialsError MalformedError InvalidResource InvalidValue InvalidType OSError"
            ),
            Mark(surfaces=frozenset({Surface.AUTH}), message=_NO_ACCOUNT),
        ),
        fix=_LOGIN,
    ),
    Kind(
        name="clock_skew",
        title="the clock of this machine is wrong",
        error=AuthError,
        marks=(
            Mark(codes="invalid_grant", message=r"Invalid JWT: Token must be a short-lived token\b"),
            Mark(message=r"(?:invalid_grant: )?Invalid JWT: Token must be a short-lived token\b"),
        ),
        fix="set this machine's clock (`sudo timedatectl set-ntp true`) and try again",
    ),
    Kind(
        name="credentials_scope",
        title="the credentials lack a scope",
        error=AuthError,
        marks=(
            Mark(reasons="ACCESS_TOKEN_SCOPE_INSUFFICIENT"),
            Mark(message=r"Request had insufficient authentication scopes\b"),
        ),
        fix="give the credentials the scope https://www.googleapis.com/auth/cloud-platform; on a VM, stop it and run "
        "gcloud compute instances set-service-account VM --scopes cloud-platform",
    ),
    Kind(
        name="credentials_refused",
        title="the credentials are not accepted",
        error=AuthError,
        marks=(
            Mark(
                codes=(
                    "invalid_grant invalid_client invalid_rapt unauthorized_client RefreshError ReauthFailError "
                    "ReauthSamlChallengeFailError InvalidOperation UserAccessTokenError"
                )
            ),
            Mark(reasons="CREDENTIALS_MISSING ACCESS_TOKEN_EXPIRED ACCESS_TOKEN_TYPE_UNSUPPORTED"),
            Mark(message=_PLUGIN + r"(?:invalid_grant|invalid_client|invalid_rapt|[Rr]eauth|RefreshError)"),
            Mark(surfaces=frozenset({Surface.AUTH}), statuses=frozenset({400, 403, 404})),
            Mark(statuses=frozenset({401, "UNAUTHENTICATED", "authError"})),
        ),
        fix=_LOGIN,
    ),
    Kind(
        name="api_disabled",
        title="the API is switched off",
        error=ApiDisabledError,
        marks=(
            Mark(codes="accessNotConfigured"),
            Mark(reasons="SERVICE_DISABLED"),
            Mark(
                message=r"[\w .()-]{1,80} API has not been used in project [\w-]+ before or it is disabled\b"
            ),
            Mark(message=_IN + r"(?:Access Not Configured\b|not found and cannot be used for API calls\b)"),
        ),
        fix="gcloud services enable {api} --project {project}; then wait a few minutes",
    ),
    Kind(
        name="billing_off",
        title="the project has no billing account that pays",
        error=AccessError,
        marks=(
            Mark(codes="accountDisabled billingNotEnabled"),
            Mark(reasons="BILLING_DISABLED UREQ_PROJECT_BILLING_NOT_FOUND"),
            Mark(message=_IN + _BILLING),
        ),
        fix="gcloud billing projects link {project} --billing-account ACCOUNT",
    ),
    Kind(
        name="not_offered",
        title="Google has not opened this to the project",
        error=AccessError,
        scope=Scope.PROJECT,
        marks=(Mark(message=r".{0,400}?" + _OFFERED),),
        fix="take a project of your own with billing on (those of labs and free trials have no GPUs), or ask Google's"
        " support to open it to {project}; another backend may do meanwhile",
    ),
    Kind(
        name="perimeter",
        title="a perimeter of VPC Service Controls forbids it",
        error=OrgPolicyError,
        marks=(
            Mark(reasons="SECURITY_POLICY_VIOLATED"),
            Mark(message=_IN + r"prohibited by organization's policy\b"),
        ),
        fix="call from inside the perimeter, or give the organization's administrator the identifier in the answer",
    ),
    Kind(
        name="act_as",
        title="you may not act as the service account",
        error=PermissionDeniedError,
        told={"permission": "iam.serviceAccounts.actAs"},
        marks=(
            Mark(codes="SERVICE_ACCOUNT_ACCESS_DENIED"),
            Mark(
                reasons="IAM_PERMISSION_DENIED",
                message=r"Permission '(?P<permission>iam\.service[aA]ccounts\.actAs)' denied\b",
            ),
            Mark(
                message=r"You do not have permission to act as service_account: (?P<account>[^\s@]+@[\w.-]*\w)"
            ),
            Mark(message=r"The user does not have access to service account '(?P<account>[^']+)'"),
            Mark(message=r"Permission '(?P<permission>iam\.service[aA]ccounts\.actAs)' denied\b"),
            Mark(message=r"Required '(?P<permission>iam\.service[aA]ccounts\.actAs)' permission\b"),
        ),
        fix="gcloud iam service-accounts add-iam-policy-binding {account} --member user:YOU"
        " --role roles/iam.serviceAccountUser",
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
    ),
    Kind(
        name="service_agent",
        title="Google's own service agent lacks a permission",
        error=PermissionDeniedError,
        scope=Scope.PROJECT,
        marks=(
            Mark(codes="PERMISSIONS_ERROR"),
            Mark(
                message=r".{0,400}?\b(?P<account>service-\d+@[\w-]+\.iam\.gserviceaccount\.com)\b.{0,40}?"
                r"(?:does not have|lacks)[ `'\[]{0,4}(?P<permission>[a-z]\w+\.\w+\.\w+)?"
            ),
        ),
        fix="gcloud beta services identity create --service compute.googleapis.com --project {project}; then give the agent"
        " the role that the answer names",
    ),
    Kind(
        name="org_policy_location",
        title="an organization policy forbids this region",
        error=OrgPolicyError,
        scope=Scope.REGION,
        try_elsewhere=True,
        marks=(
            Mark(message=_CONSTRAINT % r"gcp\.resourceLocations"),
            Mark(message=_AT),
            Mark(message=_POLICY % r"gcp\.resourceLocations\b"),
        ),
        fix="allow a region that the policy {constraint} names",
    ),
    Kind(
        name="org_policy",
        title="an organization policy forbids it",
        error=OrgPolicyError,
        marks=(
            Mark(message=_CONSTRAINT % r"[\w.]+"),
            Mark(message=r".{0,80}\bviolates constraint '?(?P<constraint>constraints/[\w.]+\w)"),
            Mark(message=_POLICY % r"[\w.]*\w"),
            Mark(
                message=r".{0,400}?\bdenied by (?:custom )?org(?:anization)? polic.{0,400}?(?P<constraint>customConstraints/[\w.]+)"
            ),
        ),
        fix="keep the policy: {remedy}; or ask the organization's administrator about {constraint}",
    ),
    Kind(
        name="permission",
        title="you lack a permission",
        error=PermissionDeniedError,
        marks=(
            Mark(reasons="IAM_PERMISSION_DENIED"),
            Mark(message=_IN + r"Permission ['\"](?P<permission>[\w.]+)['\"] denied\b"),
            Mark(message=r"Required '(?P<permission>[\w.]+)' permission\b"),
            Mark(message=_IN + r"Permission (?P<permission>\w+\.\w+\.\w+) is required to perform"),
            Mark(message=_IN + r"[Pp]ermission denied to enable service\b"),
            Mark(message=_IN + r"does not have (?P<permission>[a-z]\w*\.\w+\.\w+) access to\b"),
            Mark(message=_IN + r"(?:does|do) not have permission to access\b"),
            Mark(
                surfaces=frozenset(Surface) - {Surface.OPERATION, Surface.AUTH},
                statuses=frozenset({403, "PERMISSION_DENIED", "forbidden"}),
            ),
        ),
        fix="ask for a role with {permission}:"
        " gcloud projects add-iam-policy-binding {project} --member user:YOU --role ROLE",
    ),
)
