"""How the GPUs of several machines talk to each other: one row for each way that a family has.

Facts of Google's that nobody here has run. What was read at second hand, or never together, has a LOW
confidence: it can be asked for by name, and is never chosen.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gputrain.tables import Shown

from .families import Confidence, Word
from .shape import Shape


class GpuNetworking(Word):
    """What NCCL sends by."""

    AUTO = "auto"
    """The fastest way that is known to work with the machine, its boot image and the networks named."""
    GIB = "gib"
    """GPUDirect RDMA over RoCE, by Google's gIB plugin: A3 Ultra, A4, A4X."""
    TCPXO = "tcpxo"
    """GPUDirect-TCPXO, by the FasTrak plugin and its daemon: A3 Mega."""
    TCPX = "tcpx"
    """GPUDirect-TCPX, by its plugin and its daemon: A3 High with 8 GPUs, A3 Edge."""
    FAST_SOCKET = "fast-socket"
    """Google's Fast Socket plugin over one interface: A2, G2 and N1. Its source rests since 2023."""
    MULTI_NIC = "multi-nic"
    """Plain sockets over all interfaces of a machine that has several and no plugin: G4 with 8 GPUs."""
    SINGLE_NIC = "single-nic"
    """Plain sockets over the first interface: every machine has it."""


@attrs.frozen(kw_only=True)
class Fabric(Shown):
    """One way in which the GPUs of several machines of a family talk.

    ``data_gvnics`` and ``rdma_nics`` count interfaces beside the first, each gVNIC in a network of its own.
    ``environment`` holds what ranks get: ``{control}`` is the first interface, ``{data[0]}`` the next one,
    ``{all_data}`` and ``{gvnics}`` are lists with commas.
    """

    networking: GpuNetworking
    net: str
    """What NCCL calls it, in its line "Using network"."""
    nic_gbps: int = 0
    """Gbps of each interface that data goes by; 0: as much as the machine has."""
    data_gvnics: int = 0
    rdma_nics: int = 0
    mtu: int = 1460
    """Of the networks beside the first; that of the first one is 1460 unless you say otherwise."""
    roce_profile: str = ""
    """Suffix of the network profile the RDMA network is made with; the zone comes before it."""
    plugin: str = ""
    """The container image that installs the plugin, or the package that holds it."""
    daemon: str = ""
    """The container image that has to run beside the ranks."""
    libraries: str = ""
    """The folder on the VM that the plugin comes to lie in."""
    environment: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    note: str = ""
    confidence: Confidence = Confidence.MEDIUM
    sources: tuple[str, ...] = ("networks",)

    @property
    def nics(self) -> tuple[str, ...]:
        """The ``nicType`` of each interface beside the first, in the order that Google wants them."""
        return ("GVNIC",) * self.data_gvnics + ("MRDMA",) * self.rdma_nics

    @property
    def is_plain(self) -> bool:
        """Whether NCCL does it by itself, without a plugin."""
        return not self.plugin

    def gbps_per_gpu(self, shape: Shape) -> float:
        """Gbps that one GPU can send to other machines at most: the lines' rate, which no job reaches."""
        most = shape.machine.max_gbps
        of_data = self.rdma_nics or self.data_gvnics
        if of_data and not self.is_plain:
            most = of_data * self.nic_gbps
        elif self.nic_gbps:
            most = self.nic_gbps * (1 + self.data_gvnics)
        return most / shape.api_gpu_count


_RDMA, _TCP = "gpudirect-gib", "gpudirect-tcpx"
_IMAGES = "us-docker.pkg.dev/gce-ai-infra"
_GIB, _TCPXO = "/usr/local/gib/lib64", "/var/lib/tcpxo/lib64"
_CHUNKS = {
    "NCCL_DYNAMIC_CHUNK_SIZE": "524288", "NCCL_P2P_NET_CHUNKSIZE": "524288",
    "NCCL_P2P_PCI_CHUNKSIZE": "524288", "NCCL_P2P_NVL_CHUNKSIZE": "1048576", "NCCL_BUFFSIZE": "4194304",
}  # fmt: skip
_CORES = ("8-21,112-125", "8-21,112-125", "60-73,164-177", "60-73,164-177")
_RX_CORES = ("22-35,126-139", "22-35,126-139", "74-87,178-191", "74-87,178-191")


def _bound(cores: tuple[str, ...]) -> str:
    """The CPUs of each data interface, as TCPX reads them."""
    return ";".join(f"{{data[{at}]}}:{each}" for at, each in enumerate(cores))


_ON_CONTROL = {"NCCL_SOCKET_IFNAME": "{control}", "GLOO_SOCKET_IFNAME": "{control}"}
"""Which interface ranks meet on, where a machine has several: the others have no way to each other."""


def _single(nic_gbps: int) -> Fabric:
    note = "as fast as one gVNIC: a share of the machine's Gbps"
    sources = ("machines", "networks")
    return Fabric(
        networking=GpuNetworking.SINGLE_NIC, net="Socket", nic_gbps=nic_gbps, note=note, sources=sources
    )


def _gib(rdma_nics: int, image: str, note: str = "") -> Fabric:
    gloo = {"GLOO_SOCKET_IFNAME": "{control}"}
    return Fabric(
        networking=GpuNetworking.GIB, net="gIB", nic_gbps=400, data_gvnics=1, rdma_nics=rdma_nics, mtu=8896,
        roce_profile="-vpc-roce", plugin=f"{_IMAGES}/{_RDMA}/{image}", libraries=_GIB, note=note,
        environment={"NCCL_NET": "gIB", "NCCL_SOCKET_IFNAME": "{gvnics}", **gloo},
        sources=("networks", "gib"),
    )  # fmt: skip


def _tcpx(nic_gbps: int) -> Fabric:
    own = {
        "SOCKET_IFNAME": "{all_data}", "CTRL_DEV": "{control}", "UNIX_CLIENT_PREFIX": "/run/tcpx",
        "PROGRAM_FLOW_STEERING_WAIT_MICROS": "500000", "TX_BINDINGS": _bound(_CORES),
        "RX_BINDINGS": _bound(_RX_CORES),
    }  # fmt: skip
    return Fabric(
        networking=GpuNetworking.TCPX, net="GPUDirectTCPX", nic_gbps=nic_gbps, data_gvnics=4, mtu=8244,
        plugin=f"{_IMAGES}/{_TCP}/nccl-plugin-gpudirecttcpx-dev:v3.1.12",
        daemon=f"{_IMAGES}/{_TCP}/tcpgpudmarxd-dev:v2.0.12", libraries="/var/lib/tcpx/lib64",
        environment={
            **_ON_CONTROL, **_CHUNKS,
            "NCCL_NET": "GPUDirectTCPX_v7", "NCCL_CROSS_NIC": "0", "NCCL_ALGO": "Ring,Tree",
            "NCCL_PROTO": "Simple", "NCCL_NSOCKS_PERTHREAD": "4", "NCCL_SOCKET_NTHREADS": "1",
            "NCCL_NET_GDR_LEVEL": "PIX", "NCCL_P2P_PXN_LEVEL": "0",
            **{f"NCCL_GPUDIRECTTCPX_{name}": value for name, value in own.items()},
        },
        note="its boot image needs a kernel with TCPX, which none that gputrain knows has",
        sources=("networks", "tcpx"),
    )  # fmt: skip


_FAST_SOCKET = Fabric(
    networking=GpuNetworking.FAST_SOCKET, net="FastSocket", plugin="google-fast-socket",
    libraries="/var/lib/gputrain/fast-socket", confidence=Confidence.LOW, sources=("fast-socket",),
    note="not officially supported, and not known with NCCL 2.26 or newer",
)  # fmt: skip
_ONE = _single(0)

FABRICS: Mapping[str, tuple[Fabric, ...]] = {
    "A4X Max": (),
    "A4X": (
        _gib(4, "nccl-plugin-gib-arm64:v1.1.0", "NVLink between machines (IMEX) is not set up"),
        _single(200),
    ),
    "A4": (_gib(8, "nccl-plugin-gib:v1.1.1"), _single(200)),
    "A3 Ultra": (_gib(8, "nccl-plugin-gib:v1.1.1"), _single(200)),
    "A3 Mega": (
        Fabric(
            networking=GpuNetworking.TCPXO, net="FasTrak", nic_gbps=200, data_gvnics=8, mtu=8244,
            plugin=f"{_IMAGES}/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev:v1.0.16",
            daemon=f"{_IMAGES}/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.22", libraries=_TCPXO,
            environment={
                **_ON_CONTROL,
                "NCCL_FASTRAK_CTRL_DEV": "{control}", "NCCL_FASTRAK_IFNAME": "{all_data}",
                "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices",
            },
            note="plugin and daemon are a pair for drivers from 580 on; later drivers want later ones",
            sources=("networks", "tcpxo"),
        ),
        _single(200),
    ),
    "A3 High": (_tcpx(200), _single(200)),
    "A3 Edge": (_tcpx(80), _single(80)),
    "A3 High 1-4": (_ONE,),
    "A2 Ultra": (_FAST_SOCKET, _ONE),
    "A2 Standard": (_FAST_SOCKET, _ONE),
    "G4": (_ONE,),
    "G2": (_FAST_SOCKET, _ONE),
    "N1": (_FAST_SOCKET, _ONE),
}  # fmt: skip
"""By the family's name, the fastest first. Google's words on the NCCL variables are enforced by its plugins,
so nothing of ours tunes what their own scripts set."""

_OF_MACHINES: Mapping[str, tuple[Fabric, ...]] = {
    "g4-standard-384": (
        Fabric(
            networking=GpuNetworking.MULTI_NIC, net="Socket", nic_gbps=200, data_gvnics=1, mtu=8896,
            environment={"NCCL_SOCKET_IFNAME": "{gvnics}", "GLOO_SOCKET_IFNAME": "{control}"},
            note="400 Gbps need both of its interfaces", sources=("gpus", "machines"),
            confidence=Confidence.HIGH,
        ),
        _single(200),
    ),
}  # fmt: skip

_PEER_TO_PEER = {"g4-standard-96": "PHB", "g4-standard-192": "PHB", "g4-standard-384": "SYS"}
"""How far apart two GPUs may be that write into each other. Source: "G4 peer-to-peer" on the page of
accelerator-optimized machines, and cluster-toolkit's examples/gke-g4 @1047080: unset, NCCL goes through the
host's memory, which costs up to half of its all-reduce."""


def fabrics(shape: Shape) -> tuple[Fabric, ...]:
    """The ways in which the GPUs of several such machines talk, the fastest first; empty: none is known.

    >>> from gputrain.catalog import shapes
    >>> shape = shapes("H200", 8)[0]
    >>> [(one.networking.value, one.gbps_per_gpu(shape)) for one in fabrics(shape)]
    [('gib', 400.0), ('single-nic', 25.0)]
    """
    return _OF_MACHINES.get(shape.machine_type, FABRICS[shape.machine.family.name])


def nccl_defaults(shape: Shape) -> dict[str, str]:
    """What NCCL should be told on such a machine whatever the network; the user's own values win.

    >>> from gputrain.catalog import shapes
    >>> nccl_defaults(shapes("RTX-PRO-6000", 4)[0])
    {'NCCL_P2P_LEVEL': 'PHB'}
    """
    level = _PEER_TO_PEER.get(shape.machine_type)
    return {"NCCL_P2P_LEVEL": level} if level else {}
