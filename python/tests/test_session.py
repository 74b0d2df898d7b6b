# SPDX-License-Identifier: Apache-2.0
"""Session: feeds and results, shapes, threads, bindings, the cache."""
import asyncio
import concurrent.futures
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper

import camshaft
from conftest import PHOTO, YOLOX, identity, model, value


def test_runs_a_file_bytes_and_a_proto_alike(conv, image, tmp_path):
    path = tmp_path / "conv.onnx"
    path.write_bytes(conv.SerializeToString())
    results = [camshaft.Session(form, optimization_level=0).run(None, {"x": image})[0]
               for form in (path, str(path), conv.SerializeToString(), conv)]
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    assert results[0].shape == (1, 4, 8, 8) and results[0].dtype == np.float32 and results[0].min() == 0


def test_describes_inputs_and_outputs(matmul):
    session = camshaft.Session(matmul[0])
    x, = session.get_inputs()
    assert (x.name, x.shape, x.type, x.dtype, x.is_dynamic) == ("x", ("batch", 16), "tensor(float)", np.float32, True)
    assert [y.name for y in session.get_outputs()] == ["y", "z"]


def test_outputs_come_as_asked(matmul):
    proto, weights = matmul
    session = camshaft.Session(proto)
    x = -np.ones((2, 16), "f")
    z, y = session.run(["z", "y"], {"x": x})
    np.testing.assert_allclose(y, x @ weights, rtol=1e-5)
    np.testing.assert_array_equal(z, 1)
    assert len(session.run({"x": x})) == 2
    assert set(session(x)) == set(session(x=x)) == {"y", "z"}


def test_any_shape_without_a_profile(matmul):
    proto, weights = matmul
    session = camshaft.Session(proto)
    for batch in (3, 1, 200, 0, 3):
        x = np.random.default_rng(batch).standard_normal((batch, 16)).astype("f")
        np.testing.assert_allclose(session.run(["y"], {"x": x})[0], x @ weights, rtol=1e-4, atol=1e-5)


def test_given_shapes_are_held(matmul):
    session = camshaft.Session(matmul[0], shapes={"x": ((1, 16), (2, 16), (4, 16))})
    assert session.engine.profiles == [{"x": ([1, 16], [2, 16], [4, 16])}]
    with pytest.raises(camshaft.InvalidArgument, match="outside the profile"):
        session.run({"x": np.zeros((5, 16), "f")})


def test_results_are_new_memory(conv, image):
    session = camshaft.Session(conv)
    first, = session.run({"x": image})
    kept = first.copy()
    second, = session.run({"x": image * 2})
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second)


def test_strides_lists_and_scalars(conv, image, matmul):
    session = camshaft.Session(conv)
    expected, = session.run({"x": image})
    turned = np.asfortranarray(image)
    np.testing.assert_array_equal(session.run({"x": turned})[0], expected)
    np.testing.assert_array_equal(session.run({"x": image[..., ::-1][..., ::-1]})[0], expected)
    np.testing.assert_array_equal(session.run({"x": image.tolist()})[0], expected)
    read_only = image.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(session.run({"x": read_only})[0], expected)
    np.testing.assert_array_equal(session.run({"x": image.astype(">f4")})[0], expected)


@pytest.mark.parametrize("feed, text", [
    ({}, "'x' is missing"),
    ({"x": np.zeros((1, 3, 8, 8))}, "'x' is float32, the array given float64"),
    ({"x": np.zeros((1, 2, 8, 8), "f")}, "the model wants 3 in dimension 1"),
    ({"x": np.zeros((3, 8, 8), "f")}, "rank 3"),
    ({"x": np.zeros((1, 3, 8, 8), "f"), "u": np.zeros(1)}, "no input or output 'u'"),
])
def test_wrong_feeds_are_refused_and_harm_nothing(conv, image, feed, text):
    session = camshaft.Session(conv)
    expected, = session.run({"x": image})
    with pytest.raises(camshaft.InvalidArgument, match=text):
        session.run(None, feed)
    np.testing.assert_array_equal(session.run({"x": image})[0], expected)


@pytest.mark.parametrize("name, onnx_type", [
    ("float32", TensorProto.FLOAT), ("float64", TensorProto.DOUBLE), ("float16", TensorProto.FLOAT16), ("int8", TensorProto.INT8),
    ("uint8", TensorProto.UINT8), ("int16", TensorProto.INT16), ("uint16", TensorProto.UINT16), ("int32", TensorProto.INT32),
    ("uint32", TensorProto.UINT32), ("int64", TensorProto.INT64), ("uint64", TensorProto.UINT64), ("bool", TensorProto.BOOL)])
def test_every_type_of_numpy(name, onnx_type):
    x = np.arange(12).reshape(3, 4).astype(name)
    y, = camshaft.Session(identity(onnx_type)).run({"x": x})
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("name, onnx_type", [("bfloat16", TensorProto.BFLOAT16), ("int4", TensorProto.INT4), ("uint4", TensorProto.UINT4)])
def test_types_of_ml_dtypes(name, onnx_type):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = getattr(ml_dtypes, name)
    low = 0 if name == "uint4" else -8
    x = np.arange(low, low + 15).astype(np.float32).reshape(3, 5).astype(dtype)  # an odd number of 4-bit codes
    session = camshaft.Session(identity(onnx_type, ("n", 5)))
    assert session.get_inputs()[0].dtype == dtype
    y, = session.run({"x": x})
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.astype("f"), x.astype("f"))


def test_torch_tensors_are_read_in_place():
    torch = pytest.importorskip("torch")
    session = camshaft.Session(identity(TensorProto.FLOAT))
    x = torch.arange(8, dtype=torch.float32).reshape(2, 4)
    np.testing.assert_array_equal(session.run({"x": x})[0], x.numpy())
    np.testing.assert_array_equal(session.run({"x": x.t().contiguous().t()})[0], x.numpy())
    np.testing.assert_array_equal(session.run({"x": x.clone().requires_grad_()})[0], x.numpy())
    binding = session.io_binding()
    out = torch.zeros(2, 4)
    binding.bind_input("x", x)
    binding.bind_output("y", out)
    session.run_with_iobinding(binding)
    x += 1
    session.run_with_iobinding(binding)
    assert torch.equal(out, x)
    half, = camshaft.Session(identity(TensorProto.BFLOAT16)).run({"x": x.bfloat16()})
    np.testing.assert_array_equal(half.astype("f"), x.numpy())


def test_binding_reads_and_writes_in_place(matmul):
    proto, weights = matmul
    session = camshaft.Session(proto)
    x, y = np.ones((2, 16), "f"), np.empty((2, 8), "f")
    binding = session.io_binding()
    binding.bind_input("x", x)
    binding.bind_output("y", y)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    x[:] = 2
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(y, x @ weights, rtol=1e-5)
    outputs = binding.get_outputs()
    assert outputs[0] is y and outputs[1].shape == (2, 16)
    for wrong, text in ((np.empty((3, 8), "f"), "2x8"), (np.empty((2, 8), "d"), "float32"), (np.empty((8, 2), "f").T, "row-major")):
        with pytest.raises(camshaft.InvalidArgument, match=text):
            binding.bind_output("y", wrong)
            session.run_with_iobinding(binding)
    frozen = y.copy()
    frozen.flags.writeable = False
    with pytest.raises(camshaft.InvalidArgument, match="writable"):
        binding.bind_output("y", frozen)


def test_inputs_of_unknown_rank():
    proto = model([helper.make_node("Neg", ["x"], ["y"])], [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    session = camshaft.Session(proto)
    assert session.get_inputs()[0].shape is None
    for shape in ((2, 3), (5,), (), (1, 2, 3, 4), (2, 3)):
        y, = session.run({"x": np.ones(shape, "f")})
        assert y.shape == shape and (y == -1).all()


def test_names_are_strings_and_files_exist(conv, image, tmp_path):
    session = camshaft.Session(conv)
    for names, feed in (([1], {"x": image}), (None, {"x": image, 2: image})):
        with pytest.raises(camshaft.InvalidArgument, match="are strings"):
            session.run(names, feed)
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(camshaft.FileError):
            camshaft.Session(path)


def test_bindings_follow_shapes():
    weights = np.ones((1, 1, 5), "f")  # as below: the first engine is for the first shape only
    proto = model([helper.make_node("Conv", ["x", "w"], ["y"])], [value("x", TensorProto.FLOAT, [1, 1, "n"])],
                  [value("y", TensorProto.FLOAT, [1, 1, "m"])], {"w": weights})
    session = camshaft.Session(proto)
    binding = session.io_binding()
    binding.bind_output("y")
    for n in (8, 12, 6):
        binding.bind_input("x", np.ones((1, 1, n), "f"))
        session.run_with_iobinding(binding)
        assert binding.get_outputs()[0].shape == (1, 1, n - 4)


def test_outputs_only_running_can_tell():
    proto = model([helper.make_node("NonZero", ["x"], ["y"], "where")], [value("x", TensorProto.FLOAT, [2, 3])],
                  [value("y", TensorProto.INT64, [2, "count"])])
    session = camshaft.Session(proto)
    for x in (np.array([[0, 1, 0], [2, 0, 3]], "f"), np.zeros((2, 3), "f"), np.ones((2, 3), "f")):
        np.testing.assert_array_equal(session.run({"x": x})[0], np.nonzero(x))


@pytest.mark.parametrize("contexts", [1, 3])
def test_many_threads_at_once(matmul, contexts):
    proto, weights = matmul
    session = camshaft.Session(proto, threads=1, contexts=contexts)
    right = []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(50):
            x = random.standard_normal((int(random.integers(1, 9)), 16)).astype("f")
            y, = session.run(["y"], {"x": x})
            np.testing.assert_allclose(y, x @ weights, rtol=1e-4, atol=1e-5)
        right.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(right) == list(range(6))


def test_threads_with_one_shape_each_widen_one_session():
    """No engine takes an extent of 1 here, so each is as narrow as was seen; whoever finds a wider one may lie outside of it, or inside."""
    proto = model([helper.make_node("Conv", ["x", "w"], ["y"])], [value("x", TensorProto.FLOAT, [1, 1, "n"])],
                  [value("y", TensorProto.FLOAT, None)], {"w": np.ones((1, 1, 7), "f")})
    inputs = [np.arange(7 + k, dtype="f").reshape(1, 1, -1) for k in range(6)]
    for bound in (False, True):
        for _ in range(10):
            session = camshaft.Session(proto, threads=1, cache=False)

            def work(x):
                if not bound:
                    return session.run({"x": x})[0]
                binding = session.io_binding()
                binding.bind_input("x", x)
                binding.bind_output("y")
                session.run_with_iobinding(binding)
                return binding.get_outputs()[0]

            with concurrent.futures.ThreadPoolExecutor(len(inputs)) as pool:
                for x, y in zip(inputs, pool.map(work, inputs)):
                    np.testing.assert_array_equal(y.ravel(), np.convolve(x.ravel(), np.ones(7, "f"), "valid"))


def test_awaitable_runs(matmul):
    proto, weights = matmul
    session = camshaft.Session(proto, threads=1, contexts=2)
    feeds = [{"x": np.full((2, 16), k, "f")} for k in range(8)]

    async def gather():
        return await asyncio.gather(*(session.run_async(["y"], feed) for feed in feeds))

    for feed, (y,) in zip(feeds, asyncio.run(gather())):
        np.testing.assert_allclose(y, feed["x"] @ weights, rtol=1e-4)
    with pytest.raises(camshaft.InvalidArgument):
        session.run_async({"u": 1}).result()


def test_the_second_start_loads(conv, image, cache_folder):
    first = camshaft.Session(conv)
    second = camshaft.Session(conv)
    assert not first.from_cache and second.from_cache
    np.testing.assert_array_equal(second.run({"x": image})[0], first.run({"x": image})[0])
    assert not camshaft.Session(conv, optimization_level=0).from_cache  # other options, another engine
    assert not camshaft.Session(conv, cache=False).from_cache
    assert len(list(cache_folder.glob("*.engine"))) == 2


def test_dynamic_networks_are_cached_too(matmul):
    x = {"x": np.ones((3, 16), "f")}
    expected = camshaft.Session(matmul[0]).run(x)
    again = camshaft.Session(matmul[0])
    assert again.from_cache
    np.testing.assert_array_equal(again.run(x)[0], expected[0])


@pytest.mark.parametrize("content", [b"", b"CAMSHAFT", b"x" * 5000])
def test_a_broken_file_is_built_again(conv, image, cache_folder, content, caplog):
    expected = camshaft.Session(conv).run({"x": image})[0]
    path, = cache_folder.glob("*.engine")
    path.write_bytes(content)
    session = camshaft.Session(conv)
    assert not session.from_cache and "built again" in caplog.text
    np.testing.assert_allclose(session.run({"x": image})[0], expected, rtol=1e-4, atol=1e-5)
    assert camshaft.Session(conv).from_cache


def test_the_cache_is_bounded(cache_folder, tmp_path):
    cache = camshaft.EngineCache(tmp_path / "small", limit=1)
    for width in (4, 5):
        camshaft.Session(identity(TensorProto.FLOAT, (1, width)), cache=cache)
        assert len(list(cache.folder.glob("*.engine"))) == 1  # the newest stays
    cache.clear()
    assert not list(cache.folder.glob("*.engine"))
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert camshaft.Session(identity(TensorProto.FLOAT, (1, 4)), cache=blocked).run({"x": np.ones((1, 4), "f")})


def test_weights_beside_the_model_belong_to_the_key(tmp_path):
    import onnx
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype("f")
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", TensorProto.FLOAT, [1, 64])],
                  [value("y", TensorProto.FLOAT, [1, 64])], {"w": weights})
    path = tmp_path / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=16)
    x = np.ones((1, 64), "f")
    np.testing.assert_allclose(camshaft.Session(path).run({"x": x})[0], x @ weights, rtol=1e-4)
    (tmp_path / "w.bin").write_bytes((weights * 2).tobytes())
    np.testing.assert_allclose(camshaft.Session(path).run({"x": x})[0], x @ weights * 2, rtol=1e-4)


def test_engine_files_run(conv, image, tmp_path):
    camshaft.build(conv).save(tmp_path / "m.engine")
    session = camshaft.Session(tmp_path / "m.engine")
    np.testing.assert_allclose(session.run({"x": image})[0], camshaft.Session(conv).run({"x": image})[0], rtol=1e-4, atol=1e-5)


def test_the_readme_finds_the_cup():
    Image = pytest.importorskip("PIL.Image")
    photo = np.asarray(Image.open(PHOTO).convert("RGB").resize((416, 416)), "f")[None, :, :, ::-1].transpose(0, 3, 1, 2)
    boxes, = camshaft.Session(YOLOX, optimization_level=0).run(None, {"images": photo})
    assert boxes.shape == (1, 3549, 85)
    scores = boxes[0, :, 4:5] * boxes[0, :, 5:]
    assert scores.max() > 0.5 and scores.max(axis=0).argmax() == 41  # COCO's cup


def test_extents_that_cannot_be_one_are_widened_as_they_come():
    # A window of five in an open extent: a shape of one cannot be, so the first engine is for the first shape only.
    weights = np.ones((1, 1, 5), "f")
    proto = model([helper.make_node("Conv", ["x", "w"], ["y"], "window")], [value("x", TensorProto.FLOAT, [1, 1, "n"])],
                  [value("y", TensorProto.FLOAT, [1, 1, "m"])], {"w": weights})
    session = camshaft.Session(proto)
    for n in (8, 30, 5):
        assert session.run({"x": np.ones((1, 1, n), "f")})[0].shape == (1, 1, n - 4)
    assert camshaft.Session(proto).run({"x": np.ones((1, 1, 9), "f")})[0].shape == (1, 1, 5)
    assert session.get_inputs()[0].shape == (1, 1, "n")


def test_symbols_that_must_be_one_number():
    weights = np.ones((8, 2), "f")  # "k" can only be 8
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], [value("x", TensorProto.FLOAT, ["n", "k"])],
                  [value("y", TensorProto.FLOAT, ["n", 2])], {"w": weights})
    for _ in range(2):
        session = camshaft.Session(proto)
        for n in (5, 7, 2):
            np.testing.assert_array_equal(session.run({"x": np.ones((n, 8), "f")})[0], 8)
        with pytest.raises(camshaft.CamshaftError):
            session.run({"x": np.ones((5, 9), "f")})
        np.testing.assert_array_equal(session.run({"x": np.ones((3, 8), "f")})[0], 8)
