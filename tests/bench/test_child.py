"""A measured process reports numbers: the last one is its reading, the time of the first its seconds."""

from snell.bench.peers.child import peak_memory, reading, seconds_until_reported
from snell.config import process_environment


def test_the_last_report_is_the_reading() -> None:
    assert reading("report(1)\nprint('kept away')\nreport(2)", process_environment()) == 2


def test_the_first_report_is_the_end_of_the_time() -> None:
    slow = "report(0)\nimport time; time.sleep(1)\nreport(1)"
    assert seconds_until_reported(slow, process_environment()) < 1


def test_peak_memory_is_that_of_the_whole_process() -> None:
    assert peak_memory("report(0)\nx = bytearray(b'1' * (200 << 20))", process_environment()) > 200 << 20


def test_peak_memory_is_not_that_of_the_process_that_started_it() -> None:
    held = bytearray(b"1" * (300 << 20))
    assert peak_memory("report(0)", process_environment()) < len(held)
