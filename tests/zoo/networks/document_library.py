"""Reading documents as docTR does it: finders of text, readers of words, layouts and tables. Weights are seeded, nothing is downloaded."""

import importlib

import torch

import doctr.models  # noqa: F401  (names the package that is missing)

from . import alternating
from .libraries import DYNAMIC_BATCH, Flat

# module, model, shape of an input without the batch
READERS = [
    ("detection", "db_mobilenet_v3_large", (3, 256, 256)), ("detection", "linknet_resnet18", (3, 256, 256)), ("detection", "fast_tiny", (3, 256, 256)), ("detection", "db_resnet34", (3, 256, 256)),
    ("recognition", "crnn_mobilenet_v3_small", (3, 32, 128)), ("recognition", "crnn_vgg16_bn", (3, 32, 128)), ("recognition", "sar_resnet31", (3, 32, 128)),
    ("recognition", "master", (3, 32, 128)), ("recognition", "vitstr_small", (3, 32, 128)), ("recognition", "parseq", (3, 32, 128)), ("recognition", "viptr_tiny", (3, 32, 128)),
    ("classification", "magc_resnet31", (3, 32, 32)), ("classification", "starnet_s3", (3, 128, 128)), ("classification", "textnet_tiny", (3, 128, 128)),
    ("classification", "resnet31", (3, 32, 128)), ("layout", "lw_detr_s", (3, 256, 256)), ("table_structure", "tablecenternet", (3, 256, 256)),
]


def batch_of(shape, batch, seed=0):
    return {"image": torch.rand(batch, *shape, generator=torch.Generator().manual_seed(seed))}


def register(index, module_name, model, shape):
    dynamic = {"image": DYNAMIC_BATCH} if index % 3 == 2 else None

    @alternating(f"doctr_{model}", index, dynamic)
    def make():
        maker = getattr(importlib.import_module(f"doctr.models.{module_name}"), model)
        options = {} if module_name == "classification" else {"exportable": True}
        if module_name in ("detection", "recognition"):
            options["pretrained_backbone"] = False
        module = Flat(maker(pretrained=False, **options))
        return (module, batch_of(shape, 2), batch_of(shape, 3, 1)) if dynamic else (module, batch_of(shape, 2))


for position, row in enumerate(READERS):
    register(position, *row)
