# SPDX-License-Identifier: Apache-2.0
"""One rule for data, whichever command reads it: names, element types, byte order, pictures, expectations."""
import json
import re

import conftest
import numpy as np
import pytest
import tiny_onnx as onnx


@pytest.fixture
def saved(tmp_path, example_input):
    np.save(tmp_path / "x.npy", example_input)
    np.save(tmp_path / "y.npy", conftest.conv_reference(example_input))
    return tmp_path


# What can be wrong with an expectation must never pass as a comparison.
@pytest.mark.parametrize("expect, wanted", [
    ("nosuch:y.npy", "the model has no output 'nosuch'; it has y"),
    ("x:y.npy", "the model has no output 'x'"),
    ("*:y.npy", "the model has no output '*'"),
    ("y:missing.npy", "missing.npy"),
    ("y:", "no file is named"),
])
def test_expectations_that_cannot_be_compared_are_errors(camshaft, conv_file, saved, expect, wanted):
    result = camshaft("run", conv_file, "--input", "x:x.npy", "--expect", expect)
    assert result.code == 1 and wanted in result.err, result.err


def test_run_says_how_many_outputs_were_compared(camshaft, tmp_path):
    nodes = [onnx.node("Relu", ["x"], ["y"], "relu"), onnx.node("Neg", ["x"], ["z"], "neg")]
    (tmp_path / "two.onnx").write_bytes(onnx.model(nodes, [onnx.value_info("x", [4])],
                                                   [onnx.value_info("y", [4]), onnx.value_info("z", [4])]))
    x = np.array([1, -2, 3, -4], np.float32)
    np.savez(tmp_path / "one.npz", x=x, y=np.maximum(x, 0))
    np.savez(tmp_path / "both.npz", x=x, y=np.maximum(x, 0), z=x)
    one = camshaft("run", "two.onnx", "--data", "one.npz")
    assert one.code == 0 and "compared 1 of 2 outputs: all as expected" in one.out
    both = camshaft("run", "two.onnx", "--data", "both.npz")
    assert both.code == 1 and "compared 2 of 2 outputs: 1 FAILED" in both.out
    nothing = camshaft("run", "two.onnx")
    assert nothing.code == 0 and "compared" not in nothing.out
    asked = camshaft("run", "two.onnx", "--rtol=1e-3")
    assert asked.code == 1 and "nothing to compare with" in asked.err


def test_lone_arrays_need_no_name(camshaft, conv_file, saved, example_input):
    np.savez(saved / "lone.npz", example_input)
    for words in (["--data", "x.npy"], ["--data", "lone.npz"], ["--input", "x.npy"]):
        result = camshaft("run", conv_file, *words, "--expect", "y.npy")
        assert result.code == 0 and "compared 1 of 1 output" in result.out, (words, result.err)
    folder = saved / "arrays"
    folder.mkdir()
    for name in ["a", "b"]:
        np.save(folder / f"{name}.npy", example_input)
    assert camshaft("run", conv_file, "--data", folder).out.count("arrays/") == 2
    for words in (["--data", "x.npy"], ["--data", "lone.npz"], ["--data", folder]):
        assert camshaft("quantize", conv_file, *words, "-o", "q.onnx").code == 0


@pytest.mark.parametrize("command", ["run", "bench", "quantize", "verify", "camexec"])
def test_element_types_follow_one_rule(camshaft, camexec, conv_file, tmp_path, example_input, command):
    def use(name):
        if command == "camexec":
            return camexec(f"--onnx={conv_file}", f"--loadInputs=x:{name}", "--duration=0", "--warmUp=0")
        extra = ["--duration=0.01", "--warm-up=0"] if command == "bench" else ["-o", "q.onnx"] if command == "quantize" else []
        return camshaft(command, conv_file, "--data", name, *extra)

    np.save(tmp_path / "double.npy", example_input.astype(np.float64))
    np.save(tmp_path / "big.npy", example_input.astype(">f4"))
    np.save(tmp_path / "bytes.npy", np.zeros(example_input.shape, np.uint8))
    double = use("double.npy")
    assert double.code == 0 and "double values were converted to float" in double.err, double.err
    big = use("big.npy")
    assert big.code == 0 and "big-endian" in big.err, big.err
    refused = use("bytes.npy")
    assert refused.code == 1 and "wants float, the given values are uint8: scale the numbers" in refused.err, refused.err


def test_converted_values_are_the_same_numbers(camshaft, conv_file, tmp_path, example_input):
    y = conftest.conv_reference(example_input)
    for name, x in [("f8", example_input.astype("<f8")), ("f8big", example_input.astype(">f8")), ("f2", example_input.astype("<f2"))]:
        np.save(tmp_path / f"{name}.npy", x)
        np.save(tmp_path / "y.npy", conftest.conv_reference(x.astype(np.float32)) if name == "f2" else y)
        result = camshaft("run", conv_file, "--input", f"x:{name}.npy", "--expect", "y:y.npy")
        assert result.code == 0, (name, result.out, result.err)


def test_integers_are_converted_where_they_fit(camshaft, tmp_path):
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    (tmp_path / "g.onnx").write_bytes(onnx.model([onnx.node("Gather", ["table", "ids"], ["y"], "embed")],
                                                 [onnx.value_info("ids", [2], onnx.INT64)], [onnx.value_info("y", [2, 3])],
                                                 [onnx.tensor("table", table)]))
    np.save(tmp_path / "ids.npy", np.array([3, 1], np.int32))
    np.save(tmp_path / "y.npy", table[[3, 1]])
    result = camshaft("run", "g.onnx", "--input", "ids.npy", "--expect", "y.npy")
    assert result.code == 0 and "int32 values were converted to int64" in result.err
    np.save(tmp_path / "ids.npy", np.array([3, 1], np.float32))
    floats = camshaft("run", "g.onnx", "--input", "ids.npy")
    assert floats.code == 1 and "wants int64, the given values are float" in floats.err


@pytest.mark.parametrize("name, head, kind", [("p.png", b"\x89PNG\r\n\x1a\n", "PNG"), ("p.bin", b"\x89PNG\r\n\x1a\n", "PNG"),
                                              ("p.jpg", b"anything", "JPEG"), ("p.raw", b"\xff\xd8\xff\xe0\0\x10JFIF", "JPEG")])
def test_pictures_are_refused_by_name(camshaft, camexec, conv_file, tmp_path, name, head, kind):
    (tmp_path / name).write_bytes(head + bytes(3 * 16 * 16 * 4 - len(head)))
    for result in (camshaft("run", conv_file, "--input", f"x:{name}"), camshaft("quantize", conv_file, "--data", name),
                   camexec(f"--onnx={conv_file}", f"--loadInputs=x:{name}")):
        assert result.code == 1 and f"{name}: a {kind} picture, not a tensor" in result.err, result.err


def test_samples_that_are_not_numbers_are_named(camshaft, conv_file, tmp_path, example_input):
    x = np.stack([example_input[0]] * 3)
    x[1, 0, 0, 5] = np.nan
    np.save(tmp_path / "x.npy", x)
    for command in ["quantize", "verify"]:
        result = camshaft(command, conv_file, "--data", "x.npy")
        assert result.code == 1 and 'x.npy: input "x": element 5 is NaN (not a number)' in result.err, result.err


def test_tensors_that_become_not_a_number_are_named(camshaft, tmp_path):
    rng = np.random.default_rng(0)
    nodes = [onnx.node("Sqrt", ["x"], ["root"], "root"), onnx.node("MatMul", ["root", "w"], ["y"], "product")]
    (tmp_path / "n.onnx").write_bytes(onnx.model(nodes, [onnx.value_info("x", [1, 8])], [onnx.value_info("y", [1, 8])],
                                                 [onnx.tensor("w", rng.standard_normal((8, 8)).astype(np.float32))]))
    np.save(tmp_path / "x.npy", np.full((1, 8), -1, np.float32))
    result = camshaft("quantize", "n.onnx", "--data", "x.npy")
    assert result.code == 1 and "NaN (not a number)" in result.err and '"root"' in result.err, result.err


def test_shapes_given_several_times_add_up(camshaft, tmp_path):
    nodes = [onnx.node("Add", ["a", "b"], ["y"], "add")]
    (tmp_path / "add.onnx").write_bytes(onnx.model(nodes, [onnx.value_info("a", ["n", 2]), onnx.value_info("b", ["n", 2])],
                                                   [onnx.value_info("y", ["n", 2])]))
    result = camshaft("run", "add.onnx", "--shape", "a:3x2", "--shape", "b:3x2")
    assert result.code == 0 and re.search(r"^y +float +3x2", result.out, re.M), result.err
    twice = camshaft("run", "add.onnx", "--shape", "a:3x2", "--shape", "a:4x2")
    assert twice.code == 1 and "'a' was given two shapes, 3x2 and 4x2" in twice.err


def two_profiles(camexec, dynamic_file):
    assert camexec(f"--onnx={dynamic_file}", "--profile=0", "--minShapes=x:1x3x16x16", "--optShapes=x:1x3x16x16",
                   "--maxShapes=x:2x3x16x16", "--profile=1", "--minShapes=x:4x3x16x16", "--optShapes=x:4x3x16x16",
                   "--maxShapes=x:8x3x16x16", "--skipInference", "--saveEngine=two.engine").code == 0


def test_the_profile_that_fits_is_taken(camshaft, camexec, dynamic_file, tmp_path, example_input):
    two_profiles(camexec, dynamic_file)
    for batch in [1, 4]:
        np.save(tmp_path / f"x{batch}.npy", np.repeat(example_input, batch, 0))
    for words in (["run", "two.engine", "--shape", "x:6x3x16x16"], ["run", "two.engine", "--data", "x4.npy", "--data", "x1.npy"],
                  ["bench", "two.engine", "--shape", "x:8x3x16x16", "--duration=0.01", "--warm-up=0"],
                  ["run", "two.engine", "--profile", "1"]):
        assert camshaft(*words).code == 0, words
    wrong = camshaft("run", "two.engine", "--shape", "x:6x3x16x16", "--profile", "0")
    assert wrong.code == 1 and "profile 1 takes it: --profile 1" in wrong.err, wrong.err
    nowhere = camshaft("bench", "two.engine", "--shape", "x:3x3x16x16")
    assert nowhere.code == 1 and "outside optimization profile 0" in nowhere.err
    hint = camexec("--loadEngine=two.engine", "--shapes=x:6x3x16x16", "--duration=0")
    assert hint.code == 1 and "profile 1 takes it: --useProfile=1" in hint.err


def test_times_belong_to_the_shapes_they_were_taken_at(camexec, dynamic_file, tmp_path):
    common = ["--minShapes=x:1x3x16x16", "--optShapes=x:1x3x16x16", "--maxShapes=x:8x3x16x16", "--duration=0", "--warmUp=0"]

    def conv(name, *words):
        assert camexec(*words, f"--exportLayerInfo={name}").code == 0
        layers = json.loads((tmp_path / name).read_text())["Layers"]
        return next(layer for layer in layers if layer["LayerType"] == "Convolution")

    at_opt = conv("a.json", f"--onnx={dynamic_file}", *common, "--saveEngine=e.engine")
    assert at_opt["TimeUs"] > 0 and 0 < at_opt["PercentOfPeak"] < 130
    elsewhere = conv("b.json", "--loadEngine=e.engine", "--shapes=x:8x3x16x16", "--duration=0", "--warmUp=0")
    assert elsewhere["FLOPs"] == 8 * at_opt["FLOPs"]
    assert "TimeUs" not in elsewhere and "PercentOfPeak" not in elsewhere
