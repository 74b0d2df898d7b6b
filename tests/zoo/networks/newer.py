"""What came after the other files: joint attention of text and image, area attention, long convolutions, Fourier units, splines, volumes, sampled points, top experts."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import Attention, ConvNorm, Mlp, image, tokens


class JointBlock(nn.Module):
    """Text and image with weights of their own and one attention over both; norms scaled by the time (SD3, Flux)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.scales = nn.ModuleList(nn.Linear(width, 6 * width) for _ in range(2))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.mlp = nn.ModuleList(Mlp(width, 4 * width, width, act=lambda: nn.GELU("tanh")) for _ in range(2))
        self.root = nn.ParameterList(nn.Parameter(torch.ones(width // heads)) for _ in range(4))

    def normed(self, x, weight):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight

    def forward(self, streams, time, cos, sin):
        scales = [layer(F.silu(time))[:, None].chunk(6, -1) for layer in self.scales]
        parts = []
        for index, x in enumerate(streams):
            y = F.layer_norm(x, x.shape[-1:]) * (1 + scales[index][1]) + scales[index][0]
            q, k, v = self.qkv[index](y).reshape(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            parts.append((self.normed(q, self.root[2 * index]), self.normed(k, self.root[2 * index + 1]), v))
        q, k, v = (torch.cat(both, 2) for both in zip(*parts))
        q, k = (torch.stack([z[..., 0::2] * cos - z[..., 1::2] * sin, z[..., 0::2] * sin + z[..., 1::2] * cos], -1).flatten(-2) for z in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        found = []
        for index, (x, y) in enumerate(zip(streams, mixed.split([streams[0].shape[1], streams[1].shape[1]], 1))):
            _, _, gate, shift, scale, last = scales[index]
            x = x + gate * self.out[index](y)
            found.append(x + last * self.mlp[index](F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift))
        return found


class JointDiffusion(nn.Module):
    def __init__(self, width=384, heads=6, size=16):
        super().__init__()
        self.patches, self.words, self.time = nn.Conv2d(16, width, 2, 2), nn.Linear(256, width), Mlp(128, width, width, act=nn.SiLU)
        self.blocks = nn.ModuleList(JointBlock(width, heads) for _ in range(2))
        self.last, self.size = nn.Linear(width, 64), size
        places = torch.arange(size * size + 24)[:, None] * torch.exp(torch.arange(width // heads // 2) * -0.2)
        self.register_buffer("cos", places.cos())
        self.register_buffer("sin", places.sin())

    def forward(self, latent, text, time):
        steps = time[:, None] * torch.exp(torch.arange(64) * -0.14)
        emb = self.time(torch.cat([steps.cos(), steps.sin()], -1))
        streams = [self.words(text), self.patches(latent).flatten(2).transpose(1, 2)]
        for block in self.blocks:
            streams = block(streams, emb, self.cos, self.sin)
        x = self.last(F.layer_norm(streams[1], streams[1].shape[-1:]))
        x = x.reshape(latent.shape[0], self.size, self.size, 2, 2, 16)
        return torch.einsum("nhwpqc->nchpwq", x).reshape(latent.shape[0], 16, 2 * self.size, 2 * self.size)


@network("joint_diffusion_dyn", "dynamo", 18, {"latent": {0: "batch"}, "text": {0: "batch"}, "time": {0: "batch"}})
def joint_diffusion():
    inputs = lambda b: {"latent": torch.randn(b, 16, 32, 32), "text": torch.randn(b, 24, 256), "time": torch.rand(b) * 100}
    return JointDiffusion(), inputs(2), inputs(3)


class AreaDetector(nn.Module):
    """Later YOLOs: stages split in halves, attention within areas and over positions, large depthwise kernels, a head without NMS."""

    class Split(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            half = outputs // 2
            self.first, self.last = ConvNorm(inputs, outputs, act=nn.SiLU), ConvNorm(3 * half, outputs, act=nn.SiLU)
            self.inner = nn.Sequential(ConvNorm(half, half // 2, 3, act=nn.SiLU), ConvNorm(half // 2, half, 3, act=nn.SiLU))

        def forward(self, x):
            parts = list(self.first(x).chunk(2, 1))
            parts.append(parts[-1] + self.inner(parts[-1]))
            return self.last(torch.cat(parts, 1))

    class Area(nn.Module):
        def __init__(self, width, heads, areas):
            super().__init__()
            self.heads, self.areas = heads, areas
            self.qkv, self.place, self.out = ConvNorm(width, 3 * width, act=None), ConvNorm(width, width, 7, groups=width, act=None), ConvNorm(width, width, act=None)
            self.mlp = nn.Sequential(ConvNorm(width, 2 * width, act=nn.SiLU), ConvNorm(2 * width, width, act=None))

        def forward(self, x):
            b, c, h, w = x.shape
            q, k, v = self.qkv(x).flatten(2).transpose(1, 2).reshape(b * self.areas, h * w // self.areas, 3, self.heads, -1).permute(2, 0, 3, 4, 1)
            scores = (q.transpose(-2, -1) @ k * (c // self.heads) ** -0.5).softmax(-1)
            y = (v @ scores.transpose(-2, -1)).permute(0, 3, 1, 2).reshape(b, h * w, c).transpose(1, 2).reshape(b, c, h, w)
            flat = v.permute(0, 3, 1, 2).reshape(b, h * w, c).transpose(1, 2).reshape(b, c, h, w)
            x = x + self.out(y + self.place(flat))
            return x + self.mlp(x)

    def __init__(self, width=32):
        super().__init__()
        down = lambda a, b: ConvNorm(a, b, 3, 2, act=nn.SiLU)
        self.stem = nn.Sequential(down(3, width), down(width, 2 * width), self.Split(2 * width, 2 * width))
        self.stages = nn.ModuleList([nn.Sequential(down(2 * width, 4 * width), self.Split(4 * width, 4 * width)),
                                     nn.Sequential(down(4 * width, 4 * width), self.Area(4 * width, 4, 4)), nn.Sequential(down(4 * width, 8 * width), self.Area(8 * width, 8, 1))])
        self.merge = nn.ModuleList([self.Split(12 * width, 4 * width), self.Split(8 * width, 2 * width)])
        self.boxes = nn.ModuleList(nn.Sequential(ConvNorm(c, 64, 3, act=nn.SiLU), nn.Conv2d(64, 64, 1)) for c in (2 * width, 4 * width, 8 * width))
        self.kinds = nn.ModuleList(nn.Sequential(ConvNorm(c, c, 3, groups=c, act=nn.SiLU), ConvNorm(c, 80, act=nn.SiLU), nn.Conv2d(80, 80, 1)) for c in (2 * width, 4 * width, 8 * width))
        self.register_buffer("bins", torch.arange(16.0))

    def forward(self, x):
        x = self.stem(x)
        low, middle, high = (x := stage(x) for stage in self.stages)
        middle = self.merge[0](torch.cat([F.interpolate(high, scale_factor=2.0), middle], 1))
        low = self.merge[1](torch.cat([F.interpolate(middle, scale_factor=2.0), low], 1))
        boxes, kinds = [], []
        for level, box, kind in zip((low, middle, high), self.boxes, self.kinds):
            sides = box(level).flatten(2).transpose(1, 2).reshape(level.shape[0], -1, 4, 16).softmax(-1) @ self.bins
            boxes.append(sides)
            kinds.append(kind(level).flatten(2).transpose(1, 2))
        boxes, kinds = torch.cat(boxes, 1), torch.cat(kinds, 1).sigmoid()
        best, which = kinds.amax(-1).topk(50, 1)
        return boxes.gather(1, which[..., None].expand(-1, -1, 4)), best


@network("area_detector_ts_dyn", "script", 17, {"image": {0: "batch"}})
def area_detector():
    return AreaDetector(), {"image": image(256)}, {"image": image(256, batch=2)}


class LargeKernels(nn.Module):
    """Depthwise kernels of 31, 13, 1×21 and 21×1, dilated ones, as later convolutional networks have them."""

    class Block(nn.Module):
        def __init__(self, width, kernel):
            super().__init__()
            self.norm, self.up, self.down = nn.BatchNorm2d(width), nn.Conv2d(width, 2 * width, 1), nn.Conv2d(width, width, 1)
            self.local, self.wide = ConvNorm(width, width, 5, groups=width, act=None), ConvNorm(width, width, kernel, groups=width, act=None)
            self.row = nn.Conv2d(width, width, (1, 21), padding=(0, 10), groups=width)
            self.column = nn.Conv2d(width, width, (21, 1), padding=(10, 0), groups=width)
            self.holes = nn.Conv2d(width, width, 7, padding=9, dilation=3, groups=width)

        def forward(self, x):
            a, b = self.up(self.norm(x)).chunk(2, 1)
            a = self.local(a) + self.wide(a) + self.column(self.row(a)) + self.holes(a)
            return x + self.down(a * torch.sigmoid(b))

    def __init__(self, width=64):
        super().__init__()
        self.stem = nn.Sequential(ConvNorm(3, width // 2, 3, 2, act=nn.GELU), ConvNorm(width // 2, width, 3, 2, act=nn.GELU))
        self.stages = nn.Sequential(self.Block(width, 31), ConvNorm(width, 2 * width, 2, 2), self.Block(2 * width, 13), ConvNorm(2 * width, 4 * width, 2, 2), self.Block(4 * width, 13))
        self.head = nn.Linear(4 * width, 100)

    def forward(self, image):
        return self.head(self.stages(self.stem(image)).mean((2, 3)))


@network("large_kernels", "dynamo", 18)
def large_kernels():
    return LargeKernels(), {"image": image(160)}


class FourierUnit(nn.Module):
    """Fast Fourier convolution (LaMa): a spectrum of two products with constant bases, 1×1 convolution there, and back."""

    def __init__(self, width, size):
        super().__init__()
        self.conv = ConvNorm(2 * width, 2 * width)
        k = torch.arange(size)[:, None] * torch.arange(size // 2 + 1) * (2 * math.pi / size)
        both = torch.arange(size)[:, None] * torch.arange(size) * (2 * math.pi / size)
        for name, value in (("cos", k.cos()), ("sin", k.sin()), ("cos2", both.cos()), ("sin2", both.sin())):
            self.register_buffer(name, value / math.sqrt(size))

    def forward(self, x):
        real, imaginary = x @ self.cos, -(x @ self.sin)
        real, imaginary = self.cos2 @ real + self.sin2 @ imaginary, self.cos2 @ imaginary - self.sin2 @ real
        real, imaginary = self.conv(torch.cat([real, imaginary], 1)).chunk(2, 1)
        real, imaginary = self.cos2 @ real - self.sin2 @ imaginary, self.cos2 @ imaginary + self.sin2 @ real
        return 2 * (real @ self.cos.transpose(0, 1) - imaginary @ self.sin.transpose(0, 1))


class Inpainter(nn.Module):
    class Block(nn.Module):
        def __init__(self, width, size):
            super().__init__()
            self.ll, self.lg, self.gl = (nn.Conv2d(width, width, 3, 1, 1, padding_mode="reflect", bias=False) for _ in range(3))
            self.spectral, self.norms = FourierUnit(width, size), nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

        def forward(self, local, wide):
            return local + F.relu(self.norms[0](self.ll(local) + self.gl(wide))), wide + F.relu(self.norms[1](self.lg(local) + self.spectral(wide)))

    def __init__(self, width=64, size=48):
        super().__init__()
        self.down = nn.Sequential(nn.ReflectionPad2d(3), ConvNorm(4, width, 7), ConvNorm(width, 2 * width, 3, 2))
        self.down[1][0].padding = (0, 0)
        self.blocks = nn.ModuleList(self.Block(width, size) for _ in range(2))
        self.up = nn.Sequential(nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7))

    def forward(self, image, mask):
        local, wide = self.down(torch.cat([image * (1 - mask), mask], 1)).chunk(2, 1)
        for block in self.blocks:
            local, wide = block(local, wide)
        return torch.sigmoid(self.up(torch.cat([local, wide], 1))) * mask + image * (1 - mask)


@network("inpainter_ts", "script", 17)
def inpainter():
    return Inpainter(), {"image": torch.rand(1, 3, 96, 96), "mask": (torch.rand(1, 1, 96, 96) > 0.7).float()}


class Splines(nn.Module):
    """Kolmogorov-Arnold layers: B-splines of every input by the recursion, a product over all of them."""

    class Layer(nn.Module):
        def __init__(self, inputs, outputs, grid=5, order=3):
            super().__init__()
            self.order = order
            self.base, self.spline = nn.Linear(inputs, outputs), nn.Linear(inputs * (grid + order), outputs, bias=False)
            self.register_buffer("grid", (torch.arange(-order, grid + order + 1) * (2 / grid) - 1).expand(inputs, -1).contiguous())

        def forward(self, x):
            z, grid = x[..., None], self.grid
            bases = ((z >= grid[:, :-1]) & (z < grid[:, 1:])).to(x.dtype)
            for k in range(1, self.order + 1):
                bases = (z - grid[:, :-(k + 1)]) / (grid[:, k:-1] - grid[:, :-(k + 1)]) * bases[..., :-1] + (grid[:, k + 1:] - z) / (grid[:, k + 1:] - grid[:, 1:-k]) * bases[..., 1:]
            return self.base(F.silu(x)) + self.spline(bases.flatten(-2))

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(self.Layer(64, 128), nn.LayerNorm(128), self.Layer(128, 64), nn.LayerNorm(64), self.Layer(64, 10))

    def forward(self, rows):
        return self.layers(rows)


@network("splines_dyn", "dynamo", 18, {"rows": {0: "batch"}})
def splines():
    return Splines(), {"rows": torch.randn(64, 64).clamp(-0.95, 0.95)}, {"rows": torch.randn(7, 64).clamp(-0.95, 0.95)}


class VolumeUnet(nn.Module):
    """Segmentation of volumes: 3-D convolutions, instance norms, transposed ones."""

    def __init__(self, width=16):
        super().__init__()
        block = lambda a, b, s=1: nn.Sequential(nn.Conv3d(a, b, 3, s, 1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(0.01), nn.Conv3d(b, b, 3, 1, 1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(0.01))
        self.enc = nn.ModuleList([block(1, width), block(width, 2 * width, 2), block(2 * width, 4 * width, 2)])
        self.up = nn.ModuleList([nn.ConvTranspose3d(4 * width, 2 * width, 2, 2), nn.ConvTranspose3d(2 * width, width, 2, 2)])
        self.dec = nn.ModuleList([block(4 * width, 2 * width), block(2 * width, width)])
        self.head = nn.Conv3d(width, 3, 1)

    def forward(self, volume):
        skips = []
        for layer in self.enc:
            volume = layer(volume)
            skips.append(volume)
        for up, dec, skip in zip(self.up, self.dec, skips[-2::-1]):
            volume = dec(torch.cat([up(volume), skip], 1))
        return self.head(volume).softmax(1)


@network("volume_unet_ts", "script", 17)
def volume_unet():
    return VolumeUnet(), {"volume": torch.randn(1, 1, 24, 40, 40)}


class SampledPoints(nn.Module):
    """PointNet++: farthest points one after another, neighbours by distance, maxima over groups, interpolation back."""

    def __init__(self):
        super().__init__()
        conv = lambda *w: nn.Sequential(*(ConvNorm(a, b) for a, b in zip(w, w[1:])))
        self.one, self.two, self.back = conv(6, 32, 64), conv(67, 128, 128), Mlp(192, 128, 13)

    def sample(self, points, count):
        b, n, _ = points.shape
        distance, last, chosen = torch.full((b, n), 1e10), torch.zeros(b, dtype=torch.int64), []
        for _ in range(count):
            chosen.append(last)
            centre = points.gather(1, last[:, None, None].expand(-1, -1, 3))
            distance = torch.minimum(distance, (points - centre).square().sum(-1))
            last = distance.argmax(-1)
        return torch.stack(chosen, 1)

    def pick(self, values, places):
        return values.gather(1, places.flatten(1)[..., None].expand(-1, -1, values.shape[-1])).reshape(*places.shape, -1)

    def abstract(self, points, features, count, neighbours, layer):
        centres = self.pick(points, self.sample(points, count))
        near = torch.cdist(centres, points).topk(neighbours, -1, largest=False)[1]
        grouped = torch.cat([self.pick(points, near) - centres[:, :, None], self.pick(features, near)], -1)
        return centres, layer(grouped.permute(0, 3, 1, 2)).amax(-1).transpose(1, 2)

    def forward(self, points):
        one, f1 = self.abstract(points, points, 24, 16, self.one)
        two, f2 = self.abstract(one, f1, 8, 8, self.two)
        d, near = torch.cdist(one, two).topk(3, -1, largest=False)
        weights = 1 / (d + 1e-4)
        spread = (self.pick(f2, near) * (weights / weights.sum(-1, keepdim=True))[..., None]).sum(2)
        return self.back(torch.cat([f1, spread], -1))


@network("sampled_points_ts", "script", 17)
def sampled_points():
    return SampledPoints(), {"points": torch.randn(2, 256, 3)}


class TopExperts(nn.Module):
    """Two of eight experts: rows of each picked by nonzero, added back by index."""

    def __init__(self, width=256, experts=8):
        super().__init__()
        self.embed, self.route = nn.Embedding(2000, width), nn.Linear(width, experts)
        self.experts = nn.ModuleList(Mlp(width, 2 * width, width, act=nn.SiLU) for _ in range(experts))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, words):
        x = self.norm(self.embed(words)).flatten(0, 1)
        weights, which = self.route(x).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows, slot = torch.where(which == index)
            y = y.index_add(0, rows, expert(x[rows]) * weights[rows, slot][:, None])
        return self.head(x + y).reshape(*words.shape, -1)


@network("top_experts_ts_dyn", "script", 17, {"words": {0: "batch", 1: "length"}})
def top_experts():
    return TopExperts(), {"words": tokens(1, 48)}, {"words": tokens(2, 31)}


class MaskDecoder(nn.Module):
    """Prompts attend to an image and back, transposed convolutions, masks by a product of hyper networks (SAM)."""

    def __init__(self, width=256):
        super().__init__()
        self.register_buffer("waves", torch.randn(2, width // 2))
        self.tokens, self.labels = nn.Parameter(torch.randn(5, width)), nn.Embedding(3, width)
        self.own, self.there, self.back = (nn.ModuleList(Attention(width, 8) for _ in range(2)) for _ in range(3))
        self.mlps, self.norms = nn.ModuleList(Mlp(width, 4 * width, width) for _ in range(2)), nn.ModuleList(nn.LayerNorm(width) for _ in range(8))
        self.up1, self.up2, self.norm = nn.ConvTranspose2d(width, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2), nn.GroupNorm(1, 64)
        self.hyper, self.score = nn.ModuleList(Mlp(width, width, 32) for _ in range(4)), Mlp(width, width, 4)

    def places(self, coordinates):
        z = (2 * coordinates - 1) @ self.waves * (2 * math.pi)
        return torch.cat([z.sin(), z.cos()], -1)

    def forward(self, features, points, labels):
        b, c, h, w = features.shape
        grid = torch.stack(torch.meshgrid((torch.arange(h) + 0.5) / h, (torch.arange(w) + 0.5) / w, indexing="ij"), -1)
        dense = self.places(grid.flip(-1)).flatten(0, 1)[None]
        prompts = torch.where(labels[..., None] < 0, 0.0, self.places(points)) + self.labels(labels + 1)
        x, keys = torch.cat([self.tokens.expand(b, -1, -1), prompts], 1), features.flatten(2).transpose(1, 2)
        for index in range(2):
            x = self.norms[4 * index](x + self.own[index](x))
            x = self.norms[4 * index + 1](x + self.there[index](x, keys + dense))
            x = self.norms[4 * index + 2](x + self.mlps[index](x))
            keys = self.norms[4 * index + 3](keys + self.back[index](keys + dense, x))
        y = F.gelu(self.up2(F.gelu(self.norm(self.up1(keys.transpose(1, 2).reshape(b, c, h, w))))))
        heads = torch.stack([hyper(x[:, 1 + k]) for k, hyper in enumerate(self.hyper)], 1)
        return (heads @ y.flatten(2)).reshape(b, 4, 4 * h, 4 * w), self.score(x[:, 0])


@network("mask_decoder_dyn", "dynamo", 18, {"points": {1: "prompts"}, "labels": {1: "prompts"}})
def mask_decoder():
    inputs = lambda n: {"features": torch.randn(1, 256, 32, 32), "points": torch.rand(1, n, 2), "labels": torch.randint(-1, 2, (1, n))}
    return MaskDecoder(), inputs(3), inputs(7)
