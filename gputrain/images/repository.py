"""Where a project's images lie: named, looked for, made."""

from __future__ import annotations

import re
import shlex

import attrs

from gputrain.errors import AccessError, PermissionDeniedError, RequestError
from gputrain.google import Api, GoogleClient, MissingError
from gputrain.retry import LOOK, READ, Policy
from gputrain.spec.image import Builder, Image

FORM = re.compile(
    r"(?P<location>[a-z][a-z0-9-]*)-docker\.pkg\.dev/(?P<project>[a-z][a-z0-9.:-]*)"
    r"/(?P<repository>[a-z][a-z0-9-]{0,62})(?:/(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*))?"
)
IMAGE = "train"


@attrs.frozen(kw_only=True)
class ImageRepository:
    """A repository of Artifact Registry, and how our images are called in it.

    >>> ImageRepository.parse("us-docker.pkg.dev/my-project/team").image_name("1")
    'us-docker.pkg.dev/my-project/team/train:1'
    """

    location: str
    project: str
    repository: str
    name: str = IMAGE

    @classmethod
    def parse(cls, text: str) -> ImageRepository:
        """Read ``LOCATION-docker.pkg.dev/PROJECT/REPOSITORY[/NAME]``. Raises ValueError."""
        found = FORM.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no repository of Artifact Registry")
        return cls(**{**found.groupdict(), "name": found["name"] or IMAGE})

    def image_name(self, tag: str) -> str:
        """The full name of an image under a tag."""
        return f"{self.location}-docker.pkg.dev/{self.project}/{self.repository}/{self.name}:{tag}"

    @classmethod
    def default(cls, project: str, region: str) -> ImageRepository:
        """The repository ``gputrain`` of the project, in a region."""
        return cls(location=region, project=project, repository="gputrain")

    @property
    def command(self) -> str:
        """What makes the repository."""
        return (
            f"gcloud artifacts repositories create {self.repository} --repository-format docker"
            f" --location {self.location} --project {self.project}"
        )

    def check(self, access: GoogleClient, image: Image) -> None:
        """See that the repository is there, by one read; the fix of its MissingError is for ``image``."""
        try:
            self._look(access, LOOK)
        except MissingError as error:
            raise MissingError(
                f"there is no repository {self.repository} in {self.location}",
                why="images are kept in one, and none is made without being asked for",
                fix=f"gputrain build --create-repository {_arguments(image)}, or {self.command}",
                raw=error.raw,
            ) from error
        except PermissionDeniedError as error:
            error.fix = error.fix or f"ask for roles/artifactregistry.writer on {self.repository}"
            raise

    def create(self, access: GoogleClient, image: Image) -> None:
        """Make the repository for an image; one that is there stays as it is."""
        url = f"{self._parent(access)}?repositoryId={self.repository}"
        body = {"format": "DOCKER", "labels": {"gputrain": "images"}}
        try:
            access.post(url, action=f"make the repository {self.repository}", json=body)
        except (RequestError, AccessError) as error:  # one may exist that this account may not create
            if not self._is_there(access):
                raise error from None
            return
        for _ in range(60):
            if self._is_there(access):
                return
            access.sleep(1.0)
        self.check(access, image)

    def _is_there(self, access: GoogleClient) -> bool:
        try:
            self._look(access, READ)
        except MissingError:
            return False
        return True

    def _look(self, access: GoogleClient, policy: Policy) -> None:
        action = f"look for the repository {self.repository}"
        access.get(f"{self._parent(access)}/{self.repository}", action=action, policy=policy)

    def _parent(self, access: GoogleClient) -> str:
        base = access.url(Api.ARTIFACTREGISTRY)
        return f"{base}/v1/projects/{self.project}/locations/{self.location}/repositories"


def _arguments(image: Image) -> str:
    """What ``gputrain build`` takes for an image."""
    if image.base is None:
        words = [str(image.dockerfile), "--context", str(image.context)]
    else:
        words = ["--base", image.base]
        words += [word for one in image.requirements for word in ("--requirements", one)]
    words += [] if image.builder is Builder.CLOUD_BUILD else ["--builder", image.builder.value]
    return shlex.join(words)
