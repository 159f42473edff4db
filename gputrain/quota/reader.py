"""Reads the quotas of one project: three calls for Compute Engine, one for Vertex AI, for all regions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gputrain.catalog import ProvisioningModel, Service
from gputrain.errors import QuotaExceededError
from gputrain.gcp import Access, Api
from gputrain.gcp.forms import Json, mappings
from gputrain.gcp.shared import Found
from gputrain.quota.book import Book, Figures, number
from gputrain.quota.shown import Quotas, check_regions, quotas
from gputrain.quota.values import LimitSource
from gputrain.retry import SOON
from gputrain.spec import GpuRequest

_HOSTS = {Service.COMPUTE: "compute.googleapis.com", Service.VERTEX: "aiplatform.googleapis.com"}
_QUOTA_FIELDS = "quotas(metric,limit,usage)"


class Reader:
    """Reads one service's quotas, at most once a minute, for all threads of one `Access`.

    Nothing is raised for what cannot be read: it is unknown in the `Book`, which says why.
    """

    def __init__(self, access: Access, service: Service, regions: Sequence[str] = ()) -> None:
        self._access = access
        self._service = service
        self._home = tuple(regions)
        self._last: tuple[tuple[Found, ...], Book] | None = None

    def read(self) -> Book:
        """Everything, read now or within the last minute."""
        return self.book(self._access.looks.ask(self.questions()))

    def quotas(
        self,
        gpus: Sequence[GpuRequest] = (),
        *,
        num_nodes: int = 1,
        models: Sequence[ProvisioningModel] = (),
        regions: Sequence[str] = (),
    ) -> Quotas:
        """How jobs of these sizes stand with the quotas of some regions; of the reader's unless said.

        Raises:
            SpecError: what is named is no region of Google Cloud.
        """
        check_regions(regions)
        return quotas(
            self.read(), self._service, gpus=gpus, num_nodes=num_nodes, models=models,
            regions=regions or self._home,
        )  # fmt: skip

    def questions(self) -> dict[str, Callable[[], Any]]:
        """The calls by their keys, to be asked side by side with others of the same plan."""
        asked: dict[str, Callable[[], Any]] = {}
        if self._access.url(Api.CLOUDQUOTAS):
            asked[self._key(LimitSource.CLOUD_QUOTAS)] = self._infos
        if self._service is Service.COMPUTE:
            asked[self._key(LimitSource.REGIONS)] = self._regions
            asked[self._key(LimitSource.PROJECT)] = self._project
        return asked

    def book(self, found: Mapping[str, Found]) -> Book:
        """The book of what those questions found; the same one as long as nothing was read anew."""
        told = {source: found[key] for source in LimitSource if (key := self._key(source)) in found}
        answers = tuple(told.values())
        last = self._last
        if last is not None and len(last[0]) == len(answers) and all(map(operator.is_, last[0], answers)):
            return last[1]
        book = Book(self._access.project, self._service, told)
        self._last = (answers, book)
        return book

    @contextmanager
    def corrected(self) -> Iterator[None]:
        """Inside, a quota that a job meets makes the next reading a new one: the last did not foresee it."""
        try:
            yield
        except QuotaExceededError:
            self._access.looks.forget()
            raise

    def _key(self, source: LimitSource) -> str:
        return f"quota {self._service.value} {source.value}"

    def _regions(self) -> dict[tuple[str, str], Figures]:
        found: dict[tuple[str, str], Figures] = {}
        fields = f"items(name,{_QUOTA_FIELDS}),nextPageToken,warning"
        for region in self._pages("regions", "items", fields, size={"maxResults": "500"}):
            name = str(region.get("name", ""))
            found |= {(metric, name): figures for metric, figures in _figures(region).items()}
        return found

    def _project(self) -> dict[str, Figures]:
        url = f"{self._access.url(Api.COMPUTE)}/compute/v1/projects/{self._access.project}"
        asked = {"fields": _QUOTA_FIELDS}
        return _figures(self._access.get(url, action="read the quotas", params=asked, policy=SOON))

    def _infos(self) -> dict[str, Json]:
        fields = "quotaInfos(quotaId,metric,dimensionsInfos,quotaIncreaseEligibility,isFixed),nextPageToken"
        path = f"locations/global/services/{_HOSTS[self._service]}/quotaInfos"
        # Google may cut a list into shorter pages than asked for: one more call for each.
        listed = self._pages(path, "quotaInfos", fields, size={"pageSize": "1000"})
        return {str(info["quotaId"]): info for info in listed if info.get("quotaId")}

    def _pages(self, path: str, items: str, fields: str, *, size: Mapping[str, str]) -> tuple[Json, ...]:
        is_compute = items == "items"
        host = self._access.url(Api.COMPUTE if is_compute else Api.CLOUDQUOTAS)
        url = f"{host}/{'compute/' if is_compute else ''}v1/projects/{self._access.project}/{path}"
        listing = self._access.pages(
            url, action="read the quotas", items=items, params={**size, "fields": fields}, policy=SOON
        )
        return listing.seen  # what a partial list leaves out is unknown by itself


def _figures(place: Json) -> dict[str, Figures]:
    """Limit and usage by metric, of a region or a project; what cannot be read is left out."""
    found: dict[str, Figures] = {}
    for one in mappings(place.get("quotas")):
        if number(one.get("limit")) is not None:
            found[str(one.get("metric", ""))] = (number(one["limit"]), number(one.get("usage")))
    return found
