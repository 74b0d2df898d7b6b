"""Pictures and words as packages embed them: open_clip's towers from its own configurations, faces of facenet_pytorch, parts that lightly learns with, the
encoders of pretrainedmodels and efficientnet_pytorch. Weights are seeded, nothing is downloaded."""

import efficientnet_pytorch
import facenet_pytorch
import open_clip
import pretrainedmodels.models as pretrained
import timm
import torch
from lightly.models import ResNetGenerator
from lightly.models import modules as lightly
from torch import nn

from . import alternating
from .libraries import DYNAMIC_BATCH, Flat, floats, pictures, without_zeros

WORDS = 4096  # of each vocabulary: embeddings of all would be most of the weights


def words(count, length, seed=0):
    return {"text": torch.randint(1, WORDS, (count, length), generator=torch.Generator().manual_seed(seed))}


def clip(name, layers, vision):
    """open_clip's model of this configuration, of so many layers."""
    configuration = open_clip.get_model_config(name)
    text = configuration["text_cfg"] | {"vocab_size": WORDS, "layers": layers}
    configuration |= {"text_cfg": text, "vision_cfg": configuration["vision_cfg"] | vision}
    if "timm_model_name" not in configuration["vision_cfg"] and "layers" not in vision:
        configuration["vision_cfg"]["layers"] = layers
    if "multimodal_cfg" in configuration:
        configuration["multimodal_cfg"] |= {"vocab_size": WORDS, "layers": layers}
    custom = configuration.pop("custom_text", False)
    kind = open_clip.CoCa if "multimodal_cfg" in configuration else open_clip.CustomTextCLIP if custom else open_clip.CLIP
    module = kind(**configuration)
    if hasattr(getattr(module.visual, "trunk", None), "blocks"):
        module.visual.trunk.blocks = module.visual.trunk.blocks[:layers]
    return without_zeros(module)


class Tower(nn.Module):
    """The embedding of pictures or of words, of length one."""

    def __init__(self, whole, part):
        super().__init__()
        self.whole, self.part = whole, part

    def forward(self, values):
        return getattr(self.whole, f"encode_{self.part}")(values, normalize=True)


class Matches(nn.Module):
    """How well each text fits each picture."""

    def __init__(self, whole):
        super().__init__()
        self.whole = whole

    def forward(self, image, text):
        return self.whole.get_logits(image, text)[0]


# configuration, part, layers, edge of the picture, changes of the tower of pictures, open batch; exporters and opsets alternate.
# Sizes of texts stand where those of pictures do
CLIPS = [
    ("ViT-B-32", "image", 3, 224, {}, True), ("RN50", "image", 2, 224, dict(layers=[2, 2, 2, 2], width=32), False),
    ("convnext_tiny", "image", 2, 224, dict(timm_model_name="convnext_nano"), False), ("ViT-B-16-SigLIP", "image", 2, 224, {}, False),
    ("EVA02-B-16", "image", 2, 224, {}, True), ("MobileCLIP-S1", "image", 2, 256, {}, False),
    ("MobileCLIP2-S0", "image", 2, 256, {}, True), ("MobileCLIP-B", "image", 2, 224, {}, False),
    ("PE-Core-T-16-384", "image", 3, 384, {}, False), ("ViT-L-14-CLIPA", "image", 1, 224, {}, False),
    ("ViT-B-16-plus-240", "image", 2, 240, dict(attentional_pool=True, attn_pooler_queries=64, scale_heads=True), False), ("vit_relpos_medium_patch16_cls_224", "image", 3, 224, {}, False),
    ("ViT-B-32-quickgelu", "text", 3, 77, {}, True), ("ViT-B-16-SigLIP2", "text", 3, 64, {}, True),
    ("ViTamin-S-LTT", "text", 2, 77, {}, False), ("ViT-S-32", "both", 3, 224, {}, True), ("vit_medium_patch16_gap_256", "both", 2, 256, {}, False),
]


def register_clip(index, name, part, layers, size, vision, dynamic):
    plain = name.lower().replace("-", "_")
    inputs = {"image": ("image",), "text": ("text",), "both": ("image", "text")}[part]

    @alternating(f"clip_{plain}" + ("" if part == "image" else f"_{part}"), index, {each: DYNAMIC_BATCH for each in inputs} if dynamic else None)
    def make():
        def sample(count, seed=0):
            text = words(count, size if part == "text" else whole.context_length, seed)
            return {"image": pictures(count, size, seed), "text": text, "both": pictures(count, size, seed) | text}[part]

        whole = clip(name, layers, vision)
        module = Matches(whole) if part == "both" else Tower(whole, part)
        return (module, sample(1 if part == "image" and not dynamic else 2)) + ((sample(3, 1),) if dynamic else ())


@alternating("clip_coca_vit_b_32", 0)
def coca():
    module = clip("coca_ViT-B-32", 1, {})

    class Captions(nn.Module):
        def __init__(self):
            super().__init__()
            self.coca = module

        def forward(self, image, text):
            found = self.coca(image, text)
            return found["image_features"], found["text_features"], found["logits"]

    return Captions(), pictures(1, 224) | words(1, 76)


class Masked(nn.Module):
    """lightly's encoder that sees some of the patches, and its decoder that guesses the others."""

    def __init__(self):
        super().__init__()
        encoder = timm.create_model("vit_tiny_patch16_224", depth=3)
        self.encoder, self.between = lightly.MaskedVisionTransformerTIMM(encoder), nn.Linear(192, 128)
        self.decoder = lightly.MaskedVisionTransformerDecoderTIMM(num_patches=196, embed_dim=128, depth=2, num_heads=4)
        self.pixels = nn.Linear(128, 768)

    def forward(self, image, kept, masked):
        seen = self.between(self.encoder.encode(image, idx_keep=kept))
        whole = self.decoder.mask_token.repeat(image.shape[0], 197, 1).scatter(1, kept[:, :, None].expand(-1, -1, 128), seen)
        return self.pixels(self.decoder(whole).gather(1, masked[:, :, None].expand(-1, -1, 128)))


class Causal(nn.Module):
    """lightly's encoder whose unseen patches look only backwards."""

    def __init__(self):
        super().__init__()
        self.encoder = lightly.MaskedCausalVisionTransformer(embed_dim=192, depth=3, num_heads=3, num_classes=100)

    def forward(self, image, mask):
        return self.encoder.forward_head(self.encoder.forward_features(image, mask))


def masked_inputs(count, seed=0):
    order = torch.rand(count, 196, generator=torch.Generator().manual_seed(seed)).argsort(1) + 1
    return pictures(count, 224, seed) | {"kept": torch.cat([torch.zeros(count, 1, dtype=torch.int64), order[:, :49]], 1), "masked": order[:, 49:]}


def causal_inputs(count, seed=0):
    return pictures(count, 224, seed) | {"mask": torch.rand(count, 197, generator=torch.Generator().manual_seed(seed)) > 0.4}


def positions_inputs(count, seed=0):
    order = torch.rand(count, 196, generator=torch.Generator().manual_seed(seed)).argsort(1)
    return {"context": floats(count, 98, 192, seed=seed), "seen": order[:, :98], "asked": order[:, 98:138]}


def frames_inputs(count, seed=0):
    return {"frames": floats(count, 16, 192, seed=seed), "actions": floats(count, 16, 192, seed=seed + 1)}


def face(edge):
    return lambda count, seed=0: pictures(count, edge, seed)


def features(*shape):
    return lambda count, seed=0: {"x": floats(count, *shape, seed=seed)}


# name, what makes it, what makes so many inputs, how many, open batch
PARTS = [
    ("facenet_inceptionresnetv1", lambda: facenet_pytorch.InceptionResnetV1(classify=False), face(160), 2, True),
    ("facenet_pnet", lambda: Flat(facenet_pytorch.PNet(pretrained=False)), face(135), 1, False), ("facenet_rnet", lambda: Flat(facenet_pytorch.RNet(pretrained=False)), face(24), 16, True),
    ("facenet_onet", lambda: Flat(facenet_pytorch.ONet(pretrained=False)), face(48), 8, True),
    ("lightly_mae", Masked, masked_inputs, 2, False), ("lightly_resnet18_simclr", lambda: nn.Sequential(ResNetGenerator("resnet-18", width=0.5, num_classes=256), lightly.SimCLRProjectionHead(256, 256, 128)), face(32), 16, True),
    ("lightly_dino_head", lambda: lightly.DINOProjectionHead(384, 512, 128, 4096, batch_norm=True), features(384), 8, True),
    ("lightly_causal_vit", Causal, causal_inputs, 1, False),
    ("lightly_capi_predictor", lambda: lightly.CAPIPredictorTIMM(192, 14, depth=3, num_heads=3), positions_inputs, 2, False),
    ("lightly_aim_head", lambda: lightly.AIMPredictionHead(192, 768, hidden_dim=256, num_blocks=2), features(196, 192), 1, False),
    ("lightly_latent_dynamics", lambda: lightly.LatentDynamicsPredictor(num_frames=16, input_dim=192, hidden_dim=256, depth=2, num_heads=8), frames_inputs, 2, True),
    ("lightly_swav", lambda: Flat(nn.Sequential(lightly.SwaVProjectionHead(512, 512, 128), lightly.SwaVPrototypes(128, 1000))), features(512), 8, False),
    ("cadene_nasnetamobile", lambda: pretrained.nasnetamobile(100, None), face(224), 1, False), ("cadene_dpn68", lambda: pretrained.dpn68(100, None), face(224), 1, False),
    ("cadene_bninception", lambda: pretrained.bninception(100, None), face(224), 2, True),
    ("cadene_cafferesnet", lambda: pretrained.cafferesnet.ResNet(pretrained.cafferesnet.Bottleneck, [2, 2, 3, 1], 100), face(224), 1, False),
    ("cadene_fbresnet", lambda: pretrained.fbresnet.FBResNet(pretrained.fbresnet.Bottleneck, [1, 2, 2, 1], 100), face(224), 2, True),
    ("cadene_senet", lambda: pretrained.senet.SENet(pretrained.senet.SEResNeXtBottleneck, [1, 2, 2, 1], 32, 16, inplanes=64, downsample_kernel_size=1, downsample_padding=0, num_classes=100), face(224), 1, False), ("cadene_xception", lambda: pretrained.xception(100, None), face(299), 1, False),
    ("efficientnet_b0", lambda: efficientnet_pytorch.EfficientNet.from_name("efficientnet-b0", num_classes=100), face(224), 1, False),
]


def register_part(index, name, maker, inputs, count, dynamic):
    names = list(inputs(count))

    @alternating(name, index, {each: DYNAMIC_BATCH for each in names} if dynamic else None)
    def make():
        return (without_zeros(maker()), inputs(count)) + ((inputs(count + 1, 1),) if dynamic else ())


for position, row in enumerate(CLIPS):
    register_clip(position, *row)
for position, row in enumerate(PARTS):
    register_part(position, *row)
