"""Times and facts of every layer of a network: what `camexec --exportProfile --exportLayerInfo` writes, joined."""

import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("CAMSHAFT_BUILD", ROOT / "build" / "release"))
CAMEXEC = BUILD / "bin" / "camexec"


def input_options(model):
    """The stored data set beside the model as options of camexec: its files, and its shapes where the model leaves extents open."""
    import onnx
    import onnx.numpy_helper
    graph = onnx.load(str(model), load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    files, shapes = [], []
    for index, value in enumerate(value for value in graph.input if value.name not in stored):
        file = pathlib.Path(model).parent / "test_data_set_0" / f"input_{index}.pb"
        if not file.exists():
            continue
        files.append(f"'{value.name}':{file}")
        if not all(dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim):
            extents = onnx.load_tensor(str(file)).dims
            shapes.append(f"'{value.name}':" + ("x".join(map(str, extents)) or "scalar"))
    return ([f"--loadInputs={','.join(files)}"] if files else []) + ([f"--shapes={','.join(shapes)}"] if shapes else [])


def profile_layers(model, threads=1, seconds=0.3, timing_cache="", prefix=(), timeout=None):
    """Layers in execution order: dictionaries of name, type, tactic ("reference" where no other took it), ms, macs, bytes (activations and constants
    touched once), precision, inputs and outputs as text. The layers inside an If, Loop or Scan follow it; its own time is what these leave. Raises RuntimeError with the program's error."""
    with tempfile.TemporaryDirectory() as folder:
        profile, info = pathlib.Path(folder) / "profile.json", pathlib.Path(folder) / "layers.json"
        command = [*prefix, str(CAMEXEC), f"--onnx={model}", *input_options(model), f"--numThreads={threads}", f"--duration={seconds}", "--warmUp=50",
                   "--separateProfileRun", "--dumpProfile", f"--exportProfile={profile}", f"--exportLayerInfo={info}"]
        if timing_cache:
            command.append(f"--timingCacheFile={timing_cache}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "[E]" in line]
            raise RuntimeError((errors or done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
        rows = {row["name"]: row for row in json.loads(profile.read_text()) if "name" in row}
        return [row for layer in json.loads(info.read_text())["Layers"] for row in opened(layer, rows.get(layer["Name"], {}))]


def opened(layer, row, inside=None):
    """The layer's row, and those of the layers in its bodies."""
    inside = {inner["name"]: inner for inner in row.get("layers", [])} if inside is None else inside
    children = [child for body in layer.get("Bodies", []) for child in body["Layers"]]
    spent = sum(inside.get(child["Name"], {}).get("medianMs", 0.0) for child in children)
    rows = [joined(layer, max(row.get("medianMs", 0.0) - spent, 0.0))]
    for child in children:
        rows += opened({"Inputs": [], "Outputs": [], **child}, inside.get(child["Name"], {}), inside)
    return rows


def tactic(layer):
    if layer["LayerType"] == "NoOp" or layer.get("TacticName"):
        return layer.get("TacticName", "")
    return "its body" if layer.get("Bodies") else "when run" if layer.get("TacticWhenRun") else "reference"


def joined(layer, ms):
    kind = layer["LayerType"]
    return {"name": layer["Name"], "type": layer.get("OpType", kind) if kind == "Generic" else kind,
            "tactic": tactic(layer), "ms": ms, "macs": layer.get("FLOPs", 0) / 2,
            "bytes": max(layer.get("Bytes", 0), 0) + layer.get("WeightBytes", 0), "precision": layer.get("Precision", ""),
            "inputs": [extents(tensor) for tensor in layer["Inputs"]], "outputs": [extents(tensor) for tensor in layer["Outputs"]]}


def extents(tensor):
    return "x".join(map(str, tensor["Dimensions"])) or "scalar"
