"""Write the tables of catalog.md from the catalog itself: ``python docs/reference/catalog_tables.py``."""

from pathlib import Path

from gputrain import catalog
from gputrain.catalog import NOT_SOLD, ProvisioningModel, Service
from gputrain.display.table import Table

PAGE = Path(__file__).with_name("catalog.md")
BEGIN, END = "<!-- {}: written by catalog_tables.py -->", "<!-- end of {} -->"


def markdown(table: Table) -> str:
    lines = [table.columns, ["---:" if name in table.right else "---" for name in table.columns], *table.rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def hosts() -> Table:
    rows = [
        (
            *(limit.gpu, limit.gpu_count, limit.max_vcpus, limit.max_memory_gib),
            catalog.shapes(limit.gpu, limit.gpu_count)[0].machine_type,
        )
        for limit in catalog.attachments()
    ]
    columns = ("GPU", "count", "most vCPUs", "most GiB", "host unless you name one")
    return Table(columns=columns, rows=rows, right=columns[1:4])


def names() -> Table:
    rows = [(gpu.kind, ", ".join(f"`{name}`" for name in gpu.names[1:])) for gpu in catalog.gpus()]
    return Table(columns=("kind", "also goes by"), rows=rows)


def quotas() -> Table:
    columns = ("GPU", "service", "standard", "spot and flex-start", "confidence")
    rows = []
    for gpu in catalog.gpus():
        for service in Service:
            standard, spot = (
                catalog.quota(gpu, model, service=service)
                for model in (ProvisioningModel.STANDARD, ProvisioningModel.SPOT)
            )
            if standard:
                cells = (one and f"`{one.quota_id}`" + family(one) for one in (standard, spot))
                rows.append((gpu.kind, service, *cells, standard.confidence))
    return Table(columns=columns, rows=rows)


def family(quota: catalog.Quota) -> str:
    return f" with gpu_family `{quota.gpu_family}`" if quota.gpu_family else ""


def not_sold() -> Table:
    rows = [(card.name, card.memory_gib, card.architecture, ", ".join(card.nearest)) for card in NOT_SOLD]
    return Table(columns=("card", "GiB", "architecture", "nearest that is sold"), rows=rows, right=("GiB",))


def networks() -> Table:
    rates = ("Gbps a GPU",)
    columns = (
        "machine type",
        "way",
        *rates,
        "NICs beside the first",
        "MTU",
        "plugin",
        "confidence",
        "sources",
    )
    rows = [
        (shape.machine_type, one.networking, f"{one.gbps_per_gpu(shape):g}", nics(one), one.mtu,
         f"`{one.plugin}`" if one.plugin else "", one.confidence, ", ".join(one.sources))
        for shape in {shape.machine.family.name: shape for shape in catalog.shapes()}.values()
        for one in catalog.fabrics(shape)
    ]  # fmt: skip
    return Table(columns=columns, rows=rows, right=rates)


def nics(fabric: catalog.Fabric) -> str:
    counts = ((fabric.data_gvnics, "gVNIC"), (fabric.rdma_nics, "RDMA"))
    return ", ".join(f"{count} {kind}" for count, kind in counts if count)


def sources() -> Table:
    rows = [(one.key, one.what, one.dated) for one in catalog.SOURCES.values()]
    return Table(columns=("key", "document", "its date"), rows=rows)


TABLES = {
    "gpus": lambda: catalog.gpus().table,
    "shapes": lambda: catalog.shapes().table,
    "hosts": hosts,
    "names": names,
    "quotas": quotas,
    "cards": not_sold,
    "networks": networks,
    "sources": sources,
}


def written(page: str) -> str:
    """The page with each marked table replaced by what the catalog says now."""
    for name, make in TABLES.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, rest = page.split(begin)
        after = rest.split(end)[1]
        page = f"{before}{begin}\n\n{markdown(make())}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
