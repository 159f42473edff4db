"""What TCPXO needs of an Ubuntu kernel on an A3 Mega: a module, and its GPUs' neighbours as devices.

Source: cluster-toolkit's blueprint of A3 Mega @1047080, and Google's GKE installer @992db81.
"""

from __future__ import annotations

import glob
import os
import tempfile

from .install import install
from .keeper import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .install import Call

HELPER = "/dev/dmabuf_import_helper"
PACKAGE, VERSION = "dmabuf-import-helper", "1.1"
LISTS = {
    "artifact-registry": "deb http://packages.cloud.google.com/apt"
    " apt-transport-artifact-registry-stable main\n",
    "gpudirect-tcpxo": "deb [arch=all trusted=yes] ar+https://us-apt.pkg.dev/projects/gce-ai-infra"
    " gpudirect-tcpxo-apt main\n",
}
PATCH = 's/MODULE_IMPORT_NS(DMA_BUF)/MODULE_IMPORT_NS("DMA_BUF")/'
"""The package is of a time before kernel 6.13, which wants a text there."""

APERTURE = "0x1ae0", "0x0084"
"""Vendor and device of what lets a network interface write into a GPU."""
APERTURES = "/dev/aperture_devices"


def import_helper(call: Call) -> None:
    """Have the module that lets the daemon import a GPU's memory. Raises Failed, and as ``call``."""
    call(["modprobe", "import-helper"])
    if os.path.exists(HELPER):
        return
    faults = [_install(call, "artifact-registry", "apt-transport-artifact-registry", "dkms")]
    faults += [_install(call, "gpudirect-tcpxo")]
    with tempfile.TemporaryDirectory() as folder:
        source = f"/usr/src/{PACKAGE}-{VERSION}"
        module = ["-m", PACKAGE, "-v", VERSION]
        for words in (
            ["sh", "-c", f"cd {folder} && apt-get download {PACKAGE} && dpkg-deb -x *.deb / "],
            ["sed", "-i", PATCH, f"{source}/import-helper.c"],
            ["dkms", "add", *module],
            ["dkms", "build", *module],
            ["dkms", "install", *module],
            ["modprobe", "import-helper"],
        ):
            code, said = call(words)
            faults += [said[-500:]] if code else []
    if not os.path.exists(HELPER):
        told = "; ".join(filter(None, faults)) or "it was built, and the kernel does not show it"
        raise Failed(f"TCPXO needs {HELPER}, which {PACKAGE} brings, and there is none: {told}")


def _install(call: Call, source: str, *packages: str) -> str:
    with open(f"/etc/apt/sources.list.d/{source}.list", "w") as file:
        file.write(LISTS[source])
    return install(call, *packages) or ""


def apertures(call: Call) -> None:
    """Show the apertures of the GPUs where the plugin looks for them. Raises Failed, and as ``call``."""
    found = [path for path in sorted(glob.glob("/sys/bus/pci/devices/*")) if _is_aperture(path)]
    if not found:
        raise Failed("TCPXO needs the aperture devices of an A3 Mega, and this VM shows none")
    for path in found:
        target = os.path.join(APERTURES, os.path.basename(path))
        if os.path.isdir(target):
            continue
        os.makedirs(target)
        code, said = call(["mount", "--bind", os.path.realpath(path), target])
        if code:
            raise Failed(f"{target} cannot be mounted: {said[-500:]}")
        for resource in glob.glob(os.path.join(target, "resource*")):
            os.chmod(resource, 0o666)  # noqa: S103  # as Google does: ranks need not be root


def _is_aperture(path: str) -> bool:
    try:
        with open(os.path.join(path, "vendor")) as vendor, open(os.path.join(path, "device")) as device:
            return (vendor.read().strip(), device.read().strip()) == APERTURE
    except OSError:
        return False
