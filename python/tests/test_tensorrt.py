# SPDX-License-Identifier: Apache-2.0
"""camshaft.compat.tensorrt: programs as TensorRT's samples write them, with the import changed."""
import json

import numpy as np
import pytest

import camshaft.compat.cuda as cuda
import camshaft.compat.tensorrt as trt

LOGGER = trt.Logger(trt.Logger.ERROR)


class Records(trt.ILogger):
    def __init__(self):
        super().__init__()
        self.lines = []

    def log(self, severity, message):
        self.lines.append((severity, message))


def build(proto, logger=LOGGER, change=lambda builder, network, config: None):
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    assert parser.parse(proto.SerializeToString()), [str(parser.get_error(i)) for i in range(parser.num_errors)]
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
    change(builder, network, config)
    return builder.build_serialized_network(network, config)


def test_a_sample_script(conv, image, tmp_path):
    """Build, save, load, allocate, copy, run: the shape of introductory_parser_samples and its common.py."""
    plan = build(conv, change=lambda builder, network, config: config.set_flag(trt.BuilderFlag.FP16))
    (tmp_path / "sample.engine").write_bytes(plan)
    assert plan.nbytes == len(bytes(plan))
    with trt.Runtime(LOGGER) as runtime:
        engine = runtime.deserialize_cuda_engine((tmp_path / "sample.engine").read_bytes())
    context = engine.create_execution_context()
    stream = cuda.Stream()
    inputs, outputs = [], []
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        shape, dtype = engine.get_tensor_shape(name), trt.nptype(engine.get_tensor_dtype(name))
        host = cuda.pagelocked_empty(trt.volume(shape), dtype)
        device = cuda.mem_alloc(host.nbytes)
        context.set_tensor_address(name, int(device))
        (inputs if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT else outputs).append((host, device))
    np.copyto(inputs[0][0], image.ravel())
    cuda.memcpy_htod_async(inputs[0][1], inputs[0][0], stream)
    assert context.execute_async_v3(stream_handle=stream.handle)
    cuda.memcpy_dtoh_async(outputs[0][0], outputs[0][1], stream)
    stream.synchronize()
    expected = engine.camshaft_engine.session().run({"x": image})[0]
    np.testing.assert_array_equal(outputs[0][0].reshape(1, 4, 8, 8), expected)
    addresses = [int(device) for _, device in inputs + outputs]
    outputs[0][1]._memory[:] = 0
    assert context.execute_v2(addresses)
    cuda.memcpy_dtoh(outputs[0][0], outputs[0][1])
    np.testing.assert_array_equal(outputs[0][0].reshape(1, 4, 8, 8), expected)


def test_profiles_and_shapes(matmul):
    proto, weights = matmul

    def profiles(builder, network, config):
        assert network.get_input(0).shape == (-1, 16) and network.get_input(0).dtype == trt.float32
        for least, best, most in ((1, 2, 4), (4, 8, 16)):
            profile = builder.create_optimization_profile()
            profile.set_shape("x", (least, 16), (best, 16), (most, 16))
            config.add_optimization_profile(profile)

    engine = trt.Runtime(LOGGER).deserialize_cuda_engine(build(proto, change=profiles))
    assert engine.num_optimization_profiles == 2
    assert engine.get_tensor_profile_shape("x", 1) == [(4, 16), (8, 16), (16, 16)]
    assert engine.get_tensor_shape("y") == (-1, 8)
    quiet = Records()
    engine._logger = quiet
    context = engine.create_execution_context()
    assert context.set_input_shape("x", (3, 16)) and context.get_tensor_shape("y") == (3, 8)
    assert not context.set_input_shape("x", (9, 16)) and "outside the profile" in quiet.lines[-1][1]
    assert context.set_optimization_profile_async(1, 0) and context.set_input_shape("x", (9, 16))
    x, y, z = np.ones((9, 16), "f"), np.zeros((9, 8), "f"), np.zeros((9, 16), "f")
    assert not context.execute_async_v3(0)  # no addresses
    for name, array in (("x", x), ("y", y), ("z", z)):
        assert context.set_tensor_address(name, array.ctypes.data)
    assert context.execute_async_v3(0)
    np.testing.assert_allclose(y, x @ weights, rtol=1e-5)
    assert not context.set_tensor_address("nothing", 0)


def test_parser_errors_name_the_node(conv):
    conv.graph.node[0].op_type = "Convolve"
    logger = Records()
    parser = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
    assert not parser.parse(conv.SerializeToString())
    assert parser.num_errors == 1
    error = parser.get_error(0)
    assert (error.node_name(), error.node_operator()) == ("conv1", "Convolve") and "not known" in error.desc()
    assert any(severity == trt.Logger.ERROR for severity, _ in logger.lines)
    parser.clear_errors()
    assert parser.num_errors == 0
    assert trt.Runtime(logger).deserialize_cuda_engine(b"nonsense") is None


def test_profilers_monitors_and_inspectors(conv, image):
    class Monitor(trt.IProgressMonitor):
        def __init__(self, stop_after=10**9):
            super().__init__()
            self.begun, self.ended, self.steps, self.stop_after = [], [], 0, stop_after

        def phase_start(self, phase_name, parent_phase, num_steps):
            self.begun.append(phase_name)

        def step_complete(self, phase_name, step):
            self.steps += 1
            return self.steps < self.stop_after

        def phase_finish(self, phase_name):
            self.ended.append(phase_name)

    class Times(trt.IProfiler):
        def __init__(self):
            super().__init__()
            self.layers = {}

        def report_layer_time(self, layer_name, ms):
            self.layers[layer_name] = ms

    monitor = Monitor()

    def verbose(builder, network, config):
        config.progress_monitor = monitor
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED

    engine = trt.Runtime(LOGGER).deserialize_cuda_engine(build(conv, change=verbose))
    assert monitor.begun and sorted(monitor.begun) == sorted(monitor.ended)
    assert build(conv, change=lambda b, n, config: setattr(config, "progress_monitor", Monitor(1))) is None  # cancelled
    context = engine.create_execution_context()
    context.profiler = Times()
    y = np.zeros((1, 4, 8, 8), "f")
    context.set_tensor_address("x", image.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    assert context.execute_async_v3(0)
    assert context.profiler.layers and all(ms > 0 for ms in context.profiler.layers.values())
    inspector = engine.create_engine_inspector()
    layers = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))["Layers"]
    assert len(layers) == engine.num_layers
    assert "conv1" in "".join(inspector.get_layer_information(i, trt.LayerInformationFormat.ONELINE) for i in range(engine.num_layers))


def test_timing_caches_and_what_is_refused(conv):
    logger = Records()
    caches = []

    def timed(builder, network, config):
        config.set_timing_cache(config.create_timing_cache(b""), False)
        caches.append(config)

    assert build(conv, change=timed)
    assert caches[0].get_timing_cache().serialize().nbytes > 0
    for flag in (trt.BuilderFlag.FP8, trt.BuilderFlag.REFIT):
        assert build(conv, logger, lambda b, n, config, flag=flag: config.set_flag(flag)) is None
        assert flag.name in logger.lines[-1][1]
    assert trt.Builder(logger).build_serialized_network(trt.Builder(logger).create_network(0), trt.IBuilderConfig()) is None


@pytest.mark.parametrize("dtype, name", [(trt.float32, "float32"), (trt.int8, "int8"), (trt.bool, "bool"), (trt.int64, "int64")])
def test_types(dtype, name):
    assert np.dtype(trt.nptype(dtype)) == np.dtype(name) and dtype.itemsize == np.dtype(name).itemsize
