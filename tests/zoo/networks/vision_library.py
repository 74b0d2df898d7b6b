"""Vision transformers as vit-pytorch writes them, with einops: one of nearly every file it has. Weights are seeded, nothing is downloaded."""

import importlib

import torch
import vit_pytorch  # noqa: F401  (names the package that is missing)

from . import alternating
from .libraries import DYNAMIC_BATCH, Flat

PATCHES = dict(image_size=224, patch_size=16, num_classes=100, dim=256, depth=3, heads=4, mlp_dim=512)
CLIP = dict(image_size=112, image_patch_size=16, frames=8, frame_patch_size=2, num_classes=100, dim=256, depth=3, heads=4, mlp_dim=512)
FACTORED_CLIP = {name: value for name, value in CLIP.items() if name != "depth"} | dict(spatial_depth=2, temporal_depth=2)
PICTURE, VIDEO, SERIES = (3, 224, 224), (3, 8, 112, 112), (3, 256)

ONLY_DYNAMO = ("attn_residual_with_dca_simple_vit", "vit_for_small_dataset", "vivit_with_moss")  # operators that opset 17 lacks or ONNX Runtime does

# file, class, what it is made with, shape of an input without the batch; exporters and opsets alternate, every third has an open batch
VARIANTS = [
    ("vit", "ViT", PATCHES, PICTURE), ("simple_vit", "SimpleViT", PATCHES, PICTURE),
    ("attn_residual_with_dca_simple_vit", "SimpleViT", PATCHES, PICTURE), ("cait", "CaiT", PATCHES | {"cls_depth": 2}, PICTURE),
    ("deepvit", "DeepViT", PATCHES, PICTURE), ("jet_vit", "JetViT", PATCHES, PICTURE),
    ("look_vit", "LookViT", dict(dim=256, image_size=256, num_classes=100, depth=2, heads=4, patch_size=32, highres_patch_size=16), (3, 256, 256)),
    ("crossformer", "CrossFormer", dict(num_classes=100, dim=(64, 128, 256, 512), depth=(1, 1, 2, 1)), PICTURE),
    ("levit", "LeViT", dict(image_size=224, num_classes=100, stages=3, dim=(128, 256, 384), depth=2, heads=(4, 6, 8), mlp_mult=2), PICTURE),
    ("max_vit", "MaxViT", dict(num_classes=100, dim=64, depth=(1, 1, 2, 1), dim_conv_stem=32), PICTURE),
    ("max_vit_with_registers", "MaxViT", dict(num_classes=100, dim=64, depth=(1, 1, 1, 1), dim_conv_stem=32), PICTURE),
    ("mobile_vit", "MobileViT", dict(image_size=(256, 256), dims=[96, 120, 144], channels=[16, 32, 48, 48, 64, 64, 80, 80, 96, 96, 384], num_classes=100), (3, 256, 256)),
    ("mp3", "ViT", PATCHES, PICTURE), ("nest", "NesT", dict(image_size=224, patch_size=4, dim=96, heads=3, num_hierarchies=3, block_repeats=(1, 1, 4), num_classes=100), PICTURE),
    ("normalized_vit", "nViT", PATCHES, PICTURE), ("parallel_vit", "ViT", PATCHES, PICTURE),
    ("pit", "PiT", dict(image_size=224, patch_size=14, dim=128, num_classes=100, depth=(2, 2, 2), heads=4, mlp_dim=256), PICTURE),
    ("regionvit", "RegionViT", dict(num_classes=100, dim=(64, 128, 256, 512), depth=(1, 1, 2, 1)), PICTURE),
    ("rvt", "RvT", PATCHES, PICTURE), ("scalable_vit", "ScalableViT", dict(num_classes=100, dim=64, heads=(2, 4, 8, 16), depth=(1, 1, 2, 1), ssa_dim_key=(40, 40, 40, 32), reduction_factor=(8, 4, 2, 1), window_size=(64, 32, None, None)), (3, 256, 256)),
    ("sep_vit", "SepViT", dict(num_classes=100, dim=32, dim_head=32, heads=(1, 2, 4, 8), depth=(1, 2, 2, 1)), PICTURE),
    ("simple_uvit", "SimpleUViT", PATCHES | {"depth": 4}, PICTURE), ("simple_vit_attn_residual", "SimpleViTAttnResidual", PATCHES, PICTURE),
    ("simple_vit_orthog_residual_update", "SimpleViT", PATCHES, PICTURE),
    ("simple_vit_with_hyper_connections", "SimpleViT", PATCHES | {"num_residual_streams": 4}, PICTURE), ("simple_vit_with_qk_norm", "SimpleViT", PATCHES, PICTURE),
    ("simple_vit_with_register_tokens", "SimpleViT", PATCHES, PICTURE), ("simple_vit_with_relative_proj_pos_bias", "SimpleViT", PATCHES, PICTURE),
    ("simple_vit_with_sparse_gating", "SimpleViTWithSparseGating", PATCHES, PICTURE), ("simple_vit_with_specialized_cls", "SimpleViT", PATCHES, PICTURE),
    ("simple_vit_with_value_residual", "SimpleViT", PATCHES, PICTURE), ("looped_vit", "LoopedViT", dict(num_classes=100, dim=256, image_size=224, patch_size=16, pre_loop_depth=1, num_looped_blocks=2, post_loop_depth=1, loop_depth=2, heads=4, mlp_dim=512), PICTURE),
    ("t2t", "T2TViT", dict(dim=256, image_size=224, depth=2, heads=4, mlp_dim=512, num_classes=100, t2t_layers=((7, 4), (3, 2), (3, 2))), PICTURE),
    ("vit_5", "ViT", PATCHES, PICTURE), ("vit_detpool", "ViTDetPool", PATCHES, PICTURE), ("vit_for_small_dataset", "ViT", PATCHES, PICTURE),
    ("vit_with_keel_post_ln", "ViT", PATCHES, PICTURE), ("vit_with_patch_merger", "ViT", PATCHES | {"patch_merge_layer": 1}, PICTURE),
    ("wwt", "WWT", dict(image_size=224, patch_size=16, num_classes=100, dim=256, depth=3, num_slots=16, heads=4), PICTURE),
    ("xcit", "XCiT", PATCHES | {"cls_depth": 2}, PICTURE), ("cct", "CCT", dict(img_size=(224, 448), embedding_dim=256, n_conv_layers=2, kernel_size=7, stride=2, padding=3, pooling_kernel_size=3, pooling_stride=2, pooling_padding=1, num_layers=2, num_heads=4, mlp_ratio=3.0, num_classes=100, positional_embedding="learnable"), (3, 224, 448)),
    ("cvt", "CvT", dict(num_classes=100, s1_emb_dim=64, s1_heads=1, s1_depth=1, s2_emb_dim=192, s2_heads=3, s2_depth=1, s3_emb_dim=384, s3_heads=4, s3_depth=2), PICTURE),
    ("twins_svt", "TwinsSVT", dict(num_classes=100, s1_emb_dim=64, s2_emb_dim=128, s3_emb_dim=256, s4_emb_dim=512, s3_depth=2, s4_depth=1), PICTURE),
    ("cross_vit", "CrossViT", dict(image_size=256, num_classes=100, depth=2, sm_dim=192, sm_patch_size=16, sm_enc_depth=1, sm_enc_heads=4, sm_enc_mlp_dim=512, lg_dim=384, lg_patch_size=64, lg_enc_depth=2, lg_enc_heads=4, lg_enc_mlp_dim=512, cross_attn_depth=1, cross_attn_heads=4), (3, 256, 256)),
    ("simple_vit_3d", "SimpleViT", CLIP, VIDEO), ("vit_3d", "ViT", CLIP, VIDEO),
    ("vivit", "ViViT", FACTORED_CLIP, VIDEO), ("vivit_with_moss", "ViViT", FACTORED_CLIP, VIDEO),
    ("simple_vit_1d", "SimpleViT", dict(seq_len=256, patch_size=16, num_classes=100, dim=256, depth=3, heads=4, mlp_dim=512), SERIES),
    ("vit_1d", "ViT", dict(seq_len=256, patch_size=16, num_classes=100, dim=256, depth=3, heads=4, mlp_dim=512), SERIES),
    ("vat", "ViT", PATCHES, PICTURE),
    ("vat_siglip", "SigLIP", dict(image_size=224, patch_size=14, dim=288, depth=2, heads=4, mlp_dim=1076), PICTURE),
]


def batch_of(shape, batch, seed=0):
    return {"image": torch.randn(batch, *shape, generator=torch.Generator().manual_seed(seed))}


def register(index, file, kind, options, shape):
    dynamic = {"image": DYNAMIC_BATCH} if index % 3 == 2 else None

    @alternating(f"vitpt_{file}", index, dynamic, file in ONLY_DYNAMO)
    def make():
        module = Flat(getattr(importlib.import_module(f"vit_pytorch.{file}"), kind)(**options))
        return (module, batch_of(shape, 2), batch_of(shape, 3, 1)) if dynamic else (module, batch_of(shape, 1))


for position, row in enumerate(VARIANTS):
    register(position, *row)
