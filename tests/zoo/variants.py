# SPDX-License-Identifier: Apache-2.0
"""Networks of a zoo folder in other forms, as other tools write them: what quantize.py and rewrite.py have in common."""
import argparse
import fnmatch
import json
import logging
import pathlib
import shutil
import tempfile

import numpy as np
import onnx
import onnxruntime
from data_sets import SETS, graph_inputs, information, load_arrays, save_arrays, session


def inputs_of(folder):
    names = [value.name for value in graph_inputs(onnx.load(folder / "model.onnx", load_external_data=False))]
    return dict(zip(names, load_arrays(folder / SETS[0], "input", len(names))))


def inputs_for(model, inputs):
    """Those of the network, in the types that the model takes."""
    types = {value.name: onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in model.graph.input}
    return {name: array.astype(types[name]) for name, array in inputs.items()}


def outputs_of(model, inputs):
    return session(model, optimized=False).run(None, inputs)


def largest_error(outputs, references):
    pairs = [(a.astype(np.float32), b) for a, b in zip(outputs, references) if a.dtype.kind == "f" and a.size]
    return max((float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in pairs), default=0.0)


def write(folder, out, kind, make):
    """Writes `out`, or nothing. make(folder, model) writes the model. Gives how far its outputs are from the network's."""
    with tempfile.TemporaryDirectory() as work:
        made = pathlib.Path(work) / "made"
        made.mkdir()
        make(folder, made / "model.onnx")
        inputs = inputs_of(folder)
        taken = inputs_for(onnx.load(made / "model.onnx", load_external_data=False), inputs)
        error = largest_error(outputs_of(made / "model.onnx", taken), outputs_of(folder / "model.onnx", inputs))
        info = information(folder) | {"name": out.name, "dialect": kind, "quantization_error": error, "dyn": {}}
        (made / "info.json").write_text(json.dumps(info, indent=1))
        save_arrays(made / SETS[0], "input", taken.keys(), taken.values())
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
    return error


def main(description, option, makers):
    """makers: what makes each of the forms that `option` names. Gives the exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="*", help="names, also with *, separated by commas")
    parser.add_argument(option, dest="kinds", help=f"of {','.join(makers)}; default: one for each network, in turn")
    arguments = parser.parse_args()
    chosen = arguments.kinds.split(",") if arguments.kinds else []
    if unknown := [kind for kind in chosen if kind not in makers]:
        parser.error(f"{option}: unknown {unknown[0]}")
    networks = sorted(path.parent for path in arguments.folder.glob("*/model.onnx") if any(fnmatch.fnmatch(path.parent.name, name) for name in arguments.only.split(",")))
    if not networks:
        parser.error(f"{arguments.folder}: no network of that name")
    logging.disable(logging.WARNING)  # of every node that stays as it was
    onnxruntime.set_default_logger_severity(4)
    failed = 0
    for k, folder in enumerate(networks):
        for kind in chosen or [list(makers)[k % len(makers)]]:
            name = f"{folder.name}_{kind}"
            try:
                print(f"[{k + 1}/{len(networks)}] {name}: {write(folder, arguments.out / name, kind, makers[kind]):.2g} from the network", flush=True)
            except Exception as error:  # the tools': the network is left out
                failed += 1
                print(f"[{k + 1}/{len(networks)}] {name}: left out: {str(error).splitlines()[0][:160] if str(error) else type(error).__name__}", flush=True)
    return 1 if failed and failed == len(networks) else 0
