"""Image classifiers."""

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import Attention, ConvNorm, Mlp, SqueezeExcite, TransformerLayer, image


class DenseNet(nn.Module):
    """BatchNorm and ReLU come before the convolution, and read a concatenation: nothing folds into the layer before."""

    class Layer(nn.Module):
        def __init__(self, inputs, growth):
            super().__init__()
            self.body = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False), nn.BatchNorm2d(4 * growth), nn.ReLU(),
                                      nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

        def forward(self, x):
            return torch.cat([x, self.body(x)], 1)

    def __init__(self, growth=32, blocks=(4, 6, 6, 4)):
        super().__init__()
        layers, width = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for index, count in enumerate(blocks):
            for _ in range(count):
                layers.append(self.Layer(width, growth))
                width += growth
            if index + 1 < len(blocks):
                layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
                width //= 2
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(width), nn.ReLU())
        self.classifier = nn.Linear(width, 1000)

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


@network("densenet_ts", "script", 17)
def densenet():
    return DenseNet(), {"image": image(224)}


class Bottleneck(nn.Module):
    """ResNet's with the extras of its successors: groups, squeeze and excite."""

    def __init__(self, inputs, width, outputs, stride=1, groups=1, squeeze=0):
        super().__init__()
        self.body = nn.Sequential(ConvNorm(inputs, width), ConvNorm(width, width, 3, stride, groups), SqueezeExcite(width, squeeze) if squeeze else nn.Identity(),
                                  ConvNorm(width, outputs, act=None))
        self.skip = ConvNorm(inputs, outputs, 1, stride, act=None) if stride > 1 or inputs != outputs else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def staged(stem, widths, depths, make):
    layers, inputs = [stem], stem[0].out_channels
    for width, depth in zip(widths, depths):
        for index in range(depth):
            layers.append(make(inputs, width, 2 if index == 0 else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


@network("regnet_y_ts", "script", 18)
def regnet_y():
    """RegNetY-800MF's widths: groups of 16 channels, squeeze and excite."""
    return staged(ConvNorm(3, 32, 3, 2), (64, 128, 320, 768), (1, 2, 3, 1),
                  lambda a, b, stride: Bottleneck(a, b, b, stride, groups=b // 16, squeeze=max(a // 4, 8))), {"image": image(224)}


@network("resnext", "dynamo", 18)
def resnext():
    """ResNeXt-50 32x4d's blocks."""
    return staged(ConvNorm(3, 64, 7, 4), (256, 512, 1024), (2, 2, 2), lambda a, b, stride: Bottleneck(a, b // 2, b, stride, groups=32)), {"image": image(224)}


@network("senet_dyn", "dynamo", 19, {"image": {0: "batch"}})
def senet():
    return staged(ConvNorm(3, 64, 7, 2), (256, 512), (2, 2), lambda a, b, stride: Bottleneck(a, b // 4, b, stride, squeeze=b // 16)), \
        {"image": image(160, batch=2)}, {"image": image(160, batch=3)}


class Inception(nn.Module):
    """Inception-v3's blocks: factorized 1x7 and 7x1, pooled branches, concatenations."""

    class Block(nn.Module):
        def __init__(self, inputs, width):
            super().__init__()
            self.one = ConvNorm(inputs, 192)
            self.seven = nn.Sequential(ConvNorm(inputs, width), ConvNorm(width, width, (1, 7)), ConvNorm(width, 192, (7, 1)))
            self.twice = nn.Sequential(ConvNorm(inputs, width), ConvNorm(width, width, (7, 1)), ConvNorm(width, width, (1, 7)), ConvNorm(width, 192, (7, 1)))
            self.pooled = ConvNorm(inputs, 192)

        def forward(self, x):
            pooled = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
            return torch.cat([self.one(x), self.seven(x), self.twice(x), self.pooled(pooled)], 1)

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, 64, 3), nn.MaxPool2d(3, 2, ceil_mode=True), ConvNorm(64, 80), ConvNorm(80, 192, 3, 2), nn.MaxPool2d(3, 2, ceil_mode=True))
        self.blocks = nn.Sequential(self.Block(192, 128), self.Block(768, 160))
        self.head = nn.Linear(768, 1000)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


@network("inception_v3_ts", "script", 17)
def inception():
    return Inception(), {"image": image(299)}


class Ghost(nn.Module):
    """GhostNet: half of the channels are cheap depthwise copies of the other half."""

    def __init__(self, inputs, outputs, act=True):
        super().__init__()
        half = (outputs + 1) // 2
        self.outputs, kind = outputs, nn.ReLU if act else None
        self.primary, self.cheap = ConvNorm(inputs, half, act=kind), ConvNorm(half, half, 3, groups=half, act=kind)

    def forward(self, x):
        x = self.primary(x)
        return torch.cat([x, self.cheap(x)], 1)[:, :self.outputs]


class GhostBlock(nn.Module):
    def __init__(self, inputs, hidden, outputs, kernel, stride, squeeze):
        super().__init__()
        self.expand, self.project = Ghost(inputs, hidden), Ghost(hidden, outputs, act=False)
        self.down = ConvNorm(hidden, hidden, kernel, stride, hidden, act=None) if stride > 1 else nn.Identity()
        self.squeeze = SqueezeExcite(hidden, hidden // 4, gate=nn.Hardsigmoid) if squeeze else nn.Identity()
        same = stride == 1 and inputs == outputs
        self.skip = nn.Identity() if same else nn.Sequential(ConvNorm(inputs, inputs, kernel, stride, inputs, act=None), ConvNorm(inputs, outputs, act=None))

    def forward(self, x):
        return self.project(self.squeeze(self.down(self.expand(x)))) + self.skip(x)


@network("ghostnet_ts", "script", 17)
def ghostnet():
    rows = [(16, 16, 16, 3, 1, 0), (16, 48, 24, 3, 2, 0), (24, 72, 24, 3, 1, 0), (24, 72, 40, 5, 2, 1), (40, 120, 40, 5, 1, 1), (40, 240, 80, 3, 2, 0), (80, 200, 80, 3, 1, 0),
            (80, 480, 112, 3, 1, 1), (112, 672, 160, 5, 2, 1)]
    return nn.Sequential(ConvNorm(3, 16, 3, 2), *(GhostBlock(*row) for row in rows), ConvNorm(160, 960), nn.AdaptiveAvgPool2d(1), nn.Conv2d(960, 1280, 1), nn.ReLU(),
                         nn.Flatten(), nn.Linear(1280, 1000)), {"image": image(224)}


@network("convmixer", "dynamo", 21)
def convmixer():
    """Depthwise 9x9 beside a residual, GELU before BatchNorm."""
    class Residual(nn.Module):
        def __init__(self, body):
            super().__init__()
            self.body = body

        def forward(self, x):
            return self.body(x) + x

    width, blocks = 256, []
    for _ in range(3):
        blocks += [Residual(nn.Sequential(nn.Conv2d(width, width, 9, groups=width, padding="same"), nn.GELU(), nn.BatchNorm2d(width))), nn.Conv2d(width, width, 1),
                   nn.GELU(), nn.BatchNorm2d(width)]
    return nn.Sequential(nn.Conv2d(3, width, 7, 7), nn.GELU(), nn.BatchNorm2d(width), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)), \
        {"image": image(224)}


class MlpMixer(nn.Module):
    class Block(nn.Module):
        def __init__(self, count, width):
            super().__init__()
            self.norm1, self.mix = nn.LayerNorm(width), Mlp(count, 256, count, act=nn.GELU)
            self.norm2, self.mlp = nn.LayerNorm(width), Mlp(width, 2048, width, act=nn.GELU)

        def forward(self, x):
            x = x + self.mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.mlp(self.norm2(x))

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 512, 16, 16)
        self.blocks = nn.Sequential(*(self.Block(196, 512) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(512), nn.Linear(512, 1000)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.patches(x).flatten(2).permute(0, 2, 1))).mean(1))


@network("mlp_mixer_dyn", "dynamo", 18, {"image": {0: "batch"}})
def mlp_mixer():
    return MlpMixer(), {"image": image(224, batch=2)}, {"image": image(224, batch=1)}


class WindowAttention(nn.Module):
    """Swin's block written out: cyclic shift, window partition, a table of relative positions, a mask of regions."""

    def __init__(self, width, heads, size, window, shift):
        super().__init__()
        self.size, self.window, self.shift = size, window, shift
        self.norm1, self.attention, self.norm2, self.mlp = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width), Mlp(width, 4 * width, width, act=nn.GELU)
        self.table = nn.Parameter(0.1 * torch.randn((2 * window - 1) ** 2, heads))
        grid = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        offsets = grid[:, :, None] - grid[:, None, :] + window - 1
        self.register_buffer("index", offsets[0] * (2 * window - 1) + offsets[1])
        regions = torch.zeros(size, size)
        for row, rows in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
            for column, columns in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
                regions[rows, columns] = 3 * row + column
        parts = self.partition(regions[None, :, :, None]).squeeze(-1)
        self.register_buffer("mask", (parts[:, None, :] != parts[:, :, None]) * -100.0 if shift else None)

    def partition(self, x):
        b, h, w, c = x.shape
        m = self.window
        return x.view(b, h // m, m, w // m, m, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, m * m, c)

    def forward(self, x):
        b, h, w, c = x.shape
        m, moved = self.window, self.norm1(x)
        if self.shift:
            moved = torch.roll(moved, (-self.shift, -self.shift), (1, 2))
        bias = self.table[self.index.view(-1)].view(m * m, m * m, -1).permute(2, 0, 1)[None]
        if self.shift:
            bias = bias + self.mask.repeat(b, 1, 1)[:, None]
        moved = self.attention(self.partition(moved), bias=bias)
        moved = moved.view(b, h // m, w // m, m, m, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        if self.shift:
            moved = torch.roll(moved, (self.shift, self.shift), (1, 2))
        x = x + moved
        return x + self.mlp(self.norm2(x))


class HandSwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 96, 4, 4)
        self.first = nn.Sequential(WindowAttention(96, 3, 56, 7, 0), WindowAttention(96, 3, 56, 7, 3))
        self.merge_norm, self.merge = nn.LayerNorm(384), nn.Linear(384, 192, bias=False)
        self.second = nn.Sequential(WindowAttention(192, 6, 28, 7, 0), WindowAttention(192, 6, 28, 7, 3))
        self.head = nn.Linear(192, 1000)

    def forward(self, x):
        x = self.first(self.patches(x).permute(0, 2, 3, 1))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.head(self.second(self.merge(self.merge_norm(x))).mean((1, 2)))


@network("swin_hand_ts", "script", 17)
def swin_hand():
    return HandSwin(), {"image": image(224)}


class PatchConv(nn.Module):
    """ViT with a class token, learned positions and the fused q, k, v of timm."""

    def __init__(self, width=384, heads=6, depth=3):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token, self.positions = nn.Parameter(torch.randn(1, 1, width)), nn.Parameter(0.1 * torch.randn(1, 197, width))
        self.layers = nn.ModuleList(TransformerLayer(width, heads, 4 * width) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


@network("vit_small_ts_dyn", "script", 20, {"image": {0: "batch"}})
def vit_small():
    return PatchConv(), {"image": image(224, batch=1)}, {"image": image(224, batch=2)}


class ResNest(nn.Module):
    """Split attention: two groups of maps weighted by a softmax between them, made from their pooled sum."""

    class Split(nn.Module):
        def __init__(self, width, radix=2):
            super().__init__()
            self.radix, hidden = radix, max(width * radix // 4, 32)
            self.conv, self.reduce, self.expand = ConvNorm(width, width * radix, 3, groups=radix), ConvNorm(width, hidden), nn.Conv2d(hidden, width * radix, 1)

        def forward(self, x):
            b = x.shape[0]
            parts = self.conv(x).view(b, self.radix, -1, *x.shape[2:])
            weights = self.expand(self.reduce(F.adaptive_avg_pool2d(parts.sum(1), 1))).view(b, 1, self.radix, -1).transpose(1, 2).softmax(1)
            return (parts * weights.reshape(b, self.radix, -1, 1, 1)).sum(1)

    class Block(nn.Module):
        def __init__(self, inputs, width, outputs, stride):
            super().__init__()
            down = lambda: [nn.AvgPool2d(3, stride, 1)] if stride > 1 else []
            self.body = nn.Sequential(ConvNorm(inputs, width), ResNest.Split(width), *down(), ConvNorm(width, outputs, act=None))
            self.skip = nn.Sequential(*([nn.AvgPool2d(2, 2, ceil_mode=True, count_include_pad=False)] if stride > 1 else []), ConvNorm(inputs, outputs, act=None)) if inputs != outputs else nn.Identity()

        def forward(self, x):
            return F.relu(self.body(x) + self.skip(x))

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, 32, 3), ConvNorm(32, 64, 3), nn.MaxPool2d(3, 2, 1))
        self.body, self.head = nn.Sequential(self.Block(64, 64, 128, 1), self.Block(128, 96, 256, 2), self.Block(256, 96, 256, 1), self.Block(256, 128, 384, 2)), nn.Linear(384, 100)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


@network("resnest_ts_dyn", "script", 17, {"x": {0: "batch", 2: "height", 3: "width"}})
def resnest():
    return ResNest(), {"x": image(192, batch=2)}, {"x": image(160, 224)}
