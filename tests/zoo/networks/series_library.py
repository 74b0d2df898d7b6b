"""Time series as tsai classifies and forecasts them: one of nearly every file it has. Weights are seeded, nothing is downloaded."""

import importlib
import inspect

import numpy as np
import torch
import tsai  # noqa: F401  (names the package that is missing)

from . import alternating
from .libraries import DYNAMIC_BATCH, Flat, without_zeros

CLASSES = 6
OPEN_LENGTH = {2: "length"}
ONLY_DYNAMO = ("HydraPlus", "TransformerModel")  # differences of neighbours, attention of an open length
ROCKET = dict(num_features=2000, max_dilations_per_kernel=8)

# file, what it is made with, class, variables, length, series, open axes; exporters and opsets alternate
MODELS = [
    ("InceptionTime", "InceptionTime", {}, 3, 512, 4, DYNAMIC_BATCH), ("InceptionTimePlus", "InceptionTimePlus", dict(coord=True, se=16), 8, 256, 4, None),
    ("XceptionTime", "XceptionTime", {}, 12, 500, 2, None), ("XceptionTimePlus", "XceptionTimePlus", dict(coord=True), 6, 300, 4, DYNAMIC_BATCH),
    ("ResNet", "ResNet", {}, 12, 1000, 2, OPEN_LENGTH), ("ResNetPlus", "ResNetPlus", dict(se=8), 9, 128, 8, None),
    ("ResCNN", "ResCNN", {}, 3, 144, 8, DYNAMIC_BATCH), ("FCN", "FCN", {}, 1, 720, 4, OPEN_LENGTH),
    ("OmniScaleCNN", "OmniScaleCNN", {}, 6, 96, 2, None), ("TCN", "TCN", {}, 24, 192, 4, OPEN_LENGTH),
    ("RNN_FCN", "LSTM_FCN", {}, 5, 150, 8, DYNAMIC_BATCH), ("RNN_FCN", "MGRU_FCN", {}, 5, 150, 8, None),
    ("RNN_FCNPlus", "MLSTM_FCNPlus", dict(shuffle=False, bidirectional=True), 16, 96, 4, None), ("mWDN", "mWDN", {}, 4, 256, 2, None),
    ("TST", "TST", dict(n_layers=2), 9, 128, 4, None), ("TSTPlus", "TSTPlus", dict(n_layers=2, norm="LayerNorm", pre_norm=True), 9, 200, 4, DYNAMIC_BATCH),
    ("TSiTPlus", "TSiTPlus", dict(depth=3, lsa=True, use_token=True), 12, 144, 2, None), ("TSSequencerPlus", "TSSequencerPlus", dict(depth=2), 7, 96, 4, DYNAMIC_BATCH),
    ("PatchTST", "PatchTST", dict(d_model=128, d_ff=256, pred_dim=96), 7, 336, 2, None),
    ("PatchTST", "PatchTST", dict(d_model=128, d_ff=256, pred_dim=48, n_heads=16, decomposition=True, individual=True), 21, 192, 1, None),
    ("XCM", "XCM", dict(nf=64), 6, 128, 4, DYNAMIC_BATCH), ("XCMPlus", "XCMPlus", dict(nf=32, window_perc=0.5), 10, 100, 4, None),
    ("gMLP", "gMLP", dict(depth=3), 16, 128, 2, None), ("MINIROCKETPlus_Pytorch", "MiniRocketPlus", ROCKET, 6, 150, 16, DYNAMIC_BATCH),
    ("MINIROCKET_Pytorch", "MiniRocketFeatures", ROCKET, 1, 256, 4, None), ("MINIROCKETPlus_Pytorch", "InceptionRocketPlus", ROCKET | {"add_lsaz": True, "kernel_sizes": [3, 5, 9]}, 3, 96, 16, None),
    ("MultiRocketPlus", "MultiRocketPlus", ROCKET, 3, 120, 16, None), ("HydraPlus", "HydraPlus", dict(g=32), 6, 152, 16, None),
    ("HydraMultiRocketPlus", "HydraMultiRocketPlus", ROCKET | {"g": 16}, 3, 100, 16, None), ("ConvTranPlus", "ConvTranPlus", dict(d_model=64), 12, 128, 4, DYNAMIC_BATCH),
    ("RNNPlus", "LSTMPlus", dict(hidden_size=[64, 128], bidirectional=True), 8, 96, 4, DYNAMIC_BATCH), ("RNNPlus", "GRUPlus", dict(hidden_size=[128], n_layers=2, last_step=False), 8, 120, 4, None),
    ("RNNAttention", "GRUAttention", dict(encoder_layers=2), 6, 128, 2, None), ("TransformerModel", "TransformerModel", dict(d_model=128, n_head=8, n_layers=2), 32, 160, 2, OPEN_LENGTH),
    ("TransformerRNNPlus", "TransformerLSTMPlus", dict(dim_feedforward=512, num_encoder_layers=2), 16, 100, 2, None),
    ("TSPerceiver", "TSPerceiver", dict(n_latents=64, n_layers=3), 5, 256, 8, DYNAMIC_BATCH),
    ("XResNet1dPlus", "xresnet1d18plus", {}, 12, 500, 2, OPEN_LENGTH), ("MLP", "MLP", dict(use_bn=True), 4, 96, 8, DYNAMIC_BATCH),
]
# kinds of values in three columns, and seven numbers beside them
CATEGORIES, NUMBERS = {f"kind{size}": list(range(size)) for size in (12, 7, 31)}, [f"number{index}" for index in range(7)]
TABLES = [("TabFusionTransformer", {}, False), ("GatedTabTransformer", dict(n_layers=3), True), ("TabTransformer", dict(n_layers=3), False)]


def series(count, variables, length, seed=0):
    """Values of six bits behind the point: sums that Rocket's kernels compare with their thresholds are exact."""
    return {"x": (torch.randn(count, variables, length, generator=torch.Generator().manual_seed(seed)) * 64).round() / 64}


def prepared(module, values):
    """Thresholds of Rocket's kernels as other series give them, and no position at zero."""
    for part in module.modules():
        if hasattr(part, "prefit"):
            part.fit(values)
            del part.prefit
            part.prefit = True
        if hasattr(part, "paddings"):  # of Hydra's kernels: numbers, which no exporter follows as tensors
            part.dilations, part.paddings = part.dilations.numpy(), part.paddings.numpy()
    return without_zeros(module)


def register(index, file, kind, options, variables, length, count, axes):
    dynamic = {"x": axes} if axes else None
    again = "_decomposed" if "decomposition" in options else ""

    @alternating(f"tsai_{kind.lower()}{again}", index, dynamic, kind in ONLY_DYNAMO)
    def make():
        np.random.seed(index)  # Rocket's kernels combine channels by it
        maker = getattr(importlib.import_module(f"tsai.models.{file}"), kind)
        known = inspect.signature(maker).parameters
        sizes = {name: size for name, size in (("c_out", CLASSES), ("seq_len", length)) if name in known or "args" in known}
        module = Flat(prepared(maker(variables, **sizes, **options), series(32, variables, length, 2)["x"]))
        other = series(count + (axes == DYNAMIC_BATCH), variables, length + 64 * (axes == OPEN_LENGTH), 1)
        return (module, series(count, variables, length)) + ((other,) if dynamic else ())


def rows(count, seed=0):
    random = torch.Generator().manual_seed(seed)
    kinds = [torch.randint(len(kind), (count,), generator=random) for kind in CATEGORIES.values()]
    return {"categories": torch.stack(kinds, 1), "numbers": torch.randn(count, len(NUMBERS), generator=random)}


def register_table(index, kind, options, dynamic):
    axes = {"categories": DYNAMIC_BATCH, "numbers": DYNAMIC_BATCH} if dynamic else None

    @alternating(f"tsai_{kind.lower()}", index, axes)
    def make():
        module = getattr(importlib.import_module(f"tsai.models.{kind}"), kind)(CATEGORIES, NUMBERS, CLASSES, **options)
        return (prepared(module, None), rows(32)) + ((rows(48, 1),) if dynamic else ())


for position, row in enumerate(MODELS):
    register(position, *row)
for position, row in enumerate(TABLES):
    register_table(position, *row)
