# SPDX-License-Identifier: Apache-2.0
"""Lines of the build log that people know from trtexec, where they are true here."""
import json
import re

import numpy as np
import pytest
import tiny_onnx as onnx

QUICK = ["--duration=0", "--warmUp=0", "--iterations=1"]


def split_net():
    """A convolution whose channels are sliced in two, one half with a ReLU, and joined again behind another copy."""
    rng = np.random.default_rng(0)
    ints = [("zero", 0), ("eight", 8), ("sixteen", 16), ("one", 1)]
    pads = [onnx.ints_attribute("pads", [1, 1, 1, 1]), onnx.ints_attribute("kernel_shape", [3, 3])]
    nodes = [onnx.node("Conv", ["x", "w"], ["c"], "conv", pads), onnx.node("Slice", ["c", "zero", "eight", "one"], ["a"], "first"),
             onnx.node("Slice", ["c", "eight", "sixteen", "one"], ["b"], "second"),
             onnx.node("Conv", ["a", "v"], ["d"], "left", pads), onnx.node("Conv", ["b", "v"], ["e"], "right", pads),
             onnx.node("Concat", ["d", "e", "a"], ["y"], "join", [onnx.int_attribute("axis", 1)])]
    initializers = [onnx.tensor("w", rng.standard_normal((16, 8, 3, 3)).astype(np.float32)),
                    onnx.tensor("v", rng.standard_normal((8, 8, 3, 3)).astype(np.float32))]
    initializers += [onnx.tensor(name, np.array([value], np.int64), onnx.INT64) for name, value in ints]
    return onnx.model(nodes, [onnx.value_info("x", [1, 8, 16, 16])], [onnx.value_info("y", [1, 24, 16, 16])], initializers)


def joined_net():
    """Halves of one tensor, one of them joined as it is, the other behind a layer of its own."""
    nodes = [onnx.node("Relu", ["x"], ["c"], "relu"), onnx.node("Slice", ["c", "zero", "eight", "one"], ["a"], "first"),
             onnx.node("Slice", ["c", "eight", "sixteen", "one"], ["b"], "second"), onnx.node("Neg", ["a"], ["d"], "left"),
             onnx.node("Neg", ["b"], ["e"], "right"), onnx.node("Concat", ["d", "e", "a"], ["y"], "join", [onnx.int_attribute("axis", 1)])]
    ints = [("zero", 0), ("eight", 8), ("sixteen", 16), ("one", 1)]
    initializers = [onnx.tensor(name, np.array([value], np.int64), onnx.INT64) for name, value in ints]
    return onnx.model(nodes, [onnx.value_info("x", [1, 16, 16, 16])], [onnx.value_info("y", [1, 24, 16, 16])], initializers)


@pytest.fixture
def log(camexec, tmp_path):
    (tmp_path / "split.onnx").write_bytes(split_net())
    result = camexec("--onnx=split.onnx", *QUICK, "--verbose", "--numThreads=1")
    assert result.code == 0, result.err
    return result.out


@pytest.mark.parametrize("pattern", [
    r"\[V\] \[CAM\] Graph construction and optimization completed in \S+ seconds\.$",
    r"\[V\] \[CAM\] --------------- Timing Runner: Optimizer Reformat\(<in> -> \S+\) \(Reformat\)",
    r"\[V\] Total Activation Memory: [1-9]\d*$",
    r"\[V\] Total per-runner host persistent memory is [1-9]\d*$",
    r"\[I\] \[CAM\] \[MemUsageChange\] parsing the network: CPU [+-]\d+, now: CPU \d+ \(MiB\)$",
    r"\[I\] \[CAM\] \[MemUsageChange\] building the engine: CPU ",
    r"\[I\] \[CAM\] \[MemUsageChange\] IExecutionContext creation: CPU ",
    r"\[V\] \[CAM\] Eliminating slice (first|second) by retargeting ([ab]) from \2 to c$",
])
def test_lines(log, pattern):
    assert re.search(pattern, log, re.M), [line for line in log.splitlines() if "liminating" in line or "etarget" in line or "copy" in line]


def test_parts_of_a_concatenation(camexec, tmp_path):
    (tmp_path / "joined.onnx").write_bytes(joined_net())
    out = camexec("--onnx=joined.onnx", *QUICK, "--verbose", "--builderOptimizationLevel=0").out
    for pattern in [r"Eliminating concatenation join$", r"Generating copy for a to y because of stomping hazard: it is a ",
                    r"Retargeting d to y$", r"Retargeting e to y$"]:
        assert re.search(r"\[V\] \[CAM\] " + pattern, out, re.M), pattern


def test_a_calibration_cache_is_not_used_beside_qdq(camexec, camshaft, conv_file, tmp_path, example_input):
    np.save(tmp_path / "x.npy", np.repeat(example_input, 4, 0))
    assert camshaft("quantize", conv_file, "--data", "x.npy", "-o", "q.onnx", "--cache", "q.cache", "--min-snr", "0").code == 0
    result = camexec("--onnx=q.onnx", "--int8", "--calib=q.cache", *QUICK)
    assert result.code == 0 and re.search(r"\[W\] \[CAM\] Calibrator won't be used in explicit precision mode", result.err), result.err


def test_quantized_convolutions_say_what_went_into_them(camexec, camshaft, conv_file, tmp_path, example_input):
    np.save(tmp_path / "x.npy", np.repeat(example_input, 4, 0))
    assert camshaft("quantize", conv_file, "--data", "x.npy", "-o", "q.onnx", "--min-snr", "0").code == 0
    out = camexec("--onnx=q.onnx", "--int8", *QUICK, "--verbose", "--dumpLayerInfo", "--wording=trtexec8").out
    assert re.search(r"\[TRT\] QuantizeDoubleInputNodes: fusing \(?.*\)? into .*conv1", out)
    assert re.search(r'Weights: \{"Type": "Int8", "Count": 216\}', out)


def test_tensors_that_differ_in_case_only(camexec, camshaft, tmp_path):
    nodes = [onnx.node("Relu", ["Data"], ["mid"], "r"), onnx.node("Neg", ["data"], ["MID"], "n"),
             onnx.node("Add", ["mid", "MID"], ["Sum"], "a"), onnx.node("Sub", ["mid", "MID"], ["sum"], "s")]
    (tmp_path / "case.onnx").write_bytes(onnx.model(nodes, [onnx.value_info("Data", [4]), onnx.value_info("data", [4])],
                                                    [onnx.value_info("Sum", [4]), onnx.value_info("sum", [4])]))
    a, b = np.array([1, -2, 3, -4], np.float32), np.array([10, 20, 30, 40], np.float32)
    np.savez(tmp_path / "d.npz", Data=a, data=b, Sum=np.maximum(a, 0) - b, sum=np.maximum(a, 0) + b)
    result = camshaft("run", "case.onnx", "--data", "d.npz", "--save-outputs", "out")
    assert result.code == 0 and "compared 2 of 2 outputs: all as expected" in result.out
    np.testing.assert_array_equal(np.load(tmp_path / "out/Sum.npy"), np.maximum(a, 0) - b)
    np.testing.assert_array_equal(np.load(tmp_path / "out/sum.npy"), np.maximum(a, 0) + b)
    a.tofile(tmp_path / "A.bin")
    b.tofile(tmp_path / "b.bin")
    assert camexec("--onnx=case.onnx", *QUICK, "--loadInputs=Data:A.bin,data:b.bin", "--dumpRawBindingsToFile").code == 0
    assert (tmp_path / "Data.input.4.float.raw").read_bytes() == a.tobytes()
    assert (tmp_path / "data.input.4.float.raw").read_bytes() == b.tobytes()


def test_names_that_make_the_same_file_name(camexec, camshaft, tmp_path):
    nodes = [onnx.node("Relu", ["x"], ["a/b"], "r"), onnx.node("Neg", ["x"], ["a:b"], "n")]
    (tmp_path / "twins.onnx").write_bytes(onnx.model(nodes, [onnx.value_info("x", [2])],
                                                     [onnx.value_info("a/b", [2]), onnx.value_info("a:b", [2])]))
    x = np.array([1, -2], np.float32)
    np.save(tmp_path / "x.npy", x)
    assert camshaft("run", "twins.onnx", "--input", "x.npy", "--save-outputs", "out").code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out/a_b.npy"), [1, 0])
    np.testing.assert_array_equal(np.load(tmp_path / "out/a_b_2.npy"), -x)
    assert camexec("--onnx=twins.onnx", *QUICK, "--loadInputs=x:x.npy", "--dumpRawBindingsToFile").code == 0
    assert (tmp_path / "a_b.output.2.float.raw").exists() and (tmp_path / "a_b_2.output.2.float.raw").exists()


def pooled_net():
    """A batch norm that no convolution can take in before its ReLU; weights that are turned; a convolution before its pooling."""
    rng = np.random.default_rng(0)
    pads, kernel = onnx.ints_attribute("pads", [1, 1, 1, 1]), onnx.ints_attribute("kernel_shape", [3, 3])
    nodes = [onnx.node("BatchNormalization", ["x", "scale", "bias", "mean", "var"], ["n"], "bn"), onnx.node("Relu", ["n"], ["r"], "act"),
             onnx.node("Transpose", ["w"], ["turned"], "turn", [onnx.ints_attribute("perm", [1, 0, 2, 3])]),
             onnx.node("Conv", ["r", "turned"], ["c"], "conv", [pads, kernel]), onnx.node("Relu", ["c"], ["d"], "relu"),
             onnx.node("MaxPool", ["d"], ["y"], "pool", [kernel, onnx.ints_attribute("strides", [2, 2]), pads])]
    initializers = [onnx.tensor(name, (np.abs(rng.standard_normal(shape)) + 0.1).astype(np.float32))
                    for name, shape in [("scale", 8), ("bias", 8), ("mean", 8), ("var", 8), ("w", (8, 16, 3, 3))]]
    return onnx.model(nodes, [onnx.value_info("x", [1, 8, 16, 16])], [onnx.value_info("y", [1, 16, 8, 8])], initializers)


def test_only_what_is_true_is_said(camexec, tmp_path):
    (tmp_path / "pooled.onnx").write_bytes(pooled_net())
    out = camexec("--onnx=pooled.onnx", *QUICK, "--verbose", "--wording=trtexec8", "--exportLayerInfo=l.json").out
    for line in ["Running: ConstShuffleFusion on turn", "ConstShuffleFusion: Fusing w with turn", "Running: ScaleActivationFusion on bn",
                 "ScaleActivationFusion: Fusing bn with act", "ConvReluFusion: Fusing conv with relu"]:
        assert re.search(rf"\[V\] \[TRT\] {re.escape(line)}$", out, re.M), line
    # Outputs are written by the network alone, and pooling is a layer of its own: nothing says otherwise.
    assert "Using random values for input x" in out and "random values for output" not in out
    layers = {layer["Name"]: layer for layer in json.loads((tmp_path / "l.json").read_text())["Layers"]}
    assert layers["conv + relu"]["ParameterType"] == "Convolution" and layers["pool"]["ParameterType"] == "Pooling"
    assert "ConvActPool" not in out
