# SPDX-License-Identifier: Apache-2.0
"""camshaft trace and camshaft view end to end, on a made-up trace and on one of our own runs."""
import csv
import gzip
import io
import json
import re
import signal
import subprocess
import time
import urllib.request

import conftest
import pytest

MOUNT = "data/plugin/pytorch_profiler"


def made_up(kernel_us=100):
    events = []
    for step in range(3):
        t = 1000 + step * 1000
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": t, "dur": 900})
        events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": t + 10, "dur": 100, "args": {"External id": step + 1}})
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": t + 20, "dur": 10,
                       "args": {"External id": step + 1, "correlation": 100 + step}})
        events.append({"ph": "X", "cat": "kernel", "name": "gemm, tall", "pid": 0, "tid": 7, "ts": t + 50, "dur": kernel_us,
                       "args": {"correlation": 100 + step, "device": 0, "stream": 7}})
    return {"schemaVersion": 1, "traceEvents": events}


@pytest.fixture
def trace_file(tmp_path):
    path = tmp_path / "worker0.pt.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(made_up()).encode()))
    return path


def test_summary_gives_figures_by_name(camshaft, trace_file):
    result = camshaft("trace", "summary", trace_file, "--json")
    assert result.code == 0, result.err
    figures = json.loads(result.out)[0]["figures"]
    assert figures["steps"] == 3 and figures["kernels.calls"] == 3
    assert figures["kernels.total_us"] == 300
    text = camshaft("trace", "summary", trace_file)
    assert "3 steps" in text.out and "where a step goes" in text.out and "the steps hung on" in text.out


def test_kernels_that_differ_in_their_arguments_look_different(camshaft, tmp_path):
    long = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::{}<float>>(at::TensorIteratorBase&)::lambda>(int)"
    events = [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 300}]
    for k, functor in enumerate(["AddFunctor", "MulFunctor"]):
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 10 + 20 * k, "dur": 5, "args": {"correlation": k + 1}})
        events.append({"ph": "X", "cat": "kernel", "name": long.format(functor), "pid": 0, "tid": 7, "ts": 50 + 400 * k, "dur": 400,
                       "args": {"correlation": k + 1, "device": 0, "stream": 7}})
    (tmp_path / "worker0.pt.trace.json").write_text(json.dumps({"traceEvents": events}))
    path = re.search(r"the steps hung on.*?\n\n", camshaft("trace", "summary", tmp_path / "worker0.pt.trace.json").out, re.S).group(0)
    assert "AddFunctor" in path and "MulFunctor" in path, path


def test_tables_as_csv_and_text(camshaft, trace_file):
    rows = list(csv.DictReader(io.StringIO(camshaft("trace", "kernels", trace_file, "--csv").out)))
    assert rows == [{"name": "gemm, tall", "tensor_cores": "unknown", "calls": "3", "total_us": "300", "percent": "100", "mean_us": "100", "max_us": "100", "min_us": "100"}]
    assert "aten::mm" in camshaft("trace", "ops", trace_file, "--top", "1").out


def test_every_word_prints_a_table(camshaft, trace_file):
    for word, column in (("ops", "name"), ("kernels", "name"), ("modules", "name"), ("steps", "step"), ("collectives", "name"), ("ranks", "worker"), ("memory", "device")):
        result = camshaft("trace", word, trace_file, "--csv")
        assert result.code == 0 and result.out.split(",")[0] == column, (word, result.out)
    assert "900.0 us" in camshaft("trace", "steps", trace_file).out, "units people read"
    found = camshaft("trace", "ops", trace_file, "--filter", "MM", "--csv").out
    assert len(found.splitlines()) == 2
    assert len(camshaft("trace", "ops", trace_file, "--filter", "relu", "--csv").out.splitlines()) == 1


def test_files_that_cannot_be_read_whole_are_no_success(camshaft, trace_file):
    folder = trace_file.parent
    assert camshaft("trace", "ops", folder).code == 0
    whole = trace_file.read_bytes()
    cut = folder / "worker1.pt.trace.json.gz"
    for data in (whole[:-100], b"no trace"):
        cut.write_bytes(data)
        for word in ("summary", "ops", "ranks"):
            result = camshaft("trace", word, folder)
            assert result.code == 1 and "worker1" in result.err and result.out, (word, result.err)


def rank(late_us, data_us):
    """A rank whose device reaches every collective `late_us` after its step began, for its loader takes `data_us`."""
    events = []
    for step in range(6):
        t, end = 10000 * step, 10000 * step + 9000
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": t, "dur": 9500})
        events.append({"ph": "X", "cat": "cpu_op", "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "pid": 1, "tid": 1, "ts": t + 10, "dur": data_us})
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": t + late_us - 5, "dur": 3, "args": {"correlation": step + 1}})
        events.append({"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce_RING_LL_Sum_float", "pid": 0, "tid": 7, "ts": t + late_us, "dur": end - t - late_us,
                       "args": {"correlation": step + 1, "device": 0, "stream": 7}})
    return {"traceEvents": events}


def test_ranks_of_a_folder_are_told_together(camshaft, tmp_path):
    (tmp_path / "worker0.pt.trace.json").write_text(json.dumps(rank(1000, 500)))
    (tmp_path / "worker1.pt.trace.json").write_text(json.dumps(rank(8000, 7500)))
    together = json.loads(camshaft("trace", "summary", tmp_path, "--json").out)
    waits = {finding["id"]: finding["text"] for finding in together[0]["findings"]}
    assert "worker1" in waits["rank-wait"] and "DataLoader" in waits["rank-wait"]
    assert "straggler" in [finding["id"] for finding in together[1]["findings"]]
    rows = list(csv.DictReader(io.StringIO(camshaft("trace", "ranks", tmp_path, "--csv").out)))
    assert [row["worker"] for row in rows] == ["worker0", "worker1"]
    assert rows[0]["waits_for"] == "worker1" and rows[1]["busy_with"] == "DataLoader"
    alone = json.loads(camshaft("trace", "summary", tmp_path / "worker0.pt.trace.json", "--json").out)
    assert "rank-wait" not in [finding["id"] for finding in alone[0]["findings"]]


def test_conditions_set_the_exit_code(camshaft, trace_file):
    assert camshaft("trace", "summary", trace_file, "--fail-if", "steps < 3").code == 0
    assert camshaft("trace", "summary", trace_file, "--fail-if", "steps == 3").code == 2
    wrong = camshaft("trace", "summary", trace_file, "--fail-if", "stepps == 3")
    assert wrong.code == 1 and "steps" in wrong.err


def test_diff_compares_two_runs(camshaft, trace_file, tmp_path):
    slower = tmp_path / "slower.json"
    slower.write_text(json.dumps(made_up(kernel_us=150)))
    assert camshaft("trace", "diff", trace_file, slower, "--fail-if", "ratio.kernels.total_us > 1.6").code == 0
    assert camshaft("trace", "diff", trace_file, slower, "--fail-if", "ratio.kernels.total_us > 1.4").code == 2


def test_files_that_are_no_traces_are_one_clear_error(camshaft, tmp_path):
    (tmp_path / "x.json").write_text('{"a": 1}')
    for name in ("x.json", "missing.json"):
        result = camshaft("trace", "summary", tmp_path / name)
        assert result.code == 1 and name in result.err and len(result.err.splitlines()) == 1


class View:
    def __init__(self, *words):
        self.process = subprocess.Popen([str(conftest.BIN / "camshaft"), "view", *map(str, words), "--port", "0", "--no-browser"], stdout=subprocess.PIPE, text=True)
        self.address = re.search(r"http:\S+", self.process.stdout.readline()).group(0)

    def get(self, path):
        answer = urllib.request.urlopen(self.address + path)
        body = answer.read()
        return json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)

    def wait(self):
        while self.get(f"{MOUNT}/runs")["loading"]:
            time.sleep(0.02)
        return self.get(f"{MOUNT}/runs")["runs"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(20) == 0


def test_our_own_runs_open_in_the_viewer(camexec, conv_file, tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    for name in ("camexec.pt.trace.json", "packed.pt.trace.json.gz"):
        assert camexec(f"--onnx={conv_file}", "--warmUp=0", "--duration=0", "--iterations=2", f"--exportTrace={folder / name}").code == 0
    with View(folder) as view:
        assert view.wait() == ["runs"]
        assert view.get(f"{MOUNT}/workers?run=runs&view=Overview") == ["camexec", "packed"]
        overview = view.get(f"{MOUNT}/overview?run=runs&worker=camexec&span=default")
        assert overview["steps"]["rows"]
        table = view.get(f"{MOUNT}/operation/table?run=runs&worker=packed&span=default&group_by=Operation")
        row = next(row for row in table["data"] if "conv1" in row["name"])
        assert row["device_self_duration"] > 0, "what the threads did belongs to the layer"
        kernels = view.get(f"{MOUNT}/kernel/table?run=runs&worker=camexec&span=default&group_by=Kernel")
        assert kernels["data"]["rows"]
    events = json.loads((folder / "camexec.pt.trace.json").read_text())["traceEvents"]
    assert {event["cat"] for event in events if event["ph"] == "X"} == {"user_annotation", "cpu_op", "runtime", "kernel"}
    layers = {event["args"]["External id"]: event for event in events if event.get("cat") == "cpu_op"}
    for kernel in (event for event in events if event.get("cat") == "kernel"):
        layer = layers[kernel["args"]["External id"]]
        assert layer["ts"] <= kernel["ts"] and kernel["ts"] + kernel["dur"] <= layer["ts"] + layer["dur"] + 0.0015


def test_a_taken_port_and_wrong_addresses_are_refused(camshaft, trace_file):
    with View(trace_file.parent) as view:
        port = re.search(r":(\d+)/", view.address).group(1)
        taken = camshaft("view", trace_file.parent, "--port", port, "--no-browser")
        assert taken.code == 1 and "another program listens there" in taken.err
    for words in (("--port", "99999999"), ("--path_prefix", "foo")):
        assert camshaft("view", trace_file.parent, "--no-browser", *words).code == 1


def test_new_files_are_found(camshaft, trace_file, tmp_path):
    with View(tmp_path, "--rescan", "1") as view:
        run = view.wait()[0]
        trace_file.with_name("worker1.pt.trace.json").write_text(json.dumps(made_up()))
        for _ in range(100):
            if len(view.get(f"{MOUNT}/workers?run={run}&view=Overview")) == 2:
                return
            time.sleep(0.1)
        pytest.fail("the second worker was not found")
