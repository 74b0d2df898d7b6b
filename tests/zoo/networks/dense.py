"""Images in, images out."""

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import ConvNorm, image


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        pair = lambda a, b: nn.Sequential(ConvNorm(a, b, 3), ConvNorm(b, b, 3))
        self.down = nn.ModuleList(pair(a, b) for a, b in zip((3, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(pair(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], 4, 1)

    def forward(self, x):
        skips = []
        for index, down in enumerate(self.down):
            x = down(x if index == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for up, join, skip in list(zip(self.up, self.join, skips))[::-1]:
            x = up(x)
            rows, columns = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
            x = join(torch.cat([skip, F.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))], 1))
        return self.head(x)


@network("unet_ts_dyn", "script", 17, {"image": {0: "batch", 2: "height", 3: "width"}})
def unet():
    return UNet(), {"image": image(128, 160)}, {"image": image(100, 132, batch=2)}


class AttentionUNet(nn.Module):
    """Gates on the skips, upsampling by Resize."""

    class Gate(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.signal, self.skip, self.psi = ConvNorm(2 * width, width // 2, act=None), ConvNorm(width, width // 2, act=None), nn.Sequential(nn.Conv2d(width // 2, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())

        def forward(self, signal, skip):
            signal = F.interpolate(self.signal(signal), scale_factor=2, mode="bilinear", align_corners=False)
            return skip * self.psi(F.relu(signal + self.skip(skip)))

    def __init__(self, widths=(32, 64, 128)):
        super().__init__()
        self.down = nn.ModuleList(ConvNorm(a, b, 3) for a, b in zip((1, *widths), widths))
        self.gates = nn.ModuleList(self.Gate(w) for w in widths[:-1])
        self.join = nn.ModuleList(ConvNorm(3 * w, w, 3) for w in widths[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skips = []
        for index, down in enumerate(self.down):
            x = down(x if index == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for index in (1, 0):
            skip = self.gates[index](x, skips[index])
            x = self.join[index](torch.cat([skip, F.interpolate(x, scale_factor=2.0, mode="nearest")], 1))
        return self.head(x).softmax(1)


@network("attention_unet", "dynamo", 18)
def attention_unet():
    return AttentionUNet(), {"image": image(192, channels=1)}


class DeepLab(nn.Module):
    """Atrous spatial pyramid over a small residual network."""

    def __init__(self):
        super().__init__()
        self.low = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, 64, 3, 2))
        self.high = nn.Sequential(ConvNorm(64, 128, 3, 2), ConvNorm(128, 256, 3, 1), ConvNorm(256, 256, 3, dilation=2))
        self.pyramid = nn.ModuleList([ConvNorm(256, 128)] + [ConvNorm(256, 128, 3, dilation=rate) for rate in (6, 12, 18)])
        self.pooled, self.project = nn.Sequential(nn.Conv2d(256, 128, 1), nn.ReLU()), ConvNorm(640, 128)
        self.skip, self.head = ConvNorm(64, 48), nn.Sequential(ConvNorm(176, 128, 3), nn.Conv2d(128, 21, 1))

    def forward(self, image):
        low = self.low(image)
        x = self.high(low)
        pooled = F.interpolate(self.pooled(F.adaptive_avg_pool2d(x, 1)), size=x.shape[-2:], mode="bilinear", align_corners=False)
        x = self.project(torch.cat([branch(x) for branch in self.pyramid] + [pooled], 1))
        x = F.interpolate(x, size=low.shape[-2:], mode="bilinear", align_corners=False)
        x = self.head(torch.cat([x, self.skip(low)], 1))
        return F.interpolate(x, size=image.shape[-2:], mode="bilinear", align_corners=False)


@network("deeplab_v3plus_ts", "script", 17)
def deeplab():
    return DeepLab(), {"image": image(256)}


class PyramidPooling(nn.Module):
    """PSPNet: pools of 1, 2, 3 and 6 cells."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(ConvNorm(3, 64, 3, 2), ConvNorm(64, 128, 3, 2), ConvNorm(128, 256, 3, 2))
        self.levels = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(cells), nn.Conv2d(256, 64, 1), nn.ReLU()) for cells in (1, 2, 3, 6))
        self.head = nn.Sequential(ConvNorm(512, 128, 3), nn.Conv2d(128, 19, 1))

    def forward(self, x):
        size = x.shape[2:]
        x = self.body(x)
        x = self.head(torch.cat([x] + [F.interpolate(level(x), size=x.shape[2:], mode="bilinear", align_corners=True) for level in self.levels], 1))
        return F.interpolate(x, size=size, mode="bilinear", align_corners=True).argmax(1), x


@network("pspnet", "dynamo", 18)
def pspnet():
    return PyramidPooling(), {"image": image(192)}


class RRDB(nn.Module):
    """ESRGAN's residual in residual dense block."""

    class Dense(nn.Module):
        def __init__(self, width, growth):
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(width + k * growth, growth if k < 4 else width, 3, padding=1) for k in range(5))

        def forward(self, x):
            seen = [x]
            for layer in self.layers[:-1]:
                seen.append(F.leaky_relu(layer(torch.cat(seen, 1)), 0.2))
            return x + 0.2 * self.layers[-1](torch.cat(seen, 1))

    def __init__(self, width=64, growth=32):
        super().__init__()
        self.body = nn.Sequential(*(self.Dense(width, growth) for _ in range(3)))

    def forward(self, x):
        return x + 0.2 * self.body(x)


class Esrgan(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.body = nn.Conv2d(3, 64, 3, padding=1), nn.Sequential(RRDB(), nn.Conv2d(64, 64, 3, padding=1))
        self.up1, self.up2, self.last = nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(64, 256, 3, padding=1), nn.Conv2d(64, 3, 3, padding=1)

    def forward(self, x):
        x = self.first(x)
        x = x + self.body(x)
        x = F.leaky_relu(self.up1(F.interpolate(x, scale_factor=2, mode="nearest")), 0.2)
        x = F.leaky_relu(F.pixel_shuffle(self.up2(x), 2), 0.2)
        return self.last(x).clamp(-3, 3)


@network("esrgan_dyn", "dynamo", 18, {"image": {2: "height", 3: "width"}})
def esrgan():
    return Esrgan(), {"image": image(48, 64)}, {"image": image(40, 36)}


class Restorer(nn.Module):
    """NAFNet-like: LayerNorm over channels, gates that multiply halves, pixel unshuffle and shuffle."""

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight, self.offset = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
            self.expand, self.depthwise = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width)
            self.attend, self.project, self.scale = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1), nn.Parameter(torch.full((1, width, 1, 1), 0.5))

        def forward(self, x):
            mean = x.mean(1, keepdim=True)
            y = (x - mean) / ((x - mean).pow(2).mean(1, keepdim=True) + 1e-6).sqrt() * self.weight[:, None, None] + self.offset[:, None, None]
            a, b = self.depthwise(self.expand(y)).chunk(2, 1)
            y = a * b
            return x + self.scale * self.project(y * self.attend(F.adaptive_avg_pool2d(y, 1)))

    def __init__(self):
        super().__init__()
        self.first, self.low = nn.Conv2d(3, 32, 3, padding=1), nn.Sequential(self.Block(128), self.Block(128))
        self.high, self.last = self.Block(32), nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, x):
        y = self.high(self.first(x))
        y = y + F.pixel_shuffle(self.low(F.pixel_unshuffle(y, 2)), 2)
        return x + self.last(y)


@network("nafnet_ts_dyn", "script", 18, {"image": {0: "batch", 2: "height", 3: "width"}})
def nafnet():
    return Restorer(), {"image": image(128)}, {"image": image(96, 160, batch=2)}


class StyleTransfer(nn.Module):
    """Reflection pads, InstanceNorm, upsampling by nearest."""

    class Layer(nn.Sequential):
        def __init__(self, inputs, outputs, kernel, stride=1, up=1):
            super().__init__(*([nn.Upsample(scale_factor=up, mode="nearest")] if up > 1 else []), nn.ReflectionPad2d(kernel // 2), nn.Conv2d(inputs, outputs, kernel, stride),
                             nn.InstanceNorm2d(outputs, affine=True))

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(self.Layer(3, 32, 9), nn.ReLU(), self.Layer(32, 64, 3, 2), nn.ReLU(), self.Layer(64, 128, 3, 2), nn.ReLU())
        self.residual = nn.ModuleList(nn.Sequential(self.Layer(128, 128, 3), nn.ReLU(), self.Layer(128, 128, 3)) for _ in range(2))
        self.up = nn.Sequential(self.Layer(128, 64, 3, up=2), nn.ReLU(), self.Layer(64, 32, 3, up=2), nn.ReLU(), nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9))

    def forward(self, x):
        x = self.down(x)
        for block in self.residual:
            x = x + block(x)
        return torch.tanh(self.up(x))


@network("style_transfer_ts", "script", 17)
def style_transfer():
    return StyleTransfer(), {"image": image(160)}


class LowLight(nn.Module):
    """Zero-DCE: curves applied eight times; a 3-D lookup by grid_sample beside it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3, 32, 3, padding=1)] + [nn.Conv2d(32, 32, 3, padding=1) for _ in range(3)] + [nn.Conv2d(64, 32, 3, padding=1), nn.Conv2d(64, 24, 3, padding=1)])
        self.register_buffer("table", torch.rand(1, 3, 9, 9, 9))

    def forward(self, image):
        a = F.relu(self.layers[0](image))
        b = F.relu(self.layers[1](a))
        c = F.relu(self.layers[2](b))
        d = F.relu(self.layers[3](c))
        e = F.relu(self.layers[4](torch.cat([c, d], 1)))
        curves = torch.tanh(self.layers[5](torch.cat([b, e], 1)))
        x = image
        for curve in torch.split(curves, 3, 1):
            x = x + curve * (x * x - x)
        grid = (x.permute(0, 2, 3, 1)[:, None] * 2 - 1).clamp(-1, 1)
        return x, F.grid_sample(self.table.expand(x.shape[0], -1, -1, -1, -1), grid, align_corners=True)[:, :, 0]


@network("low_light_op20", "dynamo", 20)
def low_light():
    return LowLight(), {"image": torch.rand(1, 3, 160, 240)}


class Restormer(nn.Module):
    """Attention between channels, its maps through depthwise convolutions; gated perceptrons; resolution changed by pixel (un)shuffle."""

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            hidden = int(2.66 * width)
            self.heads, self.heat = heads, nn.Parameter(torch.ones(heads, 1, 1))
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.depth, self.out = nn.Conv2d(width, 3 * width, 1, bias=False), nn.Conv2d(3 * width, 3 * width, 3, padding=1, groups=3 * width, bias=False), nn.Conv2d(width, width, 1, bias=False)
            self.up, self.gate, self.down = nn.Conv2d(width, 2 * hidden, 1, bias=False), nn.Conv2d(2 * hidden, 2 * hidden, 3, padding=1, groups=2 * hidden, bias=False), nn.Conv2d(hidden, width, 1, bias=False)

        @staticmethod
        def normed(norm, x):
            b, c, h, w = x.shape
            return norm(x.flatten(2).transpose(1, 2)).transpose(1, 2).view(b, c, h, w)

        def forward(self, x):
            b, c, h, w = x.shape
            q, k, v = (y.reshape(b, self.heads, c // self.heads, h * w) for y in self.depth(self.qkv(self.normed(self.norm1, x))).chunk(3, 1))
            weights = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.heat).softmax(-1)
            x = x + self.out((weights @ v).reshape(b, c, h, w))
            one, two = self.gate(self.up(self.normed(self.norm2, x))).chunk(2, 1)
            return x + self.down(F.gelu(one) * two)

    def __init__(self, width=32):
        super().__init__()
        self.first, self.one, self.low = nn.Conv2d(3, width, 3, padding=1, bias=False), self.Block(width, 1), nn.Sequential(nn.Conv2d(width, width // 2, 3, padding=1, bias=False), nn.PixelUnshuffle(2))
        self.two, self.high = nn.Sequential(self.Block(2 * width, 2), self.Block(2 * width, 2)), nn.Sequential(nn.Conv2d(2 * width, 4 * width, 3, padding=1, bias=False), nn.PixelShuffle(2))
        self.three, self.last = self.Block(2 * width, 2), nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x):
        one = self.one(self.first(x))
        return x + self.last(self.three(torch.cat([self.high(self.two(self.low(one))), one], 1)))


@network("restormer_ts_dyn", "script", 17, {"x": {0: "batch", 2: "height", 3: "width"}})
def restormer():
    return Restormer(), {"x": image(96, 128)}, {"x": image(64, 80, batch=2)}


@network("restormer", "dynamo", 18)
def restormer_dynamo():
    return Restormer(), {"x": image(128)}


class NestedUNet(nn.Module):
    """U²-Net: every stage is a small U-Net; the deepest has dilations in place of pooling; side outputs enlarged and joined."""

    class Stage(nn.Module):
        def __init__(self, inputs, hidden, outputs, depth, pooled=True):
            super().__init__()
            self.pooled, self.first = pooled, ConvNorm(inputs, outputs, 3)
            rate = lambda index: 1 if pooled else 2 ** index
            self.down = nn.ModuleList(ConvNorm(outputs if index == 0 else hidden, hidden, 3, dilation=rate(index)) for index in range(depth))
            self.bottom = ConvNorm(hidden, hidden, 3, dilation=2 if pooled else 2 ** depth)
            self.up = nn.ModuleList(ConvNorm(2 * hidden, outputs if index == 0 else hidden, 3, dilation=rate(index)) for index in range(depth))

        def forward(self, x):
            x, kept = self.first(x), []
            y = x
            for index, layer in enumerate(self.down):
                y = layer(F.max_pool2d(y, 2, 2, ceil_mode=True) if self.pooled and index else y)
                kept.append(y)
            y = self.bottom(y)
            for layer, other in zip(reversed(self.up), reversed(kept)):
                if self.pooled:
                    y = F.interpolate(y, size=other.shape[2:], mode="bilinear", align_corners=False)
                y = layer(torch.cat([y, other], 1))
            return x + y

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = self.Stage(3, 16, 32, 4), self.Stage(32, 16, 64, 3), self.Stage(64, 32, 64, 3, pooled=False)
        self.up_two, self.up_one = self.Stage(128, 16, 32, 3), self.Stage(64, 16, 32, 4)
        self.sides, self.join = nn.ModuleList(nn.Conv2d(a, 1, 3, padding=1) for a in (32, 32, 64)), nn.Conv2d(3, 1, 1)

    def forward(self, x):
        larger = lambda y, like: F.interpolate(y, size=like.shape[2:], mode="bilinear", align_corners=False)
        one = self.one(x)
        two = self.two(F.max_pool2d(one, 2, 2, ceil_mode=True))
        three = self.three(F.max_pool2d(two, 2, 2, ceil_mode=True))
        up_two = self.up_two(torch.cat([larger(three, two), two], 1))
        up_one = self.up_one(torch.cat([larger(up_two, one), one], 1))
        sides = [self.sides[0](up_one), larger(self.sides[1](up_two), x), larger(self.sides[2](three), x)]
        return torch.sigmoid(self.join(torch.cat(sides, 1)))


@network("u2net_ts_dyn", "script", 17, {"x": {0: "batch", 2: "height", 3: "width"}})
def u2net():
    return NestedUNet(), {"x": image(160)}, {"x": image(108, 132, batch=2)}
