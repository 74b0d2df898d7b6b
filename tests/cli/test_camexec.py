# SPDX-License-Identifier: Apache-2.0
"""camexec end to end: sections and line forms of the log, JSON files, exit codes, errors."""
import json
import os
import re
import signal
import stat
import subprocess
import time

import conftest
import numpy as np
import pytest
import tiny_onnx as onnx

QUICK = ["--duration=0", "--warmUp=0", "--iterations=12"]
STAMP = re.compile(r"^\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[([FEWIV])\] (.*)$")


def texts(result):
    return [m.group(2) for m in map(STAMP.match, result.lines) if m]


def test_banner_frames_the_log(camexec, conv_file):
    result = camexec(f"--onnx={conv_file}", *QUICK)
    assert result.code == 0, result.err
    banner = re.compile(r"^&&&& (\w+) Camshaft\.camexec \[Camshaft v\d+\] # \S*camexec --onnx=\S+ --duration=0 .*$")
    assert banner.match(result.lines[0]).group(1) == "RUNNING"
    assert banner.match(result.lines[-1]).group(1) == "PASSED"
    # Every other line is stamped: nothing here is multi-line.
    assert all(STAMP.match(line) for line in result.lines[1:-1])


def test_sections_come_in_trtexecs_order(camexec, conv_file):
    result = camexec(f"--onnx={conv_file}", *QUICK, "--dumpProfile", "--separateProfileRun")
    sections = [t.strip("= ") for t in texts(result) if t.startswith("===")]
    expected = ["Model Options", "Build Options", "System Options", "Inference Options", "Reporting Options",
                "Device Information", "Trace details", "Performance summary"]
    assert sections[:len(expected)] == expected
    assert re.fullmatch(r"Profile \(\d+ iterations \)", sections[len(expected)])


def test_lines_that_scripts_look_for(camexec, conv_file):
    lines = texts(camexec(f"--onnx={conv_file}", *QUICK))
    for pattern in [r"Format: ONNX", r"Model: .*conv\.onnx", r"Precision: FP32", r"Profiling verbosity: 0",
                    r"Duration: 0s \(\+ 0ms warm up\)", r"ONNX IR version:  0\.0\.8", r"Opset version:    13",
                    r"Producer name:    tiny_onnx", r"Finished parsing network model\. Parse time: \S+",
                    r"Engine built in \S+ sec\.", r"Created engine with size: \S+ MiB", r"Using random values for input x",
                    r"Input binding for x with dimensions 1x3x16x16 is created\.",
                    r"Output binding for y with dimensions 1x8x16x16 is created\.", r"Starting inference",
                    r"Warmup completed \d+ queries over 0 ms", r"Timing trace has \d+ queries over \S+ s",
                    r"Throughput: \S+ qps", r"Total Host Walltime: \S+ s", r"Total Compute Time: \S+ s"]:
        assert any(re.fullmatch(pattern, line) for line in lines), pattern
    number = r"\S+ ms"
    statistics = (f"min = {number}, max = {number}, mean = {number}, median = {number}, percentile\\(90%\\) = {number}, "
                  f"percentile\\(95%\\) = {number}, percentile\\(99%\\) = {number}")
    for label in ["Latency", "Enqueue Time", "H2D Latency", "Compute Time", "D2H Latency"]:
        assert any(re.fullmatch(f"{label}: {statistics}", line) for line in lines), label


def test_average_lines_follow_avg_runs(camexec, conv_file):
    lines = texts(camexec(f"--onnx={conv_file}", *QUICK, "--avgRuns=4"))
    averages = [line for line in lines if line.startswith("Average on 4 runs - ")]
    assert len(averages) == 3
    assert re.fullmatch(r"Average on 4 runs - Compute latency: \S+ ms - Host latency: \S+ ms \(enqueue \S+ ms\)", averages[0])


def test_verbose_adds_v_lines_and_explanations(camexec, conv_file):
    result = camexec(f"--onnx={conv_file}", *QUICK, "--verbose")
    assert "=== Explanations of the performance metrics ===" in texts(result)
    assert any(line.startswith("Engine Layer Information:") for line in texts(result))
    assert re.search(r"^Layer\(Convolution\): conv1 \+ relu1, Tactic: 0x[0-9a-f]{16}, ", result.out, re.M) or \
        re.search(r"^Layer\(\w+\): .*conv1", result.out, re.M)


def test_verbose_tells_what_was_timed(camexec, conv_file):
    lines = [line.removeprefix("[CAM] ") for line in texts(camexec(f"--onnx={conv_file}", *QUICK, "--verbose", "--numThreads=1"))]
    at = next(k for k, line in enumerate(lines) if re.fullmatch(r"=+ Computing costs for .*conv1.*", line))
    told = []
    for line in lines[at + 1:]:
        if line.startswith("==="):
            break
        told.append(line)
    assert re.fullmatch(r"\*+ Autotuning format combination: Float\(768,.*\) -> Float\(2048,.*\) \*+", told[0])
    assert re.fullmatch(r"-+ Timing Runner: .*conv1.* \(Convolution\), 1 thread", told[1])
    names = dict(re.fullmatch(r"Set Tactic Name: (\S+) \(\w+\) Tactic: (0x[0-9a-f]{16})", line).groups()[::-1]
                 for line in told if line.startswith("Set Tactic Name"))
    times = [re.fullmatch(r"Tactic: (0x[0-9a-f]{16}) Time: (\S+)", line).groups() for line in told if line.startswith("Tactic: ")]
    assert names and {value for value, _ in times} == set(names)
    assert all(0 < float(time) < 1000 for _, time in times)
    assert any(line.startswith("Fastest Tactic: ") for line in told)
    chosen = next(line for line in lines if re.match(r">+ Chose Runner Type: Convolution", line))
    assert chosen.split("Tactic: ")[1].split()[0] in names


LAYER_KEYS = ["Name", "LayerType", "Inputs", "Outputs", "ParameterType", "TacticValue", "StreamId", "Metadata"]


def test_layer_info_json_is_detailed_and_in_order(camexec, conv_file, tmp_path):
    result = camexec(f"--onnx={conv_file}", "--skipInference", "--exportLayerInfo=l.json")
    assert result.code == 0, result.err
    document = json.loads((tmp_path / "l.json").read_text())
    assert list(document) == ["Layers", "Bindings"]
    assert document["Bindings"] == ["x", "y"]
    conv = next(layer for layer in document["Layers"] if layer["LayerType"] == "Convolution")
    keys = list(conv)
    present = [key for key in keys if key in LAYER_KEYS]
    assert present == LAYER_KEYS
    assert "conv1" in conv["Name"]
    assert conv["Kernel"] == [3, 3] and conv["OutMaps"] == 8 and conv["Groups"] == 1
    assert conv["Weights"] == {"Type": "Float", "Count": 216} and conv["Bias"] == {"Type": "Float", "Count": 8}
    assert conv["HasBias"] == 1
    assert conv["PaddingMode"] == "kEXPLICIT_ROUND_DOWN" and conv["PrePadding"] == [1, 1]
    assert list(conv["Inputs"][0]) == ["Name", "Location", "Dimensions", "Format/Datatype"]
    assert conv["Outputs"][0]["Dimensions"] == [1, 8, 16, 16]
    assert "[ONNX Layer: conv1]" in conv["Metadata"]
    assert conv["FLOPs"] == 2 * 8 * 16 * 16 * 27
    assert re.fullmatch(r"0x[0-9a-f]{16}", conv["TacticValue"])


def test_names_only_when_asked(camexec, conv_file, tmp_path):
    result = camexec(f"--onnx={conv_file}", "--skipInference", "--exportLayerInfo=l.json", "--profilingVerbosity=layer_names_only")
    assert result.code == 0, result.err
    document = json.loads((tmp_path / "l.json").read_text())
    assert all(isinstance(layer, str) for layer in document["Layers"])
    assert "Profiling verbosity: 0" in texts(result)


def test_dump_layer_info_prints_one_line_per_layer(camexec, conv_file):
    out = camexec(f"--onnx={conv_file}", "--skipInference", "--dumpLayerInfo").out
    assert "Layer Information:" in out
    assert re.search(r"^Name: .*conv1.*, LayerType: Convolution, Inputs: \[ \{ Name: .*, Location: Host, Dimensions: \[1,3,16,16\], "
                     r"Format/Datatype: .* \}\], Outputs: \[ .*Metadata: \[ONNX Layer: conv1\]", out, re.M)
    assert re.search(r"^Bindings:\nx\ny$", out, re.M)


def test_times_profile_and_output_files(camexec, conv_file, tmp_path):
    result = camexec(f"--onnx={conv_file}", *QUICK, "--exportTimes=t.json", "--exportProfile=p.json", "--exportOutput=o.json",
                     "--separateProfileRun")
    assert result.code == 0, result.err
    times = json.loads((tmp_path / "t.json").read_text())
    assert len(times) >= 12
    assert list(times[0]) == ["startEnqMs", "endEnqMs", "startH2dMs", "endH2dMs", "startComputeMs", "endComputeMs", "startD2hMs",
                              "endD2hMs", "h2dMs", "computeMs", "d2hMs", "latencyMs"]
    for query in times:
        assert query["latencyMs"] == pytest.approx(query["h2dMs"] + query["computeMs"] + query["d2hMs"])
        assert query["endComputeMs"] - query["startComputeMs"] == pytest.approx(query["computeMs"])
    profile = json.loads((tmp_path / "p.json").read_text())
    assert profile[0]["count"] >= 12
    assert sum(layer["percentage"] for layer in profile[1:]) == pytest.approx(100)
    for layer in profile[1:]:
        assert list(layer) == ["name", "timeMs", "averageMs", "medianMs", "percentage"]
    output = json.loads((tmp_path / "o.json").read_text())
    assert [o["name"] for o in output] == ["y"] and output[0]["dimensions"] == "1x8x16x16"
    assert len(output[0]["values"]) == 8 * 16 * 16


def test_profile_in_the_same_run_withholds_end_to_end_times(camexec, conv_file):
    result = camexec(f"--onnx={conv_file}", *QUICK, "--dumpProfile")
    assert result.code == 0
    assert not any(line.startswith("Throughput") for line in texts(result))
    assert any("--separateProfileRun" in line for line in texts(result))
    assert re.search(r"\] +\d+\.\d\d +\d+\.\d{4} +\d+\.\d{4} +100\.0   Total$", result.out, re.M)


def test_random_inputs_are_the_same_every_run(camexec, conv_file, tmp_path):
    for name in ["a.json", "b.json"]:
        assert camexec(f"--onnx={conv_file}", *QUICK, f"--exportOutput={name}").code == 0
    a, b = (np.array(json.loads((tmp_path / n).read_text())[0]["values"]) for n in ["a.json", "b.json"])
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)  # tactics may differ, inputs may not


def test_saved_engine_runs_alike(camexec, conv_file, example_input, tmp_path):
    example_input.tofile(tmp_path / "x.bin")
    assert camexec(f"--onnx={conv_file}", "--skipInference", "--saveEngine=e.engine").code == 0
    result = camexec("--loadEngine=e.engine", "--loadInputs='x':x.bin", *QUICK, "--exportOutput=o.json")
    assert result.code == 0, result.err
    assert "Using values loaded from x.bin for input x" in texts(result)
    assert any(line.startswith("Engine loaded in ") for line in texts(result))
    values = np.array(json.loads((tmp_path / "o.json").read_text())[0]["values"]).reshape(1, 8, 16, 16)
    np.testing.assert_allclose(values, conftest.conv_reference(example_input), rtol=1e-4, atol=1e-4)
    # With --loadEngine the Build Options section is one blank line.
    lines = texts(result)
    assert lines[lines.index("=== Build Options ===") + 1:][:2] == ["", "=== System Options ==="]


def test_plan_version(camexec, conv_file):
    assert camexec(f"--onnx={conv_file}", "--skipInference", "--saveEngine=e.engine").code == 0
    result = camexec("--loadEngine=e.engine", "--getPlanVersionOnly")
    assert result.code == 0
    assert re.fullmatch(r"Camshaft version: \d+\.\d+\.\d+", texts(result)[0])


def test_time_deserialize_stops_after_it(camexec, conv_file):
    assert camexec(f"--onnx={conv_file}", "--skipInference", "--saveEngine=e.engine").code == 0
    result = camexec("--loadEngine=e.engine", "--timeDeserialize")
    assert result.code == 0 and any(line.startswith("Deserialization took ") for line in texts(result))
    assert "Starting inference" not in texts(result)


@pytest.mark.parametrize("algorithm", ["l0", "l1", "l2", "lInf", "cos"])
def test_reference_outputs(camexec, conv_file, example_input, tmp_path, algorithm):
    np.save(tmp_path / "x.npy", example_input)
    good = conftest.conv_reference(example_input)
    good.tofile(tmp_path / "good.bin")
    np.save(tmp_path / "bad.npy", -good - 1)
    common = [f"--onnx={conv_file}", *QUICK, "--loadInputs=x:x.npy", f"--accuracyAlgorithm={algorithm}", "--accuracyThreshold=1e-3",
              "--atol=1e-4", "--rtol=1e-4"]
    assert camexec(*common, "--loadRefOutputs=y:good.bin").code == 0
    failed = camexec(*common, "--loadRefOutputs=y:bad.npy")
    assert failed.code == 1
    assert failed.lines[-1].startswith("&&&& FAILED")
    pairs = camexec(*common, "--loadRefOutputs=y:good.bin", "--refPair=1", "--loadInputs=x:x.npy", "--loadRefOutputs=y:bad.npy")
    assert pairs.code == 1 and any("(pair 1)" in line for line in texts(pairs))


def test_dynamic_shapes(camexec, dynamic_file, tmp_path):
    result = camexec(f"--onnx={dynamic_file}", "--minShapes=x:1x3x16x16", "--optShapes=x:2x3x16x16", "--maxShapes=x:4x3x16x16",
                     "--shapes=*:3x3x16x16", *QUICK, "--dumpOptimizationProfile", "--exportOutput=o.json", "--saveEngine=e.engine")
    assert result.code == 0, result.err
    assert "Model input x (profile 0): min=1x3x16x16, opt=2x3x16x16, max=4x3x16x16" in texts(result)
    assert json.loads((tmp_path / "o.json").read_text())[0]["dimensions"] == "3x8x16x16"
    # Without --shapes an engine runs at the profile's opt shape; outside the profile is an error.
    opt = camexec("--loadEngine=e.engine", *QUICK)
    assert "Input binding for x with dimensions 2x3x16x16 is created." in texts(opt)
    outside = camexec("--loadEngine=e.engine", "--shapes=x:9x3x16x16", *QUICK)
    assert outside.code == 1 and "x" in outside.err and "9" in outside.err


def test_dynamic_model_without_shapes_warns(camexec, dynamic_file):
    result = camexec(f"--onnx={dynamic_file}", *QUICK)
    assert result.code == 0
    assert re.search(r"\[W\] .*dynamic input 'x'.*1x3x16x16", result.err)


def test_streams(camexec, conv_file):
    result = camexec(f"--onnx={conv_file}", *QUICK, "--infStreams=3", "--threads")
    assert result.code == 0
    assert "3 streams" in result.err
    assert "Inference Streams: 3" in texts(result)


def test_options_without_effect_give_one_warning_with_reasons(camexec, conv_file):
    result = camexec(f"--onnx={conv_file}", *QUICK, "--device=0", "--useCudaGraph", "--noTF32", "--explicitBatch",
                     "--memPoolSize=workspace:1024")
    assert result.code == 0
    warnings = [line for line in result.err.splitlines() if "Without effect here" in line]
    assert len(warnings) == 1
    for reason in ["--device (there is one device", "--useCudaGraph (there are no CUDA graphs", "--memPoolSize (there are no memory pools"]:
        assert reason in warnings[0]
    always = [line for line in texts(result) if line.startswith("Always so: ")]
    assert len(always) == 1 and "--noTF32 (" in always[0] and "--explicitBatch (" in always[0]


def test_batches(camexec, dynamic_file, conv_file):
    eight = camexec(f"--onnx={dynamic_file}", "--batch=8", *QUICK, "--explicitBatch", "--saveEngine=e.engine")
    assert eight.code == 0 and "Input binding for x with dimensions 8x3x16x16 is created." in texts(eight)
    assert "no effect" not in eight.err and "Without effect" not in eight.err
    upto = camexec(f"--onnx={dynamic_file}", "--maxBatch=4", "--batch=2", *QUICK, "--dumpOptimizationProfile")
    assert "Model input x (profile 0): min=1x3x16x16, opt=2x3x16x16, max=4x3x16x16" in texts(upto)
    fixed = camexec(f"--onnx={conv_file}", "--batch=8", *QUICK)
    assert fixed.code == 1 and "input 'x' has the fixed shape 1x3x16x16" in fixed.err
    assert camexec(f"--onnx={conv_file}", "--batch=1", *QUICK).code == 0
    assert camexec("--loadEngine=e.engine", "--batch=4", *QUICK).code == 1  # the engine is for 8


def test_options_of_8x_do_what_they_say(camexec, conv_file):
    lines = texts(camexec(f"--onnx={conv_file}", *QUICK, "--heuristic", "--minTiming=3", "--avgTiming=1", "--verbose"))
    assert "BuilderOptimizationLevel: 2" in lines
    assert "minTiming: 3" in lines


def test_a_portable_engine_runs_on_lesser_machines(camexec, conv_file):
    quick = [f"--onnx={conv_file}", "--skipInference"]
    assert camexec(*quick, "--saveEngine=plain.engine").code == 0
    assert camexec(*quick, "--saveEngine=portable.engine", "--portable").code == 0
    assert camexec(*quick, "--saveEngine=ampere.engine", "--hardwareCompatibilityLevel=ampere+").code == 0
    lesser = {"CAMSHAFT_ISA": "scalar"}
    for name in ["portable", "ampere"]:
        assert camexec(f"--loadEngine={name}.engine", *QUICK, env=lesser).code == 0
    plain = camexec("--loadEngine=plain.engine", *QUICK, env=lesser)
    assert plain.code == 0 or "portable" in plain.err


def test_times_of_alike_layers_are_not_called_a_cache(camexec, camshaft, tmp_path):
    w, _ = conftest.weights()
    w = np.concatenate([w, w, w], 1)[:, :8]
    attributes = [onnx.ints_attribute("pads", [1, 1, 1, 1]), onnx.ints_attribute("kernel_shape", [3, 3])]
    nodes = [onnx.node("Conv", [f"t{k}", "w"], [f"t{k + 1}"], f"conv{k}", attributes) for k in range(4)]
    (tmp_path / "alike.onnx").write_bytes(onnx.model(nodes, [onnx.value_info("t0", [1, 8, 16, 16])],
                                                     [onnx.value_info("t4", [1, 8, 16, 16])], [onnx.tensor("w", w)]))
    plain = camshaft("build", "alike.onnx")
    assert re.search(r"^built +in .*: \d+ tactics timed, \d+ times taken over from alike layers$", plain.out, re.M), plain.out
    cached = ["build", "alike.onnx", "--timing-cache", "t.cache"]
    camshaft(*cached)
    assert re.search(r"^built +in .*: 0 tactics timed, \d+ times from the timing cache$", camshaft(*cached).out, re.M)


def test_wrong_kinds_of_files_are_said_to_be_so(camexec, conv_file, tmp_path):
    assert camexec(f"--onnx={conv_file}", "--skipInference", "--saveEngine=e.engine").code == 0
    swapped = camexec("--onnx=e.engine")
    assert swapped.code == 1 and "--onnx: e.engine is an engine; use --loadEngine=e.engine" in swapped.err
    model = camexec(f"--loadEngine={conv_file}")
    assert model.code == 1 and f"is an ONNX model; use --onnx={conv_file}" in model.err
    assert "--onnx: no file is named" in camexec("--onnx=").err
    assert "--saveEngine: no file is named" in camexec(f"--onnx={conv_file}", "--saveEngine=").err


@pytest.mark.parametrize("option", ["saveEngine", "exportLayerInfo", "exportProfile", "exportTimes", "exportOutput", "exportTrace",
                                    "timingCacheFile"])
def test_paths_are_checked_before_the_work(camexec, conv_file, tmp_path, option):
    for path in ["no/such/folder/file", "."]:
        result = camexec(f"--onnx={conv_file}", *QUICK, f"--{option}={path}")
        assert result.code == 1 and f"--{option}: " in result.err and path in result.err
        assert not any(line.startswith("Start parsing") for line in texts(result))
    assert camexec(f"--onnx={conv_file}", *QUICK, "--exportTimes=/dev/null").code == 0
    assert not open("/dev/null", "rb").read() and stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_formats_of_inputs_are_the_networks_own(camexec, conv_file):
    refused = camexec(f"--onnx={conv_file}", *QUICK, "--inputIOFormats=int8:chw")
    assert refused.code == 1 and "--inputIOFormats=int8:chw: 'x' is float" in refused.err
    assert camexec(f"--onnx={conv_file}", *QUICK, "--inputIOFormats=fp32:chw", "--outputIOFormats=fp32:chw").code == 0
    unknown = camexec(f"--onnx={conv_file}", *QUICK, "--loadRefOutputs=nosuch:conv.onnx", "--accuracyThreshold=1")
    assert unknown.code == 1 and "the model has no output 'nosuch'" in unknown.err


@pytest.mark.parametrize("words, wanted", [
    (["--fp8"], "--fp8 is not in this version"),
    (["--layerPrecisions=conv1:fp8"], "fp8 is not in this version"),
    (["--layerPrecisions=conv1:fp16"], "half needs --fp16"),
    (["--sparsity=some"], "'some' is not one of disable|enable|force"),
    (["--tuneBuildRoutes=x"], "--tuneBuildRoutes is not in this version"),
    (["--uff=x"], "--uff was removed"),
    (["--saveEngin=x"], "unknown option --saveEngin; did you mean --saveEngine?"),
    (["--iterations=many"], "--iterations: 'many' is not a whole number"),
    (["--loadInputs=nope:x.bin"], "x.bin"),
    (["--shapes=nope:1"], "no input 'nope'"),
    (["--useProfile=3"], "profile 3"),
])
def test_errors_are_one_line_and_exit_1(camexec, conv_file, words, wanted):
    result = camexec(f"--onnx={conv_file}", *QUICK, *words)
    assert result.code == 1
    errors = [line for line in result.err.splitlines() if "[E]" in line]
    assert len(errors) == 1 and wanted in errors[0], result.err
    assert result.lines[-1].startswith("&&&& FAILED")


def test_bad_files(camexec, tmp_path, conv_file):
    assert "nothing.onnx" in camexec("--onnx=nothing.onnx").err
    (tmp_path / "cut.onnx").write_bytes(conv_file.read_bytes()[:200])
    cut = camexec("--onnx=cut.onnx")
    assert cut.code == 1 and "cut.onnx" in cut.err
    (tmp_path / "junk.engine").write_bytes(b"this is not an engine" * 50)
    junk = camexec("--loadEngine=junk.engine")
    assert junk.code == 1 and "junk.engine" in junk.err
    wrong = tmp_path / "short.bin"
    wrong.write_bytes(b"1234")
    short = camexec(f"--onnx={conv_file}", "--loadInputs=x:short.bin")
    assert short.code == 1 and "needs 3072 bytes, 4 are given" in short.err


def test_nothing_half_written(camexec, conv_file, tmp_path):
    result = camexec(f"--onnx={conv_file}", "--skipInference", "--saveEngine=missing/folder/e.engine")
    assert result.code == 1 and "missing/folder" in result.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["conv.onnx"]


def test_help(camexec):
    result = camexec("--help")
    assert result.code == 0
    for text in ["=== Build Options ===", "--onnx=FILE", "[no effect here]", "[always so]", "[not in this version]"]:
        assert text in result.out
    assert max(map(len, result.lines)) <= 100


def test_random_integers_that_do_not_fit_are_replaced(camexec, tmp_path):
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    nodes = [onnx.node("Gather", ["table", "ids"], ["y"], "embed")]
    (tmp_path / "g.onnx").write_bytes(onnx.model(nodes, [onnx.value_info("ids", [5], onnx.INT64)], [onnx.value_info("y", [5, 3])],
                                                 [onnx.tensor("table", table)]))
    result = camexec("--onnx=g.onnx", *QUICK)
    assert result.code == 0, result.err
    assert "using zeros and ones" in result.err


def test_raw_bindings(camexec, conv_file, tmp_path, example_input):
    example_input.tofile(tmp_path / "x.bin")
    assert camexec(f"--onnx={conv_file}", *QUICK, "--loadInputs=x:x.bin", "--dumpRawBindingsToFile").code == 0
    assert (tmp_path / "x.input.1.3.16.16.float.raw").read_bytes() == example_input.tobytes()
    y = np.fromfile(tmp_path / "y.output.1.8.16.16.float.raw", np.float32).reshape(1, 8, 16, 16)
    np.testing.assert_allclose(y, conftest.conv_reference(example_input), rtol=1e-4, atol=1e-4)


def test_trace(camexec, conv_file, tmp_path):
    assert camexec(f"--onnx={conv_file}", *QUICK, "--exportTrace=t.json").code == 0
    trace = json.loads((tmp_path / "t.json").read_text())
    events = trace["traceEvents"]
    steps = [e for e in events if e.get("cat") == "user_annotation"]
    layers = [e for e in events if e.get("cat") == "cpu_op"]
    assert [e["name"] for e in steps] == [f"ProfilerStep#{k}" for k in range(5)]
    assert layers and trace["schemaVersion"] == 1
    for layer in layers:
        assert any(s["ts"] <= layer["ts"] and layer["ts"] + layer["dur"] <= s["ts"] + s["dur"] + 1e-3 for s in steps)
    assert len({e["args"]["External id"] for e in steps + layers}) == len(steps) + len(layers)
    conv = next(e for e in layers if e["args"]["Layer Type"] == "Convolution")
    assert conv["args"]["Input Dims"][0] == [1, 3, 16, 16] and conv["args"]["Input type"][0] == "float"


def test_interrupt_ends_an_endless_run_with_a_summary(conv_file, tmp_path):
    if not (conftest.BIN / "camexec").exists():
        pytest.skip("camexec is not built")
    process = subprocess.Popen([conftest.BIN / "camexec", f"--onnx={conv_file}", "--duration=-1", "--warmUp=0"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "=== Performance summary ===" in out and out.splitlines()[-1].startswith("&&&& PASSED")
