# SPDX-License-Identifier: Apache-2.0
"""`make test` never says that all passed where something did not run."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from verdict import verdict  # noqa: E402

CTEST = """      Start 12: conformance_interpreter
12/30 Test #12: conformance_interpreter ..........***Skipped   0.01 sec
13/30 Test #13: api_test .........................   Passed    1.90 sec
"""
LOG = """[ RUN      ] Models.AgreeWithTheirOutputs/all
tests/models/models_test.cpp:105: Skipped
[  SKIPPED ] Models.AgreeWithTheirOutputs/all (0 ms)
[  SKIPPED ] Recorded.Answers/2, where GetParam() = "b" (1 ms)
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] Models.AgreeWithTheirOutputs/all
"""


def test_all_that_there_is_passed():
    assert verdict("1/1 Test #1: api_test ....   Passed", "[  PASSED  ] 30 tests.", "12 passed in 3.00s") == "all tests passed"


def test_what_was_skipped_is_said():
    assert verdict(CTEST, LOG, "90 passed, 7 skipped, 1 warning in 81.20s (0:01:21)\n") == (
        "all tests that ran passed; skipped: 1 suites (conformance_interpreter); 2 C++ cases (of Models, Recorded); 7 Python tests")


def test_suites_that_ask_for_more_than_is_here():
    assert verdict("", "", "3 passed in 1.00s", "wheel\n") == "all tests that ran passed; skipped: 1 suites (wheel)"
