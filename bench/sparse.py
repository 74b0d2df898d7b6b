"""Sparse tactics beside our own dense ones on the same weights, in turns in one process: int8 2:4, floats with --floats, whole networks.

    bench/sparse.py [--build build/release] [--isa avx512 avx_vnni avx2 amx] [--threads 1 2] [--codes 127 255]
    bench/sparse.py --bf16 | --low-bits
    bench/sparse.py [--floats] --kept 0.1 0.2 [--block 4 1]
    bench/sparse.py --networks MODEL.onnx ...

Per layer shape of ResNet-50, BERT-base, MobileNetV2 and YOLOv8s the fastest dense and the fastest sparse tactic; ratios above 1 are
gains. An engine built with --sparsity=enable takes a sparse tactic where that is 7 % faster, so ratios below 1 cost nothing but time to build.
--networks: `camshaft sparsify` by magnitude, then an engine that multiplies the zeros and one built with sparsity enabled take turns; for
the layers that run sparsely there, times of both engines' profiles, also in turns (--each: listed, beside the tuner's ratio). A layer that
is more than 3 % slower than in the dense engine in each of three such comparisons is named, and the exit status is 1; how far apart layers
are that run the same tactic in both engines is the noise. Needs numpy and onnx.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SLOWER = 0.97  # what the tuner's margin promises not to lose
ROOT = pathlib.Path(__file__).resolve().parents[1]


def measure(program, isa, options):
    environment = dict(os.environ, CAMSHAFT_ISA=isa)
    command = [program, *options]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def report(rows, title):
    print(f"\n## {title}\n\n| network | layer | dense us | sparse us | ratio | sparse tactic |\n|---|---|---:|---:|---:|---|")
    for row in rows:
        print(f"| {row['network']} | {row['layer']} | {row['dense_us']:.1f} | {row['sparse_us']:.1f} | {row['ratio']:.2f} | {row['sparse']} |")
    few = [row["ratio"] for row in rows if "1 row" in row["layer"] or row["layer"] == "fc"]
    many = [row["ratio"] for row in rows if ("1x1" in row["layer"] or "rows" in row["layer"])]
    print(f"\ngeometric means: 1x1 and products of many rows {geometric_mean(many):.2f}, of one row {geometric_mean(few):.2f}, "
          f"all {geometric_mean([row['ratio'] for row in rows]):.2f}")


# ------------------------------------------------------------------------------------------------------- whole networks

def random_inputs(path):
    import numpy
    import onnx
    graph = onnx.load(str(path), load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    random = numpy.random.default_rng(0)
    return {value.name: random.standard_normal([dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]).astype(numpy.float32)
            for value in graph.input if value.name not in stored}


def turn(context, seconds):
    """The median of runs that take so long together, in ms."""
    times, end = [], time.perf_counter() + seconds
    context.run()
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        context.run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def layer_ratios(dense, sparse):
    """Of each layer, time in the dense engine by time in the sparse one: medians of profiles that take turns."""
    times = [(dense.layer_times(), sparse.layer_times()) for _ in range(41)]
    return {name: statistics.median(d[name] for d, _ in times) / statistics.median(s[name] for _, s in times)
            for name in times[0][0] if times[0][1].get(name)}


def compare_engines(path, threads, rounds, bf16):
    """In a process of its own, held to its instruction set: dense and enabled engines of a pruned network, in turns."""
    import camshaft_api
    import numpy
    inputs = random_inputs(path)
    with tempfile.TemporaryDirectory() as folder:
        cache = str(pathlib.Path(folder) / "times")
        dense = camshaft_api.Context(path, inputs, threads, timing_cache=cache, bf16=bf16)
        sparse = camshaft_api.Context(path, inputs, threads, timing_cache=cache, bf16=bf16, sparsity=1)
    dense.run(), sparse.run()
    difference = max(float(numpy.max(numpy.abs(a - b))) for a, b in zip(dense.outputs(), sparse.outputs()))
    turns = [(turn(dense, 0.3), turn(sparse, 0.3)) for _ in range(rounds)]
    layers = {layer["Name"]: layer for layer in sparse.layers()}
    same = {layer["Name"]: layer for layer in dense.layers()}
    picked = [name for name, layer in layers.items() if layer.get("Sparsity", {}).get("SparseTactic")]
    eligible = [name for name, layer in layers.items() if layer.get("Sparsity", {}).get("SparseTimeUs")]
    rounds = [layer_ratios(dense, sparse) for _ in range(3)]
    ratios = {name: statistics.median(each[name] for each in rounds) for name in picked if all(name in each for each in rounds)}
    slower = {name: ratios[name] for name in ratios if max(each[name] for each in rounds) < SLOWER}
    alike = [name for name, layer in same.items() if layers.get(name, {}).get("TacticName") == layer.get("TacticName") and name in rounds[0]]
    noise = min((max(each[name] for each in rounds) for name in alike), default=1)
    tuned = {name: layers[name]["Sparsity"]["DenseTimeUs"] / layers[name]["Sparsity"]["SparseTimeUs"] for name in ratios
             if layers[name]["Sparsity"].get("DenseTimeUs")}
    print(json.dumps({"tuned": tuned, "dense_ms": statistics.median(d for d, _ in turns), "sparse_ms": statistics.median(s for _, s in turns),
                      "ratio": statistics.median(d / s for d, s in turns), "difference": difference, "layers": len(layers),
                      "eligible": len(eligible), "picked": len(picked), "ratios": ratios, "slower": slower, "noise": noise}))


def compare_networks(arguments):
    print("\n| network | ISA | threads | dense ms | enabled ms | ratio | sparse layers (of those timed) | their gain, least | outputs differ by |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    slower = 0
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.networks:
            pruned = pathlib.Path(folder) / model.name
            subprocess.run([arguments.build / "bin/camshaft", "sparsify", model, "-o", pruned, *arguments.sparsify], check=True, stdout=subprocess.DEVNULL)
            for isa in arguments.isa:
                for threads in arguments.threads:
                    row = measure(sys.executable, isa, [__file__, "--worker", pruned, str(threads), f"--rounds={arguments.rounds}", *(["--bf16"] if arguments.bf16 else [])])[0]
                    ratios = row["ratios"].values()
                    gains = f"{geometric_mean(list(ratios)):.2f}, {min(ratios):.2f}" if ratios else "–"
                    print(f"| {model.stem} | {isa} | {threads} | {row['dense_ms']:.2f} | {row['sparse_ms']:.2f} | {row['ratio']:.2f} | "
                          f"{row['picked']} ({row['eligible']}) | {gains} | {row['difference']:g} |", flush=True)
                    for name, ratio in sorted(row["slower"].items(), key=lambda entry: entry[1]):
                        print(f"  slower than dense: {ratio:.3f} {name} (to the tuner {row['tuned'].get(name, 0):.3f}; same tactics: {row['noise']:.3f} at least)", flush=True)
                    slower += len(row["slower"])
                    if arguments.each:
                        for name, ratio in sorted(row["ratios"].items(), key=lambda entry: entry[1]):
                            print(f"  {ratio:.3f} in the network, {row['tuned'].get(name, 0):.3f} to the tuner: {name}")
    return 1 if slower else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--isa", nargs="+", default=["avx512", "avx_vnni", "avx2"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--codes", nargs="+", type=int, default=[127], help="the largest code of the inputs")
    parser.add_argument("--floats", action="store_true", help="float layers instead of int8")
    parser.add_argument("--bf16", action="store_true", help="products in bfloat16 instead of int8; with --networks: engines that may use it")
    parser.add_argument("--low-bits", action="store_true", help="products with codes of 4 bits in blocks of 32 instead of int8")
    parser.add_argument("--kept", nargs="+", type=float, help="shares of the weights that are not zero, without a pattern; else 2:4")
    parser.add_argument("--block", nargs=2, type=int, help="with --kept: input and output channels whose weights stay or go together")
    parser.add_argument("--networks", nargs="+", type=pathlib.Path, help="whole networks instead of layers")
    parser.add_argument("--each", action="store_true", help="with --networks: every layer that runs sparsely")
    parser.add_argument("--sparsify", nargs="+", default=[], help="with --networks: options of camshaft sparsify")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--layers", default="", help="only those whose network and name contain this")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    if arguments.worker:
        return compare_engines(arguments.worker[0], int(arguments.worker[1]), arguments.rounds, arguments.bf16)
    if arguments.networks:
        return compare_networks(arguments)
    program = arguments.build / "bin/sparse_bench"
    block = ["--block", *map(str, arguments.block)] if arguments.block else []
    types = [("codes of 4 bits", ["--low-bits"])] if arguments.low_bits else [("bfloat16", ["--bf16"])] if arguments.bf16 else [("floats", ["--floats"])] if arguments.floats else [(f"codes to {codes}", [f"--largest-code={codes}"]) for codes in arguments.codes]
    kinds = [(f"{title}, {f'{kept:.0%} of the weights' if kept else '2:4'}", options + ([f"--kept={kept}", *block] if kept else []))
             for title, options in types for kept in arguments.kept or [0]]
    layers = [f"--layers={arguments.layers}"] if arguments.layers else []
    for isa in arguments.isa:
        for threads in arguments.threads:
            for title, options in kinds:
                rows = measure(program, isa, [*options, f"--threads={threads}", f"--rounds={arguments.rounds}", *layers])
                report(rows, f"{isa}, {threads} thread{'s' if threads > 1 else ''}, {title}")


if __name__ == "__main__":
    sys.exit(main())
