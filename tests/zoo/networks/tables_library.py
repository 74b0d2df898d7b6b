"""Networks on tables as packages build them: click rates (deepctr-torch), TabNet, and what Yandex Research calls strong baselines (rtdl), with and without
embeddings of numbers. Weights are seeded, nothing is downloaded."""

import torch
from torch import nn

import rtdl_num_embeddings
import rtdl_revisiting_models
from deepctr_torch import models
from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat, build_input_features
from deepctr_torch.models import multitask
from pytorch_tabnet import tab_network

from . import alternating
from .libraries import DYNAMIC_BATCH, Flat, Leading

SCALE = dict(init_std=0.3)  # embeddings: their own 1e-4 would leave nothing to see
VOCABULARY, WIDTH, HISTORY = 1000, 16, 20
CATEGORIES = [12, 40, 7, 300, 25]
ONLY_SCRIPT = ("ctr_dien", "tabnet_kinds")  # sequences of differing lengths, a mask asked one by one

# model, rows of the table, options; exporters and opsets alternate, every third has an open batch
CLICKS = [
    ("WDL", 256, {}), ("DeepFM", 256, {}), ("xDeepFM", 64, dict(cin_layer_size=(64, 32), dnn_hidden_units=(128, 128))), ("AFM", 128, {}), ("NFM", 256, {}), ("DCN", 512, {}),
    ("DCN", 256, dict(cross_parameterization="matrix", cross_num=3, dnn_use_bn=True)), ("DCNMix", 128, {}), ("AutoInt", 256, {}), ("FiBiNET", 128, {}), ("FiBiNET", 64, dict(bilinear_type="each")),
    ("ONN", 64, {}), ("PNN", 128, dict(use_outter=True)), ("PNN", 64, dict(use_outter=True, kernel_type="vec")), ("IFM", 256, {}), ("DIFM", 128, {}), ("AFN", 128, {}), ("CCPM", 128, {}), ("MLR", 512, {}),
    ("DIN", 128, {}), ("DIN", 64, dict(att_weight_normalization=True, att_activation="sigmoid")), ("DIEN", 64, {}),
]
TASKS = [("SharedBottom", {}), ("ESMM", {}), ("MMOE", {}), ("PLE", dict(num_levels=2))]


def columns(history=False, dense=6):
    found = [SparseFeat(f"kind{index}", VOCABULARY, embedding_dim=WIDTH) for index in range(8)] + [DenseFeat(f"value{index}", 1) for index in range(dense)]
    if history:
        of_items = dict(embedding_dim=WIDTH, embedding_name="kind0")
        found.append(VarLenSparseFeat(SparseFeat("hist_kind0", VOCABULARY, **of_items), maxlen=HISTORY, length_name="clicks"))
    return found


def rows(batch, features, seed=0):
    """One table of floats, as the models take it: numbers of kinds, values, then clicks of the past and how many."""
    random = torch.Generator().manual_seed(seed)
    parts = []
    for name, (start, end) in build_input_features(features).items():
        if name == "clicks":
            parts.append(torch.randint(1, HISTORY + 1, (batch, 1), generator=random).float())
        elif name.startswith("value"):
            parts.append(torch.randn(batch, end - start, generator=random))
        else:
            parts.append(torch.randint(1, VOCABULARY, (batch, end - start), generator=random).float())
    return {"table": torch.cat(parts, 1)}


def register_table(position, name, make_module, make_inputs, batch):
    dynamic = {"table": DYNAMIC_BATCH} if position % 3 == 2 else None

    @alternating(name, 1 if name in ONLY_SCRIPT else position, dynamic)
    def make():
        module = Flat(make_module())
        return (module, make_inputs(batch), make_inputs(batch // 2 + 3, 1)) if dynamic else (module, make_inputs(batch))


def click_model(kind, options):
    if kind in ("DIN", "DIEN"):
        return getattr(models, kind)(columns(True), ["kind0"], **SCALE, **options)
    if kind == "PNN":
        return models.PNN(columns(), **SCALE, **options)
    if kind == "MLR":
        return models.MLR(columns(), **SCALE, **options)
    if hasattr(multitask, kind):
        return getattr(multitask, kind)(columns(), task_types=["binary", "binary"], task_names=["ctr", "ctcvr"], **SCALE, **options)
    return getattr(models, kind)(columns(), columns(dense=0 if kind in ("AFM", "CCPM") else 6), **SCALE, **options)


def register_clicks(position, kind, batch, options):
    words = [value for value in options.values() if isinstance(value, str)]
    register_table(position, "_".join(["ctr", kind.lower(), *words]), lambda: click_model(kind, options), lambda batch, seed=0: rows(batch, columns(kind in ("DIN", "DIEN")), seed), batch)


def values(batch, seed=0):
    return {"table": torch.randn(batch, 40, generator=torch.Generator().manual_seed(seed))}


def values_and_kinds(batch, seed=0):
    """A table whose first columns are numbers of categories."""
    random = torch.Generator().manual_seed(seed)
    kinds = [torch.randint(0, most, (batch, 1), generator=random).float() for most in CATEGORIES]
    return {"table": torch.cat([*kinds, torch.randn(batch, 35, generator=random)], 1)}


class Halves(nn.Module):
    """The columns of categories apart from those of numbers."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, table):
        return self.inner(table[:, len(CATEGORIES):], table[:, :len(CATEGORIES)].long())


def bins(seed=7):
    return rtdl_num_embeddings.compute_bins(torch.randn(2000, 40, generator=torch.Generator().manual_seed(seed)), n_bins=24)


def embedded(embedding, width):
    return nn.Sequential(embedding, nn.Flatten(), rtdl_revisiting_models.MLP(d_in=40 * width, d_out=10, n_blocks=2, d_block=256, dropout=0.1))


TABNET = dict(input_dim=40, output_dim=10, n_d=32, n_a=32, n_steps=4)
KINDS = dict(cat_idxs=list(range(len(CATEGORIES))), cat_dims=CATEGORIES, cat_emb_dim=[4] * len(CATEGORIES))
TRANSFORMER = dict(n_blocks=3, d_block=192, attention_n_heads=8, attention_dropout=0.2, ffn_d_hidden_multiplier=4 / 3, ffn_dropout=0.1, residual_dropout=0.0)

# name, what makes it, its table, how many rows
TABULAR = [
    ("tabnet_plain", lambda: Leading(tab_network.TabNetNoEmbeddings(**TABNET)), values, 128),
    ("tabnet_entmax", lambda: Leading(tab_network.TabNetNoEmbeddings(**TABNET, mask_type="entmax")), values, 128),
    ("tabnet_kinds", lambda: Leading(tab_network.TabNet(**TABNET, **KINDS, group_attention_matrix=torch.eye(40))), values_and_kinds, 128),
    ("tabnet_virtual_batches", lambda: Leading(tab_network.TabNetNoEmbeddings(**TABNET, virtual_batch_size=64)), values, 512),
    ("tabnet_pretraining", lambda: Leading(tab_network.TabNetPretraining(input_dim=40, n_d=16, n_a=16, group_attention_matrix=torch.eye(40))), values, 128),
    ("rtdl_mlp", lambda: rtdl_revisiting_models.MLP(d_in=40, d_out=10, n_blocks=4, d_block=384, dropout=0.1), values, 512),
    ("rtdl_resnet", lambda: rtdl_revisiting_models.ResNet(d_in=40, d_out=10, n_blocks=4, d_block=192, d_hidden_multiplier=2.0, dropout1=0.1, dropout2=0.0), values, 256),
    ("rtdl_ft", lambda: Halves(rtdl_revisiting_models.FTTransformer(n_cont_features=35, cat_cardinalities=CATEGORIES, d_out=10, **TRANSFORMER)), values_and_kinds, 64),
    ("rtdl_ft_linformer", lambda: Halves(rtdl_revisiting_models.FTTransformer(n_cont_features=35, cat_cardinalities=CATEGORIES, d_out=10, **TRANSFORMER, linformer_kv_compression_ratio=0.3, linformer_kv_compression_sharing="headwise")), values_and_kinds, 64),
    ("rtdl_periodic", lambda: embedded(rtdl_num_embeddings.PeriodicEmbeddings(40, 24, frequency_init_scale=0.3, lite=False), 24), values, 256),
    ("rtdl_periodic_lite", lambda: embedded(rtdl_num_embeddings.PeriodicEmbeddings(40, 24, frequency_init_scale=0.3, lite=True), 24), values, 256),
    ("rtdl_piecewise", lambda: embedded(rtdl_num_embeddings.PiecewiseLinearEmbeddings(bins(), 16, activation=True, version="A"), 16), values, 128),
    ("rtdl_piecewise_b", lambda: embedded(rtdl_num_embeddings.PiecewiseLinearEmbeddings(bins(), 16, activation=False, version="B"), 16), values, 128),
    ("rtdl_linear_relu", lambda: embedded(rtdl_num_embeddings.LinearReLUEmbeddings(40, 24), 24), values, 128),
]

for place, (model, size, settings) in enumerate(CLICKS + [(task, 128, settings) for task, settings in TASKS]):
    register_clicks(place, model, size, settings)
for place, row in enumerate(TABULAR):
    register_table(place, *row)
