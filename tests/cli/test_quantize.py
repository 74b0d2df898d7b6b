# SPDX-License-Identifier: Apache-2.0
"""camshaft quantize, camexec --int8 and camshaft verify end to end."""
import json
import re
import struct

import conftest
import numpy as np
import pytest
import tiny_onnx as onnx


@pytest.fixture
def samples(tmp_path):
    """Four samples in one .npy."""
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(3).standard_normal((4, 3, 16, 16)).astype(np.float32))
    return path


def test_quantize_with_zero_points(camshaft, conv_file, samples, tmp_path, example_input):
    result = camshaft("quantize", conv_file, "--data", samples, "-o", "u.onnx", "--min-snr", "0", "--activation-type", "uint8")
    assert result.code == 0, result.err
    np.savez(tmp_path / "d.npz", x=example_input, y=conftest.conv_reference(example_input))
    good = camshaft("run", "u.onnx", "--data", "d.npz", "--atol", "0.5")
    assert good.code == 0, good.err + good.out
    checked = camshaft("verify", "u.onnx", "--data", "d.npz", "--engine")
    assert re.search(r"make 8-bit codes: \d+ of \d+ differ, by [01] steps? at most", checked.out), checked.out
    refused = camshaft("quantize", conv_file, "--data", samples, "--cache", "c.cache", "--activation-type", "uint8")
    assert refused.code != 0 and "symmetric" in refused.err


def test_quantize_writes_a_network_that_runs(camshaft, conv_file, samples, tmp_path, example_input):
    result = camshaft("quantize", conv_file, "--data", samples, "-o", "q.onnx", "--min-snr", "0")
    assert result.code == 0, result.err
    assert re.search(r"^calibrated  1 tensors on 4 samples, method mse$", result.out, re.M)
    assert re.search(r"^quantized   1 of 1 weighted layers; 1 Q/DQ pairs on activations$", result.out, re.M)
    np.savez(tmp_path / "d.npz", x=example_input, y=conftest.conv_reference(example_input))
    good = camshaft("run", "q.onnx", "--data", "d.npz", "--atol", "0.5")
    assert good.code == 0, good.err + good.out
    exact = camshaft("run", "q.onnx", "--data", "d.npz")
    assert exact.code == 1  # it was quantized


def test_biases_make_up_for_rounded_weights(camshaft, conv_file, tmp_path):
    x = np.random.default_rng(4).standard_normal((4, 3, 16, 16)).astype(np.float32) + 3
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "d.npz", x=x[:1])

    def error_of_channel_means(*words):
        result = camshaft("quantize", conv_file, "--data", "x.npy", "-o", "q.onnx", *words)
        assert ("biases      1 corrected" in result.out) == (not words), result.err + result.out
        camshaft("run", "q.onnx", "--data", "d.npz", "--save-outputs", "out")
        return np.abs((np.load(tmp_path / "out" / "y.npy") - conftest.conv_reference(x[:1])).mean((0, 2, 3))).max()

    assert error_of_channel_means() < 0.4 * error_of_channel_means("--no-bias-correction")


def dynamic_net(w, columns):
    """x -> DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul -> Add, as ONNX Runtime's quantize_dynamic writes it."""
    nodes = [onnx.node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "dq"),
             onnx.node("MatMulInteger", ["q", "w", "z", "wz"], ["i"], "product"),
             onnx.node("Cast", ["i"], ["f"], "cast", [onnx.int_attribute("to", 1)]),
             onnx.node("Mul", ["s", "ws"], ["scale"], "scales"),
             onnx.node("Mul", ["f", "scale"], ["m"], "scaled"),
             onnx.node("Add", ["m", "b"], ["y"], "bias")]
    constants = [onnx.tensor("w", w, 3), onnx.tensor("wz", np.zeros(1, np.int8), 3),
                 onnx.tensor("ws", np.linspace(0.01, 0.02, columns).astype(np.float32)),
                 onnx.tensor("b", np.linspace(-1, 1, columns).astype(np.float32))]
    return onnx.model(nodes, [onnx.value_info("x", [1, "rows", w.shape[0]])], [onnx.value_info("y", [1, "rows", columns])], constants)


@pytest.mark.parametrize("isa", ["avx512", "avx2", "scalar"])
def test_networks_quantized_at_run_time(camshaft, tmp_path, isa):
    rng = np.random.default_rng(5)
    w = rng.integers(-127, 128, (70, 37)).astype(np.int8)
    (tmp_path / "d.onnx").write_bytes(dynamic_net(w, 37))
    for rows, shift in ((9, 0), (1, 3), (9, -4)):  # zero points in between, 0 and 255
        x = (rng.random((1, rows, 70)).astype(np.float32) - 0.5) * 2 + np.float32(shift)
        low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
        step = np.float32(high - low) / np.float32(255)
        zero = np.clip(np.rint(-low / step), 0, 255)
        codes = np.clip(np.rint(x / step) + zero, 0, 255)
        sums = (codes - zero).astype(np.int64) @ w.astype(np.int64)
        y = sums * (step * np.linspace(0.01, 0.02, 37)) + np.linspace(-1, 1, 37)
        np.savez(tmp_path / "d.npz", x=x, y=y.astype(np.float32))
        result = camshaft("run", "d.onnx", "--data", "d.npz", "--rtol", "1e-5", "--atol", "1e-4", env={"CAMSHAFT_ISA": isa})
        assert result.code == 0, result.out + result.err


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile", "mse"])
def test_quantize_methods(camshaft, conv_file, samples, method):
    result = camshaft("quantize", conv_file, "--data", samples, "--method", method)
    assert result.code == 0 and f"method {method}" in result.out, result.err
    assert "conv_int8.onnx" in result.out


def test_cache_is_tensorrts_and_read_back(camshaft, conv_file, samples, tmp_path):
    result = camshaft("quantize", conv_file, "--data", samples, "--method", "minmax", "--cache", "c.cache")
    assert result.code == 0, result.err
    assert not (tmp_path / "conv_int8.onnx").exists()
    lines = (tmp_path / "c.cache").read_text().splitlines()
    assert lines[0] == "TRT-8412-MinMaxCalibration"
    scales = {name: struct.unpack(">f", bytes.fromhex(digits))[0] for name, digits in
              (line.rsplit(": ", 1) for line in lines[1:])}
    assert set(scales) == {"x", "c", "y"}
    assert scales["x"] == pytest.approx(np.abs(np.load(samples)).max() / 127, rel=1e-6)
    assert camshaft("quantize", conv_file, "--cache", "c.cache", "-o", "a.onnx").code == 0
    assert camshaft("quantize", conv_file, "--data", samples, "--method", "minmax", "-o", "b.onnx", "--no-bias-correction").code == 0
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    (tmp_path / "c.cache").write_text("TRT-8412-X\nx: nonsense\n")
    bad = camshaft("quantize", conv_file, "--cache", "c.cache")
    assert bad.code == 1 and "c.cache" in bad.err and "line 2" in bad.err


def test_quantize_says_what_it_cannot_do(camshaft, conv_file, samples, tmp_path):
    assert "--data" in camshaft("quantize", conv_file).err
    assert "no layer of the network is called \"conv9\"" in camshaft(
        "quantize", conv_file, "--data", samples, "--keep-float", "conv9").err
    np.save(tmp_path / "bad.npy", np.zeros((4, 3, 5, 5), np.float32))
    wrong = camshaft("quantize", conv_file, "--data", "bad.npy")
    assert wrong.code == 1 and "input \"x\"" in wrong.err
    assert camshaft("quantize", conv_file, "--data", samples, "-o", "q.onnx", "--min-snr", "0").code == 0
    assert "quantized already" in camshaft("quantize", "q.onnx", "--data", samples).err


def calibration_cache(tmp_path, **scales):
    lines = [f"{name}: {struct.pack('>f', scale).hex()}" for name, scale in scales.items()]
    (tmp_path / "c.cache").write_text("\n".join(["TRT-8412-EntropyCalibration2", *lines]) + "\n")
    return "--calib=c.cache"


TIMING = ["--warmUp=0", "--duration=0", "--iterations=1"]


def raw_output(camexec, tmp_path, *words):
    result = camexec(*words, *TIMING, "--dumpRawBindingsToFile")
    assert result.code == 0, result.err
    return np.fromfile(next(tmp_path.glob("y.output.*.raw")), np.float32).reshape(1, 8, 16, 16), result


def test_int8_takes_scales_from_a_cache(camexec, conv_file, tmp_path, example_input):
    example_input.tofile(tmp_path / "x.bin")
    fine, result = raw_output(camexec, tmp_path, "--onnx=conv.onnx", "--int8",
                              calibration_cache(tmp_path, x=np.abs(example_input).max() / 127), "--loadInputs=x:x.bin")
    assert "Precision: FP32+INT8" in result.out and "Calibration: c.cache" in result.out and not result.err
    expected = conftest.conv_reference(example_input)
    error = np.abs(fine - expected).max()
    assert 1e-4 < error < 0.3
    coarse, _ = raw_output(camexec, tmp_path, "--onnx=conv.onnx", "--int8", calibration_cache(tmp_path, x=1.0), "--loadInputs=x:x.bin")
    assert np.abs(coarse - expected).max() > 3 * error  # these scales it was


def test_int8_without_scales_is_for_timing_and_says_so(camexec, conv_file):
    result = camexec("--onnx=conv.onnx", "--int8", *TIMING)
    assert result.code == 0, result.err
    assert result.err.count("made-up scales, for timing only") == 1
    assert "Calibration: Dynamic" in result.out
    assert "made-up" not in camexec("--onnx=conv.onnx", "--best", *TIMING).err


def test_int8_of_a_network_with_qdq(camexec, camshaft, conv_file, samples, tmp_path):
    assert camshaft("quantize", conv_file, "--data", samples, "-o", "q.onnx", "--min-snr", "0").code == 0
    for words in (["--int8"], ["--stronglyTyped"], ["--best"], []):
        result = camexec("--onnx=q.onnx", *words, *TIMING)
        assert result.code == 0 and not result.err, result.err
    ignored = camexec("--onnx=q.onnx", "--int8", calibration_cache(tmp_path, x=1.0), *TIMING)
    assert ignored.code == 0 and "its own scales are used" in ignored.err


def test_cache_that_does_not_fit(camexec, conv_file, tmp_path):
    result = camexec("--onnx=conv.onnx", "--int8", calibration_cache(tmp_path, other=1.0), *TIMING)
    assert result.code == 1 and "no scale for any tensor" in result.err
    assert camexec("--onnx=conv.onnx", "--int8", "--calib=nowhere", *TIMING).code == 1


def test_layer_precisions(camexec, conv_file, tmp_path, example_input):
    example_input.tofile(tmp_path / "x.bin")
    words = ["--onnx=conv.onnx", "--int8", calibration_cache(tmp_path, x=0.1), "--loadInputs=x:x.bin", "--layerPrecisions=conv*:fp32"]
    expected = conftest.conv_reference(example_input)
    for constraint in ("prefer", "obey"):
        y, _ = raw_output(camexec, tmp_path, *words, f"--precisionConstraints={constraint}")
        assert np.abs(y - expected).max() < 1e-4
    y, result = raw_output(camexec, tmp_path, *words)
    assert np.abs(y - expected).max() > 1e-3 and "no effect" in result.err
    missing = camexec("--onnx=conv.onnx", "--int8", "--precisionConstraints=obey", "--layerPrecisions=conv9:fp32", *TIMING)
    assert missing.code == 1 and "no layer \"conv9\"" in missing.err
    wrong = camexec("--onnx=conv.onnx", "--precisionConstraints=obey", "--layerPrecisions=conv1:int8", *TIMING)
    assert wrong.code == 1 and "computes in fp32, not int8 as asked for \"conv1\"" in wrong.err
    warned = camexec("--onnx=conv.onnx", "--precisionConstraints=prefer", "--layerPrecisions=conv1:int8", *TIMING)
    assert warned.code == 0 and "computes in fp32" in warned.err


@pytest.fixture
def quantized_file(camshaft, conv_file, samples, tmp_path):
    assert camshaft("quantize", conv_file, "--data", samples, "-o", "q.onnx", "--min-snr", "0").code == 0
    return tmp_path / "q.onnx"


def test_verify_ranks_quantization_errors(camshaft, quantized_file, conv_file, samples):
    result = camshaft("verify", quantized_file, "--data", samples)
    assert result.code == 0, result.err
    assert result.lines[0] == "quantized against float (the same network without Q/DQ): 2 tensors, 4 samples"
    report = json.loads(camshaft("verify", quantized_file, "--data", samples, "--reference", conv_file, "--json").out)
    tensors = {tensor["name"]: tensor for tensor in report["tensors"]}
    assert set(tensors) == {"c", "y"} and tensors["y"]["output"] and tensors["y"]["layer"] == "relu1"
    assert 20 < tensors["c"]["snrDb"] < 60 and tensors["c"]["elements"] == 4 * 8 * 16 * 16
    assert sum(tensors["c"]["histogram"]) == tensors["c"]["elements"]


def test_verify_compares_engine_and_interpreter(camshaft, conv_file, quantized_file, samples):
    result = camshaft("verify", conv_file, "--data", samples, "--level", "0", "--min-cosine", "0.99999")
    assert result.code == 0 and "engine against interpreter" in result.out, result.err
    assert camshaft("verify", quantized_file, "--engine", "--level", "0", "--min-cosine", "0.9999").code == 0


def test_verify_checks_every_layer_of_an_engine(camshaft, conv_file, samples):
    words = ["verify", conv_file, "--engine", "--data", samples, "--level", "0"]
    report = json.loads(camshaft(*words, "--json").out)
    assert {layer["layer"] for layer in report["layers"]} and "firstBeyondBound" not in report
    assert all(layer["maxError"] <= 1e-4 * layer["maxValue"] for layer in report["layers"])
    failed = camshaft(*words, "--layer-error", "0")  # sums in another order are not the same to the last bit
    assert failed.code == 1 and "first beyond the bound: step" in failed.out and "leaves its bound" in failed.err


def test_verify_bounds_and_bisection(camshaft, camexec, quantized_file, conv_file, samples, tmp_path):
    words = ["verify", quantized_file, "--data", samples, "--reference", conv_file]
    failed = camshaft(*words, "--max-error", "1e-3")
    assert failed.code == 1 and "the bound does not hold" in failed.err
    found = camshaft(*words, "--max-error", "1e-3", "--bisect", "precision", "-o", "f.onnx")
    # The int8 weights alone exceed this bound: no set of layers can keep it.
    assert found.code == 1 and "does not hold either" in found.out
    found = camshaft("verify", quantized_file, "--data", samples, "--max-error", "1e-3", "--bisect", "precision", "-o", "f.onnx")
    assert found.code == 0, found.err + found.out
    assert "camexec --precisionConstraints=obey '--layerPrecisions=conv1:fp32'" in found.out
    assert camshaft("verify", "f.onnx", "--data", samples, "--engine", "--min-cosine", "0.999999").code == 0
    kept = camexec("--onnx=q.onnx", "--precisionConstraints=obey", "--layerPrecisions=conv1:fp32", *TIMING)
    assert kept.code == 0, kept.err


def test_verify_says_what_is_missing(camshaft, conv_file, quantized_file):
    assert "no Q/DQ" in camshaft("verify", conv_file, "--bisect", "precision", "--min-cosine", "0.9").err
    assert "--min-cosine X" in camshaft("verify", quantized_file, "--bisect", "precision").err


def test_layer_information_of_int8(camexec, quantized_file, samples, tmp_path):
    result = camexec("--onnx=q.onnx", *TIMING, "--exportLayerInfo=l.json", "--profilingVerbosity=detailed")
    assert result.code == 0, result.err
    layers = json.loads((tmp_path / "l.json").read_text())["Layers"]
    conv = next(layer for layer in layers if layer["LayerType"] == "Convolution")
    assert conv["Weights"] == {"Type": "Int8", "Count": 8 * 3 * 3 * 3}
    assert conv["HasBias"] == 1 and conv["Bias"]["Count"] == 8 and conv["HasResidual"] == 0
    assert conv["Activation"] == "RELU"
    x = conv["Inputs"][0]
    assert re.fullmatch(r"(Row major linear|Channel major) U?Int8 format", x["Format/Datatype"])
    assert x["Scale"] == pytest.approx(np.abs(np.load(samples)).max() / 127, rel=0.3) and x["ZeroPoint"] in (0, 128)
    copy = next(layer for layer in layers if layer.get("Origin") == "QDQ")
    assert copy["LayerType"] == "Reformat" and "Scale" not in copy["Inputs"][0]
    assert copy["Outputs"][0]["Scale"] == x["Scale"]
