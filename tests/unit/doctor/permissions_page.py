"""docs/reference/permissions.md, written from the tables of permissions.

``python -m tests.unit.doctor.permissions_page`` writes it anew.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from gputrain.doctor.google import On, Permission, needs as needs_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "permissions.md"
KINDS = {
    "compute": ("Compute Engine", "gputrainCompute"),
    "vertex": ("Vertex AI", "gputrainSubmitter"),
}
HEAD = """# Permissions

What you need, as `trainer.doctor()` checks it. If one is missing, the error names it.
For the jobs' own account, see the set-up of [Compute Engine](../howto/compute.md#set-up) and [Vertex AI](../howto/vertex.md#set-up).
"""  # noqa: E501  # a line of the page


def table(kind):
    return import_module(f"gputrain.backends.{kind}.preflight").TABLE


def role_file(needs: Sequence[Permission], title: str) -> str:
    """What is granted on a project, for ``gcloud iam roles create NAME --project P --file``."""
    held = sorted(one.name for one in needs if one.on is On.PROJECT and not one.only_with)
    return "\n".join(
        [f"title: {title}", "stage: GA", "includedPermissions:", *(f"- {one}" for one in held), ""]
    )


def written():
    parts = [HEAD]
    for kind, (title, role) in KINDS.items():
        parts += [f"## {title}\n", "| permission | granted on | needed to | without it |"]
        parts += ["|---|---|---|---|"]
        for need in table(kind):
            without = "unknown" if need.is_optional else "an error"
            only = f", only with {need.only_with}" if need.only_with else ""
            parts.append(f"| `{need.name}` | {need.on.value} | {need.purpose}{only} | {without} |")
        parts += [f"\n[Set up](../howto/{kind}.md#set-up) creates the role `{role}` from these.\n"]
    return "\n".join([*parts, images()])


def images():
    """Of those who build images, beside one of the above."""
    rows = []
    for one in needs_of("builds"):
        only = f", only with {one.only_with}" if one.only_with else ""
        rows.append(f"| `{one.name}` | {one.on.value} | {one.purpose}{only} |")
    file = role_file(needs_of("builds"), "gputrain builds images").rstrip()
    command = "gcloud iam roles create gputrainImages --project $PROJECT --file gputrainImages.yaml"
    return "\n".join([
        "## Images\n", "To [build images](../howto/images.md), in addition to one of the above.\n",
        "| permission | granted on | needed to |", "|---|---|---|", *rows,
        "\nAs a custom role, in a file `gputrainImages.yaml`:\n", "```yaml", file, "```", "",
        "```sh", command, "```", "",
    ])  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(written())
