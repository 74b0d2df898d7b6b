# SPDX-License-Identifier: Apache-2.0
"""What the machine lacks is not tested: where `camshaft` is told to use AVX-512 and there is none, it takes the next lower set, which has a test of its own."""
import pathlib

import pytest

FLAGS = {"avx2": {"avx2", "fma", "f16c", "bmi2"}, "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}}  # as src/base/cpu.cpp asks


def flags_of_the_machine():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split(":")[1].split())
    return set()


def pytest_collection_modifyitems(items):
    flags = flags_of_the_machine()
    lacking = {isa for isa, needed in FLAGS.items() if not needed <= flags}
    for item in items:
        isa = item.callspec.params.get("isa") if hasattr(item, "callspec") else None
        if isa in lacking:
            item.add_marker(pytest.mark.skip(reason=f"this machine has no {isa}"))
