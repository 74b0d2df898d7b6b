"""The data sets a network of the zoo is compared on: one as exported, a second at other extents where it is dynamic, with the outputs of
ONNX Runtime without optimizations, and ONNX Runtime's own error: how far its optimized outputs are from these."""

import json
import pathlib
import re
import shutil

import numpy as np
import onnx
import onnx.numpy_helper

SETS = ("test_data_set_0", "test_data_set_1")


def graph_inputs(model):
    stored = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in stored]


def dynamic_axes(value):
    """Axis -> name of its extent, "" where it has none."""
    return {axis: dim.dim_param for axis, dim in enumerate(value.type.tensor_type.shape.dim) if not dim.HasField("dim_value") or dim.dim_value < 1}


def second_extents(inputs, batches=1, multiple=1):
    """Input -> extents of a second data set, from `inputs`: name -> (extents, dynamic axes). Leading axes, and those named as one is, are batches and
    grow by `batches`; the others grow by one common amount, a multiple of `multiple` (0: not at all), so that a cache of P and a mask of P + 1 stay a
    cache and its mask."""
    batch_names = {axes[0] for _, axes in inputs.values() if axes.get(0)}

    def is_batch(axis, name):
        return axis == 0 or name in batch_names
    lengths = [extents[axis] for extents, axes in inputs.values() for axis, name in axes.items() if not is_batch(axis, name)]
    growth = max(11, max(lengths, default=0) // 10)
    growth = -(-growth // multiple) * multiple if multiple else 0
    return {name: tuple(extent + ((batches if is_batch(axis, axes[axis]) else growth) if axis in axes else 0) for axis, extent in enumerate(extents))
            for name, (extents, axes) in inputs.items()}


# What is tried for the second data set, the first that the network takes: any extents; those of networks that halve an image five times and add what
# they enlarge again; another batch, other lengths alone.
SECOND_EXTENTS = [{}, {"multiple": 32}, {"multiple": 0}, {"batches": 0}, {"batches": 0, "multiple": 32}]


def second_set(plain, outputs, arrays, axes):
    """Inputs of a second data set, from those of the first and their dynamic axes; None: the network takes no others."""
    inputs = {name: (array.shape, axes[name]) for name, array in arrays.items()}
    tried = [{name: array.shape for name, array in arrays.items()}]
    for options in SECOND_EXTENTS:
        extents = second_extents(inputs, **options)
        if extents in tried:
            continue
        tried.append(extents)
        feeds = {name: stretched(array, extents[name]) for name, array in arrays.items()}
        try:
            plain.run(outputs, feeds)
        except Exception:  # noqa: BLE001, whatever ONNX Runtime's reason is
            continue
        return list(feeds.values())
    return None


def stretched(array, extents):
    """`array` at other extents: its own values over again, so that ids stay ids and masks stay masks."""
    for axis, extent in enumerate(extents):
        if extent != array.shape[axis]:
            array = np.take(array, np.arange(extent) % array.shape[axis], axis)
    return np.ascontiguousarray(array).reshape(extents)  # numpy makes a vector of a scalar


def load_arrays(folder, prefix, count):
    files = [folder / f"{prefix}_{index}.pb" for index in range(count)]
    return [onnx.numpy_helper.to_array(onnx.load_tensor(str(file))) for file in files if file.exists()]


def save_arrays(folder, prefix, names, arrays):
    folder.mkdir(parents=True, exist_ok=True)
    for index, (name, array) in enumerate(zip(names, arrays)):
        tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), name)
        (folder / f"{prefix}_{index}.pb").write_bytes(tensor.SerializeToString())


def relative_error(ours, theirs):
    """Largest |difference| over the largest finite |theirs|. Infinite where shapes, types of answers, or places of NaN and infinity differ; of integers
    and truth values, where any element differs."""
    if ours.shape != theirs.shape or ours.dtype.kind != theirs.dtype.kind:
        return float("inf")
    if theirs.size == 0:
        return 0.0
    if theirs.dtype.kind not in "fV":
        return 0.0 if np.array_equal(ours, theirs) else float("inf")
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(finite, np.isfinite(ours)) or not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    return float(np.abs(ours[finite] - theirs[finite]).max() / max(np.abs(theirs[finite]).max(), 1e-30))


def worst_error(outputs, references):
    if len(outputs) != len(references):
        return float("inf")
    return max((relative_error(ours, theirs) for ours, theirs in zip(outputs, references)), default=0.0)


def session(path, optimized):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def information(folder):
    """What export.py or variants.py wrote about a network."""
    info = folder / "info.json"
    return json.loads(info.read_text()) if info.exists() else {}


def exported_error(folder):
    """How far ONNX Runtime was from PyTorch when the network was exported, if that is known."""
    errors = information(folder).get("ort_vs_torch", [])
    return max((error for error in errors if isinstance(error, float)), default=0.0)


def prepare(source, target):
    """Writes the data sets of the network in `source` to `target`, with references. Returns what it found as a dictionary; stored, because it takes
    ONNX Runtime to compute."""
    path = source / "model.onnx"
    stamp = path.stat().st_mtime
    stored = target / "data.json"
    if stored.exists():
        facts = json.loads(stored.read_text())
        if facts["stamp"] == stamp:
            return facts
    model = onnx.load(str(path))
    values = graph_inputs(model)
    names, outputs = [value.name for value in values], [value.name for value in model.graph.output]
    first = load_arrays(source / SETS[0], "input", len(names))
    sets = [first]
    axes = {value.name: dynamic_axes(value) for value in values}
    if (source / SETS[1]).exists():
        sets.append(load_arrays(source / SETS[1], "input", len(names)))
    plain, optimized = session(path, False), session(path, True)
    if len(sets) == 1 and any(axes.values()):
        second = second_set(plain, outputs, dict(zip(names, first)), axes)
        sets += [second] if second else []
    own_error, largest = exported_error(source), []
    for folder, arrays in zip(SETS, sets):
        shutil.rmtree(target / folder, ignore_errors=True)
        feeds = dict(zip(names, arrays))
        references = plain.run(outputs, feeds)
        save_arrays(target / folder, "input", names, arrays)
        save_arrays(target / folder, "output", outputs, references)
        own_error = max(own_error, worst_error(optimized.run(outputs, feeds), references))
        largest.append([float(np.abs(array[np.isfinite(array)]).max(initial=0)) for array in references if array.dtype.kind == "f"])
    facts = {"stamp": stamp, "sets": len(sets), "inputs": names, "outputs": outputs, "onnxruntime_error": own_error, "largest": largest,
             "quantization_error": information(source).get("quantization_error", 0),
             "shapes": [[list(array.shape) for array in arrays] for arrays in sets],
             "opset": {item.domain: item.version for item in model.opset_import}, "producer": model.producer_name,
             "operators": len(model.graph.node), "megabytes": path.stat().st_size / 1e6}
    stored.write_text(json.dumps(facts))
    return facts


def compare_outputs(folder, target, index, names):
    """Worst error of the arrays that `camshaft run --save-outputs folder` wrote for data set `index`."""
    where = folder if index == 0 else folder / str(index)
    references = load_arrays(target / SETS[index], "output", len(names))
    files = output_files(where, names)
    if None in files:
        return float("inf")
    return worst_error([np.load(file) for file in files], references)


def output_files(folder, names):
    """The NPY file of every output, None where there is none; `camshaft run` replaces what file names cannot hold."""
    files = [pathlib.Path(folder) / (re.sub(r"[/\\\\:\x00-\x1f]", "_", name) + ".npy") for name in names]
    return [file if file.exists() else None for file in files]
