"""Denoisers and codecs as diffusers builds them, small configurations of real widths: the library's own code is exported, weights are seeded."""

import diffusers
import torch
from torch import nn

from . import network


class Sample(nn.Module):
    """The tensor of a model's output object; keyword arguments by name."""

    def __init__(self, inner, names, method="forward"):
        super().__init__()
        self.inner, self.names, self.method = inner, names, method

    def forward(self, *inputs):
        found = getattr(self.inner, self.method)(**dict(zip(self.names, inputs)), return_dict=False)
        return found[0] if torch.is_tensor(found[0]) else found[0].mode()


def noise(seed=0):
    random = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(*shape, generator=random)


def conditioned(batch=1, edge=32, seed=0, width=256):
    draw = noise(seed)
    return {"sample": draw(batch, 4, edge, edge), "timestep": torch.tensor([17.0] * batch), "encoder_hidden_states": draw(batch, 77, width)}


@network("diff_unet_conditioned_dyn", "dynamo", 18, {"sample": {0: "batch"}, "timestep": {0: "batch"}, "encoder_hidden_states": {0: "batch"}})
def conditioned_unet():
    module = diffusers.UNet2DConditionModel(sample_size=32, block_out_channels=(64, 128, 256), layers_per_block=1, cross_attention_dim=256, attention_head_dim=8,
                                            down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
                                            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"))
    first = conditioned(2)
    return Sample(module, list(first)), first, conditioned(3, seed=1)


@network("diff_unet_plain_ts", "script", 17)
def plain_unet():
    module = diffusers.UNet2DModel(sample_size=64, in_channels=3, out_channels=3, block_out_channels=(64, 128, 128), layers_per_block=1,
                                   down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"))
    inputs = {"sample": noise()(1, 3, 64, 64), "timestep": torch.tensor([250])}
    return Sample(module, list(inputs)), inputs


@network("diff_unet_audio", "dynamo", 18)
def audio_unet():
    module = diffusers.UNet1DModel(sample_size=4096, in_channels=2, out_channels=2, extra_in_channels=64, time_embedding_type="fourier", use_timestep_embedding=False,
                                   flip_sin_to_cos=True, block_out_channels=(32, 64, 128), down_block_types=("DownBlock1DNoSkip", "DownBlock1D", "AttnDownBlock1D"),
                                   up_block_types=("AttnUpBlock1D", "UpBlock1D", "UpBlock1DNoSkip"), mid_block_type="UNetMidBlock1D")
    inputs = {"sample": noise()(1, 2, 4096), "timestep": torch.tensor([0.3])}
    return Sample(module, list(inputs)), inputs


@network("diff_vae_decode_dyn", "dynamo", 18, {"z": {2: "h", 3: "w"}})
def decode():
    module = diffusers.AutoencoderKL(block_out_channels=(64, 128, 128), layers_per_block=1, latent_channels=4, norm_num_groups=32,
                                     down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3)
    return Sample(module, ["z"], "decode"), {"z": noise()(1, 4, 24, 24)}, {"z": noise(1)(1, 4, 16, 30)}


@network("diff_vae_encode_ts", "script", 17)
def encode():
    module = diffusers.AutoencoderKL(block_out_channels=(64, 128, 128), layers_per_block=1, latent_channels=4, norm_num_groups=32,
                                     down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3)
    return Sample(module, ["x"], "encode"), {"x": noise()(1, 3, 96, 96)}


@network("diff_vae_tiny_ts_dyn", "script", 17, {"x": {2: "h", 3: "w"}})
def tiny_decode():
    return Sample(diffusers.AutoencoderTiny(), ["x"], "decode"), {"x": noise()(1, 4, 32, 32)}, {"x": noise(1)(1, 4, 40, 28)}


@network("diff_dit", "dynamo", 18)
def dit():
    module = diffusers.DiTTransformer2DModel(num_attention_heads=6, attention_head_dim=64, in_channels=4, out_channels=8, num_layers=3, sample_size=32, patch_size=2)
    inputs = {"hidden_states": noise()(2, 4, 32, 32), "timestep": torch.tensor([5, 700]), "class_labels": torch.tensor([3, 9])}
    return Sample(module, list(inputs)), inputs


@network("diff_pixart_ts", "script", 17)
def pixart():
    module = diffusers.PixArtTransformer2DModel(num_attention_heads=6, attention_head_dim=64, in_channels=4, out_channels=8, num_layers=2, cross_attention_dim=384,
                                                sample_size=32, patch_size=2, caption_channels=256, use_additional_conditions=False)
    inputs = {"hidden_states": noise()(1, 4, 32, 32), "encoder_hidden_states": noise(1)(1, 40, 256), "timestep": torch.tensor([77])}

    class Drawn(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, hidden_states, encoder_hidden_states, timestep):
            return self.inner(hidden_states, encoder_hidden_states, timestep, added_cond_kwargs={"resolution": None, "aspect_ratio": None}, return_dict=False)[0]

    return Drawn(), inputs


@network("diff_sd3_transformer", "dynamo", 20)
def sd3():
    module = diffusers.SD3Transformer2DModel(sample_size=32, patch_size=2, in_channels=16, num_layers=3, attention_head_dim=64, num_attention_heads=6, joint_attention_dim=256,
                                             caption_projection_dim=384, pooled_projection_dim=128, out_channels=16, pos_embed_max_size=32)
    inputs = {"hidden_states": noise()(1, 16, 32, 32), "encoder_hidden_states": noise(1)(1, 77, 256), "pooled_projections": noise(2)(1, 128), "timestep": torch.tensor([310.0])}
    return Sample(module, list(inputs)), inputs


@network("diff_flux_transformer", "dynamo", 20)
def flux():
    module = diffusers.FluxTransformer2DModel(patch_size=1, in_channels=64, num_layers=2, num_single_layers=2, attention_head_dim=64, num_attention_heads=4,
                                              joint_attention_dim=256, pooled_projection_dim=128, guidance_embeds=False, axes_dims_rope=(16, 24, 24))
    ids = torch.zeros(256, 3)
    ids[:, 1], ids[:, 2] = torch.arange(256) // 16, torch.arange(256) % 16
    inputs = {"hidden_states": noise()(1, 256, 64), "encoder_hidden_states": noise(1)(1, 64, 256), "pooled_projections": noise(2)(1, 128), "timestep": torch.tensor([0.4]),
              "img_ids": ids, "txt_ids": torch.zeros(64, 3)}
    return Sample(module, list(inputs)), inputs


@network("diff_controlnet_ts", "script", 17)
def controlnet():
    module = diffusers.ControlNetModel(block_out_channels=(64, 128), layers_per_block=1, cross_attention_dim=256, attention_head_dim=8, conditioning_embedding_out_channels=(16, 32),
                                       down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"))
    inputs = {**conditioned(), "controlnet_cond": noise(4)(1, 3, 64, 64)}

    class Residuals(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, sample, timestep, encoder_hidden_states, controlnet_cond):
            down, middle = self.inner(sample, timestep, encoder_hidden_states, controlnet_cond, return_dict=False)
            return (*down, middle)

    return Residuals(), inputs


@network("diff_oobleck_decode_ts", "script", 17)
def oobleck():
    module = diffusers.AutoencoderOobleck(encoder_hidden_size=32, downsampling_ratios=[2, 4, 4], channel_multiples=[1, 2, 4], decoder_channels=32, decoder_input_channels=16)
    return Sample(module, ["z"], "decode"), {"z": noise()(1, 16, 128)}


@network("diff_temporal_ts", "script", 17)
def temporal():
    module = diffusers.UNet3DConditionModel(sample_size=16, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=64, attention_head_dim=16, norm_num_groups=16,
                                            down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"), up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"))
    inputs = {"sample": noise()(1, 4, 4, 16, 16), "timestep": torch.tensor([17]), "encoder_hidden_states": noise(1)(1, 20, 64)}
    return Sample(module, list(inputs)), inputs
