"""The full product of the grid: `python -m tests.grid.full [WORD …]` runs every case whose label holds a word.

Takes hours.  Prints the failing cases; the exit status is 1 when there is one that is not a known defect.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.grid.design import Case, full_product
from tests.grid.judge import failures
from tests.grid.known_defects import KNOWN_DEFECTS

from snell.engine.default_engine import default_engine

CASES_IN_ONE_PROGRAM = 16


def main(words: Sequence[str]) -> int:
    """Run the cases and return the exit status."""
    cases = [case for case in full_product() if not words or any(word in case.label for word in words)]
    unknown = 0
    for start in range(0, len(cases), CASES_IN_ONE_PROGRAM):
        unknown += _report(cases[start : start + CASES_IN_ONE_PROGRAM])
    sys.stdout.write(f"{len(cases)} cases, {unknown} failures that are not known defects\n")
    return 1 if unknown else 0


def _report(batch: Sequence[Case]) -> int:
    found = failures(batch, default_engine())
    for failure in found:
        known = KNOWN_DEFECTS.get(failure.case.label)
        sys.stdout.write(f"{failure.case.label}: {failure.reason}{f' (known: {known})' if known else ''}\n")
    sys.stdout.flush()
    return sum(failure.case.label not in KNOWN_DEFECTS for failure in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
