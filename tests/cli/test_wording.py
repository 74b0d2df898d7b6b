# SPDX-License-Identifier: Apache-2.0
"""--wording=trtexec8|trtexec10: what scripts, TREx and dashboards written for trtexec look for is found."""
import json
import re

import pytest

QUICK = ["--duration=0", "--warmUp=0", "--iterations=12"]
NUMBER = r"[0-9.]+(?:e-?\d+)?"
STATISTICS = (f"min = ({NUMBER}) ms, max = ({NUMBER}) ms, mean = ({NUMBER}) ms, median = ({NUMBER}) ms, "
              f"percentile\\(90%\\) = ({NUMBER}) ms, percentile\\(95%\\) = ({NUMBER}) ms, percentile\\(99%\\) = ({NUMBER}) ms")

# Forms that both generations have, as benchmark scripts search them in the whole log.
BOTH = [
    r"^&&&& RUNNING TensorRT\.trtexec \[TensorRT v(\d+)\]",
    r"^&&&& PASSED TensorRT\.trtexec \[TensorRT v(\d+)\].* # ",
    r"\[I\] TensorRT version: (\d+\.\d+)",
    r"\[I\] \[TRT\] Input filename: +\S*conv\.onnx$",
    r"\[I\] \[TRT\] ONNX IR version: +0\.0\.(\d+)$",
    r"\[I\] \[TRT\] Opset version: +(\d+)$",
    r"\[I\] Engine built in (\S+) sec\.",
    r"\[I\] Using random values for input x$",
    r"\[I\] Starting inference$",
    r"\[I\] Warmup completed (\d+) queries over 0 ms$",
    r"\[I\] Timing trace has (\d+) queries over (\S+) s$",
    rf"\[I\] Average on 10 runs - GPU latency: ({NUMBER}) ms - Host latency: ({NUMBER}) ms \(enqueue ({NUMBER}) ms\)$",
    r"\[I\] === Performance summary ===$",
    rf"\[I\] Throughput: ({NUMBER}) qps$",
    rf"\[I\] Latency: {STATISTICS}$",
    rf"\[I\] Enqueue Time: {STATISTICS}$",
    rf"\[I\] H2D Latency: {STATISTICS}$",
    rf"\[I\] GPU Compute Time: {STATISTICS}$",
    rf"\[I\] D2H Latency: {STATISTICS}$",
    rf"\[I\] Total Host Walltime: ({NUMBER}) s$",
    rf"\[I\] Total GPU Compute Time: ({NUMBER}) s$",
    r"\[I\] Explanations of the performance metrics are printed in the verbose logs\.$",
]
ONLY = {
    "trtexec8": [r"\[I\] Start parsing network model$", r"\[I\] Finish parsing network model$",
                 r"\[I\] Created input binding for x with dimensions 1x3x16x16$", r"\[I\] Created output binding for y with dimensions 1x8x16x16$",
                 r"\[I\] Build only: Disabled$", r"\[I\] Streams: 1$", r"\[I\] Device: 0$", r"\[I\] DLACore:$", r"\[I\] Time Refit: Disabled$",
                 r"\[I\] CUDA Graph: Disabled$", r"\[I\] ExposeDMA: Disabled$", r"\[I\] Dump refittable layers:Disabled$",
                 r"\[I\] Input calibration shapes: model$", r"\[I\] minTiming: 1$", r"\[I\] Percentile: 90,95,99$"],
    "trtexec10": [r"\[I\] Finished parsing network model\. Parse time: (\S+)$", r"\[I\] Input binding for x with dimensions 1x3x16x16 is created\.$",
                  r"\[I\] Skip inference: Disabled$", r"\[I\] Inference Streams: 1$"],
}


@pytest.mark.parametrize("wording", ["trtexec8", "trtexec10"])
def test_log_lines_that_scripts_search(camexec, conv_file, wording):
    result = camexec(f"--onnx={conv_file}", *QUICK, f"--wording={wording}")
    assert result.code == 0, result.err
    for pattern in BOTH + ONLY[wording]:
        assert re.search(pattern, result.out, re.M), (pattern, result.out)
    for pattern in ONLY["trtexec10" if wording == "trtexec8" else "trtexec8"][:1]:
        assert not re.search(pattern, result.out, re.M), pattern
    assert "[CAM]" not in result.out


def test_our_own_words_stay_the_default(camexec, conv_file):
    out = camexec(f"--onnx={conv_file}", *QUICK).out
    for word in ["TensorRT", "GPU", "[TRT]", "Cask", "DLACore"]:
        assert word not in out, word
    assert "Compute Time: min = " in out


def test_failures_speak_the_same_words(camexec):
    result = camexec("--onnx=nothing.onnx", "--wording=trtexec10")
    assert result.code == 1 and re.match(r"&&&& FAILED TensorRT\.trtexec \[TensorRT v\d+\]", result.lines[-1])


@pytest.mark.parametrize("wording", ["trtexec8", "trtexec10"])
def test_layer_information_of_readers_of_engines(camexec, conv_file, tmp_path, wording):
    result = camexec(f"--onnx={conv_file}", "--skipInference", f"--wording={wording}", "--exportLayerInfo=l.json", "--dumpLayerInfo", "--verbose")
    document = json.loads((tmp_path / "l.json").read_text())
    # What an engine explorer does: layers by type, their tensors by format and place.
    convolutions = [layer for layer in document["Layers"] if "Convolution" in layer["LayerType"]]
    assert [layer["LayerType"] for layer in convolutions] == ["CaskConvolution"]
    for layer in document["Layers"]:
        for tensor in layer["Inputs"] + layer["Outputs"]:
            assert tensor["Location"] == "Device" and tensor["Format/Datatype"]
    conv = convolutions[0]
    assert conv["ParameterType"] == "Convolution" and conv["Weights"] == {"Type": "Float", "Count": 216} and conv["HasReLU"] == 1
    assert re.search(r'^Name: .*conv1.*, LayerType: CaskConvolution, .*Location: Device.*, Weights: \{"Type": "Float", "Count": 216\}, ',
                     result.out, re.M)
    line = {"trtexec8": r"x\[Float\(1,3,16,16\)\] -> y\[Float\(1,8,16,16\)\]$", "trtexec10": r"x \(Float\[1,3,16,16\]\) -> y \(Float\[1,8,16,16\]\)$"}
    assert re.search(r"^Layer\(CaskConvolution\): .*conv1.*, Tactic: 0x[0-9a-f]{16}, .*" + line[wording].replace("x", "[^,]*", 1), result.out, re.M) or \
        re.search(line[wording].split(" -> ")[0], result.out)


def test_profile_of_8_names_the_layer_first(camexec, conv_file):
    out = camexec(f"--onnx={conv_file}", *QUICK, "--dumpProfile", "--wording=trtexec8").out
    assert re.search(r"\] +Layer   Time \(ms\)   Avg\. Time \(ms\)   Median Time \(ms\)   Time %$", out, re.M)
    assert re.search(r"\] .*conv1\S*( \S+)*   +\d+\.\d\d   +\d+\.\d{4}   +\d+\.\d{4}   +\d+\.\d$", out, re.M)
    assert re.search(r"\] +Total   +\d+\.\d\d   +\d+\.\d{4}   +\d+\.\d{4}   +100\.0$", out, re.M)
    assert "e2e network timing is not reported" in out
    ten = camexec(f"--onnx={conv_file}", *QUICK, "--dumpProfile", "--wording=trtexec10").out
    assert re.search(r"\] +Time\(ms\) +Avg\.\(ms\) +Median\(ms\) +Time\(%\)   Layer$", ten, re.M)


def test_an_unstable_clock_is_reported_in_their_words(camexec, conv_file):
    # Twelve runs without warm-up on a shared machine vary by more than 2.5 % nearly always.
    for _ in range(5):
        err = camexec(f"--onnx={conv_file}", *QUICK, "--wording=trtexec8").err
        if match := re.search(r"\[W\] \* GPU compute time is unstable, with coefficient of variance = ([0-9.]+)%\.$", err, re.M):
            assert float(match.group(1)) > 2.5
            return
    pytest.skip("the clock was stable")
