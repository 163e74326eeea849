"""What a user can set from outside, read once: the only file that looks at the environment.

Takes a mapping of environment variables (``process_environment()`` for those of this process) and returns a
frozen ``Config`` that is passed down explicitly; no other module may read ``os.environ``.

    SNELL_THREADS       threads a program may use; unset: every core this process is allowed to use
    SNELL_CACHE_DIR     compiled code and records; unset: the platform's cache folder
    SNELL_DATA_DIR      installed models; unset: the platform's data folder
    SNELL_CACHE_LIMIT   size limit of the cache: bytes, or a number with KiB, MiB, GiB, kB, MB, GB
    SNELL_VERIFY        1 verifies the program after every compiler pass
    SNELL_SEARCH        off, full, or a number of seconds
"""

import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from snell.errors import ConfigError

__all__ = ["Config", "SearchBudget", "available_threads", "process_environment"]

SearchBudget = Literal["off", "full"] | float

DEFAULT_CACHE_LIMIT_BYTES = 4 * 2**30
CGROUP_ROOT = Path("/sys/fs/cgroup")
CGROUP_MEMBERSHIP = Path("/proc/self/cgroup")

_UNITS = {"": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of one engine; ``threads=None`` means ``available_threads()``."""

    threads: int | None
    cache_dir: Path
    data_dir: Path
    cache_limit_bytes: int = DEFAULT_CACHE_LIMIT_BYTES
    verify_passes: bool = False
    search: SearchBudget = "off"

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str], *, platform: str = sys.platform, home: Path | None = None
    ) -> "Config":
        """Read the ``SNELL_*`` variables; an ill-formed value is a ``ConfigError`` that names its variable."""
        home = _home() if home is None else home
        return cls(
            threads=_threads(environ.get("SNELL_THREADS", "")),
            cache_dir=_folder(environ, "SNELL_CACHE_DIR", _user_cache(environ, platform, home)),
            data_dir=_folder(environ, "SNELL_DATA_DIR", _user_data(environ, platform, home)),
            cache_limit_bytes=_size(environ.get("SNELL_CACHE_LIMIT", "")),
            verify_passes=_flag(environ.get("SNELL_VERIFY", "")),
            search=_search(environ.get("SNELL_SEARCH", "")),
        )


def process_environment() -> dict[str, str]:
    """A copy of this process's environment variables."""
    return dict(os.environ)


def available_threads(
    *, allowed: int | None = None, cgroup_root: Path = CGROUP_ROOT, membership: Path = CGROUP_MEMBERSHIP
) -> int:
    """Cores that this process may use: its affinity mask, cut by its cgroup's CPU quota; at least 1.

    ``allowed`` replaces the affinity mask's count. A fractional quota is rounded up: with 1.5 cores two threads
    that are throttled a quarter of the time finish sooner than one thread that never is.
    """
    cores = _allowed_cores() if allowed is None else allowed
    quota = min(_quotas(cgroup_root, membership), default=math.inf)
    return max(1, min(cores, math.ceil(quota) if math.isfinite(quota) else cores))


def _allowed_cores() -> int:
    # macOS and Windows have no affinity mask in the standard library.
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path, membership: Path) -> Iterator[float]:
    """The CPU quotas, in cores, of this process's control groups and of all that contain them."""
    for line in _read(membership).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers == "":
            for folder in _up_to(root, group):
                yield from _quota_v2(folder)
        elif "cpu" in controllers.split(","):
            for folder in _up_to(root / controllers, group):
                yield from _quota_v1(folder)
            for folder in _up_to(root / "cpu", group):
                yield from _quota_v1(folder)


def _up_to(root: Path, group: str) -> Iterator[Path]:
    # Inside a container the group's path may name a folder of the host that is not mounted here; the mounted
    # root then is the container's own group, so the walk always ends at the root.
    folder = root / group.lstrip("/")
    while folder != root:
        yield folder
        folder = folder.parent
    yield root


def _quota_v2(folder: Path) -> Iterator[float]:
    fields = _read(folder / "cpu.max").split()
    if len(fields) == 2 and fields[0] != "max" and int(fields[1]) > 0:
        yield int(fields[0]) / int(fields[1])


def _quota_v1(folder: Path) -> Iterator[float]:
    quota, period = _read(folder / "cpu.cfs_quota_us").strip(), _read(folder / "cpu.cfs_period_us").strip()
    # An unlimited group has the quota -1.
    if quota and period and int(quota) > 0 and int(period) > 0:
        yield int(quota) / int(period)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        # No such control group (or no Linux): that level sets no limit.
        return ""


def _home() -> Path:
    """The user's folder; the root where there is none, as `login` has it (a container's user may have no name)."""
    try:
        home = Path.home()
    except RuntimeError:
        home = Path()
    # HOME="" would put the folders into whatever the current one is.
    return home if home.is_absolute() else Path(Path.cwd().anchor)


def _user_cache(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    if platform == "win32":
        return _local_app_data(environ, home) / "snell" / "cache"
    if platform == "darwin":
        return home / "Library" / "Caches" / "snell"
    return _xdg(environ, "XDG_CACHE_HOME", home / ".cache") / "snell"


def _user_data(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    if platform == "win32":
        return _local_app_data(environ, home) / "snell" / "data"
    if platform == "darwin":
        return home / "Library" / "Application Support" / "snell"
    return _xdg(environ, "XDG_DATA_HOME", home / ".local" / "share") / "snell"


def _local_app_data(environ: Mapping[str, str], home: Path) -> Path:
    return Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")


def _xdg(environ: Mapping[str, str], name: str, default: Path) -> Path:
    folder = Path(environ.get(name, ""))
    # The XDG specification says that a relative path is invalid and is to be ignored.
    return folder if folder.is_absolute() else default


def _folder(environ: Mapping[str, str], name: str, default: Path) -> Path:
    text = environ.get(name, "")
    if not text:
        return default
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{name}: expected a folder, received {text!r}: {error}; write its whole path") from error


def _threads(text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(
            f"SNELL_THREADS: expected a whole number of at least 1, received {text!r}; correct or unset it"
        )
    return int(text)


def _size(text: str) -> int:
    if not text:
        return DEFAULT_CACHE_LIMIT_BYTES
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise ConfigError(f"SNELL_CACHE_LIMIT: expected a size such as 4GiB, received {text!r}; correct or unset it")
    return int(float(match[1]) * _UNITS[match[2]])


def _flag(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in {"", "0", "false", "off", "no"}:
        return False
    if lowered in {"1", "true", "on", "yes"}:
        return True
    raise ConfigError(f"SNELL_VERIFY: expected 0 or 1, received {text!r}; correct or unset it")


def _search(text: str) -> SearchBudget:
    if text in {"", "off"}:
        return "off"
    if text == "full":
        return "full"
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise ConfigError(f"SNELL_SEARCH: expected off, full or seconds, received {text!r}; correct or unset it")
    return seconds
