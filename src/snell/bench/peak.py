"""The most memory that this process has had resident since it last asked, where the system tells."""

from pathlib import Path

__all__ = ["forget_peak", "peak_bytes"]

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_FIELD = "VmHWM:"


def forget_peak() -> bool:
    """Begin anew with what is resident now; False where the system does not let us (then a peak may be an older one)."""
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """The peak; None where the system does not tell."""
    if not _STATUS.exists():
        return None
    line = next((line for line in _STATUS.read_text().splitlines() if line.startswith(_FIELD)), None)
    return None if line is None else int(line.split()[1]) * 1024
