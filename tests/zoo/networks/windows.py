"""Images, hierarchically: windows, grids, pooled queries, convolved projections, attention between channels."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import ConvNorm, Mlp, SqueezeExcite, image


class Hiera(nn.Module):
    """Tokens ordered by mask unit, attention within a unit, the first block of a stage takes the maximum of its queries over four tokens."""

    class Block(nn.Module):
        def __init__(self, inputs, width, heads, stride, local):
            super().__init__()
            self.heads, self.stride, self.local = heads, stride, local
            self.norm1, self.qkv, self.out = nn.LayerNorm(inputs), nn.Linear(inputs, 3 * width), nn.Linear(width, width)
            self.skip = nn.Linear(inputs, width) if inputs != width else None
            self.norm2, self.mlp = nn.LayerNorm(width), Mlp(width, 4 * width, width, act=nn.GELU)

        def forward(self, x, units):
            b, n, _ = x.shape
            y = self.norm1(x)
            if self.skip is not None:
                x = self.skip(y).view(b, self.stride, n // self.stride, -1).amax(1)
            windows = units if self.local else 1
            q, k, v = self.qkv(y).reshape(b, -1, windows, 3, self.heads, self.out.in_features // self.heads).permute(3, 0, 4, 2, 1, 5)
            if self.stride > 1:
                q = q.view(b, self.heads, windows, self.stride, -1, q.shape[-1]).amax(3)
            y = (q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2)).softmax(-1) @ v
            y = y.transpose(1, 3).reshape(b, -1, self.out.in_features)
            x = x + self.out(y)
            return x + self.mlp(self.norm2(x))

    def __init__(self, width=96):
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, width, 7, 4, 3), nn.Parameter(0.02 * torch.randn(1, 3136, width))
        plan = ((width, width, 1, 1, True), (width, 2 * width, 2, 4, True), (2 * width, 2 * width, 2, 1, True), (2 * width, 4 * width, 4, 4, False), (4 * width, 4 * width, 4, 1, False))
        self.blocks = nn.ModuleList(self.Block(*row) for row in plan)
        self.norm, self.head = nn.LayerNorm(4 * width), nn.Linear(4 * width, 100)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        b, _, c = x.shape
        size, units = 56, 49
        x = x.view(b, size, size, c)
        for _ in range(3):  # unrolled: the tokens of a unit lie far apart, so that a stride is a reshape
            b2, h, w, _ = x.shape
            x = x.view(b2, h // 2, 2, w // 2, 2, c).permute(0, 2, 4, 1, 3, 5).reshape(b2 * 4, h // 2, w // 2, c)
        x = x.reshape(b, 64 * units, c)
        for block in self.blocks:
            x = block(x, units)
        return self.head(self.norm(x.mean(1)))


@network("hiera_dyn", "dynamo", 18, {"x": {0: "batch"}})
def hiera():
    return Hiera(), {"x": image(224, batch=1)}, {"x": image(224, batch=3)}


class SwinV2(nn.Module):
    """Cosine attention in shifted windows with a learned scale per head, biases that a small network makes from logarithms of distances, norms after the layers."""

    class Block(nn.Module):
        def __init__(self, width, heads, window, size, shift):
            super().__init__()
            self.heads, self.window, self.shift = heads, window, shift
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.scale, self.bias = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1))), Mlp(2, 128, heads)
            self.norm1, self.norm2, self.mlp = nn.LayerNorm(width), nn.LayerNorm(width), Mlp(width, 4 * width, width, act=nn.GELU)
            steps = torch.arange(-(window - 1), window, dtype=torch.float32) / (window - 1) * 8
            table = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1)
            self.register_buffer("table", (torch.sign(table) * torch.log2(table.abs() + 1) / 3).view(-1, 2))
            places = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
            between = (places[:, :, None] - places[:, None]) + window - 1
            self.register_buffer("index", (between[0] * (2 * window - 1) + between[1]).view(-1))
            self.register_buffer("mask", self.shifted_mask(size) if shift else None)

        def shifted_mask(self, size):
            region = torch.zeros(1, size, size, 1)
            cuts = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
            for index, (rows, columns) in enumerate((a, b) for a in cuts for b in cuts):
                region[:, rows, columns] = index
            region = self.cut(region).squeeze(-1)
            return (region[:, None] != region[:, :, None]).float() * -100.0

        def cut(self, x):
            b, h, w, c = x.shape
            return x.view(b, h // self.window, self.window, w // self.window, self.window, c).transpose(2, 3).reshape(-1, self.window ** 2, c)

        def join(self, x, h, w):
            return x.view(-1, h // self.window, w // self.window, self.window, self.window, x.shape[-1]).transpose(2, 3).reshape(-1, h, w, x.shape[-1])

        def attend(self, x):
            n, t, c = x.shape
            q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.scale.clamp(max=math.log(100.0)).exp()
            bias = 16 * torch.sigmoid(self.bias(self.table)[self.index].view(t, t, self.heads).permute(2, 0, 1))
            scores = scores + bias[None]
            if self.mask is not None:
                windows = self.mask.shape[0]
                scores = (scores.view(-1, windows, self.heads, t, t) + self.mask[None, :, None]).view(-1, self.heads, t, t)
            return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))

        def forward(self, x):
            b, h, w, c = x.shape
            y = torch.roll(x, (-self.shift, -self.shift), (1, 2)) if self.shift else x
            y = self.join(self.attend(self.cut(y)), h, w)
            if self.shift:
                y = torch.roll(y, (self.shift, self.shift), (1, 2))
            x = x + self.norm1(y)
            return x + self.norm2(self.mlp(x))

    def __init__(self, width=96, window=8):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        self.one = nn.Sequential(self.Block(width, 3, window, 32, 0), self.Block(width, 3, window, 32, 4))
        self.merge, self.norm = nn.Linear(4 * width, 2 * width, bias=False), nn.LayerNorm(2 * width)
        self.two = nn.Sequential(self.Block(2 * width, 6, window, 16, 0), self.Block(2 * width, 6, window, 16, 4))
        self.head = nn.Linear(2 * width, 100)

    def forward(self, x):
        x = self.one(self.first(self.patches(x).permute(0, 2, 3, 1)))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.head(self.two(self.norm(self.merge(x))).mean((1, 2)))


@network("swin_v2_ts_dyn", "script", 17, {"x": {0: "batch"}})
def swin_v2_ts():
    return SwinV2(), {"x": image(128, batch=2)}, {"x": image(128, batch=3)}


@network("swin_v2", "dynamo", 18)
def swin_v2():
    return SwinV2(), {"x": image(128, batch=2)}


class LeVit(nn.Module):
    """Convolutions, then attention whose products are Linear and BatchNorm; keys shorter than values; a strided subset of the tokens asks in between."""

    class LinearNorm(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.linear, self.norm = nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs)

        def forward(self, x):
            x = self.linear(x)
            return self.norm(x.flatten(0, 1)).reshape_as(x)

    class Attention(nn.Module):
        def __init__(self, inputs, outputs, heads, key, ratio, size, stride=1):
            super().__init__()
            self.heads, self.key, self.value, self.size, self.stride = heads, key, ratio * key, size, stride
            self.kv = LeVit.LinearNorm(inputs, heads * (key + ratio * key))
            self.q, self.out = LeVit.LinearNorm(inputs, heads * key), LeVit.LinearNorm(heads * ratio * key, outputs)
            points = [(i, j) for i in range(size) for j in range(size)]
            offsets, index = {}, []
            for a in [(i, j) for i in range(0, size, stride) for j in range(0, size, stride)]:
                index += [offsets.setdefault((abs(a[0] - b[0]), abs(a[1] - b[1])), len(offsets)) for b in points]
            self.bias = nn.Parameter(0.2 * torch.randn(heads, len(offsets)))
            self.register_buffer("index", torch.tensor(index).view(-1, len(points)))

        def forward(self, x):
            b, n, c = x.shape
            k, v = self.kv(x).view(b, n, self.heads, -1).split([self.key, self.value], 3)
            asked = x.view(b, self.size, self.size, c)[:, ::self.stride, ::self.stride].reshape(b, -1, c)
            q = self.q(asked).view(b, -1, self.heads, self.key).permute(0, 2, 1, 3)
            scores = q @ k.permute(0, 2, 3, 1) * self.key ** -0.5 + self.bias[:, self.index]
            x = (scores.softmax(-1) @ v.permute(0, 2, 1, 3)).transpose(1, 2).reshape(b, -1, self.heads * self.value)
            return self.out(F.hardswish(x))

    def __init__(self):
        super().__init__()
        widths = (3, 32, 64, 128, 192)
        self.stem = nn.Sequential(*(ConvNorm(a, b, 3, 2, act=nn.Hardswish if b < 192 else None) for a, b in zip(widths, widths[1:])))
        mlp = lambda c: nn.Sequential(self.LinearNorm(c, 2 * c), nn.Hardswish(), self.LinearNorm(2 * c, c))
        self.first = nn.ModuleList([self.Attention(192, 192, 3, 32, 2, 14), mlp(192), self.Attention(192, 192, 3, 32, 2, 14), mlp(192)])
        self.down = self.Attention(192, 288, 6, 32, 4, 14, 2)
        self.second = nn.ModuleList([mlp(288), self.Attention(288, 288, 5, 32, 2, 7), mlp(288)])
        self.norm, self.head = nn.BatchNorm1d(288), nn.Linear(288, 100)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        for layer in self.first:
            x = x + layer(x)
        x = self.down(x)
        for layer in self.second:
            x = x + layer(x)
        return self.head(self.norm(x.mean(1)))


@network("levit_ts_dyn", "script", 17, {"x": {0: "batch"}})
def levit():
    return LeVit(), {"x": image(224, batch=4)}, {"x": image(224, batch=1)}


class Cvt(nn.Module):
    """Queries, keys and values each from a depthwise convolution of the map, keys and values of half its resolution."""

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
            self.maps = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, s, 1, groups=width, bias=False), nn.BatchNorm2d(width)) for s in (1, 2, 2))
            self.linears, self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(3)), nn.Linear(width, width)
            self.mlp = Mlp(width, 4 * width, width, act=nn.GELU)

        def forward(self, x):
            b, c, h, w = x.shape
            x = x.flatten(2).transpose(1, 2)
            y = self.norm1(x).transpose(1, 2).view(b, c, h, w)
            q, k, v = (linear(m(y).flatten(2).transpose(1, 2)).view(b, -1, self.heads, c // self.heads).transpose(1, 2) for m, linear in zip(self.maps, self.linears))
            scores = torch.einsum("bhlk,bhtk->bhlt", q, k) * c ** -0.5
            y = torch.einsum("bhlt,bhtv->bhlv", scores.softmax(-1), v)
            x = x + self.out(y.transpose(1, 2).reshape(b, h * w, c))
            x = x + self.mlp(self.norm2(x))
            return x.transpose(1, 2).view(b, c, h, w)

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 64, 7, 4, 2), self.Block(64, 1), nn.Conv2d(64, 192, 3, 2, 1), self.Block(192, 3), self.Block(192, 3), nn.Conv2d(192, 384, 3, 2, 1), self.Block(384, 6))
        self.norm, self.head = nn.LayerNorm(384), nn.Linear(384, 100)

    def forward(self, x):
        return self.head(self.norm(self.layers(x).flatten(2).transpose(1, 2)).mean(1))


@network("cvt_dyn", "dynamo", 18, {"x": {0: "batch", 2: "height", 3: "width"}})
def cvt():
    return Cvt(), {"x": image(224, 192)}, {"x": image(160, 256, batch=2)}


class MaxVit(nn.Module):
    """MBConv, attention in blocks of neighbours, then among pixels of a grid that lie far apart."""

    class Attend(nn.Module):
        def __init__(self, width, heads, part, grid):
            super().__init__()
            self.heads, self.part, self.grid = heads, part, grid
            self.norm1, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.bias = nn.Parameter(0.2 * torch.randn((2 * part - 1) ** 2, heads))
            places = torch.stack(torch.meshgrid(torch.arange(part), torch.arange(part), indexing="ij")).flatten(1)
            between = places[:, :, None] - places[:, None] + part - 1
            self.register_buffer("index", between[0] * (2 * part - 1) + between[1])
            self.norm2, self.mlp = nn.LayerNorm(width), Mlp(width, 4 * width, width, act=nn.GELU)

        def forward(self, x):
            b, h, w, c = x.shape
            p, heads = self.part, self.heads
            parts = x.view(b, p, h // p, p, w // p, c).permute(0, 2, 4, 1, 3, 5) if self.grid else x.view(b, h // p, p, w // p, p, c).transpose(2, 3)
            parts = parts.reshape(-1, p * p, c)
            q, k, v = self.qkv(self.norm1(parts)).view(-1, p * p, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
            scores = q @ k.transpose(-2, -1) * (c // heads) ** -0.5 + self.bias[self.index].permute(2, 0, 1)[None]
            parts = parts + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, p * p, c))
            parts = parts + self.mlp(self.norm2(parts))
            if self.grid:
                return parts.view(b, h // p, w // p, p, p, c).permute(0, 3, 1, 4, 2, 5).reshape(b, h, w, c)
            return parts.view(b, h // p, w // p, p, p, c).transpose(2, 3).reshape(b, h, w, c)

    class Block(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            hidden = 4 * width
            self.skip = nn.Sequential(nn.AvgPool2d(stride) if stride > 1 else nn.Identity(), nn.Conv2d(inputs, width, 1)) if stride > 1 or inputs != width else nn.Identity()
            self.conv = nn.Sequential(nn.BatchNorm2d(inputs), ConvNorm(inputs, hidden, act=nn.GELU), ConvNorm(hidden, hidden, 3, stride, hidden, act=nn.GELU),
                                      SqueezeExcite(hidden, width // 4, act=nn.SiLU), nn.Conv2d(hidden, width, 1))
            self.block, self.grid = MaxVit.Attend(width, width // 32, 7, False), MaxVit.Attend(width, width // 32, 7, True)

        def forward(self, x):
            x = self.skip(x) + self.conv(x)
            return self.grid(self.block(x.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(ConvNorm(3, 32, 3, 2, act=nn.GELU), nn.Conv2d(32, 32, 3, padding=1))
        self.layers = nn.Sequential(self.Block(32, 64, 2), self.Block(64, 128, 2), self.Block(128, 128, 1))
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 100)

    def forward(self, x):
        return self.head(self.norm(self.layers(self.stem(x)).mean((2, 3))))


@network("maxvit", "dynamo", 20)
def maxvit():
    return MaxVit(), {"x": image(224)}


class EdgeNext(nn.Module):
    """Depthwise convolutions over a cascade of channel groups; attention between channels, normalised over pixels."""

    class Conv(nn.Module):
        def __init__(self, width, kernel):
            super().__init__()
            self.depth, self.norm = nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width), nn.LayerNorm(width)
            self.mlp, self.gamma = Mlp(width, 4 * width, width, act=nn.GELU), nn.Parameter(0.5 * torch.ones(width))

        def forward(self, x):
            return x + (self.gamma * self.mlp(self.norm(self.depth(x).permute(0, 2, 3, 1)))).permute(0, 3, 1, 2)

    class Split(nn.Module):
        def __init__(self, width, heads, groups):
            super().__init__()
            part = -(-width // groups)
            self.part, self.heads = part, heads
            self.depths = nn.ModuleList(nn.Conv2d(part, part, 3, padding=1, groups=part) for _ in range(groups - 1))
            self.norm1, self.qkv, self.out, self.heat = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Parameter(torch.ones(heads, 1, 1))
            self.norm2, self.mlp, self.gamma = nn.LayerNorm(width), Mlp(width, 4 * width, width, act=nn.GELU), nn.Parameter(0.5 * torch.ones(2, width))

        def forward(self, x):
            b, c, h, w = x.shape
            parts, done = x.split(self.part, 1), []
            for index, depth in enumerate(self.depths):
                done.append(depth(parts[index] + done[-1] if done else parts[index]))
            y = torch.cat([*done, parts[-1]], 1).flatten(2).transpose(1, 2)
            q, k, v = self.qkv(self.norm1(y)).view(b, h * w, 3, self.heads, -1).permute(2, 0, 3, 4, 1)
            mixed = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.heat).softmax(-1) @ v
            y = y + self.gamma[0] * self.out(mixed.permute(0, 3, 1, 2).reshape(b, h * w, c))
            y = self.gamma[1] * self.mlp(self.norm2(y))
            return x + y.transpose(1, 2).view(b, c, h, w)

    def __init__(self):
        super().__init__()
        down = lambda a, b: nn.Sequential(nn.GroupNorm(1, a), nn.Conv2d(a, b, 2, 2))
        self.layers = nn.Sequential(nn.Conv2d(3, 48, 4, 4), nn.GroupNorm(1, 48), self.Conv(48, 3), self.Conv(48, 3), down(48, 96), self.Conv(96, 5), self.Split(96, 4, 3),
                                    down(96, 160), self.Conv(160, 7), self.Split(160, 4, 4))
        self.norm, self.head = nn.LayerNorm(160), nn.Linear(160, 100)

    def forward(self, x):
        return self.head(self.norm(self.layers(x).mean((2, 3))))


@network("edgenext_ts_dyn", "script", 17, {"x": {0: "batch", 2: "height", 3: "width"}})
def edgenext():
    return EdgeNext(), {"x": image(224)}, {"x": image(160, 192, batch=2)}
