# SPDX-License-Identifier: Apache-2.0
"""Real networks: YOLOX-Nano of the examples, and the shared ones where they are there."""
import os
import pathlib

import numpy as np
import pytest
from ep_models import ROOT, assert_whole, cache_folder, cpu_run, onnx, open_session, ort, session_options  # noqa: F401
from onnx import numpy_helper

SHARED = pathlib.Path(os.environ.get("CAMSHAFT_SHARED", ROOT.parent / "shared")) / "models"
NETWORKS = sorted(path.parent.name for path in SHARED.glob("*/model.onnx")) if SHARED.is_dir() else []


def stored(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def test_yolox_nano():
    path = ROOT / "examples/models/yolox_nano/model.onnx"
    x = np.random.default_rng(1).random((1, 3, 416, 416), dtype="f") * 255
    session = open_session(path, optimization_level=1)
    assert_whole(session)
    expected = cpu_run(path, {"images": x})[0]
    np.testing.assert_allclose(session.run(None, {"images": x})[0], expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.skipif(not NETWORKS, reason="the shared networks are not here: 28 of them are not run through the execution provider")
@pytest.mark.parametrize("name", NETWORKS)
def test_shared_network(name):
    folder = SHARED / name
    session = open_session(folder / "model.onnx", session_options(threads=2))
    assert_whole(session)
    for data in sorted(folder.glob("test_data_set_*")):
        feed = {info.name: stored(data / f"input_{k}.pb") for k, info in enumerate(session.get_inputs())}
        for k, result in enumerate(session.run(None, feed)):
            expected = stored(data / f"output_{k}.pb").astype("f8")
            assert result.shape == expected.shape
            if "qdq" in name:
                cosine = (result * expected).sum() / (np.linalg.norm(result) * np.linalg.norm(expected))
                assert cosine >= 0.997  # the steps of a sum may fall to either side; so they do in our own sessions
            else:
                np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3 * max(1e-3, np.abs(expected).max()))
