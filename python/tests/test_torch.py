# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="camshaft") and camshaft.torch.compile. Skipped where torch is not installed: CAMSHAFT_TEST_ENV."""
import copy
import logging

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import camshaft  # noqa: E402
import camshaft.torch  # noqa: E402

FAST = {"optimization_level": 0, "cache": False}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x))) + self.offset, x.shape[0] * 2


def compiled(module, **options):
    return torch.compile(module, backend="camshaft", options={**FAST, **options})


def last():
    return camshaft.torch.reports()[-1]


def test_the_entry_point_is_known():
    assert "camshaft" in torch._dynamo.list_backends()


def test_a_module_is_one_engine():
    net, x = Net().eval(), torch.randn(5, 8)
    y, count = compiled(net)(x)
    torch.testing.assert_close(y, net(x)[0])
    assert count == 10
    report = last()
    assert report.engines == 1 and report.engine_nodes == report.nodes and not report.eager and not report.reason


def test_shapes_come_and_go():
    net = Net().eval()
    fast = torch.compile(net, backend="camshaft", dynamic=True, options=FAST)
    before = len(camshaft.torch.reports())
    for n in (5, 9, 2, 64):
        x = torch.randn(n, 8)
        y, count = fast(x)
        torch.testing.assert_close(y, net(x)[0])
        assert count == 2 * n
    assert len(camshaft.torch.reports()) == before + 1  # one engine for all of them


def test_weights_are_frozen_until_they_change():
    net, x = Net().eval(), torch.randn(3, 8)
    fast = compiled(net)
    fast(x)
    net.linear.weight.mul_(2)
    net.offset += 1
    torch.testing.assert_close(fast(x)[0], net(x)[0])
    net.linear.weight = torch.nn.Parameter(torch.zeros(4, 8))
    torch.testing.assert_close(fast(x)[0], net(x)[0])


def test_gradients_keep_pytorch(caplog):
    net, x = Net().eval(), torch.randn(3, 8)
    with torch.enable_grad(), caplog.at_level(logging.WARNING, "camshaft"):
        y, _ = compiled(net)(x)
        y.sum().backward()
    assert net.linear.weight.grad is not None and "gradients are needed" in caplog.text


def test_what_cannot_be_an_engine_runs_in_pytorch_and_is_named(caplog):
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x):
            x = torch.relu(self.first(x) * 2 + 1)
            x = torch.linalg.pinv(x) @ x  # no translation to ONNX
            return torch.tanh(self.second(x) * 3 - 1)

    net, x = Mixed().eval(), torch.randn(8, 8)
    with caplog.at_level(logging.WARNING, "camshaft"):
        y = compiled(net)(x)
    torch.testing.assert_close(y, net(x), rtol=1e-3, atol=1e-4)
    report = last()
    assert report.engines == 2 and 0 < report.engine_nodes < report.nodes
    assert any("linalg" in node.target for node in report.eager) and all(node.reason for node in report.eager)
    assert report.eager[0].target in caplog.text
    with pytest.raises(Exception, match="linalg"):
        torch._dynamo.reset()
        compiled(net, fallback=False)(x)


def test_inference_mode():
    with torch.inference_mode():
        net, x = Net().eval(), torch.randn(3, 8)
        torch.testing.assert_close(compiled(net)(x)[0], net(x)[0])
    assert not last().reason


def test_graph_breaks_make_several_graphs():
    def function(x):
        y = torch.relu(x) + 1
        torch._dynamo.graph_break()
        return y * 2

    before = len(camshaft.torch.reports())
    x = torch.randn(4, 4)
    torch.testing.assert_close(compiled(function)(x), function(x))
    assert len(camshaft.torch.reports()) == before + 2


def same_twice(function, *inputs):
    """Results and what becomes of the inputs, over two calls, beside eager PyTorch's; the reports of the graphs it took."""
    expected, before = [tensor.clone() for tensor in inputs], len(camshaft.torch.reports())
    fast = compiled(function)
    for _ in range(2):
        torch.testing.assert_close(fast(*inputs), function(*expected))
        for actual, wanted in zip(inputs, expected):
            torch.testing.assert_close(actual, wanted)
    return camshaft.torch.reports()[before:]


def test_inputs_are_written_into():
    def function(x, y):
        x.add_(1)
        y[1] = x[0]
        return x * 2 + y

    def nothing_else(x):
        x.mul_(3)

    reports = same_twice(function, torch.randn(3, 3), torch.randn(3, 3)) + same_twice(nothing_else, torch.randn(3))
    assert [(report.engines, report.reason) for report in reports] == [(1, "")] * 2


def test_a_write_that_reaches_two_inputs_is_pytorchs():
    def function(x, y):
        x.add_(1)
        return x * 2 + y

    memory = torch.randn(4, 3)
    expected = memory.clone()
    torch.testing.assert_close(compiled(function)(memory[:3], memory[1:]), function(expected[:3], expected[1:]))
    torch.testing.assert_close(memory, expected)


def test_results_that_are_views_of_inputs_stay_views():
    def function(x):
        return x[1:].view(-1), x * 2 + 1

    def after_a_write(x):
        x.add_(1)
        return x[1:], x * 2

    x = torch.randn(3, 3)
    view, _ = compiled(function)(x)
    x.zero_()
    assert not view.any()
    assert last().engines == 1
    assert [report.engines for report in same_twice(after_a_write, torch.randn(3, 3))] == [1]


def test_normalizations_in_training_are_pytorchs():
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    twin, x = copy.deepcopy(net), torch.randn(4, 3)
    fast = compiled(net)
    for _ in range(2):
        torch.testing.assert_close(fast(x), twin(x))
        torch.testing.assert_close(net[1].running_mean, twin[1].running_mean)
    assert "being trained" in last().reason


def test_a_static_cache_is_written_in_place():
    """index_copy along the third dimension: new rows alone are written, into the caller's memory."""
    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x, cache, position):
            rows = self.linear(x).view(1, 2, 1, 4)
            cache.index_copy_(2, position, rows)
            return torch.nn.functional.scaled_dot_product_attention(rows, cache, cache)

    step, cache = Step().eval(), torch.zeros(1, 2, 64, 4)
    expected, fast, before = cache.clone(), compiled(step), len(camshaft.torch.reports())
    for k in range(5):
        x, position = torch.randn(1, 8), torch.tensor([k])
        torch.testing.assert_close(fast(x, cache, position), step(x, expected, position))
        torch.testing.assert_close(cache, expected)
    assert len(camshaft.torch.reports()) == before + 1 and last().engines == last().in_place == 1


def test_generation_with_static_and_growing_caches():
    transformers = pytest.importorskip("transformers")
    net = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**DECODER, "use_cache": True})).eval()
    ids = torch.randint(3, 100, (1, 7))
    words = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    expected, eager = net.generate(ids, **words), net.forward
    for cache in ({}, {"cache_implementation": "static", "disable_compile": True}):
        torch._dynamo.reset()
        before = len(camshaft.torch.reports())
        net.forward = compiled(eager)
        assert torch.equal(net.generate(ids, **words, **cache), expected)
        reports = camshaft.torch.reports()[before:]
        assert all(report.engines == 1 and not report.reason for report in reports)
        assert reports[-1].in_place == (4 if cache else 0)  # keys and values of two layers, while decoding


def test_tensors_that_are_assigned_anew():
    class Mean(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.linear = torch.ones(3), torch.nn.Linear(3, 3)

        def forward(self, x):
            self.mean = self.mean.clone()  # as self.mean.to(x.device) may
            return self.linear(x - self.mean)

    class Count(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x) + self.seen

    x, before = torch.randn(2, 3), len(camshaft.torch.reports())
    mean = Mean().eval()
    fast = compiled(mean)
    for _ in range(4):
        torch.testing.assert_close(fast(x), mean(x))
    assert len(camshaft.torch.reports()) == before + 1  # the same values are the same weight
    count = Count().eval()
    fast = compiled(count)
    for k in range(6):
        count.seen = torch.tensor(float(k))
        torch.testing.assert_close(fast(x), count(x))
    assert len(camshaft.torch.reports()) == before + 4  # built three times, then it is an input
    linear = torch.nn.Linear(3, 3)
    fast = compiled(linear)
    for _ in range(3):
        linear.weight = torch.nn.Parameter(torch.randn(3, 3))
        torch.testing.assert_close(fast(x), linear(x))


class Pooled(torch.nn.Module):
    """PyTorch's ONNX exporter makes one window for all sizes of the pooling, that of the example."""

    def __init__(self):
        super().__init__()
        self.convolution, self.linear = torch.nn.Conv2d(3, 2, 3), torch.nn.Linear(2 * 49, 5)

    def forward(self, x):
        return self.linear(torch.nn.functional.adaptive_avg_pool2d(self.convolution(x), 7).flatten(1))


def test_an_engine_for_every_size_that_needs_one():
    net, before = Pooled().eval(), len(camshaft.torch.reports())
    fast = torch.compile(net, backend="camshaft", dynamic=True, options=FAST)
    for extent in (16, 23, 16, 30, 23):
        x = torch.randn(2, 3, extent, extent)
        torch.testing.assert_close(fast(x), net(x))
    reports = camshaft.torch.reports()[before:]
    assert len(reports) == 3 and all(report.engines == 1 for report in reports)


def test_ahead_of_time_tells_what_the_exporter_has_fixed():
    x, extent = torch.randn(2, 3, 16, 16), torch.export.Dim.AUTO
    with pytest.raises(camshaft.torch.NotConvertible, match="leave them out of dynamic_shapes"):
        camshaft.torch.compile(Pooled().eval(), (x,), dynamic_shapes=({2: extent, 3: extent},), **FAST)


def test_open_integers_are_inputs():
    def function(x, first):
        positions = torch.arange(x.shape[1]) + first
        return x * (positions < 12), first + 1

    fast, before = torch.compile(function, backend="camshaft", dynamic=True, options=FAST), len(camshaft.torch.reports())
    for first, width in ((3, 8), (7, 8), (9, 5)):
        x = torch.randn(2, width)
        result, following = fast(x, first)
        torch.testing.assert_close(result, function(x, first)[0])
        assert following == first + 1
    assert len(camshaft.torch.reports()) == before + 1 and last().engines == 1


def test_open_integers_of_a_graph_in_parts():
    def function(x, count):
        x = torch.relu(x * 2 + 1) * count
        x = torch.linalg.pinv(x) @ x  # no translation to ONNX
        return torch.tanh(x * 3 - 1) + count

    fast, before = torch.compile(function, backend="camshaft", dynamic=True, options=FAST), len(camshaft.torch.reports())
    for count in (3, 5, 9):
        x = torch.randn(6, 6)
        torch.testing.assert_close(fast(x, count), function(x, count), rtol=1e-3, atol=1e-3)
    assert len(camshaft.torch.reports()) == before + 1 and last().engines == 2


@pytest.mark.parametrize("shape, mask", [((2, 3, 4, 8, 16), (8, 8)), ((2, 3, 4, 8, 16), (3, 1, 8, 8)), ((4, 8, 16), (4, 8, 8)), ((8, 16), None)])
def test_attention_of_other_ranks(shape, mask):
    def function(q, k, v, mask):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask) * 2

    q, k, v = (torch.randn(shape) for _ in range(3))
    mask = torch.randn(mask) if mask else None
    torch.testing.assert_close(compiled(function)(q, k, v, mask), function(q, k, v, mask))
    assert last().engines == 1 and not last().reason


@pytest.mark.parametrize("columns_first", [False, True])
def test_grouped_products(columns_first):
    """Mixtures of experts: rows in groups, a matrix each; the third has none, and two rows belong to no group."""
    def function(rows, matrices, ends):
        return torch.nn.functional.grouped_mm(rows, matrices.transpose(1, 2) if columns_first else matrices, offs=ends)

    rows, matrices = torch.randn(11, 16).bfloat16(), torch.randn(4, 16, 16).bfloat16()
    ends = torch.tensor([3, 5, 5, 9], dtype=torch.int32)
    torch.testing.assert_close(compiled(function)(rows, matrices, ends)[:9], function(rows, matrices, ends)[:9], rtol=0.05, atol=0.05)
    assert last().engines == 1 and not last().reason


def test_products_of_codes():
    """As torchao writes rows quantized at run time."""
    def function(x, codes, scales):
        step = x.abs().amax(-1, keepdim=True) / 127.5
        rows = torch.clamp(torch.round(x / step), -128, 127).to(torch.int8)
        return torch._int_mm(rows, codes.t()).to(torch.float32) * step * scales

    x, codes, scales = torch.randn(32, 64), torch.randint(-128, 128, (48, 64), dtype=torch.int8), torch.rand(48)
    torch.testing.assert_close(compiled(function)(x, codes, scales), function(x, codes, scales))
    assert last().engines == 1 and not last().reason


class Int8Linear(torch.nn.Module):
    """int8 weights with a scale per column, as gpt-fast has them."""

    def __init__(self, packed):
        super().__init__()
        self.packed = packed
        self.register_buffer("weight", torch.randint(-128, 128, (64, 256), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(64) / 128)

    def forward(self, x):
        if self.packed:
            return torch.ops.aten._weight_int8pack_mm(x, self.weight, self.scales)
        return torch.nn.functional.linear(x, self.weight.to(x.dtype)) * self.scales


@pytest.mark.parametrize("packed", [False, True])
def test_weights_of_8_bits_stay_codes(packed):
    net = Int8Linear(packed).eval()
    x = torch.randn(3, 256)
    wanted = torch.nn.functional.linear(x, net.weight.float()) * net.scales
    module = camshaft.torch.compile(net, (x,), **FAST)
    torch.testing.assert_close(module(x), wanted)
    assert [layer.type for layer in module.engine.layers if layer.macs] == ["LowBitMultiply"]


class Nibbles(torch.nn.Module):
    """Pairs of 4-bit codes in bytes, groups of 64 with real zero points, as HQQ has them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randint(0, 256, (128, 64), dtype=torch.uint8))
        self.register_buffer("zero", torch.rand(256, 1) * 15)
        self.register_buffer("scale", torch.rand(256, 1) / 100)

    def forward(self, x):
        codes = torch.cat([torch.bitwise_right_shift(self.codes & 0xF0, 4), (self.codes << 4) >> 4])
        return torch.nn.functional.linear(x, ((codes.to(x.dtype) - self.zero) * self.scale).reshape(64, 256))


def test_weights_of_4_bits_stay_codes():
    net, x = Nibbles().eval(), torch.randn(3, 256)
    module = camshaft.torch.compile(net, (x,), **FAST)
    torch.testing.assert_close(module(x), net(x), rtol=1e-4, atol=1e-4)
    assert [layer.type for layer in module.engine.layers if layer.macs] == ["LowBitMultiply"]
    assert module.engine.info["weight_bytes"] < 64 * 256


@pytest.mark.parametrize("name", ["Int8WeightOnlyConfig", "IntxWeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig", "Int8DynamicActivationIntxWeightConfig"])
def test_torchao(name):
    quantization = pytest.importorskip("torchao.quantization")
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)).eval()
    quantization.quantize_(net, getattr(quantization, name)())
    x = torch.randn(32, 64)
    wanted = net(x)
    torch.testing.assert_close(compiled(net)(x), wanted, rtol=0, atol=0.02 * float(wanted.abs().max()))  # a code may be the next one
    assert last().engines == 1 and not last().reason


@pytest.mark.parametrize("rows, p", [((7, 9), 2), ((40, 9), 2), ((7, 9), 1), ((7, 9), float("inf"))])
def test_distances(rows, p):
    x, y = torch.randn(2, rows[0], 16), torch.randn(2, rows[1], 16)
    torch.testing.assert_close(compiled(torch.cdist)(x, y, p), torch.cdist(x, y, p), rtol=1e-4, atol=1e-4)
    assert last().engines == 1 and not last().reason


def test_what_the_exporter_gets_wrong_is_pytorchs():
    def divided(x):
        return torch.relu(torch.nn.functional.avg_pool2d(torch.sin(x) + 1, 2, divisor_override=3) * 2 - 1)

    def cut_off(x):
        return torch.nn.functional.avg_pool2d(x * 3 + 1, 2) * 2 - 1

    def kept(x):
        return torch.linalg.norm(torch.sin(x) * 2, None, None, True) * 2 - 1

    for function, x, target in ((divided, torch.randn(1, 2, 6, 6), "avg_pool2d"), (cut_off, torch.randint(-9, 9, (1, 2, 6, 6)), "avg_pool2d"),
                                (kept, torch.randn(5, 5), "linalg_vector_norm")):
        torch.testing.assert_close(compiled(function, min_nodes=1)(x), function(x))
        assert last().engines == 2 and [node.target for node in last().eager] == [f"aten.{target}.default"]


def test_angles():
    nan = float("nan")
    y = torch.tensor([0.0, 0, 1, -1, 2, -2, 0, nan, 1, 3])
    x = torch.tensor([-1.0, 1, 0, 0, -3, -3, 0, 1, nan, 4])
    torch.testing.assert_close(compiled(torch.atan2, min_nodes=1)(y, x), torch.atan2(y, x), equal_nan=True)
    assert last().engines == 1 and not last().reason


@pytest.mark.parametrize("mode, aligned, scale", [("bilinear", True, 1.7), ("bicubic", True, (2.0, 0.6)), ("nearest", None, 0.6), ("bilinear", False, 0.6)])
def test_resized_by_fractions(mode, aligned, scale):
    def function(x):
        return torch.nn.functional.interpolate(x, scale_factor=scale, mode=mode, align_corners=aligned) * 2

    for dynamic in (False, True):
        torch._dynamo.reset()
        fast, before = torch.compile(function, backend="camshaft", dynamic=dynamic, options=FAST), len(camshaft.torch.reports())
        for rows in (8, 11):
            x = torch.randn(1, 2, rows, 9)
            torch.testing.assert_close(fast(x), function(x), rtol=1e-4, atol=1e-4)
        assert all(report.engines == 1 and not report.reason for report in camshaft.torch.reports()[before:])


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_cubic_samples_beyond_the_border(padding, aligned):
    def function(x, grid):
        return torch.nn.functional.grid_sample(x, grid, "bicubic", padding, aligned)

    x, grid = torch.randn(2, 3, 5, 6), torch.rand(2, 7, 8, 2) * 3 - 1.5
    torch.testing.assert_close(compiled(function)(x, grid), function(x, grid), rtol=1e-4, atol=1e-4)
    assert last().engines == 1 and not last().reason


def test_antialiasing_by_fractions_is_pytorchs():
    def function(x):
        return torch.nn.functional.interpolate(torch.sin(x) + 1, scale_factor=0.6, mode="bicubic", antialias=True) * 2 - 1

    x = torch.randn(1, 2, 8, 9)
    torch.testing.assert_close(compiled(function, min_nodes=1)(x), function(x))
    assert [node.target for node in last().eager] == ["aten._upsample_bicubic2d_aa.default"]


def test_complex_results_are_pytorchs():
    def function(x):
        return torch.complex(torch.sin(x) * 2, torch.cos(x) + 1)

    x = torch.randn(5)
    torch.testing.assert_close(compiled(function, min_nodes=1)(x), function(x))
    assert last().engines == 1 and [node.target for node in last().eager] == ["aten.complex.default"]
    with pytest.raises(camshaft.CamshaftError, match="complex"):
        camshaft.torch.compile(lambda_module(function), (x,), **FAST)


def lambda_module(function):
    class Module(torch.nn.Module):
        def forward(self, x):
            return function(x)

    return Module()


def test_ahead_of_time_one_tensor_for_two_inputs():
    class Difference(torch.nn.Module):
        def forward(self, x, y):
            return x - 2 * y

    x, y = torch.randn(3), torch.randn(3)
    module = camshaft.torch.compile(Difference(), (x, x), **FAST)
    torch.testing.assert_close(module(x, y), x - 2 * y)


def test_half_precision_tensors():
    net, x = torch.nn.Linear(8, 8).eval().bfloat16(), torch.randn(2, 8).bfloat16()
    y = compiled(net)(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y, net(x), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("function", [torch.abs, lambda x: torch.cumsum(x, 0), lambda x: torch.softmax(x, 1, dtype=torch.float32), lambda x: torch.softmax(x * 2, 1)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_results_have_pytorchs_types(function, dtype):
    x = torch.randn(4, 6).to(dtype)
    y, wanted = compiled(function)(x), function(x)
    assert y.dtype == wanted.dtype
    torch.testing.assert_close(y, wanted, rtol=0.05, atol=0.05)


def test_ahead_of_time_saves_an_engine(tmp_path):
    net, x = Net().eval(), torch.randn(5, 8)
    module = camshaft.torch.compile(net, (x,), **FAST)
    y, count = module(x)
    torch.testing.assert_close(y, net(x)[0])
    assert count == 10 and isinstance(module.engine, camshaft.Engine)
    module.save(tmp_path / "net.camshaft")
    again = camshaft.torch.load(tmp_path / "net.camshaft", threads=1)
    assert torch.equal(again(x)[0], y)
    with pytest.raises(camshaft.InvalidArgument):
        module(x, x)
    (tmp_path / "net.camshaft").write_bytes(b"no")
    with pytest.raises(camshaft.CorruptEngine):
        camshaft.torch.load(tmp_path / "net.camshaft")


def test_ahead_of_time_with_open_extents_and_flags():
    class Flags(torch.nn.Module):
        def forward(self, pair, *, scale=1.0):
            return {"sum": pair["a"] + pair["b"], "scaled": pair["a"] * scale}

    pair = {"a": torch.randn(3, 4), "b": torch.randn(3, 4)}
    batch = torch.export.Dim("batch", min=1, max=64)
    module = camshaft.torch.compile(Flags(), (pair,), {"scale": 2.0}, dynamic_shapes={"pair": {"a": {0: batch}, "b": {0: batch}}}, **FAST)
    other = {"a": torch.randn(7, 4), "b": torch.randn(7, 4)}
    out = module(other, scale=2.0)
    torch.testing.assert_close(out["sum"], other["a"] + other["b"])
    torch.testing.assert_close(out["scaled"], other["a"] * 2)
    with pytest.raises(camshaft.InvalidArgument, match="compiled for 2.0"):
        module(other, scale=3.0)


TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100}
DECODER = {**TEXT, "num_key_value_heads": 2, "use_cache": False}
IMAGE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 32, "patch_size": 8}
# Architecture to model class, configuration class and configuration: those bench/torch_compile.py times are larger.
ARCHITECTURES = {
    "bert": ("BertModel", "BertConfig", TEXT),
    "distilbert": ("DistilBertModel", "DistilBertConfig", {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 100}),
    "roberta": ("RobertaModel", "RobertaConfig", TEXT),
    "electra": ("ElectraModel", "ElectraConfig", {"embedding_size": 32, **TEXT}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "use_cache": False, "bos_token_id": 1, "eos_token_id": 2}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", DECODER),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", DECODER),
    "mistral": ("MistralForCausalLM", "MistralConfig", DECODER),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**DECODER, "num_local_experts": 4}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", {"head_dim": 16, **DECODER}),
    "t5": ("T5EncoderModel", "T5Config", {"d_model": 64, "d_kv": 16, "num_heads": 4, "num_layers": 2, "d_ff": 128, "vocab_size": 100}),
    "vit": ("ViTModel", "ViTConfig", IMAGE),
    "clip": ("CLIPVisionModel", "CLIPVisionConfig", IMAGE),
    "swin": ("SwinModel", "SwinConfig", {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4}),
    "resnet": ("ResNetModel", "ResNetConfig", {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}),
    "convnext": ("ConvNextModel", "ConvNextConfig", {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2}),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_transformers(name):
    """One engine each, with eager PyTorch's outputs."""
    transformers = pytest.importorskip("transformers")
    net_class, config_class, words = ARCHITECTURES[name]
    config = getattr(transformers, config_class)(**words)
    net = getattr(transformers, net_class)(config).eval()
    feed = {"input_ids": torch.randint(3, 100, (2, 12))} if hasattr(config, "vocab_size") else {"pixel_values": torch.randn(2, 3, 32, 32)}
    wanted, got = (torch.utils._pytree.tree_leaves(dict(run(**feed))) for run in (net, compiled(net)))
    assert len(wanted) == len(got) > 0
    for expected, actual in zip(wanted, got):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
    assert last().engines == 1 and not last().eager
