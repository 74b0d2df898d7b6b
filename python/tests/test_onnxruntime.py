# SPDX-License-Identifier: Apache-2.0
"""camshaft.compat.onnxruntime: programs written for ONNX Runtime with the import changed."""
import numpy as np
import pytest

import camshaft
import camshaft.compat.onnxruntime as ort


def test_a_program_as_it_is_written(matmul, tmp_path):
    proto, weights = matmul
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(str(path), sess_options=options, providers=["CPUExecutionProvider"])
    assert session.threads == 1 and session.get_providers() == ort.get_available_providers()
    name = session.get_inputs()[0].name
    outputs = [output.name for output in session.get_outputs()]
    x = np.ones((2, 16), "f")
    np.testing.assert_allclose(session.run(outputs, {name: x})[0], x @ weights, rtol=1e-5)
    assert session.get_modelmeta().graph_name == "g"
    assert isinstance(session, camshaft.Session)


def test_bindings_take_addresses_and_values(matmul):
    proto, weights = matmul
    session = ort.InferenceSession(proto)
    x, y = np.ones((2, 16), "f"), np.zeros((2, 8), "f")
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(y, x @ weights, rtol=1e-5)
    assert binding.copy_outputs_to_cpu()[1].shape == (2, 16) and binding.get_outputs()[0].shape() == [2, 8]
    value = ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 8), "f"))
    binding.bind_ortvalue_output("y", value)
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x * 2))
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(value.numpy(), x @ weights * 2, rtol=1e-5)
    with pytest.raises(camshaft.InvalidArgument, match="only the CPU"):
        binding.bind_input("x", "cuda", 0, np.float32, x.shape, x.ctypes.data)
