# SPDX-License-Identifier: Apache-2.0
"""polygraphy run --camshaft, and its runner in scripts."""
import pathlib
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("polygraphy")
polygraphy_camshaft = pytest.importorskip("polygraphy_camshaft")

POLYGRAPHY = pathlib.Path(sys.executable).parent / "polygraphy"


def test_runners_compare(matmul, tmp_path):
    from polygraphy.comparator import Comparator, SimpleCompareFunc
    proto, _ = matmul
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    runners = [polygraphy_camshaft.CamshaftRunner(polygraphy_camshaft.SessionFromOnnx(model, threads=1)) for model in (str(path), proto)]
    feeds = [{"x": np.random.default_rng(n).standard_normal((n, 16)).astype("f")} for n in (1, 3)]
    results = Comparator.run(runners, data_loader=feeds)
    assert bool(Comparator.compare_accuracy(results, compare_func=SimpleCompareFunc(atol=1e-6)))
    assert all(result.runtime > 0 for _, iterations in results for result in iterations)


def test_the_command_line(conv, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(conv.SerializeToString())
    words = [POLYGRAPHY, "run", path, "--camshaft", "--camshaft-optimization-level", "0", "--camshaft-no-cache"]
    done = subprocess.run([*words, "--save-outputs", tmp_path / "out.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "camshaft-runner" in done.stdout, done.stdout + done.stderr
    done = subprocess.run([*words, "--load-outputs", tmp_path / "out.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Pass Rate: 100" in done.stdout, done.stdout + done.stderr
