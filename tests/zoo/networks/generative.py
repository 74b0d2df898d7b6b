"""Pictures from noise."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import Attention, Mlp, image


class VaeDecoder(nn.Module):
    """GroupNorm and SiLU, an attention over all pixels, one transposed convolution, one upsampling."""

    class Block(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.body = nn.Sequential(nn.GroupNorm(32, a, 1e-6), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(32, b, 1e-6), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1))
            self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

        def forward(self, x):
            return self.skip(x) + self.body(x)

    def __init__(self):
        super().__init__()
        self.first, self.block1, self.norm = nn.Conv2d(4, 256, 3, padding=1), self.Block(256, 256), nn.GroupNorm(32, 256, 1e-6)
        self.q, self.k, self.v, self.out = (nn.Conv2d(256, 256, 1) for _ in range(4))
        self.up1, self.block2, self.up2, self.block3 = nn.ConvTranspose2d(256, 128, 4, 2, 1), self.Block(128, 128), nn.Conv2d(128, 64, 3, padding=1), self.Block(64, 64)
        self.last = nn.Sequential(nn.GroupNorm(32, 64, 1e-6), nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1))

    def forward(self, z):
        x = self.block1(self.first(z / 0.18215))
        b, c, h, w = x.shape
        y = self.norm(x)
        q, k, v = self.q(y).reshape(b, c, h * w).permute(0, 2, 1), self.k(y).reshape(b, c, h * w), self.v(y).reshape(b, c, h * w)
        weights = torch.bmm(q, k).mul(c ** -0.5).softmax(2)
        x = x + self.out(torch.bmm(v, weights.permute(0, 2, 1)).reshape(b, c, h, w))
        x = self.block2(self.up1(x))
        x = self.block3(self.up2(F.interpolate(x, scale_factor=2.0, mode="nearest")))
        return self.last(x)


@network("vae_decoder_dyn", "dynamo", 18, {"z": {0: "batch", 2: "height", 3: "width"}})
def vae_decoder():
    return VaeDecoder(), {"z": torch.randn(1, 4, 16, 16)}, {"z": torch.randn(2, 4, 12, 20)}


def timestep(t, width):
    angles = t[:, None].to(torch.float32) * torch.exp(torch.arange(width // 2) * (-math.log(10000.0) / (width // 2)))
    return torch.cat([angles.cos(), angles.sin()], -1)


class DiffusionUNet(nn.Module):
    """Stable diffusion's blocks: a time added to channels, self and cross attention over pixels, GEGLU."""

    class Residual(nn.Module):
        def __init__(self, a, b, time=512):
            super().__init__()
            self.norm1, self.conv1, self.time, self.norm2, self.conv2 = nn.GroupNorm(32, a), nn.Conv2d(a, b, 3, padding=1), nn.Linear(time, b), nn.GroupNorm(32, b), nn.Conv2d(b, b, 3, padding=1)
            self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

        def forward(self, x, time):
            y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
            return self.skip(x) + self.conv2(F.silu(self.norm2(y)))

    class Spatial(nn.Module):
        def __init__(self, width, context=256, heads=4):
            super().__init__()
            self.norm, self.first, self.last = nn.GroupNorm(32, width, 1e-6), nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
            self.own, self.cross, self.up, self.down = Attention(width, heads), Attention(width, heads, context), nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

        def forward(self, x, context):
            b, c, h, w = x.shape
            y = self.first(self.norm(x)).permute(0, 2, 3, 1).reshape(b, h * w, c)
            y = y + self.own(self.norms[0](y))
            y = y + self.cross(self.norms[1](y), context)
            value, gate = self.up(self.norms[2](y)).chunk(2, -1)
            y = y + self.down(value * F.gelu(gate))
            return x + self.last(y.reshape(b, h, w, c).permute(0, 3, 1, 2))

    def __init__(self):
        super().__init__()
        self.time = Mlp(128, 512, 512, act=nn.SiLU)
        self.first, self.a, self.sa, self.down = nn.Conv2d(4, 128, 3, padding=1), self.Residual(128, 128), self.Spatial(128), nn.Conv2d(128, 128, 3, 2, 1)
        self.b, self.sb, self.up = self.Residual(128, 256), self.Spatial(256), nn.Conv2d(256, 256, 3, padding=1)
        self.c, self.sc, self.last = self.Residual(384, 128), self.Spatial(128), nn.Sequential(nn.GroupNorm(32, 128), nn.SiLU(), nn.Conv2d(128, 4, 3, padding=1))

    def forward(self, x, time, context):
        time = self.time(timestep(time, 128).to(x.dtype))
        skip = self.sa(self.a(self.first(x), time), context)
        y = self.sb(self.b(self.down(skip), time), context)
        y = self.up(F.interpolate(y, scale_factor=2.0, mode="nearest"))
        return self.last(self.sc(self.c(torch.cat([y, skip], 1), time), context))


def diffusion_inputs(batch, size):
    return {"x": torch.randn(batch, 4, size, size), "time": torch.tensor([981] * batch), "context": torch.randn(batch, 20, 256)}


@network("diffusion_unet_ts", "script", 17)
def diffusion_unet():
    return DiffusionUNet(), diffusion_inputs(1, 24)


@network("diffusion_unet_dyn", "dynamo", 18, {"x": {0: "batch"}, "time": {0: "batch"}, "context": {0: "batch"}})
def diffusion_unet_dynamic():
    return DiffusionUNet(), diffusion_inputs(2, 16), diffusion_inputs(3, 16)


class StyleGan(nn.Module):
    """StyleGAN 2: weights modulated per image (a grouped convolution whose weights are computed), blurs, noise, skips."""

    class Layer(nn.Module):
        def __init__(self, a, b, up=False):
            super().__init__()
            self.style, self.weight, self.bias, self.up = nn.Linear(256, a), nn.Parameter(torch.randn(b, a, 3, 3)), nn.Parameter(torch.zeros(b)), up
            self.strength = nn.Parameter(torch.tensor([0.1]))
            kernel = torch.tensor([1.0, 3.0, 3.0, 1.0])
            self.register_buffer("blur", (kernel[:, None] * kernel / 16)[None, None])
            self.register_buffer("noise", torch.randn(1, 1, 32 if up else 16, 32 if up else 16))

        def forward(self, x, w):
            b, c, h, _ = x.shape
            weight = self.weight[None] * (self.style(w) + 1)[:, None, :, None, None]
            weight = weight * torch.rsqrt(weight.pow(2).sum((2, 3, 4), keepdim=True) + 1e-8)
            outputs = weight.shape[1]
            if self.up:
                weight = weight.transpose(1, 2).reshape(b * c, outputs, 3, 3)
                x = F.conv_transpose2d(x.reshape(1, b * c, h, h), weight, stride=2, groups=b)
                x = F.conv2d(x.reshape(b * outputs, 1, 2 * h + 1, 2 * h + 1), self.blur, padding=1).view(b, outputs, 2 * h, 2 * h)
            else:
                x = F.conv2d(x.reshape(1, b * c, h, h), weight.view(b * outputs, c, 3, 3), padding=1, groups=b).view(b, outputs, h, h)
            return F.leaky_relu(x + self.strength * self.noise + self.bias[:, None, None], 0.2) * 2 ** 0.5

    def __init__(self):
        super().__init__()
        self.mapping, self.constant = Mlp(256, 256, 256, 256, act=lambda: nn.LeakyReLU(0.2)), nn.Parameter(torch.randn(1, 256, 16, 16))
        self.a, self.b, self.c = self.Layer(256, 256), self.Layer(256, 128, True), None
        self.rgb = nn.Conv2d(128, 3, 1)

    def forward(self, z):
        w = self.mapping(z * torch.rsqrt(z.pow(2).mean(1, keepdim=True) + 1e-8))
        return self.rgb(self.b(self.a(self.constant.repeat(z.shape[0], 1, 1, 1), w), w))


@network("stylegan2_ts", "script", 17)
def stylegan():
    return StyleGan(), {"z": torch.randn(2, 256)}


class DiffusionTransformer(nn.Module):
    """DiT: norms without weights, shifted and scaled by time and class, gates; patches put together again."""

    def __init__(self, width=384, heads=6, grid=16, patch=2):
        super().__init__()
        self.grid, self.patch, self.width = grid, patch, width
        self.first, self.labels, self.time = nn.Conv2d(4, width, patch, patch), nn.Embedding(100, width), Mlp(128, width, width, act=nn.SiLU)
        self.places = nn.Parameter(torch.randn(1, grid * grid, width) * 0.1)
        self.layers = nn.ModuleList(nn.ModuleList([nn.Linear(width, 6 * width), Attention(width, heads), Mlp(width, 4 * width, width, act=lambda: nn.GELU(approximate="tanh"))]) for _ in range(2))
        self.last, self.out = nn.Linear(width, 2 * width), nn.Linear(width, patch * patch * 8)

    def norm(self, x, shift, scale):
        return F.layer_norm(x, (self.width,), eps=1e-6) * (1 + scale[:, None]) + shift[:, None]

    def forward(self, x, time, label):
        x = self.first(x).flatten(2).transpose(1, 2) + self.places
        c = F.silu(self.time(timestep(time, 128).to(x.dtype)) + self.labels(label))
        for modulate, attention, mlp in self.layers:
            a, b, g, d, e, f = modulate(c).chunk(6, 1)
            x = x + g[:, None] * attention(self.norm(x, a, b))
            x = x + f[:, None] * mlp(self.norm(x, d, e))
        x = self.out(self.norm(x, *self.last(c).chunk(2, 1)))
        n, p, g = x.shape[0], self.patch, self.grid
        return torch.einsum("nhwpqc->nchpwq", x.view(n, g, g, p, p, 8)).reshape(n, 8, g * p, g * p)


@network("dit", "dynamo", 20)
def dit():
    return DiffusionTransformer(), {"x": torch.randn(1, 4, 32, 32), "time": torch.tensor([500]), "label": torch.tensor([7])}


class Coupling(nn.Module):
    """RealNVP: squeezes, channels permuted, halves shifted and scaled by the other half, with the logarithm of the determinant."""

    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Conv2d(6, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 128, 1), nn.ReLU(), nn.Conv2d(128, 12, 3, padding=1)) for _ in range(3))
        self.register_buffer("orders", torch.stack([torch.randperm(12) for _ in range(3)]))

    def forward(self, x):
        b, c, h, w = x.shape
        x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(b, 4 * c, h // 2, w // 2)
        total = 0
        for order, net in zip(self.orders, self.nets):
            low, high = x.index_select(1, order).chunk(2, 1)
            shift, scale = net(low).chunk(2, 1)
            scale = torch.tanh(scale)
            x = torch.cat([low, high * scale.exp() + shift], 1)
            total = total + scale.flatten(1).sum(1)
        return x, total


@network("realnvp_ts_dyn", "script", 17, {"x": {0: "batch"}})
def realnvp():
    return Coupling(), {"x": image(32, batch=2)}, {"x": image(32, batch=1)}


class VectorQuantizer(nn.Module):
    """VQ-VAE: distances to a code book, the nearest, straight through, decoded."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 4, 2, 1), nn.ReLU(), nn.Conv2d(128, 64, 1))
        self.codes = nn.Parameter(torch.randn(512, 64))
        self.decode = nn.Sequential(nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1))

    def forward(self, x):
        z = self.encode(x).permute(0, 2, 3, 1)
        flat = z.reshape(-1, 64)
        distance = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes.t() + self.codes.pow(2).sum(1)
        places = distance.argmin(1)
        found = F.one_hot(places, 512).to(x.dtype) @ self.codes
        z = z + (found.view(z.shape) - z)
        return self.decode(z.permute(0, 3, 1, 2)), places


@network("vq_vae", "dynamo", 18)
def vq_vae():
    return VectorQuantizer(), {"x": image(64)}
