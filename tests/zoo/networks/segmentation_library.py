"""Segmenters as packages build them: every decoder of segmentation_models_pytorch, each time on another encoder, and the parts of segment_anything. Weights are
seeded, nothing is downloaded."""

from functools import partial

import segment_anything.modeling as sam
import segmentation_models_pytorch as smp
import torch
from segment_anything.utils.onnx import SamOnnxModel
from torch import nn

from . import alternating, network
from .libraries import DYNAMIC_BATCH, Flat

OPEN_SIZE = {2: "height", 3: "width"}
FUSED = dict(decoder_intermediate_channels=(64, 128, 256, 256), decoder_fusion_channels=128)
LABELS = dict(aux_params=dict(classes=10, pooling="avg"))  # a classifier beside the mask
SLIM = dict(decoder_channels=(128, 64, 32, 16, 16))
ONE_VALUE_PER_CHANNEL = ("PSPNet", "PAN", "DeepLabV3", "DeepLabV3Plus", "UPerNet", "timm-skresnet18")  # BatchNorm behind the pooling: statistics need two pictures

# decoder, encoder, options, edge of the picture, open axes; exporters and opsets alternate
SEGMENTERS = [
    ("Unet", "resnet34", {}, 256, OPEN_SIZE), ("Unet", "vgg11_bn", SLIM | {"decoder_attention_type": "scse"}, 224, None),
    ("Unet", "se_resnet50", LABELS | dict(encoder_depth=4, decoder_channels=(128, 64, 32, 16)), 224, None), ("Unet", "xception", SLIM, 256, DYNAMIC_BATCH),
    ("UnetPlusPlus", "efficientnet-b0", {}, 224, None), ("UnetPlusPlus", "mobileone_s0", SLIM, 224, DYNAMIC_BATCH),
    ("MAnet", "tu-mobilenetv3_small_100", {}, 256, DYNAMIC_BATCH), ("MAnet", "mobilenet_v2", dict(encoder_depth=4, decoder_channels=(128, 64, 32, 16), decoder_pab_channels=32), 224, None),
    ("Linknet", "densenet121", {}, 224, None), ("Linknet", "resnet18", {}, 256, OPEN_SIZE),
    ("FPN", "timm-skresnet18", {}, 256, OPEN_SIZE), ("FPN", "se_resnext50_32x4d", dict(encoder_depth=4, decoder_merge_policy="cat", upsampling=2), 224, None),
    ("PSPNet", "dpn68", dict(encoder_depth=3), 240, None), ("PSPNet", "inceptionv4", dict(encoder_depth=3), 192, None),
    ("PAN", "timm-efficientnet-b0", {}, 256, None), ("PAN", "tu-resnest14d", {}, 256, DYNAMIC_BATCH),
    ("DeepLabV3", "timm-tf_efficientnet_lite0", {}, 224, None), ("DeepLabV3", "tu-regnetx_002", dict(decoder_channels=128), 224, None),
    ("DeepLabV3Plus", "resnext50_32x4d", dict(decoder_channels=128), 224, None), ("DeepLabV3Plus", "tu-fbnetc_100", LABELS, 256, DYNAMIC_BATCH),
    ("UPerNet", "tu-swin_tiny_patch4_window7_224", dict(decoder_channels=64), 224, None), ("UPerNet", "tu-convnext_atto", dict(decoder_channels=128), 192, None),
    ("Segformer", "mit_b0", {}, 256, None), ("Segformer", "tu-ghostnet_100", {}, 224, OPEN_SIZE),
    ("DPT", "tu-vit_tiny_patch16_224", FUSED, 224, None), ("DPT", "tu-deit_tiny_distilled_patch16_224", FUSED | {"decoder_readout": "add"}, 224, None),
]


def scenes(count, edge, seed=0):
    """Noise on shades and large shapes: what is pooled from noise alone would be the same in every picture."""
    random = torch.Generator().manual_seed(seed)
    shades, shapes, noise = (torch.randn(count, 3, size, size, generator=random) for size in (1, 7, edge))
    return {"image": shades + nn.functional.interpolate(shapes, size=(edge, edge), mode="bilinear") + 0.5 * noise}


def register(index, decoder, encoder, options, edge, axes):
    dynamic = {"image": axes} if axes else None
    plain = encoder.replace("timm-", "").replace("tu-", "").replace("-", "_")

    @alternating(f"smp_{decoder.lower()}_{plain}", index, dynamic)
    def make():
        module = Flat(getattr(smp, decoder)(encoder, encoder_weights=None, classes=5, **options))
        batch = 2 if {decoder, encoder} & set(ONE_VALUE_PER_CHANNEL) or axes == DYNAMIC_BATCH else 1
        return (module, scenes(batch, edge)) + ((scenes(batch + (axes == DYNAMIC_BATCH), edge + 64 * (axes == OPEN_SIZE), 1),) if dynamic else ())


for position, row in enumerate(SEGMENTERS):
    register(position, *row)


def sam_encoder(edge, **options):
    """segment_anything's encoder, two of its layers: one of windows, one of the whole picture."""
    norm = partial(nn.LayerNorm, eps=1e-6)
    module = sam.ImageEncoderViT(img_size=edge, depth=2, mlp_ratio=4, norm_layer=norm, patch_size=16, qkv_bias=True, use_rel_pos=True, global_attn_indexes=(1,), out_chans=256, **options)
    for parameter in module.parameters():
        if not parameter.any():  # positions start at zero
            nn.init.normal_(parameter, std=0.02)
    return module


def sam_whole(edge, **options):
    prompts = sam.PromptEncoder(embed_dim=256, image_embedding_size=(edge // 16, edge // 16), input_image_size=(edge, edge), mask_in_chans=16)
    transformer = sam.TwoWayTransformer(depth=2, embedding_dim=256, mlp_dim=2048, num_heads=8)
    return sam.Sam(sam_encoder(edge, **options), prompts, sam.MaskDecoder(transformer_dim=256, transformer=transformer))


@network("sam_image_encoder", "dynamo", 20)
def sam_image_encoder():
    return sam_encoder(384, embed_dim=768, num_heads=12, window_size=14), scenes(1, 384)


@network("sam_image_encoder_ts_dyn", "script", 17, {"image": DYNAMIC_BATCH})
def sam_image_encoder_batch():
    return sam_encoder(256, embed_dim=384, num_heads=6, window_size=7), scenes(2, 256), scenes(3, 256, 1)


def points(count, edge, seed=0):
    random = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(1, 256, edge // 16, edge // 16, generator=random)
    return {"embeddings": embeddings, "coordinates": torch.rand(1, count, 2, generator=random) * edge, "labels": torch.arange(count).remainder(2)[None]}


class Prompted(nn.Module):
    """The decoder of masks behind the encoder of points, as the package exports it itself or as it computes it in PyTorch."""

    def __init__(self, whole, own_export):
        super().__init__()
        self.whole, self.exported = whole, SamOnnxModel(whole, return_single_mask=True) if own_export else None

    def forward(self, embeddings, coordinates, labels):
        if self.exported:
            edge = self.exported.img_size
            masks = torch.zeros(1, 1, edge // 4, edge // 4)
            return self.exported(embeddings, coordinates, labels.to(torch.float32), masks, torch.zeros(1), torch.tensor([float(edge), float(edge)]))
        encoder = self.whole.prompt_encoder
        sparse, dense = encoder((coordinates, labels), None, None)
        return self.whole.mask_decoder(embeddings, encoder.get_dense_pe(), sparse, dense, True)


@network("sam_points", "dynamo", 20)
def sam_points():
    return Prompted(sam_whole(512, embed_dim=32, num_heads=1, window_size=14), False), points(3, 512)


@network("sam_points_ts_dyn", "script", 17, {"coordinates": {1: "points"}, "labels": {1: "points"}})
def sam_points_open():
    return Prompted(sam_whole(256, embed_dim=32, num_heads=1, window_size=14), True), points(2, 256), points(5, 256, 1)
