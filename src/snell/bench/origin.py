"""When, where and with which version a run was made: written into each of its lines."""

from datetime import UTC, datetime

from snell import __version__
from snell.bench.measurement import Origin
from snell.codegen.host import host_target

__all__ = ["origin"]


def origin(threads: int) -> Origin:
    """This run's, now."""
    target = host_target()
    machine = f"{target.cpu} ({target.name}), {threads} thread{'s' if threads != 1 else ''}"
    return Origin(datetime.now(UTC).isoformat(timespec="seconds"), machine, __version__)
