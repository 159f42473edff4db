"""Where a project's images lie: named, looked for, made."""

from __future__ import annotations

import re
import shlex

import attrs

from gputrain.errors import AccessError, PermissionDeniedError, RequestError
from gputrain.gcp import Access, Api, MissingError
from gputrain.retry import LOOK, READ, Policy
from gputrain.spec.image import Builder, Image

FORM = re.compile(
    r"(?P<location>[a-z][a-z0-9-]*)-docker\.pkg\.dev/(?P<project>[a-z][a-z0-9.:-]*)"
    r"/(?P<repository>[a-z][a-z0-9-]{0,62})(?:/(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*))?"
)
IMAGE = "train"


@attrs.frozen(kw_only=True)
class ImageHome:
    """A repository of Artifact Registry, and how our images are called in it.

    >>> ImageHome.parse("us-docker.pkg.dev/my-project/team").called("1")
    'us-docker.pkg.dev/my-project/team/train:1'
    """

    location: str
    project: str
    repository: str
    name: str = IMAGE

    @classmethod
    def parse(cls, text: str) -> ImageHome:
        """Read ``LOCATION-docker.pkg.dev/PROJECT/REPOSITORY``, with an image's name behind it or without.

        Raises:
            ValueError: it is not of that form.
        """
        found = FORM.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no repository of Artifact Registry")
        return cls(**{**found.groupdict(), "name": found["name"] or IMAGE})

    def called(self, tag: str) -> str:
        """The full name of an image under a tag."""
        return f"{self.location}-docker.pkg.dev/{self.project}/{self.repository}/{self.name}:{tag}"

    @classmethod
    def usual(cls, project: str, region: str) -> ImageHome:
        """The repository ``gputrain`` of the project, in a region."""
        return cls(location=region, project=project, repository="gputrain")

    @property
    def command(self) -> str:
        """What makes the repository."""
        return (
            f"gcloud artifacts repositories create {self.repository} --repository-format docker"
            f" --location {self.location} --project {self.project}"
        )


def check(access: Access, home: ImageHome, image: Image) -> None:
    """See that the repository is there. One read.

    Args:
        image: what is to be built, for the remedy's sake.

    Raises:
        MissingError: it is not.
        AccessError, TransientError: as Artifact Registry answers.
    """
    try:
        _look(access, home, LOOK)
    except MissingError as error:
        raise MissingError(
            f"there is no repository {home.repository} in {home.location}",
            why="images are kept in one, and none is made without being asked for",
            fix=access.fitted(f"gputrain build --create-repository {_words(image)}, or {home.command}"),
            raw=error.raw,
        ) from error
    except PermissionDeniedError as error:
        error.fix = error.fix or f"ask for roles/artifactregistry.writer on {home.repository}"
        raise


def _words(image: Image) -> str:
    """What ``gputrain build`` takes for an image."""
    if image.base is None:
        words = [str(image.dockerfile), "--context", str(image.context)]
    else:
        words = ["--base", image.base]
        words += [word for one in image.requirements for word in ("--requirements", one)]
    words += [] if image.builder is Builder.CLOUD_BUILD else ["--builder", image.builder.value]
    return shlex.join(words)


def create(access: Access, home: ImageHome, image: Image) -> None:
    """Make the repository for an image; one that is there stays as it is.

    Raises:
        RequestError, AccessError, TransientError: as Artifact Registry answers.
    """
    url = f"{_parent(access, home)}?repositoryId={home.repository}"
    body = {"format": "DOCKER", "labels": {"gputrain": "images"}}
    try:
        access.post(url, action=f"make the repository {home.repository}", json=body)
    except (RequestError, AccessError) as error:  # whoever may not make one may have one
        if not _is_there(access, home):
            raise error from None
        return
    for _ in range(60):
        if _is_there(access, home):
            return
        access.sleep(1.0)
    check(access, home, image)


def _is_there(access: Access, home: ImageHome) -> bool:
    try:
        _look(access, home, READ)
    except MissingError:
        return False
    return True


def _look(access: Access, home: ImageHome, policy: Policy) -> None:
    url, action = f"{_parent(access, home)}/{home.repository}", f"look for the repository {home.repository}"
    access.get(url, action=action, policy=policy)


def _parent(access: Access, home: ImageHome) -> str:
    base = access.url(Api.ARTIFACTREGISTRY)
    return f"{base}/v1/projects/{home.project}/locations/{home.location}/repositories"
