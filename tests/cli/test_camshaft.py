# SPDX-License-Identifier: Apache-2.0
"""The camshaft program end to end."""
import json
import re

import conftest
import numpy as np
import pytest
import tiny_onnx as onnx


@pytest.fixture
def data_folder(tmp_path, example_input):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "input_0.pb").write_bytes(onnx.tensor("x", example_input))
    (folder / "output_0.pb").write_bytes(onnx.tensor("y", conftest.conv_reference(example_input)))
    return folder


def test_build_writes_an_engine_and_says_what_it_is(camshaft, conv_file, tmp_path):
    result = camshaft("build", conv_file, "-o", "e.engine")
    assert result.code == 0, result.err
    assert (tmp_path / "e.engine").exists()
    assert re.search(r"^input +x float\[1, 3, 16, 16\]$", result.out, re.M)
    assert re.search(r"^output +y float\[1, 8, 16, 16\]$", result.out, re.M)
    assert "\033[" not in result.out  # no colour into a pipe
    assert camshaft("build", conv_file).code == 0
    assert (tmp_path / "conv.engine").exists()


def test_graphs_are_written_as_passes_leave_them(camshaft, conv_file, tmp_path):
    result = camshaft("build", conv_file, "-o", "e.engine", "--dump-after=all")
    assert result.code == 0, result.err
    names = sorted(file.name for file in (tmp_path / "passes").iterdir())
    assert names[0] == "000-Original.txt" and len(names) > 1
    texts = [(tmp_path / "passes" / name).read_text() for name in names]
    assert all(re.match(r"# \w+: \d+ layers\ngraph .* \{\n", text) for text in texts)
    assert all(one.split("\n", 1)[1] != next_one.split("\n", 1)[1] for one, next_one in zip(texts, texts[1:]))
    # A pass that was named is written once though it changes nothing; several may be named, in either spelling.
    result = camshaft("build", conv_file, "-o", "e.engine", "--dump-after=AttentionFusion,epilogue_fusion", "--dump-to=-")
    assert result.code == 0, result.err
    assert result.out.count("# AttentionFusion: ") == 1
    assert "# EpilogueFusion: " in result.out


def test_an_unknown_pass_is_one_clear_error(camshaft, conv_file, tmp_path):
    result = camshaft("build", conv_file, "--dump-after=EpilogFusion")
    assert result.code != 0
    assert "no pass is called 'EpilogFusion'; there are EpilogueFusion" in result.err
    assert not (tmp_path / "passes").exists() and not (tmp_path / "conv.engine").exists()


def test_dynamic_dimensions_keep_their_names(camshaft, dynamic_file):
    result = camshaft("build", dynamic_file, "--min-shapes", "x:1x3x16x16", "--opt-shapes", "x:2x3x16x16", "--max-shapes", "x:4x3x16x16")
    assert result.code == 0, result.err
    assert "x float[batch, 3, 16, 16]" in result.out


def test_run_compares_with_test_data(camshaft, conv_file, data_folder):
    result = camshaft("run", conv_file, "--data", data_folder)
    assert result.code == 0, result.err
    assert re.search(r"^y +float +1x8x16x16 +\S+ +\S+ +1\.0000000 +0 +ok$", result.out, re.M)


def test_run_fails_beyond_the_tolerance(camshaft, conv_file, data_folder, example_input):
    (data_folder / "output_0.pb").write_bytes(onnx.tensor("y", conftest.conv_reference(example_input) + 0.5))
    result = camshaft("run", conv_file, "--data", data_folder)
    assert result.code == 1 and "FAILED" in result.out and "not what was expected" in result.err
    assert camshaft("run", conv_file, "--data", data_folder, "--atol=0.6").code == 0
    (data_folder / "output_0.pb").write_bytes(onnx.tensor("y", np.zeros((1, 8, 4), np.float32)))
    wrong = camshaft("run", conv_file, "--data", data_folder)
    assert wrong.code == 1 and "expected shape 1x8x4" in wrong.out


def test_run_takes_npy_npz_and_raw_and_saves_npy(camshaft, conv_file, example_input, tmp_path):
    y = conftest.conv_reference(example_input)
    np.savez_compressed(tmp_path / "d.npz", x=example_input, y=y)
    np.savez(tmp_path / "s.npz", x=example_input, y=y)
    np.save(tmp_path / "x.npy", np.asfortranarray(example_input))
    np.save(tmp_path / "y.npy", y)
    example_input.tofile(tmp_path / "x.bin")
    for words in (["--data", "d.npz"], ["--data", "s.npz"], ["--input", "x:x.npy", "--expect", "y:y.npy"],
                  ["--input", "x:x.bin", "--expect=y:y.npy"]):
        result = camshaft("run", conv_file, *words, "--save-outputs", "out")
        assert result.code == 0 and " ok" in result.out, (words, result.out, result.err)
        np.testing.assert_allclose(np.load(tmp_path / "out/y.npy"), y, rtol=1e-4, atol=1e-4)


def test_run_uses_the_shapes_of_the_data(camshaft, dynamic_file, tmp_path):
    model = tmp_path / "model"
    for number, batch in enumerate([2, 3]):
        folder = model / f"test_data_set_{number}"
        folder.mkdir(parents=True)
        x = np.random.default_rng(batch).standard_normal((batch, 3, 16, 16)).astype(np.float32)
        (folder / "input_0.pb").write_bytes(onnx.tensor("x", x))
        (folder / "output_0.pb").write_bytes(onnx.tensor("y", conftest.conv_reference(x)))
    result = camshaft("run", dynamic_file, "--data", model)
    assert result.code == 0, result.err
    assert "2x8x16x16" in result.out and "3x8x16x16" in result.out


def test_run_without_data_is_repeatable(camshaft, conv_file):
    first, second = camshaft("run", conv_file), camshaft("run", conv_file)
    assert first.code == 0 and "random" in first.out
    assert first.out.split()[-4:-1] == second.out.split()[-4:-1]


def test_bench(camshaft, conv_file):
    result = camshaft("bench", conv_file, "--duration=0.1", "--warm-up=0")
    assert result.code == 0, result.err
    assert re.search(r"^median +\d+\.\d{4}$", result.out, re.M)
    assert re.search(r"^arithmetic +\S+ kMAC per run, \S+ GMAC/s, \S+ % of the FMA peak", result.out, re.M)
    measured = json.loads(camshaft("bench", conv_file, "--duration=0.1", "--warm-up=0", "--json").out)
    assert measured["macs"] == 8 * 16 * 16 * 27
    latency = measured["latencyMs"]
    assert latency["min"] <= latency["median"] <= latency["p90"] <= latency["p99"] <= latency["max"]


def test_bench_keeps_inputs_for_the_layer_table(camshaft, tmp_path):
    """Indices that fit stay what they are, in memory that stays theirs, until the last profiled run."""
    gather = onnx.model([onnx.node("Gather", ["table", "rows"], ["y"], "pick")], [onnx.value_info("rows", [200000], onnx.INT64)],
                        [onnx.value_info("y", [200000, 2])], [onnx.tensor("table", np.ones((2, 2), np.float32))])
    (tmp_path / "gather.onnx").write_bytes(gather)
    result = camshaft("bench", "gather.onnx", "--duration=0.05", "--warm-up=0")
    assert result.code == 0, result.err
    assert "zeros and ones" in result.err and re.search(r"^ *\d+  pick +\d", result.out, re.M)


def test_inspect(camshaft, conv_file, tmp_path):
    assert camshaft("build", conv_file, "-o", "e.engine").code == 0
    table = camshaft("inspect", "e.engine")
    assert table.code == 0, table.err
    assert re.match(r" *# +layer +kind +us +% +% peak +tactic +format +shape$", table.lines[0])
    assert "conv1" in table.out and "1x8x16x16" in table.out
    document = json.loads(camshaft("inspect", "e.engine", "--json").out)
    assert document["Bindings"] == ["x", "y"]
    names = json.loads(camshaft("inspect", "e.engine", "--json", "--verbosity", "names").out)
    assert [layer["Name"] for layer in document["Layers"]] == names["Layers"]
    assert camshaft("inspect", "e.engine", "--text").out.startswith("Layers:\nName: ")


def test_explain(camshaft, conv_file):
    assert camshaft("build", conv_file, "-o", "e.engine").code == 0
    whole = camshaft("explain", "e.engine")
    assert whole.code == 0 and "layers" in whole.out
    layer = camshaft("explain", "e.engine", "conv1")
    assert layer.code == 0, layer.err
    assert "kind    Convolution" in layer.out and re.search(r"^from +conv1$", layer.out, re.M)
    missing = camshaft("explain", "e.engine", "pool9")
    assert missing.code == 1 and "no layer has 'pool9' in its name" in missing.err


@pytest.mark.parametrize("words, wanted", [
    (["biuld", "x"], "unknown command 'biuld'; did you mean 'build'?"),
    (["run"], "which file?"),
    (["run", "missing.onnx"], "missing.onnx"),
    (["bench", "missing.engine"], "missing.engine"),
    (["build", "missing.txt"], "missing.txt"),
    (["inspect", "x.engine", "--jsn"], "unknown option --jsn; did you mean --json?"),
    (["run", "conv.onnx", "--data", "nowhere"], "nowhere"),
    (["run", "conv.onnx", "--input", "z:conv.onnx"], "no input 'z'"),
])
def test_errors_are_one_line_and_exit_1(camshaft, conv_file, words, wanted):
    result = camshaft(*words)
    assert result.code == 1
    assert result.err.startswith("camshaft: error: ") and wanted in result.err
    assert len(result.err.strip().splitlines()) == 1
    assert "Traceback" not in result.err


def test_help_of_every_command(camshaft):
    overview = camshaft("help")
    assert max(map(len, overview.lines)) <= 100
    commands = set(re.findall(r"^  (\w+)  +\S", overview.out, re.M)) - {"version", "help"}
    assert {"build", "run", "bench", "inspect", "explain", "quantize", "sparsify", "verify", "trace", "view"} <= commands
    for command in sorted(commands):
        result = camshaft(command, "--help")
        assert result.code == 0 and result.out.startswith(f"usage: camshaft {command} ")
        assert max(map(len, result.lines)) <= 100
