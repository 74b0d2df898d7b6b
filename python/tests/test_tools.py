# SPDX-License-Identifier: Apache-2.0
"""What the package has of the programs: commands, quantize, verify, traces; the wheel itself."""
import importlib.metadata
import importlib.resources
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest

import camshaft

BIN = pathlib.Path(sys.executable).parent


@pytest.mark.parametrize("program, word", [("camshaft", "optimizes, runs and explains"), ("camexec", "--onnx")])
def test_the_commands_are_installed(program, word):
    done = subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=True)
    assert word in done.stdout
    assert subprocess.run([BIN / program, "--no-such-option"], capture_output=True, check=False).returncode != 0


def test_a_command_builds_and_python_runs_it(conv, image, tmp_path):
    (tmp_path / "m.onnx").write_bytes(conv.SerializeToString())
    subprocess.run([BIN / "camshaft", "build", "m.onnx", "-o", "m.engine"], cwd=tmp_path, check=True, capture_output=True)
    assert camshaft.Session(tmp_path / "m.engine").run({"x": image})[0].shape == (1, 4, 8, 8)


def test_quantize_and_verify(conv, tmp_path):
    random = np.random.default_rng(0)
    samples = [{"x": random.standard_normal((1, 3, 8, 8)).astype("f")} for _ in range(4)]
    report = camshaft.quantize(conv, samples, tmp_path / "q.onnx", min_snr=0)
    assert report.path.exists() and "quantized   1 of 1" in report.text
    check = camshaft.verify(report.path, samples, reference=conv, min_cosine=0.99)
    assert check.good and check.tensors[0]["cosine"] > 0.99 and "float" in check.comparison
    assert not camshaft.verify(report.path, samples, reference=conv, max_error=0.0).good
    engine = camshaft.verify(conv, samples)
    assert engine.good and engine.layers
    with pytest.raises(camshaft.CamshaftError, match="quantized already"):
        camshaft.quantize(report.path, samples, tmp_path / "r.onnx")


def test_sparsify_and_build(tmp_path):
    random = np.random.default_rng(0)
    weights = random.standard_normal((16, 32, 3, 3)).astype("f")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])
    shapes = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, channels, 8, 8]) for name, channels in (("x", 32), ("y", 16))]
    graph = onnx.helper.make_graph([node], "g", shapes[:1], shapes[1:], [onnx.numpy_helper.from_array(weights, "w")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    samples = [{"x": random.standard_normal((1, 32, 8, 8)).astype("f")} for _ in range(3)]
    report = camshaft.sparsify(model, tmp_path / "s.onnx", data=samples, method="activation", reconstruct=True, permute=True)
    assert "1 of 1 layers are 2:4" in report.text and report.path.exists()
    engine = camshaft.build(report.path, sparsity="enable")
    candidates = engine.explain("conv")
    assert "_sparse_half" in str(candidates)
    with pytest.raises(camshaft.InvalidArgument, match="sparsity 'some'"):
        camshaft.build(report.path, sparsity="some")
    with pytest.raises(camshaft.CamshaftError, match="need --data"):
        camshaft.sparsify(model, tmp_path / "t.onnx", reconstruct=True)


def test_traces_are_tables(tmp_path):
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 10 * k, "dur": 5} for k in range(3)]
    path = tmp_path / "t.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    trace = camshaft.read_trace(path)
    row, = trace.ops
    assert row["name"] == "aten::add" and row["calls"] == 3
    assert isinstance(trace.summary, dict)
    with pytest.raises(FileNotFoundError):
        camshaft.read_trace(tmp_path / "none.json")
    path.write_text("{")
    with pytest.raises(camshaft.CamshaftError):
        camshaft.read_trace(path)


def test_the_wheel_is_one_for_all_and_typed():
    tags = importlib.metadata.distribution("camshaft").read_text("WHEEL")
    assert "cp310-abi3-manylinux" in tags
    package = importlib.resources.files("camshaft")
    assert (package / "py.typed").is_file() and "class Runner" in (package / "_core.pyi").read_text()
    assert camshaft.__version__ == importlib.metadata.version("camshaft")
    needed = subprocess.run(["ldd", str(package / "_core.abi3.so")], capture_output=True, text=True, check=True).stdout
    for library in ("protobuf", "fmt", "zstd", "simdjson", "crypto"):
        lines = [line for line in needed.splitlines() if library in line]
        assert all("camshaft.libs" in line for line in lines), lines


def test_threads_and_exit_leave_nothing_behind(conv):
    code = ("import camshaft, numpy, sys; s = camshaft.Session(sys.stdin.buffer.read(), cache=False);"
            "s.run_async({'x': numpy.zeros((1, 3, 8, 8), 'f')})")
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], input=conv.SerializeToString(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and b"leak" not in done.stderr, done.stderr
