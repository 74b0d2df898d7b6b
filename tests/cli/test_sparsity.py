# SPDX-License-Identifier: Apache-2.0
"""--sparsity, camshaft sparsify and camshaft inspect --sparsity end to end, on a residual block of ResNet-18's kind."""
import json
import os
import pathlib
import re
import subprocess
import sys

import conftest
import numpy as np
import pytest
import tiny_onnx as onnx

INT8, INT64 = 3, 7  # of TensorProto
QUICK = ["--duration=0", "--iterations=1", "--warmUp=0"]

# Seed 000: what TensorRT 10 says of a convolution. TacticName has another meaning here, the rest the same.
SEED_KEYS = ["Name", "LayerType", "Inputs", "Outputs", "ParameterType", "Kernel", "PaddingMode", "PrePadding", "PostPadding",
             "Stride", "Dilation", "OutMaps", "Groups", "Weights", "Bias", "HasBias", "HasReLU", "HasSparseWeights",
             "HasDynamicFilter", "HasDynamicBias", "HasResidual", "ConvXAsActInputIdx", "BiasAsActInputIdx",
             "ResAsActInputIdx", "Activation", "TacticName", "TacticValue", "StreamId", "Metadata"]


def conv(x, y, name, rng, inputs, outputs, kernel, inits):
    w = (rng.standard_normal((outputs, inputs, kernel, kernel)) / np.sqrt(inputs * kernel * kernel)).astype(np.float32)
    inits += [onnx.tensor(name + "_w", w), onnx.tensor(name + "_b", rng.standard_normal(outputs).astype(np.float32))]
    pad = kernel // 2
    return onnx.node("Conv", [x, name + "_w", name + "_b"], [y], name,
                     [onnx.ints_attribute("pads", [pad] * 4), onnx.ints_attribute("kernel_shape", [kernel, kernel])])


@pytest.fixture
def block_file(tmp_path):
    """conv0 3 -> 64 + relu, then a residual block of two 3x3 convolutions and a linear layer."""
    rng, inits = np.random.default_rng(5), []
    dense = (rng.standard_normal((64, 10)) / 8).astype(np.float32)
    nodes = [conv("x", "c0", "conv0", rng, 3, 64, 3, inits), onnx.node("Relu", ["c0"], ["r0"], "relu0"),
             conv("r0", "c1", "conv1", rng, 64, 64, 3, inits), onnx.node("Relu", ["c1"], ["r1"], "relu1"),
             conv("r1", "c2", "conv2", rng, 64, 64, 3, inits), onnx.node("Add", ["c2", "r0"], ["a"], "plus0"),
             onnx.node("Relu", ["a"], ["r2"], "relu2"), onnx.node("GlobalAveragePool", ["r2"], ["p"], "pool"),
             onnx.node("Flatten", ["p"], ["f"], "flatten"), onnx.node("MatMul", ["f", "dense_w"], ["y"], "dense")]
    path = tmp_path / "block.onnx"
    path.write_bytes(onnx.model(nodes, [onnx.value_info("x", [1, 3, 16, 16])], [onnx.value_info("y", [1, 10])],
                                [*inits, onnx.tensor("dense_w", dense)]))
    return path


def layers_of(file):
    return json.loads(file.read_text())["Layers"]


def test_the_seeds_command_line(camexec, block_file, tmp_path):
    result = camexec(f"--onnx={block_file}", "--fp16", "--int8", "--sparsity=force", "--saveEngine=b.engine", "--exportProfile=p.txt",
                     "--exportLayerInfo=b.json", "--profilingVerbosity=detailed", *QUICK)
    assert result.code == 0, result.err
    text = result.out + result.err
    assert "Sparsity: Forced" in text
    assert re.search(r"\(Sparsity\) conv1: 18\d{3} of 36864 weights zeroed", text)
    assert re.search(r"\(Sparsity\) forced: 3\d{4} of \d+ weights of 4 layers were overwritten with zeros", text)
    assert "(Sparsity) Layers eligible for sparse math: " in text
    assert "plan picked sparse implementation for layers: " in text
    convolutions = [layer for layer in layers_of(tmp_path / "b.json") if layer["LayerType"] == "Convolution"]
    assert len(convolutions) == 3
    for layer in convolutions:
        assert [key for key in SEED_KEYS if key not in layer] == []
        assert layer["HasSparseWeights"] == 1  # of the three channels of conv0 two are kept
        assert layer["Sparsity"]["Pattern"] == "2:4"
    deep = [layer for layer in convolutions if "conv0" not in layer["Name"]]
    for layer in deep:
        assert layer["Sparsity"]["KeptShare"] == pytest.approx(0.5, abs=0.01)
        assert layer["Sparsity"]["SparseTimeUs"] > 0 and layer["Sparsity"]["DenseTimeUs"] > 0
        name = re.escape(layer["Name"])
        assert re.search(rf"\(Sparsity\) {name}: (picked|not picked: .*): dense \S+ [\d.]+ us, sparse \S+ [\d.]+ us", text)
        assert layer["Sparsity"]["SparseTactic"] == ("_sparse" in layer["TacticName"])
        assert layer.get("PercentOfPeakCounts") == ("dense arithmetic" if layer["Sparsity"]["SparseTactic"] else
                                                    "direct arithmetic" if "winograd" in layer["TacticName"] else None)
        assert ("Reason" in layer["Sparsity"]) != layer["Sparsity"]["SparseTactic"]
        ratio = layer["Sparsity"]["EffectiveMACs"] / layer["Sparsity"]["RealMACs"]
        assert ratio == (2 if layer["Sparsity"]["SparseTactic"] else 1)


SHARED = pathlib.Path(os.environ.get("CAMSHAFT_SHARED", conftest.ROOT.parent / "shared"))
CASK = {"CaskConvolution": "Convolution", "CaskConvActPool": "Convolution", "CaskPooling": "Pooling"}


def seed_layers():
    """The layer information TensorRT gave for seed 000's second build."""
    files = sorted((SHARED / "seeds").glob("000_*.txt"))
    if not files:
        pytest.skip("needs ../shared/seeds")
    text = files[0].read_text()
    return json.JSONDecoder().raw_decode(text[text.index('{"Layers": [{'):])[0]["Layers"]


def test_seed_000_key_by_key(camexec, tmp_path):
    """Every layer TensorRT reports is found by its ONNX nodes, and says all that TensorRT's says."""
    wanted = seed_layers()
    made = subprocess.run([sys.executable, SHARED / "tools/gen_seed_models.py", tmp_path, "resnet18_v1"], capture_output=True, text=True)
    if "No module named" in made.stderr:
        pytest.skip("gen_seed_models.py needs onnx")
    result = camexec("--onnx=resnet18_v1.onnx", "--fp16", "--int8", "--sparsity=force", "--saveEngine=r.engine", "--exportProfile=p.txt",
                     "--exportLayerInfo=r.json", "--profilingVerbosity=detailed", *QUICK)
    assert result.code == 0, result.err
    layers = layers_of(tmp_path / "r.json")
    for theirs in wanted:
        if theirs["LayerType"] not in CASK or "dense0" in theirs["Name"]:
            continue  # reformats differ, and a convolution of one pixel is a matrix product here
        # What lies between two convolutions there does so here: `resnetv15_pool0_fwd` is a layer of its own.
        nodes = [node for node in theirs["Name"].split(" + ") if "pool0" not in node]
        found = [layer for layer in layers if layer["Metadata"].split("\x1e")[0] == f"[ONNX Layer: {nodes[0]}]"]
        assert len(found) == 1, theirs["Name"]
        ours = found[0]
        assert ours["Metadata"] == "\x1e".join(f"[ONNX Layer: {node}]" for node in nodes)
        assert ours["LayerType"] == CASK[theirs["LayerType"]]
        if theirs["LayerType"] == "CaskConvActPool":
            continue  # its keys are those of two layers, with prefixes
        assert [key for key in theirs if key not in ours] == []
        same = {key for key in theirs if key not in ("LayerType", "Inputs", "Outputs", "TacticName", "TacticValue", "Metadata", "Name")}
        assert {key: ours[key] for key in same} == {key: theirs[key] for key in same}, theirs["Name"]
        for side in ("Inputs", "Outputs"):
            assert [key for key in theirs[side][0] if key not in ours[side][0]] == []
            assert ours[side][0]["Dimensions"] == theirs[side][0]["Dimensions"]


def test_enable_leaves_weights_as_they_are(camexec, block_file, tmp_path):
    plain = camexec(f"--onnx={block_file}", "--exportOutput=d.json", *QUICK)
    enabled = camexec(f"--onnx={block_file}", "--sparsity=enable", "--exportOutput=e.json", "--exportLayerInfo=e_layers.json", *QUICK)
    assert plain.code == 0 and enabled.code == 0, enabled.err
    assert "zeroed" not in enabled.out + enabled.err
    assert "Layers eligible for sparse math: \n" in enabled.out + enabled.err
    conv1 = next(layer for layer in layers_of(tmp_path / "e_layers.json") if "conv1" in layer["Name"])
    assert conv1["HasSparseWeights"] == 0 and "hold more than two weights" in conv1["Sparsity"]["Reason"]


def test_inspect_lists_what_misses(camshaft, block_file):
    result = camshaft("inspect", block_file, "--sparsity")
    assert result.code == 0, result.err
    assert re.search(r"conv1 .*64x64x3x3 .*9216 of 9216 groups are full; 18432 weights \(50.0 %\) too many", result.out)
    assert "0 of 4 layers are eligible" in result.out


def speeds(table):
    """Layer -> the columns "dense ms" and "sparse ms" of the table sparsify prints."""
    lines = table.splitlines()
    begin, middle = lines[0].index("alone dB") + len("alone dB"), lines[0].index("dense ms") + len("dense ms")
    end = lines[0].index("sparse ms") + len("sparse ms")
    return {line.split()[0]: (line[begin:middle].strip(), line[middle:end].strip()) for line in lines[1:lines.index("")]}


def test_sparsify_without_timing(camshaft, block_file, tmp_path):
    timed, untimed = (camshaft("sparsify", block_file, "-o", name, *words) for name, words in (("t.onnx", []), ("u.onnx", ["--no-timing"])))
    assert timed.code == 0 and untimed.code == 0, untimed.err
    assert set(speeds(untimed.out).values()) == {("", "")}
    assert ("", "") not in speeds(timed.out).values()
    assert (tmp_path / "t.onnx").read_bytes() == (tmp_path / "u.onnx").read_bytes()


def test_sparsify_times_open_shapes_at_those_of_the_data(camshaft, tmp_path):
    rng, inits = np.random.default_rng(3), []
    nodes = [conv("x", "y", "conv0", rng, 64, 64, 1, inits)]
    (tmp_path / "o.onnx").write_bytes(onnx.model(nodes, [onnx.value_info("x", [1, 64, "h", "w"])], [onnx.value_info("y", [1, 64, "h", "w"])], inits))
    np.save(tmp_path / "x.npy", rng.standard_normal((1, 64, 96, 96)).astype(np.float32))
    closed = camshaft("sparsify", "o.onnx", "-o", "s.onnx")
    opened = camshaft("sparsify", "o.onnx", "-o", "s.onnx", "--data", "x.npy")
    assert closed.code == 0 and opened.code == 0, opened.err
    assert float(speeds(opened.out)["conv0"][0]) > 10 * float(speeds(closed.out)["conv0"][0])  # 9216 pixels, 1 pixel


def test_sparsify_by_magnitude(camshaft, block_file, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(7).standard_normal((4, 3, 16, 16)).astype(np.float32))
    result = camshaft("sparsify", block_file, "-o", "s.onnx", "--data", "x.npy")
    assert result.code == 0, result.err
    assert "4 of 4 layers are 2:4" in result.out
    times = speeds(result.out)
    assert sorted(times) == ["conv0", "conv1", "conv2", "dense"]
    for dense, sparse in (times["conv1"], times["conv2"]):
        assert 0 < float(dense) < 100 and 0 < float(sparse) < 100
    listed = camshaft("inspect", "s.onnx", "--sparsity")
    assert "4 of 4 layers are eligible" in listed.out
    built = camshaft("build", "s.onnx", "--sparsity", "enable", "-o", "s.engine")
    assert built.code == 0, built.err
    engine = camshaft("inspect", "s.engine", "--sparsity")
    assert re.search(r"4 layers with constant weights, 4 of them sparse", engine.out), engine.out


def test_unstructured_zeros_of_floats(camexec, camshaft, tmp_path):
    """Four of five weights are zero, anywhere: lists of the others are timed, and give the numbers dense tactics give."""
    rng = np.random.default_rng(9)
    inits = []
    nodes = [conv("x", "c0", "conv0", rng, 64, 96, 1, inits), onnx.node("Relu", ["c0"], ["r0"], "relu0"),
             conv("r0", "y", "conv1", rng, 96, 64, 3, inits)]
    for k in (0, 2):
        w = (rng.standard_normal((96, 64, 1, 1) if k == 0 else (64, 96, 3, 3)) / 16).astype(np.float32)
        inits[k] = onnx.tensor(("conv0_w", "conv1_w")[k // 2], np.where(rng.random(w.shape) < 0.8, np.float32(0), w))
    (tmp_path / "u.onnx").write_bytes(onnx.model(nodes, [onnx.value_info("x", [1, 64, 20, 20])],
                                                 [onnx.value_info("y", [1, 64, 20, 20])], inits))
    listed = camshaft("inspect", "u.onnx", "--sparsity")
    assert listed.out.count("unstructured; for 2:4") == 2 and "2 of 2 layers are eligible" in listed.out, listed.out
    np.save(tmp_path / "x.npy", rng.standard_normal((1, 64, 20, 20)).astype(np.float32))
    outputs = []
    for mode in ("disable", "enable"):
        result = camexec("--onnx=u.onnx", f"--sparsity={mode}", "--loadInputs=x:x.npy", f"--exportOutput={mode}.json",
                         f"--exportLayerInfo={mode}_layers.json", *QUICK)
        assert result.code == 0, result.err
        outputs.append(np.array(json.loads((tmp_path / f"{mode}.json").read_text())[0]["values"], np.float64))
    assert np.abs(outputs[0] - outputs[1]).max() < 1e-4 * np.abs(outputs[0]).max()
    layers = [layer for layer in layers_of(tmp_path / "enable_layers.json") if layer["LayerType"] == "Convolution"]
    assert [layer["Sparsity"]["Pattern"] for layer in layers] == ["unstructured"] * 2
    for layer in layers:
        assert layer["HasSparseWeights"] == 0 and layer["Sparsity"]["SparseTimeUs"] > 0
        if layer["Sparsity"]["SparseTactic"]:
            assert layer["Sparsity"]["RealMACs"] == pytest.approx(0.2 * layer["Sparsity"]["EffectiveMACs"], rel=0.1)


def test_unstructured_zeros_of_int8(camexec, camshaft, tmp_path):
    """A fifth of the blocks of four input channels is left: lists of them give the bytes dense tactics give."""
    rng = np.random.default_rng(9)
    w = np.where(np.repeat(rng.random((96, 16, 1, 1)) < 0.2, 4, axis=1), rng.integers(-127, 128, (96, 64, 1, 1)), 0).astype(np.int8)
    inits = [onnx.tensor("w", w, INT8), onnx.tensor("x_scale", np.float32(0.05)), onnx.tensor("x_zero", np.int8(0), INT8),
             onnx.tensor("w_scale", np.float32(0.01)), onnx.tensor("w_zero", np.int8(0), INT8)]
    nodes = [onnx.node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["xq"], "q"),
             onnx.node("DequantizeLinear", ["xq", "x_scale", "x_zero"], ["xd"], "dq"),
             onnx.node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["wd"], "wdq"), onnx.node("Conv", ["xd", "wd"], ["y"], "conv")]
    (tmp_path / "i.onnx").write_bytes(onnx.model(nodes, [onnx.value_info("x", [1, 64, 20, 20])], [onnx.value_info("y", [1, 96, 20, 20])], inits))
    listed = camshaft("inspect", "i.onnx", "--sparsity")
    assert "unstructured; for 2:4" in listed.out and "1 of 1 layers are eligible" in listed.out, listed.out
    np.save(tmp_path / "x.npy", rng.standard_normal((1, 64, 20, 20)).astype(np.float32))
    outputs = []
    for mode in ("disable", "enable"):
        result = camexec("--onnx=i.onnx", f"--sparsity={mode}", "--loadInputs=x:x.npy", f"--exportOutput={mode}.json",
                         f"--exportLayerInfo={mode}_layers.json", *QUICK)
        assert result.code == 0, result.err
        outputs.append(json.loads((tmp_path / f"{mode}.json").read_text())[0]["values"])
    assert outputs[0] == outputs[1]
    layer = next(layer for layer in layers_of(tmp_path / "enable_layers.json") if layer["LayerType"] == "Convolution")
    assert layer["Sparsity"]["Pattern"] == "unstructured" and layer["Sparsity"]["SparseTimeUs"] > 0


def test_one_row_in_bfloat16(camexec, tmp_path):
    """Weights that are 2:4 already: bfloat16 tactics for them are timed beside dense ones and give their numbers."""
    rng = np.random.default_rng(11)
    w = rng.standard_normal((512, 768)).astype(np.float32)
    w[2::4] = w[3::4] = 0
    (tmp_path / "m.onnx").write_bytes(onnx.model([onnx.node("MatMul", ["x", "w"], ["y"], "product")], [onnx.value_info("x", [1, 512])],
                                                 [onnx.value_info("y", [1, 768])], [onnx.tensor("w", w)]))
    x = rng.standard_normal((1, 512)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    for mode in ("disable", "enable"):
        result = camexec("--onnx=m.onnx", "--bf16", f"--sparsity={mode}", "--loadInputs=x:x.npy", f"--exportOutput={mode}.json",
                         f"--exportLayerInfo={mode}_layers.json", "--profilingVerbosity=detailed", *QUICK)
        assert result.code == 0, result.err
        values = np.array(json.loads((tmp_path / f"{mode}.json").read_text())[0]["values"], np.float64)
        assert np.abs(values - (x.astype(np.float64) @ w).ravel()).max() < 0.02 * np.abs(x @ w).max()
    assert re.search(r"\(Sparsity\) product: (picked|not picked: .*): dense \S+ [\d.]+ us, sparse matmul_sparse_\S+ [\d.]+ us", result.out + result.err)
    sparse = [layer["HasSparseWeights"] for layer in layers_of(tmp_path / "enable_layers.json") if "Sparsity" in layer]
    assert sparse == [1]  # there may be a conversion before it


def odd_model(path):
    """Layers that sparsity has to leave alone, or to treat with care: what each is called says why."""
    rng, inits = np.random.default_rng(12), []

    def weights(name, shape):
        w = (rng.standard_normal(shape) / 8).astype(np.float32)
        inits.append(onnx.tensor(name, w))
        return w

    weights("shared_w", (64, 64)), weights("six_w", (6, 64))
    inits.append(onnx.tensor("zero_w", np.zeros((64, 64), np.float32)))
    infinite = weights("infinite_w", (64, 64))
    infinite[5, 3] = np.inf
    inits[-1] = onnx.tensor("infinite_w", infinite)
    inits.append(onnx.tensor("rows", np.arange(8), INT64))
    products = {"shared": "shared_w", "variable": "b", "six": "six_w", "zeros": "zero_w", "infinite": "infinite_w"}
    nodes = [onnx.node("MatMul", [f"{name}_x", right], [f"{name}_y"], name) for name, right in products.items()]
    nodes.append(onnx.node("Gather", ["shared_w", "rows"], ["rows_y"], "embedding"))
    inputs = [onnx.value_info(f"{name}_x", [8, 6 if name == "six" else 64]) for name in products]
    path.write_bytes(onnx.model(nodes, [*inputs, onnx.value_info("b", [64, 64])],
                                [onnx.value_info(f"{name}_y", [8, 64]) for name in [*products, "rows"]], inits))


def test_weights_that_are_left_alone(camexec, camshaft, tmp_path):
    odd_model(tmp_path / "odd.onnx")
    forced = camexec("--onnx=odd.onnx", "--sparsity=force", "--exportLayerInfo=l.json", "--verbose", *QUICK)
    assert forced.code == 0, forced.err
    text = forced.out + forced.err
    assert "(Sparsity) six: 128 of 384 weights zeroed" in text  # of four channels two, and the last two
    assert re.search(r"\(Sparsity\) forced: 128 of (384|4480) weights", text)
    reasons = {layer["Name"]: layer["Sparsity"].get("Reason", "") for layer in layers_of(tmp_path / "l.json") if "Sparsity" in layer}
    assert "more than two weights" in reasons["shared"] and "more than two weights" in reasons["infinite"]
    assert "more than half of the weights" in reasons["six"], reasons
    listed = camshaft("inspect", "odd.onnx", "--sparsity").out
    assert re.search(r"infinite .*NaN or infinite", listed), listed
    assert re.search(r"variable .*its weights are not constant", listed), listed
    pruned = camshaft("sparsify", "odd.onnx", "-o", "s.onnx", "--no-timing")
    assert pruned.code == 0 and re.search(r"shared .*its weights are shared with embedding", pruned.out), pruned.out
    assert re.search(r"infinite .*weight 323 is NaN or infinite: a zero would hide it", pruned.out), pruned.out
    outputs = []
    for name, mode in (("odd", "disable"), ("odd", "enable"), ("s", "disable"), ("s", "enable")):
        result = camexec(f"--onnx={name}.onnx", f"--sparsity={mode}", f"--exportOutput={name}_{mode}.json", *QUICK)
        assert result.code == 0, result.err
        outputs.append([np.array(y["values"], np.float64) for y in json.loads((tmp_path / f"{name}_{mode}.json").read_text())])
    for plain, enabled in (outputs[:2], outputs[2:]):
        for a, b in zip(plain, enabled):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
        assert not np.isfinite(plain[4]).all()  # nothing hides the infinity
    assert (outputs[1][3] == 0).all()


def snr(text):
    return float(re.search(r"outputs +([-\d.]+) dB", text).group(1))


def test_permuted_channels_change_nothing_and_keep_more(camshaft, block_file, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(7).standard_normal((4, 3, 16, 16)).astype(np.float32))
    unpruned = camshaft("sparsify", block_file, "-o", "p.onnx", "--data", "x.npy", "--no-timing", "--permute", "--keep-accuracy", "900")
    assert unpruned.code == 0, unpruned.err
    assert "0 of 4 layers are 2:4" in unpruned.out and snr(unpruned.out) > 100
    # conv0, plus0 and conv2 share one set of channels, conv1 has its own.
    kept = re.search(r"permuted +2 of 2 sets of channels \(0 are fixed\): 2:4 keeps ([\d.]+) % .*, ([\d.]+) % before", unpruned.out)
    assert kept and float(kept[1]) > float(kept[2]) + 0.5, unpruned.out
    assert (tmp_path / "p.onnx").read_bytes() != block_file.read_bytes()


def test_data_and_reconstruction_keep_more(camshaft, block_file, tmp_path):
    rng = np.random.default_rng(8)
    mixed = rng.standard_normal((16, 3, 16, 16)) * np.array([3, 1, 0.3]).reshape(1, 3, 1, 1)
    np.save(tmp_path / "x.npy", mixed.astype(np.float32))
    first, magnitude, activation, repaired = (
        snr(camshaft("sparsify", block_file, "-o", "s.onnx", "--data", "x.npy", "--no-timing", "--method", *words).out)
        for words in (["first-two"], ["magnitude"], ["activation"], ["activation", "--reconstruct"]))
    assert first < magnitude < repaired
    assert activation < repaired


def test_keep_accuracy_leaves_layers_dense(camshaft, block_file, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(7).standard_normal((2, 3, 16, 16)).astype(np.float32))
    result = camshaft("sparsify", block_file, "-o", "s.onnx", "--data", "x.npy", "--keep-accuracy", "12")
    assert result.code == 0, result.err
    assert "costs too much accuracy" in result.out
    assert "outputs     exact" in result.out or snr(result.out) >= 12


@pytest.mark.parametrize("words, wanted", [
    (["--method", "activation"], "need --data"),
    (["--reconstruct"], "need --data"),
    (["--layers", "nothing"], "nothing to prune"),
    (["--method", "best"], "not one of first-two|magnitude|activation"),
])
def test_sparsify_errors(camshaft, block_file, words, wanted):
    result = camshaft("sparsify", block_file, *words)
    assert result.code == 1 and wanted in result.err


def test_layers_and_exclude(camshaft, block_file):
    result = camshaft("sparsify", block_file, "-o", "s.onnx", "--layers", "conv*", "--exclude", "conv2")
    assert result.code == 0, result.err
    assert "2 of 4 layers are 2:4" in result.out
    assert re.search(r"conv2 .*excluded", result.out) and re.search(r"dense .*not chosen", result.out)
