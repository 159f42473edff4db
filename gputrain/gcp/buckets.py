"""The user's bucket: never invented, and checked to be ours before anything in it is read or written."""

from __future__ import annotations

import hashlib
import re

import attrs

from gputrain.errors import PermissionDeniedError, RequestError
from gputrain.fields import refused
from gputrain.gcp.api import Access
from gputrain.gcp.endpoints import Api
from gputrain.gcp.errors import MissingError
from gputrain.retry import READ, Policy

BUCKETS = "/storage/v1/b"
"""Where Cloud Storage tells of buckets, below its address."""

LONGEST_PREFIX = 700
"""Bytes: with what stands below it, an object's name has at most 1024.

Source: "About Cloud Storage objects", read 2026-11-26.
"""

_URI = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(.*))?", re.DOTALL)


@attrs.frozen(kw_only=True)
class BucketPrefix:
    """A place in Cloud Storage: a bucket and a prefix inside it.

    >>> BucketPrefix.parse("gs://my-bucket/team/").uri("code", "a.tar.gz")
    'gs://my-bucket/team/code/a.tar.gz'
    """

    name: str
    prefix: str = ""
    """Empty, or ends in ``/``."""

    @classmethod
    def parse(cls, uri: str) -> BucketPrefix:
        """Read ``gs://bucket`` or ``gs://bucket/prefix``.

        Raises:
            SpecError: it is neither.
        """
        found = _URI.fullmatch(uri) if isinstance(uri, str) else None
        prefix = (found[2] or "").strip("/") if found else ""
        is_name = prefix.isprintable() and len(prefix.encode()) <= LONGEST_PREFIX
        if found is None or not is_name or ".." in prefix.split("/"):
            raise refused("bucket", uri, "gs://bucket or gs://bucket/prefix", "bucket='gs://my-bucket'")
        return cls(name=found[1], prefix=f"{prefix}/" if prefix else "")

    def object_name(self, *parts: str) -> str:
        """The name of an object below the prefix."""
        return self.prefix + "/".join(parts)

    def uri(self, *parts: str) -> str:
        """The ``gs://`` name of an object below the prefix."""
        return f"gs://{self.name}/{self.object_name(*parts)}"


def home_of(project: str, bucket: BucketPrefix) -> str:
    """The value of `LABEL_HOME`: two backends with the same one share their records.

    >>> ours, theirs = BucketPrefix(name="b"), BucketPrefix(name="b", prefix="team/")
    >>> home_of("my-project", ours) == home_of("my-project", theirs)
    False
    """
    return hashlib.sha256(f"{project}/{bucket.name}/{bucket.prefix}".encode()).hexdigest()[:12]


def check_bucket(access: Access, bucket: BucketPrefix, region: str, *, policy: Policy = READ) -> None:
    """Make sure that the bucket exists, belongs to our project and lies in the region. One read.

    Raises:
        PermissionDeniedError: it is somebody else's, or we may not look.
        RequestError: it does not exist, or lies elsewhere.
    """
    place = _location(access, bucket.name, region, policy)
    if place != region:
        raise RequestError(
            f"gs://{bucket.name} does not suit {region}",
            why=f"it lies in {place}; code and results are kept in the region where jobs start",
            fix=f"gcloud storage buckets create gs://NEW-NAME --location {region} --project {access.project}"
            + f", or put {place} first in regions" * ("-" in place),
        )


def check_owner(access: Access, bucket: BucketPrefix) -> None:
    """Make sure that the bucket exists and belongs to our project. One read.

    Raises:
        PermissionDeniedError: it is somebody else's, or we may not look.
        RequestError: it does not exist.
    """
    _location(access, bucket.name, "REGION", READ)


def _location(access: Access, name: str, region: str, policy: Policy) -> str:
    """Where a bucket of our project lies. Only the list of our own buckets proves whose it is."""
    action = f"look for gs://{name} among the buckets of {access.project}"
    url = access.url(Api.STORAGE) + BUCKETS
    params = {"project": access.project, "prefix": name, "fields": "items(name,location),nextPageToken"}
    listing = access.pages(url, action=action, params=params, policy=policy)
    found = listing.find(lambda one: one.get("name") == name)
    if found is not None:
        return str(found.get("location")).lower()
    listing.whole(action)
    raise _not_ours(access, name, region, policy)


def _not_ours(access: Access, name: str, region: str, policy: Policy) -> RequestError | PermissionDeniedError:
    url = f"{access.url(Api.STORAGE)}{BUCKETS}/{name}"
    try:
        access.get(url, action=f"look at gs://{name}", params={"fields": "name"}, policy=policy)
    except MissingError as missing:
        return MissingError(
            f"there is no bucket gs://{name}",
            why=missing.why,
            fix=access.fitted(
                f"gcloud storage buckets create gs://{name} --project {access.project} --location {region}"
            ),
            raw=missing.raw,
        )
    except PermissionDeniedError:
        pass
    return PermissionDeniedError(
        f"gs://{name} does not belong to project {access.project}",
        why="code put into a bucket of somebody else could be exchanged for theirs and run as you",
        fix="name a bucket of your own project",
        permission="storage.buckets.get",
    )
