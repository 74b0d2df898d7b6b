# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="camshaft") and camshaft.torch.compile. Skipped where torch is not installed: CAMSHAFT_TEST_ENV."""
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


def test_inputs_written_into_stay_pytorchs():
    def function(x):
        x.add_(1)
        return x * 2

    x = torch.zeros(3)
    torch.testing.assert_close(compiled(function)(x), torch.full((3,), 2.0))
    assert x.sum() == 3 and "writes into" in last().reason


def test_half_precision_tensors():
    net, x = torch.nn.Linear(8, 8).eval().bfloat16(), torch.randn(2, 8).bfloat16()
    y = compiled(net)(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y, net(x), rtol=0.05, atol=0.05)


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
