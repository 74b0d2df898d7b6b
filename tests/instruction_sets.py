# SPDX-License-Identifier: Apache-2.0
"""What the processor is and which instruction sets it has, as src/base/cpu.cpp asks."""
import pathlib

FLAGS = {"avx2": {"avx2", "fma", "f16c", "bmi2"}, "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}}


def cpu_fact(name):
    """What /proc/cpuinfo says of the first processor; "" if nothing."""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(name):
            return line.split(":", 1)[1].strip()
    return ""


def lacking():
    flags = set(cpu_fact("flags").split())
    return {isa for isa, needed in FLAGS.items() if not needed <= flags}
