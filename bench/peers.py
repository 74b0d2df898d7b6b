#!/usr/bin/env python3
"""Camshaft beside ONNX Runtime, OpenVINO and ncnn: the same ONNX files and inputs, interleaved in one run.

    pip install onnxruntime openvino ncnn pnnx onnx numpy
    bench/peers.py MODEL.onnx|FOLDER ... [--threads 1,2] [--isa avx2] [--json out.json]

Each model is loaded by every engine, the outputs are compared with ONNX Runtime's without optimizations, then the engines take turns for
--rounds rounds of --seconds each; every turn starts with runs that are not counted. A probe of the processor's FMA peak runs in every
round: the clock moves, so trust ratios and percent of peak, not milliseconds. OpenVINO runs twice: with the precision hint f32, and as
it comes (on processors with BF16 it then computes in bf16). ncnn, through pnnx, runs in a process of its own: it crashes on some models.
So do camshaft_avx2, onnxruntime_avx2 and openvino_f32_avx2, held to AVX2 as bench/held_peers.py does it: a process has one instruction set.
camshaft_other is another Camshaft, an older one for example, built (target camshaft) in the working tree that CAMSHAFT_OTHER names.
--isa avx2 (or avx_vnni) holds Camshaft and OpenVINO's oneDNN; ONNX Runtime has no such option and is left out.
A FOLDER is searched for model.onnx and *.onnx. Inputs come from test_data_set_0 beside the model, else they are seeded random numbers."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="ONNX files or folders")
    parser.add_argument("--threads", default="1,2", help="comma separated thread counts (default 1,2)")
    parser.add_argument("--engines", default="camshaft,onnxruntime,openvino_f32,openvino,ncnn",
                        help="the first is compared with the others; camshaft_bf16 and camshaft_best may use 16-bit floats, as openvino does")
    parser.add_argument("--isa", choices=["avx2", "avx_vnni", "avx512_core", "avx512", "amx"], help="hold the engines to this instruction set")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.35, help="length of one engine's turn")
    parser.add_argument("--level", type=int, default=3, help="Camshaft's builderOptimizationLevel")
    parser.add_argument("--timing-cache", default="", help="Camshaft's timing cache file")
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--markdown", help="write the table of docs/performance.md here: a row per model, ms with each thread count")
    parser.add_argument("--worker", nargs=3, metavar=("ENGINE", "MODEL", "THREADS"), help=argparse.SUPPRESS)
    return parser.parse_args()


ARGUMENTS = parse_arguments()
if ARGUMENTS.isa:  # before the engines are imported: they look once
    os.environ["CAMSHAFT_ISA"] = ARGUMENTS.isa
    os.environ["ONEDNN_MAX_CPU_ISA"] = {"avx2": "AVX2", "avx_vnni": "AVX2_VNNI", "avx512_core": "AVX512_CORE", "avx512": "AVX512_CORE_BF16",
                                            "amx": "DEFAULT"}[ARGUMENTS.isa]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnx.numpy_helper  # noqa: E402

sys.path.insert(0, str(ROOT / "bench"))
import held_peers  # noqa: E402


# ---------------------------------------------------------------------------------------------------- models and inputs

def find_models(names):
    for name in names:
        path = pathlib.Path(name)
        if path.is_dir():
            yield from sorted(list(path.glob("**/model.onnx")) + [f for f in path.glob("*.onnx") if f.name != "model.onnx"])
        else:
            yield path


def display_name(path):
    return path.parent.name if path.name == "model.onnx" else path.stem


def read_inputs(path):
    """Name -> array, in graph order: the stored data set, or random numbers (dynamic extents are 1)."""
    model = onnx.load(str(path))
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in stored]
    folder = path.parent / "test_data_set_0"
    random = np.random.default_rng(0)
    arrays = {}
    for index, value in enumerate(inputs):
        file = folder / f"input_{index}.pb"
        if file.exists():
            arrays[value.name] = np.array(onnx.numpy_helper.to_array(onnx.load_tensor(str(file))))
            continue
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        if np.issubdtype(kind, np.floating):
            arrays[value.name] = random.standard_normal(shape).astype(kind)
        else:
            arrays[value.name] = random.integers(0, 2, shape).astype(kind)
    return arrays


# -------------------------------------------------------------------------------------------------------------- engines
# An engine is a class with load(path, inputs, threads); run() computes once; outputs() gives the arrays of the last run.

class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, path, inputs, threads, optimize=True):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        if not optimize:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        # Bound inputs and outputs: the Python conversion of results is not what is measured.
        self.binding = session.io_binding()
        self.feeds = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()}
        for name, value in self.feeds.items():
            self.binding.bind_ortvalue_input(name, value)
        for output in session.get_outputs():
            self.binding.bind_output(output.name, "cpu")
        self.session = session

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def outputs(self):
        return self.binding.copy_outputs_to_cpu()


class OpenVino:
    name = "openvino"
    precision = None

    def __init__(self, path, inputs, threads):
        import openvino
        core = openvino.Core()
        model = core.read_model(str(path))
        model.reshape({name: list(array.shape) for name, array in inputs.items()})
        config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
        if self.precision:
            config["INFERENCE_PRECISION_HINT"] = self.precision
        self.request = core.compile_model(model, "CPU", config).create_infer_request()
        self.inputs = inputs  # their memory is what the request reads
        for name, array in inputs.items():
            self.request.set_tensor(name, openvino.Tensor(array, shared_memory=array.ndim > 0))

    def run(self):
        self.request.infer()

    def outputs(self):
        return [np.array(tensor.data) for tensor in self.request.output_tensors]


class OpenVinoF32(OpenVino):
    name = "openvino_f32"
    precision = "f32"


class Camshaft:
    name = "camshaft"
    reduced = {}

    def __init__(self, path, inputs, threads):
        import camshaft_api
        self.context = camshaft_api.Context(path, inputs, threads, ARGUMENTS.level, ARGUMENTS.timing_cache, **self.reduced)

    def run(self):
        self.context.run()

    def outputs(self):
        return self.context.outputs()


class CamshaftBf16(Camshaft):
    name = "camshaft_bf16"
    reduced = {"bf16": True}


class CamshaftBest(Camshaft):
    name = "camshaft_best"
    reduced = {"bf16": True, "fp16": True}


class OwnProcess:
    """An engine in a process of its own: "run SECONDS" is answered by the times in ms of the runs, "outputs" by files."""
    engine = None  # the worker's
    program = __file__
    environment = {}

    def __init__(self, path, inputs, threads):
        command = [sys.executable, self.program, "--worker", self.engine, str(path), str(threads), "--level", str(ARGUMENTS.level),
                   "--timing-cache", ARGUMENTS.timing_cache]
        self.worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                       env={**os.environ, **self.environment})
        answer = self.worker.stdout.readline().strip()
        if answer != "ready":
            raise RuntimeError(answer or "the process died")

    def ask(self, question):
        self.worker.stdin.write(question + "\n")
        self.worker.stdin.flush()
        answer = self.worker.stdout.readline()
        if not answer:
            raise RuntimeError("the process died")
        return json.loads(answer)

    def turn(self, seconds):
        return self.ask(f"run {seconds}")

    def outputs(self):
        return [np.load(file) for file in self.ask("outputs")]

    def __del__(self):
        if hasattr(self, "worker"):
            self.worker.stdin.close()
            self.worker.wait()


class Ncnn(OwnProcess):
    name = engine = "ncnn"


class CamshaftAvx2(OwnProcess):
    name = "camshaft_avx2"
    engine = "camshaft"
    environment = {"CAMSHAFT_ISA": "avx2"}


class CamshaftOther(OwnProcess):
    name = "camshaft_other"
    engine = "camshaft"

    def __init__(self, path, inputs, threads):
        tree = pathlib.Path(os.environ["CAMSHAFT_OTHER"]).resolve()
        self.program = str(tree / "bench/peers.py")
        self.environment = {"CAMSHAFT_BUILD": str(tree / "build/release")}
        super().__init__(path, inputs, threads)


class Held(OwnProcess):
    """A peer that sees AVX2."""

    def __init__(self, path, inputs, threads):
        self.environment = held_peers.environment()
        super().__init__(path, inputs, threads)


class OnnxRuntimeAvx2(Held):
    name = "onnxruntime_avx2"
    engine = "onnxruntime"


class OpenVinoF32Avx2(Held):
    name = "openvino_f32_avx2"
    engine = "openvino_f32"


ENGINES = {engine.name: engine for engine in (Camshaft, CamshaftBf16, CamshaftBest, OnnxRuntime, OpenVinoF32, OpenVino, Ncnn, CamshaftAvx2, CamshaftOther,
                                              OnnxRuntimeAvx2, OpenVinoF32Avx2)}


def load_ncnn(path):
    """Converts with pnnx, loads with ncnn's Python binding; gives run() and outputs()."""
    import tempfile
    import ncnn
    path = pathlib.Path(path).resolve()
    inputs = read_inputs(path)
    folder = tempfile.mkdtemp()
    shapes = ",".join("[" + ",".join(map(str, array.shape)) + "]" + {"float32": "f32", "int64": "i64", "int32": "i32"}[array.dtype.name]
                      for array in inputs.values())
    model = pathlib.Path(folder) / "model.onnx"
    model.symlink_to(path)
    converted = subprocess.run(["pnnx", str(model), f"inputshape={shapes}", "fp16=0"], cwd=folder, capture_output=True, text=True)
    param = pathlib.Path(folder) / "model.ncnn.param"
    if converted.returncode or not param.exists():
        raise RuntimeError("pnnx does not convert it")
    net = ncnn.Net()
    net.opt.num_threads = int(ARGUMENTS.worker[2])
    net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = net.opt.use_fp16_packed = net.opt.use_bf16_storage = False
    if net.load_param(str(param)) or net.load_model(str(param.with_suffix(".bin"))):
        raise RuntimeError("ncnn does not load it")
    feeds = [ncnn.Mat(np.ascontiguousarray(array[0] if array.ndim > 1 else array)).clone() for array in inputs.values()]

    def run():
        extractor = net.create_extractor()
        for name, mat in zip(net.input_names(), feeds):
            extractor.input(name, mat)
        return [extractor.extract(name)[1] for name in net.output_names()]

    return run, lambda: [np.array(mat)[None] for mat in run()]


def work(engine, path, threads):
    """The other end of OwnProcess."""
    import tempfile
    try:
        if engine == "ncnn":
            run, outputs = load_ncnn(path)
        else:
            loaded = ENGINES[engine](path, read_inputs(pathlib.Path(path)), int(threads))
            run, outputs = loaded.run, loaded.outputs
        run()
    except Exception as error:  # whatever an engine raises is its answer
        print(str(error).strip().split("\n")[0] or type(error).__name__, flush=True)
        return
    print("ready", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp())
    for line in sys.stdin:
        word = line.split()
        if word[0] == "run":
            print(json.dumps(timed_turn(run, float(word[1]))), flush=True)
            continue
        files = []
        for index, array in enumerate(outputs()):
            files.append(str(folder / f"output_{index}.npy"))
            np.save(files[-1], array)
        print(json.dumps(files), flush=True)
    shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------------------------------------------------ measuring

def timed_turn(run, seconds):
    """Times in ms of the runs of one turn; the first tenth of the turn warms the caches and is not counted."""
    warm_until = time.perf_counter() + seconds / 10
    run()
    while time.perf_counter() < warm_until:
        run()
    times = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def agreement(outputs, reference):
    """Worst |difference| over the largest |reference|, over all outputs; None if shapes differ."""
    worst = 0.0
    for ours, theirs in zip(outputs, reference):
        if ours.shape != theirs.shape:
            if ours.size != theirs.size:
                return None
            ours = ours.reshape(theirs.shape)
        if theirs.size and theirs.dtype.kind == "f":
            worst = max(worst, float(np.max(np.abs(ours.astype(np.float64) - theirs)) / max(np.max(np.abs(theirs)), 1e-12)))
    return worst


def fma_peak():
    """GMAC/s of one thread in this very moment."""
    try:
        import camshaft_api
        return camshaft_api.fma_peak()
    except (ImportError, OSError):
        return 0.0


def measure(path, threads, engine_names):
    inputs = read_inputs(path)
    reference = None
    try:
        plain = OnnxRuntime(path, inputs, 1, optimize=False)
        plain.run()
        reference = plain.outputs()
        del plain
    except Exception as error:  # a model ONNX Runtime cannot run still gets timed
        print(f"  no reference: {error}", file=sys.stderr)
    engines, row = {}, {"model": display_name(path), "threads": threads, "engines": {}}
    for name in engine_names:
        try:
            start = time.perf_counter()
            engine = ENGINES[name](path, inputs, threads)
            load = time.perf_counter() - start
            if hasattr(engine, "run"):
                engine.run()
            error = agreement(engine.outputs(), reference) if reference is not None else None
            engines[name] = engine
            row["engines"][name] = {"load_s": load, "error": error, "times": [], "medians": []}
        except Exception as error:
            row["engines"][name] = {"failed": str(error).strip().split("\n")[0][:120]}
    peaks = []
    for _ in range(ARGUMENTS.rounds):
        peaks.append(fma_peak())
        for name, engine in engines.items():
            time.sleep(0.02)  # idle workers of the engine before go to sleep
            times = engine.turn(ARGUMENTS.seconds) if hasattr(engine, "turn") else timed_turn(engine.run, ARGUMENTS.seconds)
            row["engines"][name]["medians"].append(statistics.median(times))
    row["fma_peak_gmacs"] = statistics.median(peaks)
    for name in engines:
        figures = row["engines"][name]
        medians = figures.pop("medians")
        figures.pop("times")
        figures["median_ms"] = statistics.median(medians)
        figures["spread"] = (max(medians) - min(medians)) / statistics.median(medians)
    return row


def ratio(row, peer):
    ours, theirs = row["engines"][ARGUMENTS.engines.split(",")[0]], row["engines"].get(peer, {})
    return theirs["median_ms"] / ours["median_ms"] if "median_ms" in ours and "median_ms" in theirs else None


def cell(figures):
    if "median_ms" not in figures:
        return "–"
    mark = "" if figures["error"] is not None and figures["error"] < 1e-2 else "!"
    return f'{figures["median_ms"]:.3g}{mark}'


def print_table(rows, engine_names):
    peers = engine_names[1:]
    header = ["model", "thr"] + [name + " ms" for name in engine_names] + ["vs " + name for name in peers] + ["error", "GMAC/s peak"]
    lines = [header]
    for row in rows:
        figures = row["engines"]
        line = [row["model"], str(row["threads"])] + [cell(figures[name]) for name in engine_names]
        line += ["–" if ratio(row, peer) is None else f"{ratio(row, peer):.2f}x" for peer in peers]
        error = figures[engine_names[0]].get("error")
        line += ["–" if error is None else f"{error:.1e}", f'{row["fma_peak_gmacs"]:.0f}']
        lines.append(line)
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        print("  ".join(text.ljust(width) if column == 0 else text.rjust(width) for column, (text, width) in enumerate(zip(line, widths))))
    for peer in peers:
        for threads in sorted({row["threads"] for row in rows}):
            ratios = [ratio(row, peer) for row in rows if row["threads"] == threads and ratio(row, peer)]
            if ratios:
                print(f"{threads} thread(s), geometric mean over {peer}: {statistics.geometric_mean(ratios):.2f}x on {len(ratios)} models, "
                      f"behind on {sum(r < 1 for r in ratios)}")
    for row in rows:
        for name, figures in row["engines"].items():
            if "failed" in figures:
                print(f'{row["model"]}: {name}: {figures["failed"]}')
    print("! = output differs by more than 1 % of its largest value from plain evaluation; – = does not run it")


def write_markdown(rows, engine_names, path):
    """One row per model; a cell holds the medians in ms of all thread counts, `!` marks wrong answers, `–` what does not run."""
    peers = engine_names[1:]
    threads = sorted({row["threads"] for row in rows})
    lines = ["| model | " + " | ".join(engine_names) + " | " + " | ".join(f"vs {peer}" for peer in peers) + " |",
             "|---|" + "---:|" * (len(engine_names) + len(peers))]
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = [row for count in threads for row in rows if row["model"] == model and row["threads"] == count]
        cells = [" / ".join(cell(row["engines"][name]) for row in mine) for name in engine_names]
        ratios = [" / ".join("–" if ratio(row, peer) is None else f"{ratio(row, peer):.2f}" for row in mine) for peer in peers]
        lines.append(f"| {model} | " + " | ".join(cells + ratios) + " |")
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def main():
    if ARGUMENTS.worker:
        work(*ARGUMENTS.worker)
        return 0
    engine_names = [name for name in ARGUMENTS.engines.split(",") if not (ARGUMENTS.isa == "avx2" and name == "onnxruntime")]
    unknown = [name for name in engine_names if name not in ENGINES]
    if unknown or not ARGUMENTS.models:
        print(f"peers.py: {'unknown engine ' + unknown[0] if unknown else 'name at least one model or folder'}", file=sys.stderr)
        return 1
    rows = []
    jobs = [(path, int(threads)) for path in find_models(ARGUMENTS.models) for threads in ARGUMENTS.threads.split(",")]
    for index, (path, threads) in enumerate(jobs):
        print(f"[{index + 1}/{len(jobs)}] {display_name(path)}, {threads} thread(s)", file=sys.stderr, flush=True)
        rows.append(measure(path, threads, engine_names))
        if ARGUMENTS.json:
            pathlib.Path(ARGUMENTS.json).write_text(json.dumps({"isa": ARGUMENTS.isa, "rows": rows}, indent=1))
    print_table(rows, engine_names)
    if ARGUMENTS.markdown:
        write_markdown(rows, engine_names, ARGUMENTS.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
