"""Classifiers for phones."""

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import ConvNorm, SqueezeExcite, TransformerLayer, image


def shuffled(x, groups):
    b, c, h, w = x.shape
    return x.view(b, groups, c // groups, h, w).transpose(1, 2).reshape(b, c, h, w)


class ShuffleUnit(nn.Module):
    """ShuffleNet v2: one half passes, the other is convolved, channels are dealt out again."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        half = outputs // 2
        self.stride = stride
        self.left = nn.Sequential(ConvNorm(inputs, inputs, 3, 2, inputs, act=None), ConvNorm(inputs, half)) if stride == 2 else nn.Identity()
        start = inputs if stride == 2 else half
        self.right = nn.Sequential(ConvNorm(start, half), ConvNorm(half, half, 3, stride, half, act=None), ConvNorm(half, half))

    def forward(self, x):
        left, right = (x, x) if self.stride == 2 else x.chunk(2, 1)
        return shuffled(torch.cat([self.left(left), self.right(right)], 1), 2)


@network("shufflenet_v2", "dynamo", 18)
def shufflenet():
    layers, inputs = [ConvNorm(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)], 24
    for outputs, depth in ((116, 3), (232, 4), (464, 2)):
        for index in range(depth):
            layers.append(ShuffleUnit(inputs, outputs, 2 if index == 0 else 1))
            inputs = outputs
    return nn.Sequential(*layers, ConvNorm(464, 1024), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000)), {"image": image(224)}


class Inverted(nn.Module):
    """MobileNetV3's and EfficientNet's block; `fused`: the first two convolutions are one."""

    def __init__(self, inputs, hidden, outputs, kernel, stride, squeeze, act, gate=nn.Hardsigmoid, fused=False):
        super().__init__()
        layers = [ConvNorm(inputs, hidden, kernel, stride, act=act)] if fused else \
            ([ConvNorm(inputs, hidden, act=act)] if hidden != inputs else []) + [ConvNorm(hidden, hidden, kernel, stride, hidden, act=act)]
        if squeeze:
            layers.append(SqueezeExcite(hidden, squeeze, nn.ReLU if gate is nn.Hardsigmoid else nn.SiLU, gate))
        if not fused or hidden != outputs:
            layers.append(ConvNorm(hidden, outputs, act=None))
        self.body, self.residual = nn.Sequential(*layers), stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


@network("mobilenet_v3_large", "dynamo", 20)
def mobilenet_v3():
    relu, hard = nn.ReLU, nn.Hardswish
    rows = [(16, 16, 16, 3, 1, 0, relu), (16, 64, 24, 3, 2, 0, relu), (24, 72, 24, 3, 1, 0, relu), (24, 72, 40, 5, 2, 24, relu), (40, 120, 40, 5, 1, 32, relu), (40, 240, 80, 3, 2, 0, hard),
            (80, 200, 80, 3, 1, 0, hard), (80, 480, 112, 3, 1, 120, hard), (112, 672, 160, 5, 2, 168, hard), (160, 960, 160, 5, 1, 240, hard)]
    return nn.Sequential(ConvNorm(3, 16, 3, 2, act=hard), *(Inverted(*row) for row in rows), ConvNorm(160, 960, act=hard), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280),
                         hard(), nn.Linear(1280, 1000)), {"image": image(224)}


@network("mobilenet_v3_small_ts_dyn", "script", 17, {"image": {0: "batch", 2: "height", 3: "width"}})
def mobilenet_v3_small():
    relu, hard = nn.ReLU, nn.Hardswish
    rows = [(16, 16, 16, 3, 2, 8, relu), (16, 72, 24, 3, 2, 0, relu), (24, 88, 24, 3, 1, 0, relu), (24, 96, 40, 5, 2, 24, hard), (40, 240, 40, 5, 1, 64, hard), (40, 120, 48, 5, 1, 32, hard),
            (48, 288, 96, 5, 2, 72, hard), (96, 576, 96, 5, 1, 144, hard)]
    return nn.Sequential(ConvNorm(3, 16, 3, 2, act=hard), *(Inverted(*row) for row in rows), ConvNorm(96, 576, act=hard), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(576, 1024),
                         hard(), nn.Linear(1024, 1000)), {"image": image(224)}, {"image": image(160, 192, batch=2)}


@network("efficientnet_v2_ts", "script", 17)
def efficientnet_v2():
    silu, gate = nn.SiLU, nn.Sigmoid
    rows = [(24, 24, 24, 3, 1, 0, silu, gate, True), (24, 96, 48, 3, 2, 0, silu, gate, True), (48, 192, 48, 3, 1, 0, silu, gate, True), (48, 192, 64, 3, 2, 0, silu, gate, True),
            (64, 256, 128, 3, 2, 16, silu, gate), (128, 512, 128, 3, 1, 32, silu, gate), (128, 768, 160, 3, 1, 32, silu, gate), (160, 960, 256, 3, 2, 40, silu, gate), (256, 1536, 256, 3, 1, 64, silu, gate)]
    return nn.Sequential(ConvNorm(3, 24, 3, 2, act=silu), *(Inverted(*row) for row in rows), ConvNorm(256, 1280, act=silu), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)), \
        {"image": image(224)}


class MobileVit(nn.Module):
    """Convolutions, then a transformer over the pixels of the same place in every 2x2 patch."""

    class Block(nn.Module):
        def __init__(self, channels, width):
            super().__init__()
            self.local = nn.Sequential(ConvNorm(channels, channels, 3, act=nn.SiLU), nn.Conv2d(channels, width, 1, bias=False))
            self.layers = nn.Sequential(*(TransformerLayer(width, 4, 2 * width, act=nn.SiLU) for _ in range(2)))
            self.norm, self.project, self.fuse = nn.LayerNorm(width), ConvNorm(width, channels, act=nn.SiLU), ConvNorm(2 * channels, channels, 3, act=nn.SiLU)

        def forward(self, x):
            y = self.local(x)
            b, d, h, w = y.shape
            y = y.reshape(b * d, h // 2, 2, w // 2, 2).transpose(2, 3).reshape(b, d, h * w // 4, 4).permute(0, 3, 2, 1).reshape(b * 4, h * w // 4, d)
            y = self.norm(self.layers(y))
            y = y.reshape(b, 4, h * w // 4, d).permute(0, 3, 2, 1).reshape(b * d, h // 2, w // 2, 2, 2).transpose(2, 3).reshape(b, d, h, w)
            return self.fuse(torch.cat([x, self.project(y)], 1))

    def __init__(self):
        super().__init__()
        silu = nn.SiLU
        self.body = nn.Sequential(ConvNorm(3, 16, 3, 2, act=silu), Inverted(16, 64, 32, 3, 1, 0, silu), Inverted(32, 128, 64, 3, 2, 0, silu), Inverted(64, 256, 96, 3, 2, 0, silu),
                                  self.Block(96, 144), Inverted(96, 384, 128, 3, 2, 0, silu), self.Block(128, 192), ConvNorm(128, 512, act=silu))
        self.head = nn.Linear(512, 1000)

    def forward(self, x):
        return self.head(self.body(x).mean([-2, -1]))


@network("mobilevit", "dynamo", 18)
def mobilevit():
    return MobileVit(), {"image": image(256)}


class FusedResolutions(nn.Module):
    """HRNet: three resolutions side by side, each the sum of all."""

    def __init__(self, widths=(32, 64, 128)):
        super().__init__()
        self.widths = widths
        self.stem = nn.Sequential(ConvNorm(3, 64, 3, 2), ConvNorm(64, widths[0], 3, 2))
        self.down = nn.ModuleList(ConvNorm(a, b, 3, 2) for a, b in zip(widths, widths[1:]))
        self.branches = nn.ModuleList(nn.ModuleList(nn.Sequential(ConvNorm(w, w, 3), ConvNorm(w, w, 3)) for w in widths) for _ in range(2))
        self.fuse = nn.ModuleList(nn.ModuleList(nn.ModuleList(self.path(a, b) for a in range(3)) for b in range(3)) for _ in range(2))
        self.head = nn.Sequential(ConvNorm(sum(widths), sum(widths)), nn.Conv2d(sum(widths), 17, 1))

    def path(self, source, target):
        widths = self.widths
        if source == target:
            return nn.Identity()
        if source > target:
            return nn.Sequential(ConvNorm(widths[source], widths[target], act=None), nn.Upsample(scale_factor=2 ** (source - target), mode="nearest"))
        steps = [ConvNorm(widths[source], widths[source], 3, 2) for _ in range(target - source - 1)]
        return nn.Sequential(*steps, ConvNorm(widths[source], widths[target], 3, 2, act=None))

    def forward(self, x):
        maps = [self.stem(x)]
        for down in self.down:
            maps.append(down(maps[-1]))
        for branches, fuse in zip(self.branches, self.fuse):
            maps = [branch(y) for branch, y in zip(branches, maps)]
            maps = [F.relu(sum(path(y) for path, y in zip(paths, maps))) for paths in fuse]
        size = maps[0].shape[2:]
        wide = [maps[0]] + [F.interpolate(y, size=size, mode="bilinear", align_corners=True) for y in maps[1:]]
        return self.head(torch.cat(wide, 1))


@network("hrnet_pose_ts_dyn", "script", 17, {"image": {0: "batch"}})
def hrnet():
    return FusedResolutions(), {"image": image(256, 192)}, {"image": image(256, 192, batch=2)}
