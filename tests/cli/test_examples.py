# SPDX-License-Identifier: Apache-2.0
"""The example programs, built against the shared library, do what they say."""
import re

import conftest
import numpy as np


def test_cpp_example(conv_file, tmp_path):
    result = conftest.run("run_cpp", conv_file, cwd=tmp_path)
    assert result.code == 0, result.err
    assert re.search(r"^y 1x8x16x16( \S+){4}$", result.out, re.M)
    _, b = conftest.weights()
    values = [float(v) for v in result.out.splitlines()[0].split()[2:]]
    np.testing.assert_allclose(values, max(b[0], 0), rtol=1e-4)  # zeros in: relu(bias) out
    assert conftest.run("run_cpp", "missing.onnx").code == 1


def test_c_example(conv_file, tmp_path):
    result = conftest.run("run_c", conv_file, tmp_path / "e.engine", cwd=tmp_path)
    assert result.code == 0, result.err
    assert result.out.startswith("y 1x8x16x16 ")
    assert (tmp_path / "e.engine").exists()
    missing = conftest.run("run_c", "missing.onnx", tmp_path / "e")
    assert missing.code == 1 and "missing.onnx" in missing.err


def test_yolox_finds_the_cup_and_the_table(tmp_path):
    model = conftest.ROOT / "examples/models/yolox_nano/model.onnx"
    photo = conftest.ROOT / "examples/data/photo.png"
    result = conftest.run("yolox_demo", model, photo, tmp_path / "out.png", cwd=tmp_path)
    assert result.code == 0, result.err
    found = re.findall(r"^  (\S.*?) +(\d+\.\d) %  left +(-?\d+)  top +(-?\d+)  right +(\d+)  bottom +(\d+)$", result.out, re.M)
    assert [name for name, *_ in found] == ["cup", "dining table"]
    assert float(found[0][1]) > 85 and float(found[1][1]) > 65
    left, top, right, bottom = (int(edge) for edge in found[0][2:])
    assert 120 < left < 140 and 5 < top < 25 and 325 < right < 350 and 225 < bottom < 245  # the cup in the photo
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
