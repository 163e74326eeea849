"""Measurements of a whole process: run Python source in a fresh interpreter and read the number it reports.

The source is given a function ``report(number)``; what it reports last is the reading, the time of its first report the
seconds. Everything else that it writes is kept out of the way.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from snell.errors import SnellError

__all__ = ["peak_memory", "reading", "seconds_until_reported"]

_TIMEOUT_SECONDS = 300
_PRELUDE = """
import json as _json, os as _os, sys as _sys
_channel = _os.fdopen(_os.dup(1), "w")
_os.dup2(2, 1)
def report(number):
    _channel.write(_json.dumps(number) + "\\n")
    _channel.flush()
"""

# Not `ru_maxrss` where Linux says it better: that begins with what the parent held when it started the process.
_PEAK = """
try:
    with open("/proc/self/status") as _status:
        report(next(int(_line.split()[1]) * 1024 for _line in _status if _line.startswith("VmHWM")))
except OSError:
    import resource as _resource
    _scale = 1 if _sys.platform == "darwin" else 1024
    report(_resource.getrusage(_resource.RUSAGE_SELF).ru_maxrss * _scale)
"""


def reading(source: str, environment: Mapping[str, str]) -> float:
    """The number that the source reports."""
    return _run(source, environment)[0]


def seconds_until_reported(source: str, environment: Mapping[str, str]) -> float:
    """Seconds from starting the interpreter to the source's report."""
    return _run(source, environment)[1]


def peak_memory(source: str, environment: Mapping[str, str]) -> float:
    """Bytes of the largest resident set of a process that runs the source to its end."""
    return reading(source + _PEAK, environment)


def _run(source: str, environment: Mapping[str, str]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "stderr", "w+") as errors:
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-c", _PRELUDE + source],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=dict(environment),
        )
        assert child.stdout is not None
        line = child.stdout.readline()
        seconds = time.perf_counter() - start
        stop = threading.Timer(_TIMEOUT_SECONDS, child.kill)
        stop.start()
        lines = [line, *child.stdout]
        child.wait()
        stop.cancel()
        if not line:
            errors.seek(0)
            raise SnellError(f"a measured process ended without a reading: {errors.read()[-500:].strip()}")
        return float(json.loads(lines[-1])), seconds
