"""Networks as the model libraries build them: timm's image encoders (the smallest of nearly every file it has), torchvision's detectors' and videos'
parts, diffusers' denoisers and codecs, graphs of torch_geometric. The libraries' own code is exported; weights are seeded, nothing is downloaded."""

import timm
import torch
import torchvision
from torch import nn

from . import network

DYNAMIC_BATCH = {0: "batch"}
ONE_VALUE_PER_CHANNEL = ("efficientvit_m0", "iformer_t", "shvit_s1", "rexnet_100", "resnest14d")  # BatchNorm behind the pooling: statistics need two pictures

# name of the model, exporter, opset, edge of the picture; every third has an open batch
PICTURES = [
    ("halonet_h1", "dynamo", 18, 256), ("eca_botnext26ts_256", "script", 17, 256), ("mobileone_s1", "dynamo", 18, 224),
    ("cait_xxs24_224", "script", 17, 224), ("coat_lite_tiny", "script", 17, 224), ("convit_tiny", "dynamo", 20, 224),
    ("convnext_atto_rms", "dynamo", 20, 224), ("cpubone_nano", "script", 17, 224), ("crossvit_9_dagger_240", "script", 17, 240),
    ("csatv2", "dynamo", 18, 256), ("cs3darknet_focus_s", "script", 17, 256), ("cspnext_tiny", "dynamo", 18, 224),
    ("davit_tiny", "dynamo", 20, 224), ("deit3_small_patch16_224", "script", 17, 224), ("densenetblur121d", "script", 17, 224),
    ("dla46x_c", "dynamo", 18, 224), ("dpn48b", "script", 17, 224), ("edgenext_xx_small", "dynamo", 18, 256),
    ("efficientformer_l1", "script", 17, 224), ("efficientformerv2_s0", "dynamo", 18, 224), ("efficientnet_b0_gn", "script", 17, 224),
    ("tf_efficientnetv2_b0", "dynamo", 18, 192), ("mixnet_s", "script", 17, 224), ("efficientvim_m1", "dynamo", 20, 224),
    ("efficientvit_b0", "script", 17, 224), ("efficientvit_m0", "script", 17, 224), ("eva02_tiny_patch14_224", "dynamo", 20, 224),
    ("fasternet_t0", "script", 17, 224), ("fastvit_t8", "dynamo", 18, 256), ("focalnet_tiny_srf", "dynamo", 20, 224),
    ("gcvit_xxtiny", "script", 17, 224), ("ghostnetv3_050", "dynamo", 18, 224), ("hardcorenas_a", "script", 17, 224),
    ("hgnetv2_b0", "dynamo", 18, 224), ("hiera_tiny_224", "script", 17, 224), ("hieradet_small", "dynamo", 20, 256),
    ("hrnet_w18_small", "script", 17, 224), ("iformer_t", "dynamo", 18, 224), ("inception_next_atto", "script", 17, 224),
    ("inception_v3", "dynamo", 18, 299), ("lcnetv2_small", "script", 17, 224), ("levit_conv_128s", "dynamo", 18, 224),
    ("lowformer_b0", "script", 17, 224), ("mambaout_femto", "dynamo", 20, 224), ("coatnet_pico_rw_224", "script", 17, 224),
    ("maxvit_rmlp_pico_rw_256", "script", 17, 256), ("caformer_s18", "dynamo", 20, 224), ("gmlp_ti16_224", "script", 17, 224),
    ("resmlp_12_224", "dynamo", 18, 224), ("lcnet_050", "script", 17, 224), ("mobilevitv2_050", "script", 17, 256),
    ("mobilevit_xxs", "dynamo", 18, 256), ("mvitv2_tiny", "script", 17, 224), ("nest_tiny", "script", 17, 224),
    ("nextvit_small", "dynamo", 18, 224), ("nf_regnet_b0", "script", 17, 192), ("eca_nfnet_l0", "dynamo", 18, 224),
    ("pit_ti_224", "script", 17, 224), ("pvt_v2_b0", "dynamo", 20, 224), ("rdnet_tiny", "script", 17, 224),
    ("regnetz_005", "dynamo", 18, 224), ("repghostnet_050", "script", 17, 224), ("repvit_m0_9", "dynamo", 18, 224),
    ("res2next50", "script", 17, 224), ("resnest14d", "dynamo", 18, 224), ("resnetv2_18d", "script", 17, 224),
    ("rexnet_100", "dynamo", 18, 224), ("selecsls42", "script", 17, 224), ("legacy_seresnext26_32x4d", "dynamo", 18, 224),
    ("sequencer2d_s", "script", 17, 224), ("shvit_s1", "dynamo", 18, 224), ("skresnet18", "script", 17, 224),
    ("starnet_s050", "dynamo", 18, 224), ("swin_s3_tiny_224", "script", 17, 224), ("swinv2_tiny_window8_256", "dynamo", 20, 256),
    ("swinv2_cr_tiny_224", "script", 17, 224), ("tiny_vit_5m_224", "dynamo", 20, 224), ("tnt_s_patch16_224", "script", 17, 224),
    ("tresnet_m", "dynamo", 18, 224), ("twins_svt_small", "script", 17, 224), ("visformer_tiny", "dynamo", 18, 224),
    ("vit_tiny_r_s16_p8_224", "script", 17, 224), ("vit_srelpos_small_patch16_224", "script", 17, 224), ("vitamin_small_224", "script", 17, 224),
    ("volo_d1_224", "dynamo", 18, 224), ("ese_vovnet19b_slim_dw", "script", 17, 224), ("legacy_xception", "dynamo", 18, 299),
    ("xcit_nano_12_p16_224", "script", 17, 224), ("vit_base_patch32_siglip_256", "dynamo", 23, 256), ("convnextv2_atto", "script", 17, 224),
]


def pictures(batch, edge, seed=0):
    random = torch.Generator().manual_seed(seed)
    return {"image": torch.randn(batch, 3, edge, edge, generator=random)}


def register_pictures(index, model, exporter, opset, edge):
    dynamic = {"image": DYNAMIC_BATCH} if index % 3 == 2 else None

    @network(f"timm_{model}" + ("_ts" if exporter == "script" else "") + ("_dyn" if dynamic else ""), exporter, opset, dynamic)
    def make():
        module = timm.create_model(model, pretrained=False, num_classes=100)
        return (module, pictures(2, edge), pictures(3, edge, 1)) if dynamic else (module, pictures(2 if model in ONE_VALUE_PER_CHANNEL else 1, edge))


for position, row in enumerate(PICTURES):
    register_pictures(position, *row)


def floats(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def without_zeros(module):
    """Positions, masks and prompts start at zero in places."""
    for parameter in module.parameters():
        if parameter.dim() > 1 and not parameter.any():
            nn.init.normal_(parameter, std=0.02)
    return module


class Leading(nn.Module):
    """Keeps what is computed and drops losses that packages return beside it."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        found = self.inner(*inputs)
        while isinstance(found, (tuple, list)):
            found = found[0]
        return found


class Flat(nn.Module):
    """Dictionaries, lists and dataclasses of outputs as one tuple."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs):
        return tuple(tensors_of(self.inner(*inputs)))


def tensors_of(value):
    if torch.is_tensor(value):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [tensor for part in parts for tensor in tensors_of(part)]


# torchvision: name, exporter, opset, shape of the input
VISION = [
    ("mvit_v1_b", "dynamo", 18, (1, 3, 16, 224, 224)), ("swin3d_t", "script", 17, (1, 3, 8, 112, 112)), ("s3d", "dynamo", 18, (1, 3, 16, 224, 224)),
    ("r2plus1d_18", "script", 17, (1, 3, 8, 112, 112)), ("mc3_18", "dynamo", 18, (1, 3, 8, 112, 112)), ("maxvit_t", "script", 17, (1, 3, 224, 224)),
    ("shufflenet_v2_x0_5", "dynamo", 18, (1, 3, 224, 224)), ("mnasnet0_5", "script", 17, (1, 3, 224, 224)), ("googlenet", "dynamo", 18, (1, 3, 224, 224)),
    ("squeezenet1_1", "script", 17, (1, 3, 224, 224)), ("efficientnet_v2_s", "dynamo", 18, (1, 3, 192, 192)), ("swin_v2_t", "script", 17, (1, 3, 256, 256)),
    ("regnet_x_400mf", "dynamo", 18, (1, 3, 224, 224)),
]
SEGMENTATION = [("lraspp_mobilenet_v3_large", "script", 17, 320), ("deeplabv3_mobilenet_v3_large", "dynamo", 18, 256), ("fcn_resnet50", "script", 17, 160)]


def register_vision(model, exporter, opset, shape):
    @network(f"tv_{model}" + ("_ts" if exporter == "script" else ""), exporter, opset)
    def make():
        extra = {"aux_logits": False, "init_weights": True} if model == "googlenet" else {}
        return torchvision.models.get_model(model, weights=None, **extra), {"image": torch.randn(*shape, generator=torch.Generator().manual_seed(3))}


def register_segmentation(model, exporter, opset, edge):
    @network(f"tv_{model}" + ("_ts" if exporter == "script" else ""), exporter, opset)
    def make():
        return Flat(torchvision.models.get_model(model, weights=None, weights_backbone=None)), pictures(2, edge)


for row in VISION:
    register_vision(*row)
for row in SEGMENTATION:
    register_segmentation(*row)


@network("tv_raft_small", "script", 17)
def raft():
    module = torchvision.models.optical_flow.raft_small(weights=None)
    random = torch.Generator().manual_seed(5)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.raft = module

        def forward(self, first, second):
            return self.raft(first, second, num_flow_updates=3)[-1]

    return Flow(), {name: torch.rand(1, 3, 128, 160, generator=random) * 2 - 1 for name in ("first", "second")}
