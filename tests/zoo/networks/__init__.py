"""The zoo's own networks: every file registers some with @network. Real widths, few layers, seeded weights; nothing is downloaded."""

import importlib

REGISTRY = {}
TORCH_FILES = ("classification", "mobile", "dense", "detection", "geometry", "audio", "speech", "text", "decoders", "scans", "generative", "tabular", "windows", "sequences", "scripted", "newer", "lately", "further", "routed", "warped", "attended", "libraries", "diffusion_library", "graph_library", "vision_library", "restoration_library", "document_library", "attention_library", "segmentation_library", "image_text_library", "series_library", "sound_library", "tables_library", "language_library")
OTHER_FILES = ("scikit_learn", "keras_layers")  # their exporters live in an environment of their own: see README.md


class Network:
    """`make()` gives (module, inputs) or (module, inputs, other inputs): dictionaries of tensors, in the order of forward's parameters. `dynamic`: input
    name -> {axis: symbol}; the other inputs then have other extents there. `exporter`: "script" (TorchScript) or "dynamo"."""

    def __init__(self, name, exporter, opset, dynamic, make):
        self.name, self.exporter, self.opset, self.dynamic, self.make = name, exporter, opset, dynamic or {}, make


def network(name, exporter, opset, dynamic=None):
    def register(make):
        assert name not in REGISTRY, name
        REGISTRY[name] = Network(name, exporter, opset, dynamic, make)
        return make
    return register


def alternating(name, index, dynamic=None, only_dynamo=False):
    """@network of a row of a table: the rows take turns between the exporters, and the name says which it was."""
    exporter, opset = ("script", 17) if index % 2 and not only_dynamo else ("dynamo", 20)
    return network(name + ("_ts" if exporter == "script" else "") + ("_dyn" if dynamic else ""), exporter, opset, dynamic)


def load_all(files):
    """Imports the files whose packages are here; gives {file: why not} of the others."""
    missing = {}
    for file in files:
        try:
            importlib.import_module(f"networks.{file}")
        except ImportError as error:
            missing[file] = str(error)
    return missing
