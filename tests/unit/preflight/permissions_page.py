"""docs/reference/permissions.md, written from the tables of permissions.

``python -m tests.unit.preflight.permissions_page`` writes it anew.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from gputrain.preflight.google import BUILDS
from gputrain.preflight.project import Need, On

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "permissions.md"
KINDS = {
    "compute": ("Compute Engine", "gputrainGang"),
    "vertex": ("Vertex AI", "gputrainSubmitter"),
}
HEAD = """# Permissions

Every permission that a call of ours needs, written from the tables that `trainer.doctor()` asks by.
A test does everything that people do with exactly these, and again without each of them: the missing one is named in the error, and nothing is left running that its job does not show.
What jobs themselves may do is said in [Compute Engine](../howto/compute.md) and [Vertex AI](../howto/vertex.md).
"""  # noqa: E501  # one sentence a line


def table(kind):
    return import_module(f"gputrain.backends.{kind}.preflight").TABLE


def role_file(needs: Sequence[Need], title: str) -> str:
    """What is granted on a project, for ``gcloud iam roles create NAME --project P --file``."""
    held = sorted(one.permission for one in needs if one.on is On.PROJECT and not one.only_with)
    return "\n".join(
        [f"title: {title}", "stage: GA", "includedPermissions:", *(f"- {one}" for one in held), ""]
    )


def written():
    parts = [HEAD]
    for kind, (title, role) in KINDS.items():
        parts += [f"## {title}\n", "| permission | granted on | it is needed to | if it is lacking |"]
        parts += ["|---|---|---|---|"]
        for need in table(kind):
            without = "that stays unknown" if need.is_optional else "an error that names it"
            only = f", only with {need.only_with}" if need.only_with else ""
            parts.append(f"| `{need.permission}` | {need.on.value} | {need.call}{only} | {without} |")
        parts += [f"\nAs a custom role, in a file `{role}.yaml`:\n", "```yaml"]
        parts += [role_file(table(kind), f"gputrain on {title}").rstrip(), "```", ""]
        command = f"gcloud iam roles create {role} --project $PROJECT --file {role}.yaml"
        parts += ["```sh", command, "```", ""]
    return "\n".join([*parts, images()])


def images():
    """Of those who build images, beside one of the above."""
    rows = []
    for one in BUILDS:
        only = f", only with {one.only_with}" if one.only_with else ""
        rows.append(f"| `{one.permission}` | {one.on.value} | {one.call}{only} |")
    file = role_file(BUILDS, "gputrain builds images").rstrip()
    command = "gcloud iam roles create gputrainImages --project $PROJECT --file gputrainImages.yaml"
    return "\n".join([
        "## Images\n", "Only where [gputrain builds them](../howto/images.md), beside one of the above.\n",
        "| permission | granted on | it is needed to |", "|---|---|---|", *rows,
        "\nAs a custom role, in a file `gputrainImages.yaml`:\n", "```yaml", file, "```", "",
        "```sh", command, "```", "",
    ])  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(written())
