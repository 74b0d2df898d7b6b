# SPDX-License-Identifier: Apache-2.0
"""Ways in, shapes, types, options, threads, cache."""
import concurrent.futures
import pathlib
import threading

import numpy as np
import pytest
from ep_models import (NAME, TensorProto, VERSION, as_source, assert_whole, assigned, cache_folder, conv_relu, cpu_run, devices, ep, helper,  # noqa: F401
                       image, model, onnx, open_session, ort, session_options, since, value)


def test_the_package_names_what_it_holds():
    assert pathlib.Path(ep.get_library_path()).is_file()
    assert ep.get_ep_names() == [NAME] and ep.get_ep_name() == NAME
    device = devices()[0]
    assert device.ep_vendor == "Camshaft" and device.ep_metadata["isa"] in ("scalar", "avx2", "avx512")
    assert device.ep_metadata["version"].count(".") == 2


def by_name(options):
    return {"sess_options": options, "providers": [(NAME, {"optimization_level": "0"})]}


def by_devices(options):
    options.add_provider_for_devices(devices(), {"optimization_level": "0"})
    return {"sess_options": options}


def by_policy(options):
    options.set_provider_selection_policy(ort.OrtExecutionProviderDevicePolicy.PREFER_CPU)
    return {"sess_options": options}


@pytest.mark.parametrize("way", [pytest.param(by_name, marks=since(25, "plugins by name")), by_devices, by_policy])
def test_every_way_in_takes_the_whole_network(way):
    session = ort.InferenceSession(as_source(conv_relu()), **way(session_options()))
    assert session.get_providers()[0] == NAME
    assert_whole(session)
    np.testing.assert_allclose(session.run(None, {"x": image()})[0], cpu_run(conv_relu(), {"x": image()})[0], rtol=1e-4, atol=1e-5)


def test_dynamic_shapes_need_no_options():
    session = open_session(conv_relu(("n", 3, "h", "w")))
    for shape in [(2, 3, 9, 7), (1, 3, 33, 5), (1, 3, 1, 1), (3, 3, 4, 64)]:
        x = image(*shape)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], cpu_run(conv_relu(("n", 3, "h", "w")), {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_shapes_given_as_options_are_built_at_once_and_bind(cache_folder):
    shapes = {"profile_min_shapes": "x:1x3x8x8", "profile_opt_shapes": "x:2x3x8x8", "profile_max_shapes": "x:4x3x16x16"}
    session = open_session(conv_relu(("n", 3, "h", "w")), **shapes)
    assert len(list(cache_folder.glob("*.engine"))) == 1
    assert session.run(None, {"x": image(4, 3, 16, 8)})[0].shape == (4, 4, 16, 8)
    with pytest.raises(Exception, match="(?s)Camshaft.*5"):
        session.run(None, {"x": image(5, 3, 8, 8)})
    assert session.run(None, {"x": image()})[0].shape == (1, 4, 8, 8)  # the session survives


def test_shapes_only_running_can_tell():
    nodes = [helper.make_node("NonZero", ["x"], ["i"], "find"), helper.make_node("Cast", ["i"], ["f"], "cast", to=TensorProto.FLOAT),
             helper.make_node("Mul", ["f", "f"], ["y"], "square")]
    network = model(nodes, [value("x", TensorProto.FLOAT, [3, 4])], [value("y", TensorProto.FLOAT, [2, "found"])])
    session = open_session(network)
    assert_whole(session)
    for keep in (0, 5, 12):
        x = np.zeros(12, "f")
        x[:keep] = 1
        np.testing.assert_array_equal(session.run(None, {"x": x.reshape(3, 4)})[0], cpu_run(network, {"x": x.reshape(3, 4)})[0])


def test_tensors_without_elements():
    session = open_session(conv_relu(("n", 3, 8, 8)))
    assert session.run(None, {"x": image(2, 3, 8, 8)})[0].shape == (2, 4, 8, 8)
    assert session.run(None, {"x": np.zeros((0, 3, 8, 8), "f")})[0].shape == (0, 4, 8, 8)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "int32", "int64", "bool"])
def test_element_types(dtype):
    onnx_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("Concat", ["x", "x"], ["y"], "twice", axis=0)]
    if dtype != "bool":
        nodes = [helper.make_node("Mul", ["x", "x"], ["s"], "square"), helper.make_node("Add", ["s", "x"], ["y"], "add")]
        if dtype in ("int8", "uint8"):  # ONNX Runtime itself does not add these
            nodes = [helper.make_node("Transpose", ["x"], ["y"], "turn", perm=[1, 0])]
    network = model(nodes, [value("x", onnx_type, ["n", 4])], [value("y", onnx_type, None)])
    session = open_session(network)
    assert_whole(session)
    x = (np.arange(12).reshape(3, 4) % 5).astype(dtype)
    result, expected = session.run(None, {"x": x})[0], cpu_run(network, {"x": x})[0]
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=2e-3 if dtype == "float16" else 1e-6)


def test_bfloat16_in_and_out():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    if not hasattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type"):
        pytest.skip(f"onnxruntime {ort.__version__} makes no bfloat16 values from NumPy")
    nodes = [helper.make_node("Concat", ["x", "x"], ["y"], "twice", axis=0)]
    network = model(nodes, [value("x", TensorProto.BFLOAT16, [4])], [value("y", TensorProto.BFLOAT16, [8])])
    session = open_session(network)
    assert_whole(session)
    x, y = np.array([1, 2, -3, 4.5]).astype(ml_dtypes.bfloat16), np.zeros(8, "uint16")
    as_value = lambda bits: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)  # noqa: E731
    binding, result = session.io_binding(), as_value(y)
    binding.bind_ortvalue_input("x", as_value(x.view("uint16")))
    binding.bind_ortvalue_output("y", result)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(y.view(ml_dtypes.bfloat16), np.concatenate([x, x]))  # written in place


def test_bfloat16_inside():
    nodes = [helper.make_node("Cast", ["x"], ["b"], "narrow", to=TensorProto.BFLOAT16), helper.make_node("Neg", ["b"], ["n"], "negate"),
             helper.make_node("Cast", ["n"], ["y"], "widen", to=TensorProto.FLOAT)]
    network = model(nodes, [value("x", TensorProto.FLOAT, [8])], [value("y", TensorProto.FLOAT, [8])])
    session = open_session(network, strongly_typed=1)
    assert_whole(session)
    x = np.linspace(-3, 3, 8, dtype="f")
    np.testing.assert_allclose(session.run(None, {"x": x})[0], -x, rtol=2 ** -8)


def test_quantized_networks_are_one_engine():
    rng = np.random.default_rng(5)
    weights = rng.integers(-100, 100, (8, 3, 3, 3)).astype("int8")
    q = lambda name, scale: {f"{name}_s": np.float32(scale), f"{name}_z": np.uint8(0)}  # noqa: E731
    nodes = [helper.make_node("QuantizeLinear", ["x", "x_s", "x_z"], ["xq"], "q"), helper.make_node("DequantizeLinear", ["xq", "x_s", "x_z"], ["xd"], "dq"),
             helper.make_node("DequantizeLinear", ["w", "w_s", "w_z"], ["wd"], "dqw", axis=0), helper.make_node("Conv", ["xd", "wd"], ["c"], "conv"),
             helper.make_node("Relu", ["c"], ["r"], "relu"), helper.make_node("QuantizeLinear", ["r", "r_s", "r_z"], ["rq"], "q2"),
             helper.make_node("DequantizeLinear", ["rq", "r_s", "r_z"], ["y"], "dq2")]
    network = model(nodes, [value("x", TensorProto.FLOAT, [1, 3, 16, 16])], [value("y", TensorProto.FLOAT, None)],
                    {"w": weights, "w_s": np.full(8, 0.01, "f"), "w_z": np.zeros(8, "int8"), **q("x", 1 / 255), **q("r", 0.05)})
    x = rng.random((1, 3, 16, 16), dtype="f")
    for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
        options = session_options()
        options.graph_optimization_level = level  # Q and DQ are moved and doubled at some
        session = open_session(network, options)
        assert_whole(session)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], cpu_run(network, {"x": x})[0], atol=0.0501)


def test_options_are_checked():
    for options, text in [({"nonsense": "1"}, "unknown option nonsense: there are threads"), ({"threads": "two"}, "option threads"),
                          ({"bf16": "yes"}, "neither 0 nor 1"), ({"profile_opt_shapes": "x"}, "shapes are written")]:
        session_opts = session_options()
        session_opts.add_provider_for_devices(devices(), options)
        with pytest.raises(Exception, match=text):
            ort.InferenceSession(as_source(conv_relu()), session_opts, enable_fallback=0)


def test_the_cache_is_used_and_mends_itself(cache_folder):
    network = conv_relu()
    expected = open_session(network).run(None, {"x": image()})[0]
    file, = cache_folder.glob("*.engine")
    stamp = file.stat().st_mtime_ns
    good = file.read_bytes()
    np.testing.assert_array_equal(open_session(network).run(None, {"x": image()})[0], expected)
    assert file.stat().st_mtime_ns > stamp and file.read_bytes() == good
    file.write_bytes(good[:1000])
    np.testing.assert_array_equal(open_session(network).run(None, {"x": image()})[0], expected)
    assert file.read_bytes() != good[:1000]
    open_session(network, cache=0, optimization_level=1)
    open_session(network, cache_dir=str(cache_folder / "other"), optimization_level=1)
    assert len(list(cache_folder.glob("*.engine"))) == 1 and len(list((cache_folder / "other").glob("*.engine"))) == 1


def test_another_constant_is_another_engine(cache_folder):
    for factor in (1.0, 2.0):
        network = model([helper.make_node("Mul", ["x", "f"], ["y"], "scale")], [value("x", TensorProto.FLOAT, [4])],
                        [value("y", TensorProto.FLOAT, [4])], {"f": np.full(4, factor, "f")})
        np.testing.assert_array_equal(open_session(network).run(None, {"x": np.ones(4, "f")})[0], np.full(4, factor, "f"))
    assert len(list(cache_folder.glob("*.engine"))) == 2


def test_many_threads_may_run_one_session():
    session = open_session(conv_relu(("n", 3, "h", "w")), contexts=3)
    inputs = [image(1 + k % 3, 3, 8 + k % 5, 9) for k in range(8)]
    expected = [cpu_run(conv_relu(("n", 3, "h", "w")), {"x": x})[0] for x in inputs]
    right = []

    def work(k):
        if all(np.allclose(session.run(None, {"x": inputs[k]})[0], expected[k], rtol=1e-4, atol=1e-5) for _ in range(30)):
            right.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(right) == list(range(8))


def test_threads_with_one_shape_each_widen_one_session():
    """Whoever finds the engine wider than before may still lie outside: ten rounds, as only some of them meet."""
    network = conv_relu(("n", 3, "h", "w"))
    inputs = [image(1 + k % 3, 3, 8 + k % 5, 9) for k in range(8)]
    expected = [cpu_run(network, {"x": x})[0] for x in inputs]
    for _ in range(10):
        session = open_session(network, cache=0, contexts=3)
        with concurrent.futures.ThreadPoolExecutor(len(inputs)) as pool:
            for y, right in zip(pool.map(lambda x: session.run(None, {"x": x})[0], inputs), expected):
                np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


def thread_count():
    return len(list(pathlib.Path("/proc/self/task").iterdir()))


def large():
    weights = np.random.default_rng(1).standard_normal((64, 64, 3, 3)).astype("f")
    return model([helper.make_node("Conv", ["x", "w"], ["y"], "conv")], [value("x", TensorProto.FLOAT, [1, 64, 64, 64])],
                 [value("y", TensorProto.FLOAT, None)], {"w": weights})


@pytest.mark.parametrize("threads", [1, 2])
def test_the_threads_of_the_session_are_its_threads(threads):
    import os
    if len(os.sched_getaffinity(0)) < threads:
        pytest.skip(f"this process may use fewer than {threads} processors")
    session = open_session(large(), session_options(threads=threads))
    before = thread_count()
    session.run(None, {"x": image(1, 64, 64, 64)})
    assert thread_count() - before == threads - 1


def test_the_option_threads_wins():
    session = open_session(large(), session_options(threads=2), threads=1)
    before = thread_count()
    session.run(None, {"x": image(1, 64, 64, 64)})
    assert thread_count() == before


def test_external_weights(tmp_path):
    onnx.save(conv_relu(), tmp_path / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    session = open_session(tmp_path / "m.onnx")
    assert_whole(session)
    np.testing.assert_allclose(session.run(None, {"x": image()})[0], cpu_run(conv_relu(), {"x": image()})[0], rtol=1e-4, atol=1e-5)


def test_errors_of_a_run_are_errors(cache_folder):
    network = model([helper.make_node("Gather", ["t", "i"], ["y"], "pick")], [value("i", TensorProto.INT64, [2])],
                    [value("y", TensorProto.FLOAT, None)], {"t": np.arange(4, dtype="f")})
    session = open_session(network)
    with pytest.raises(Exception, match="Camshaft.*pick"):
        session.run(None, {"i": np.array([0, 9])})
    np.testing.assert_array_equal(session.run(None, {"i": np.array([0, 3])})[0], [0, 3])


def test_sessions_may_outlive_the_registration():
    session = open_session(conv_relu())
    expected = session.run(None, {"x": image()})[0]
    ort.unregister_execution_provider_library("camshaft")
    try:
        assert not devices()
        np.testing.assert_array_equal(session.run(None, {"x": image()})[0], expected)
        del session
    finally:
        ort.register_execution_provider_library("camshaft", ep.get_library_path())
    np.testing.assert_array_equal(open_session(conv_relu()).run(None, {"x": image()})[0], expected)
