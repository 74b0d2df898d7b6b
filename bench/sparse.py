"""Sparse tactics beside our own dense ones on the same weights, in turns in one process: int8 2:4, or floats with --floats.

    bench/sparse.py [--build build/release] [--isa avx512 avx_vnni avx2] [--threads 1 2] [--codes 127 255]
    bench/sparse.py --floats [--kept 0.1 0.2]

Per layer shape of ResNet-50, BERT-base, MobileNetV2 and YOLOv8s the fastest dense and the fastest sparse tactic; ratios above 1 are
gains. An engine built with --sparsity=enable takes the faster of both, so ratios below 1 cost nothing but time to build.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--isa", nargs="+", default=["avx512", "avx_vnni", "avx2"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--codes", nargs="+", type=int, default=[127], help="the largest code of the inputs")
    parser.add_argument("--floats", action="store_true", help="float layers instead of int8")
    parser.add_argument("--kept", nargs="+", type=float, help="with --floats: shares of the weights that are not zero, without a pattern; else 2:4")
    parser.add_argument("--layers", default="", help="only those whose network and name contain this")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    program = arguments.build / "bin/sparse_bench"
    if arguments.floats:
        kinds = [(f"floats, {f'{kept:.0%} of the weights' if kept else '2:4'}", ["--floats"] + ([f"--kept={kept}"] if kept else []))
                 for kept in arguments.kept or [0]]
    else:
        kinds = [(f"codes to {codes}", [f"--largest-code={codes}"]) for codes in arguments.codes]
    for isa in arguments.isa:
        for threads in arguments.threads:
            for title, options in kinds:
                rows = measure(program, isa, [*options, f"--threads={threads}", f"--rounds={arguments.rounds}", f"--layers={arguments.layers}"])
                report(rows, f"{isa}, {threads} thread{'s' if threads > 1 else ''}, {title}")


if __name__ == "__main__":
    main()
