"""Pictures made larger, cleaner or smaller: one of nearly every architecture that spandrel knows (super-resolution, denoising, faces, light), and compressai's
codecs. Weights are seeded, nothing is downloaded."""

import importlib

import torch

import spandrel  # noqa: F401  (names the package that is missing)
import spandrel_extra_arches  # noqa: F401

from . import alternating, network
from .libraries import Flat

ONLY_DYNAMO = ("FFTformer",)  # Fourier transforms
OPEN_EDGES = ("Compact", "DnCNN", "ESRGAN", "FDAT", "NAFNet", "SwiftSRGAN", "UpCunet2x")  # where any height and width will do

# architecture, class, options, edge of the picture; exporters and opsets alternate
RESTORERS = [
    ("CRAFT", "CRAFT", dict(depths=(1, 1), num_heads=(6, 6)), 64), ("Compact", "Compact", dict(num_conv=6), 128),
    ("DCTLSA", "DCTLSA", {}, 64), ("DITN", "DITN", {}, 64),
    ("DRCT", "DRCT", dict(depths=(2, 2), num_heads=(6, 6)), 64), ("DRUNet", "DRUNet", dict(nc=(16, 32, 64, 128), in_nc=4, out_nc=3), 128), ("DnCNN", "DnCNN", dict(nb=8, in_nc=3, out_nc=3), 128),
    ("ESRGAN", "ESRGAN", dict(num_blocks=3), 64), ("FDAT", "FDAT", {}, 64),
    ("FFTformer", "FFTformer", dict(dim=24, num_blocks=(1, 1, 2)), 64), ("HAT", "HAT", dict(depths=(2, 2), num_heads=(6, 6), window_size=16), 64),
    ("HVICIDNet", "HVICIDNet", {}, 128), ("KBNet", "KBNet_s", dict(width=16, middle_blk_num=1, enc_blk_nums=(1, 1), dec_blk_nums=(1, 1)), 64),
    ("MixDehazeNet", "MixDehazeNet", {}, 128), ("MoESR", "MoESR", {}, 64), ("MoSR", "MoSR", {}, 64),
    ("NAFNet", "NAFNet", dict(width=24, middle_blk_num=2, enc_blk_nums=(1, 1, 2), dec_blk_nums=(1, 1, 1)), 128), ("OmniSR", "OmniSR", {}, 64),
    ("PLKSR", "PLKSR", dict(n_blocks=6), 64), ("PLKSR", "RealPLKSR", dict(n_blocks=6), 64),
    ("RGT", "RGT", dict(depth=(2, 2), num_heads=(2, 2)), 64), ("RealCUGAN", "UpCunet2x", {}, 96), ("RealCUGAN", "UpCunet4x", {}, 64),
    ("SAFMN", "SAFMN", dict(dim=36), 128), ("SAFMNBCIE", "SAFMNBCIE", dict(dim=36), 128), ("SCUNet", "SCUNet", dict(config=(1, 1, 1, 1, 1, 1, 1)), 128),
    ("SwiftSRGAN", "SwiftSRGAN", {}, 128),
    ("Swin2SR", "Swin2SR", dict(window_size=8, depths=[2, 2], num_heads=[6, 6], upsampler="pixelshuffle", upscale=2), 64),
    ("SwinIR", "SwinIR", dict(window_size=8, depths=[2, 2], num_heads=[6, 6], upsampler="nearest+conv", upscale=4), 64),
    ("M3SNet", "M3SNet", {}, 64), ("FeMaSR", "FeMaSR", {}, 64), ("MPRNet", "MPRNet", {}, 64),
    ("Restormer", "Restormer", dict(dim=24, num_blocks=(1, 1, 1, 2), num_refinement_blocks=1), 64),
    ("SRFormer", "SRFormer", dict(img_size=48, window_size=12, depths=(2, 2), num_heads=(6, 6), upsampler="pixelshuffledirect", upscale=2), 48),
]
CODECS = ["FactorizedPrior", "FactorizedPriorReLU"]  # the others compute with erfc


def make_restorer(name, kind, options):
    for library in ("spandrel", "spandrel_extra_arches"):
        try:
            return getattr(importlib.import_module(f"{library}.architectures.{name}"), kind)(**options)
        except ModuleNotFoundError:
            continue
    raise ImportError(name)


def picture(edge, seed=0, channels=3):
    return {"image": torch.rand(1, channels, edge, edge, generator=torch.Generator().manual_seed(seed))}


def register_restorer(index, name, kind, options, edge):
    dynamic = {"image": {2: "height", 3: "width"}} if kind in OPEN_EDGES else None

    @alternating(f"restore_{kind.lower()}", index, dynamic, kind in ONLY_DYNAMO)
    def make():
        module = Flat(make_restorer(name, kind, options))
        channels = 4 if kind == "DRUNet" else 3  # the noise's level is the fourth
        inputs = picture(edge, channels=channels)
        return (module, inputs, picture(edge + 32, 1, channels)) if dynamic else (module, inputs)


def register_codec(kind):
    @network(f"codec_{kind.lower()}_ts", "script", 17)
    def make():
        import compressai.models
        return Flat(getattr(compressai.models, kind)(32, 48)), picture(128)


for position, row in enumerate(RESTORERS):
    register_restorer(position, *row)
for codec in CODECS:
    register_codec(codec)
