"""What type checkers and editors see of the face. It stays here; `__init__.py` travels with every job."""

from gputrain.backends.compute import ComputeEngine as ComputeEngine
from gputrain.backends.local import Local as Local
from gputrain.backends.vertex import VertexAI as VertexAI
from gputrain.catalog import ProvisioningModel as ProvisioningModel
from gputrain.errors import (
    AccessError as AccessError,
    AuthError as AuthError,
    CapacityError as CapacityError,
    GputrainError as GputrainError,
    JobError as JobError,
    JobFailedError as JobFailedError,
    JobLostError as JobLostError,
    JobTimeoutError as JobTimeoutError,
    NoFitError as NoFitError,
    NoPlacementError as NoPlacementError,
    PermissionDeniedError as PermissionDeniedError,
    QuotaExceededError as QuotaExceededError,
    RequestError as RequestError,
    SpecError as SpecError,
    StoppedError as StoppedError,
    TransientError as TransientError,
    UnknownGpuError as UnknownGpuError,
)
from gputrain.experiments import Experiment as Experiment, compare as compare, grid as grid
from gputrain.job import Job as Job, JobEvent as JobEvent
from gputrain.jobstore import ConflictError as ConflictError
from gputrain.lifecycle import State as State
from gputrain.spec import Image as Image, TrainingSpec as TrainingSpec
from gputrain.trainer import Plan as Plan, Trainer as Trainer, attach as attach

__version__: str
__all__: list[str]
