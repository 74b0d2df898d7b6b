# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/quantization.md run from a clone, in their order, and print what stands there but for figures."""
import os
import re
import subprocess

import conftest
import pytest


def commands():
    """[(command, printed lines)] of the page's indented blocks."""
    found = []
    for line in (conftest.ROOT / "docs/quantization.md").read_text().splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line[4:].rstrip())
    return found


def without_figures(line):
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", line)


def test_the_page(tmp_path):
    if not all((conftest.BIN / program).exists() for program in ["camshaft", "yolox_demo"]):
        pytest.skip("camshaft or yolox_demo is not built")
    (tmp_path / "examples").symlink_to(conftest.ROOT / "examples")
    env = {**os.environ, "PATH": f"{conftest.BIN}:{os.environ['PATH']}"}
    listed = commands()
    assert len(listed) >= 6
    for command, shown in listed:
        process = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
        assert process.returncode == 0, (command, process.stdout, process.stderr)
        printed = {without_figures(line.rstrip()) for line in process.stdout.splitlines()}
        for line in shown:
            # Lines that begin with a word of the program's; rows of tables are of the machine.
            if re.match(r"(calibrated|quantized|weights|biases|written|cache|TRT-|against|all layers) ?", line):
                assert without_figures(line) in printed, (command, line, process.stdout)
