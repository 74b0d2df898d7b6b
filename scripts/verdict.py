#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The last line of `make test` where nothing failed: what passed, and what did not even run.

usage: verdict.py CTEST_OUTPUT CTEST_LOG PYTEST_OUTPUT SUITES
"""
import re
import sys


def read(file):
    try:
        with open(file, errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def skipped_programs(ctest_output):
    """Whole programs that found nothing to test: "3/9 Test #5: conformance_engine ....***Skipped"."""
    return re.findall(r"Test +#\d+: (\S+) \.*\*\*\*Skipped", ctest_output)


def skipped_cases(ctest_log):
    """Names of GoogleTest cases, each told when it is over: "[  SKIPPED ] Models.All (0 ms)"."""
    return re.findall(r"^\[  SKIPPED \] ([^\s,]+)(?:, .*)? \(\d+ ms\)$", ctest_log, re.M)


def skipped_python(pytest_output):
    return sum(map(int, re.findall(r"^.*?(\d+) skipped.* in [\d.]+s", pytest_output, re.M)))


def verdict(ctest_output, ctest_log, pytest_output, suites=""):
    programs = skipped_programs(ctest_output) + suites.split()
    cases = skipped_cases(ctest_log)
    of = sorted({case.split(".")[0] for case in cases})
    python = skipped_python(pytest_output)
    said = []
    if programs:
        said.append(f"{len(programs)} suites ({', '.join(programs)})")
    if cases:
        said.append(f"{len(cases)} C++ cases (of {', '.join(of)})")
    if python:
        said.append(f"{python} Python tests")
    return "all tests passed" if not said else f"all tests that ran passed; skipped: {'; '.join(said)}"


if __name__ == "__main__":
    print(verdict(*map(read, sys.argv[1:5])))
