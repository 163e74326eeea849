"""Many texts at once on one model: batched decoding, scheduling, and memory for caches; no network in it."""

from snell.llm.serving.batch_programs import BatchPrograms
from snell.llm.serving.job import Job
from snell.llm.serving.refusals import QueueFullError, RequestTimeoutError, ShuttingDownError
from snell.llm.serving.runner import Load, Runner
from snell.llm.serving.scheduler import Limits

__all__ = [
    "BatchPrograms",
    "Job",
    "Limits",
    "Load",
    "QueueFullError",
    "RequestTimeoutError",
    "Runner",
    "ShuttingDownError",
]
