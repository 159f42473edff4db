"""The GPUs Google Cloud sells or has sold: one row each."""

from __future__ import annotations

import attrs

from gputrain.tables import Shown, Table

from .families import Stage


@attrs.frozen(kw_only=True)
class Lifecycle(Shown):
    """Where a GPU stands, since when, and the day it ends.

    ``ends`` is ISO text, or empty where no end is announced.
    """

    stage: Stage = Stage.ACTIVE
    ends: str = ""
    note: str = ""
    source: str = "gpus"


@attrs.frozen(kw_only=True)
class Gpu(Shown):
    """One kind of GPU.

    ``memory_gib`` is what Google prints for it; ``bf16_tflops`` is the dense figure (Google's own table
    prints sparse ones for Hopper and newer); None means that the hardware has no such arithmetic.
    ``nvlink_gb_s`` is both ways together; None where it has no NVLink.
    ``cuda_dropped_in`` is the first CUDA release that cannot drive it any more,
    ``torch_dropped_in`` the first CUDA build of PyTorch's wheels without its architecture;
    empty where there is none.
    """

    kind: str
    """Our word for it, as in ``gpu="H100:2"``."""
    name: str
    accelerator_type: str
    """Compute Engine's word."""
    vertex_accelerator_type: str | None = None
    """Vertex AI's word, or None where Vertex does not know it."""
    memory_gib: int
    architecture: str
    compute_capability: str
    min_cuda: str
    min_driver: str
    cuda_dropped_in: str = ""
    torch_dropped_in: str = ""
    bf16_tflops: float | None = None
    memory_gb_s: int
    nvlink_gb_s: int | None = None
    also_known_as: tuple[str, ...] = ()
    lifecycle: Lifecycle = attrs.field(default=Lifecycle(), repr=False)
    instead: tuple[str, ...] = ()
    """Kinds to take once this one is gone."""
    sources: tuple[str, ...] = ("gpus", "vertex-client", "nvidia")

    @property
    def sm(self) -> str:
        """The architecture as the CUDA compiler names it, such as ``sm_90``."""
        return f"sm_{self.compute_capability.replace('.', '')}"

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability as numbers, so that 10.0 comes after 9.0."""
        major, minor = self.compute_capability.split(".")
        return int(major), int(minor)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it goes by, our own first."""
        googles = (self.accelerator_type, self.vertex_accelerator_type)
        named = (self.kind, *googles, self.name, *self.also_known_as)
        return tuple(dict.fromkeys(name for name in named if name))

    def is_sold(self, on: str = "") -> bool:
        """Whether it can be created: on the ISO day ``on``, or when the tables were read."""
        if self.lifecycle.stage is Stage.GONE:
            return False
        return not (on and self.lifecycle.ends) or on < self.lifecycle.ends


class Gpus(Shown, tuple[Gpu, ...]):
    """GPUs, shown as a table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        return Table(
            title="GPUs on Google Cloud",
            columns=(
                *("kind", "GiB", "GB/s", "NVLink GB/s", "bf16 TFLOPS", "capability"),
                *("CUDA from", "driver from", "Compute", "Vertex AI", "life"),
            ),
            rows=map(_cells, self),
            right=("GiB", "GB/s", "NVLink GB/s", "bf16 TFLOPS"),
        )


def _cells(gpu: Gpu) -> tuple[object, ...]:
    life = gpu.lifecycle
    stage = f"{life.stage} {life.ends}".strip() if life.stage is not Stage.ACTIVE else ""
    speed = (gpu.memory_gb_s, gpu.nvlink_gb_s, gpu.bf16_tflops)
    floor = (gpu.compute_capability, gpu.min_cuda, gpu.min_driver)
    names = (gpu.accelerator_type, gpu.vertex_accelerator_type)
    return (gpu.kind, gpu.memory_gib, *speed, *floor, *names, stage)


_ENDING = Lifecycle(
    stage=Stage.DEPRECATED, ends="2027-08-01", note="announced 2026-09-22; no new 3-year commitments",
    source="release-notes",
)  # fmt: skip

GPUS = Gpus((
    Gpu(
        kind="GB300", name="NVIDIA GB300 Grace Blackwell Ultra", accelerator_type="nvidia-gb300",
        memory_gib=279, architecture="Blackwell Ultra", compute_capability="10.3",
        min_cuda="12.9", min_driver="R580",
        bf16_tflops=2500, memory_gb_s=8000, nvlink_gb_s=1800,
        also_known_as=("B300", "NVIDIA GB300"),
    ),
    Gpu(
        kind="GB200", name="NVIDIA GB200 Grace Blackwell", accelerator_type="nvidia-gb200",
        vertex_accelerator_type="NVIDIA_GB200",
        memory_gib=186, architecture="Blackwell", compute_capability="10.0",
        min_cuda="12.8", min_driver="R570",
        bf16_tflops=2500, memory_gb_s=8000, nvlink_gb_s=1800,
        also_known_as=("NVIDIA GB200",),
    ),
    Gpu(
        kind="B200", name="NVIDIA B200", accelerator_type="nvidia-b200",
        vertex_accelerator_type="NVIDIA_B200",
        memory_gib=180, architecture="Blackwell", compute_capability="10.0",
        min_cuda="12.8", min_driver="R570",
        bf16_tflops=2250, memory_gb_s=8000, nvlink_gb_s=1800,
        also_known_as=("B200-180GB",),
    ),
    Gpu(
        kind="H200", name="NVIDIA H200 SXM 141GB", accelerator_type="nvidia-h200-141gb",
        vertex_accelerator_type="NVIDIA_H200_141GB",
        memory_gib=141, architecture="Hopper", compute_capability="9.0",
        min_cuda="11.8", min_driver="R535",
        bf16_tflops=989, memory_gb_s=4800, nvlink_gb_s=900,
        also_known_as=("H200-141GB", "NVIDIA H200", "H200-SXM"),
    ),
    Gpu(
        kind="H100-MEGA", name="NVIDIA H100 SXM 80GB (A3 Mega)", accelerator_type="nvidia-h100-mega-80gb",
        vertex_accelerator_type="NVIDIA_H100_MEGA_80GB",
        memory_gib=80, architecture="Hopper", compute_capability="9.0",
        min_cuda="11.8", min_driver="R520",
        bf16_tflops=989, memory_gb_s=3350, nvlink_gb_s=900,
        also_known_as=("H100-MEGA-80GB", "H100-80GB-MEGA"),
    ),
    Gpu(
        kind="H100", name="NVIDIA H100 SXM 80GB", accelerator_type="nvidia-h100-80gb",
        vertex_accelerator_type="NVIDIA_H100_80GB",
        memory_gib=80, architecture="Hopper", compute_capability="9.0",
        min_cuda="11.8", min_driver="R520",
        bf16_tflops=989, memory_gb_s=3350, nvlink_gb_s=900,
        also_known_as=(
            "H100-80GB", "NVIDIA H100", "H100-SXM", "H100-SXM5", "NVIDIA H100 80GB HBM3", "nvidia-h100",
        ),
    ),
    Gpu(
        kind="A100-80GB", name="NVIDIA A100 SXM 80GB", accelerator_type="nvidia-a100-80gb",
        vertex_accelerator_type="NVIDIA_A100_80GB",
        memory_gib=80, architecture="Ampere", compute_capability="8.0", min_cuda="11.0", min_driver="R450",
        bf16_tflops=312, memory_gb_s=2039, nvlink_gb_s=600,
        also_known_as=("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "A100-80"),
    ),
    Gpu(
        kind="A100-40GB", name="NVIDIA A100 SXM 40GB", accelerator_type="nvidia-tesla-a100",
        vertex_accelerator_type="NVIDIA_TESLA_A100",
        memory_gib=40, architecture="Ampere", compute_capability="8.0", min_cuda="11.0", min_driver="R450",
        bf16_tflops=312, memory_gb_s=1555, nvlink_gb_s=600,
        also_known_as=(
            "A100", "nvidia-a100", "Tesla A100", "A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "A100-40",
            "nvidia-a100-40gb",  # Google's overview page prints it; no API takes it
        ),
    ),
    Gpu(
        kind="RTX-PRO-6000", name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        accelerator_type="nvidia-rtx-pro-6000", vertex_accelerator_type="NVIDIA_RTX_PRO_6000",
        memory_gib=96, architecture="Blackwell (GB202)", compute_capability="12.0",
        min_cuda="12.8", min_driver="R570",
        bf16_tflops=467.8, memory_gb_s=1597,
        also_known_as=("RTX PRO 6000 Blackwell", "RTX6000-PRO", "RTX-PRO-6000-96GB", "RTX 6000 Blackwell"),
    ),
    Gpu(
        kind="L4", name="NVIDIA L4", accelerator_type="nvidia-l4", vertex_accelerator_type="NVIDIA_L4",
        memory_gib=24, architecture="Ada Lovelace", compute_capability="8.9",
        min_cuda="11.8", min_driver="R525",
        bf16_tflops=121, memory_gb_s=300,
        also_known_as=("L4-24GB",),
    ),
    Gpu(
        kind="T4", name="NVIDIA T4", accelerator_type="nvidia-tesla-t4",
        vertex_accelerator_type="NVIDIA_TESLA_T4",
        memory_gib=16, architecture="Turing", compute_capability="7.5", min_cuda="10.0", min_driver="R410",
        memory_gb_s=320,
        also_known_as=("Tesla T4", "T4-16GB"),
        lifecycle=_ENDING, instead=("L4",), sources=("gpus", "vertex-client", "release-notes", "nvidia"),
    ),
    Gpu(
        kind="V100", name="NVIDIA V100 SXM2 16GB", accelerator_type="nvidia-tesla-v100",
        vertex_accelerator_type="NVIDIA_TESLA_V100",
        memory_gib=16, architecture="Volta", compute_capability="7.0",
        min_cuda="9.0", cuda_dropped_in="13.0", torch_dropped_in="12.8",
        min_driver="R384",
        memory_gb_s=900, nvlink_gb_s=300,
        also_known_as=("Tesla V100", "NVIDIA V100", "Tesla V100-SXM2-16GB", "V100-16GB"),
        lifecycle=Lifecycle(note="no end announced up to 2026-09-22", source="release-notes"),
        sources=("gpus", "vertex-client", "release-notes", "nvidia", "wheels"),
    ),
    Gpu(
        kind="P4", name="NVIDIA P4 8GB", accelerator_type="nvidia-tesla-p4",
        vertex_accelerator_type="NVIDIA_TESLA_P4",
        memory_gib=8, architecture="Pascal", compute_capability="6.1",
        min_cuda="8.0", cuda_dropped_in="13.0", torch_dropped_in="12.8",
        min_driver="R375",
        memory_gb_s=192, also_known_as=("Tesla P4", "NVIDIA P4"),
        lifecycle=_ENDING, instead=("L4", "T4"), sources=("gpus", "vertex-client", "release-notes", "nvidia"),
    ),
    Gpu(
        kind="P100", name="NVIDIA P100 16GB", accelerator_type="nvidia-tesla-p100",
        vertex_accelerator_type="NVIDIA_TESLA_P100",
        memory_gib=16, architecture="Pascal", compute_capability="6.0",
        min_cuda="8.0", cuda_dropped_in="13.0", torch_dropped_in="12.8",
        min_driver="R375",
        memory_gb_s=732, also_known_as=("Tesla P100", "NVIDIA P100"),
        lifecycle=Lifecycle(stage=Stage.GONE, ends="2026-09-15", note="shut down", source="release-notes"),
        instead=("L4", "T4", "V100"), sources=("gpus", "vertex-client", "release-notes", "nvidia"),
    ),
    Gpu(
        kind="K80", name="NVIDIA K80", accelerator_type="nvidia-tesla-k80",
        vertex_accelerator_type="NVIDIA_TESLA_K80",
        memory_gib=12, architecture="Kepler", compute_capability="3.7",
        min_cuda="6.5", cuda_dropped_in="12.0", torch_dropped_in="12.0", min_driver="R340",
        memory_gb_s=240, also_known_as=("Tesla K80",),
        lifecycle=Lifecycle(stage=Stage.GONE, ends="2024", note="shut down", source="vertex-client"),
        instead=("T4", "L4"), sources=("vertex-client", "nvidia"),
    ),
))  # fmt: skip


BY_KIND = {gpu.kind: gpu for gpu in GPUS}


def gpus() -> Gpus:
    """Every GPU kind, newest first, those that are gone included.

    >>> [gpu.kind for gpu in gpus() if gpu.memory_gib > 100]
    ['GB300', 'GB200', 'B200', 'H200']
    """
    return GPUS
