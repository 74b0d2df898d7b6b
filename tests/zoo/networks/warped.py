"""What is warped, correlated, masked by computed weights or looked up in space: flow, matching, instances, points, cameras, matting, waves, molecules."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import Attention, ConvNorm, Mlp, image


class ConvCell(nn.Module):
    """A convolutional LSTM with peepholes."""

    def __init__(self, inputs, width):
        super().__init__()
        self.gates = nn.Conv2d(inputs + width, 4 * width, 3, padding=1)
        self.peep = nn.Parameter(0.1 * torch.randn(3, width, 1, 1))

    def forward(self, x, h, c):
        i, f, g, o = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f + self.peep[0] * c) * c + torch.sigmoid(i + self.peep[1] * c) * torch.tanh(g)
        return torch.sigmoid(o + self.peep[2] * c) * torch.tanh(c), c


class FramePrediction(nn.Module):
    """Frames to come from frames seen."""

    def __init__(self, width=32):
        super().__init__()
        self.down, self.up = nn.Conv2d(1, width, 4, 4), nn.ConvTranspose2d(width, 1, 4, 4)
        self.cells, self.width = nn.ModuleList(ConvCell(width, width) for _ in range(2)), width

    def forward(self, frames):
        b, n = frames.shape[:2]
        zeros = torch.zeros(b, self.width, frames.shape[3] // 4, frames.shape[4] // 4, dtype=frames.dtype)
        states, found, last = [(zeros, zeros), (zeros, zeros)], [], frames[:, -1]
        for step in range(n + 3):
            x = F.leaky_relu(self.down(frames[:, step] if step < n else last), 0.2)
            for k, cell in enumerate(self.cells):
                states[k] = cell(x, *states[k])
                x = states[k][0]
            if step >= n - 1:
                last = torch.sigmoid(self.up(x))
                found.append(last)
        return torch.stack(found, 1)


@network("frame_prediction_ts_dyn", "script", 17, {"frames": {0: "batch"}})
def frame_prediction():
    return FramePrediction(), {"frames": torch.rand(1, 4, 1, 64, 64)}, {"frames": torch.rand(2, 4, 1, 64, 64)}


class CostVolumes(nn.Module):
    """PWC-Net: pyramids, features warped by the flow so far, correlations of shifted maps, dilated contexts."""

    def __init__(self):
        super().__init__()
        widths = (3, 16, 32, 64)
        self.pyramid = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(b, b, 3, 1, 1), nn.LeakyReLU(0.1)) for a, b in zip(widths, widths[1:]))
        self.guess = nn.ModuleList(nn.Sequential(nn.Conv2d(49 + w + 2, 64, 3, 1, 1), nn.LeakyReLU(0.1), nn.Conv2d(64, 32, 3, 1, 1), nn.LeakyReLU(0.1), nn.Conv2d(32, 2, 3, 1, 1)) for w in widths[:0:-1])
        self.context = nn.Sequential(*(m for a, b, d in ((34, 32, 1), (32, 32, 2), (32, 32, 4), (32, 16, 8)) for m in (nn.Conv2d(a, b, 3, 1, d, d), nn.LeakyReLU(0.1))), nn.Conv2d(16, 2, 3, 1, 1))

    def warp(self, x, flow):
        h, w = x.shape[2:]
        rows, columns = torch.meshgrid(torch.arange(h, dtype=x.dtype), torch.arange(w, dtype=x.dtype), indexing="ij")
        at = torch.stack([2 * (columns + flow[:, 0]) / (w - 1) - 1, 2 * (rows + flow[:, 1]) / (h - 1) - 1], -1)
        warped = F.grid_sample(x, at, mode="bilinear", padding_mode="zeros", align_corners=True)
        mask = F.grid_sample(torch.ones_like(x[:, :1]), at, mode="bilinear", padding_mode="zeros", align_corners=True)
        return warped * (mask > 0.999).to(x.dtype)

    def correlate(self, a, b, reach=3):
        h, w = a.shape[2:]
        padded = F.pad(b, (reach,) * 4)
        return torch.cat([(a * padded[:, :, i:i + h, j:j + w]).mean(1, keepdim=True) for i in range(2 * reach + 1) for j in range(2 * reach + 1)], 1)

    def forward(self, first, second):
        levels = []
        for part in self.pyramid:
            first, second = part(first), part(second)
            levels.append((first, second))
        flow = torch.zeros_like(first[:, :2])
        for k, (a, b) in enumerate(reversed(levels)):
            if k:
                flow = 2 * F.interpolate(flow, scale_factor=2.0, mode="bilinear", align_corners=False)
            cost = F.leaky_relu(self.correlate(a, self.warp(b, flow)), 0.1)
            flow = flow + 0.2 * self.guess[k](torch.cat([cost, a, flow], 1))
        return flow + self.context(torch.cat([cost[:, :32], flow], 1))


@network("cost_volumes_ts", "script", 17)
def cost_volumes():
    return CostVolumes(), {"first": torch.rand(1, 3, 96, 128), "second": torch.rand(1, 3, 96, 128)}


@network("cost_volumes", "dynamo", 20)
def cost_volumes_exported():
    return cost_volumes()


class Instances(nn.Module):
    """CondInst: every instance found has a small convolution network of its own, whose weights the detector computes."""

    def __init__(self, width=64, top=12):
        super().__init__()
        self.top = top
        self.body = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, width, 3, 2), ConvNorm(width, width, 3, 2), ConvNorm(width, 128, 3))
        self.classes, self.weights = nn.Conv2d(128, 10, 3, 1, 1), nn.Conv2d(128, 10 * 8 + 8 * 8 + 8 + 8 + 8 + 1, 3, 1, 1)
        self.masks = nn.Sequential(ConvNorm(128, 64, 3), nn.Conv2d(64, 8, 1))

    def forward(self, picture):
        x = self.body(picture)
        h, w = x.shape[2:]
        scores, kinds = torch.sigmoid(self.classes(x)).flatten(2).max(1)
        best, where = scores[0].topk(self.top)
        own = self.weights(x).flatten(2)[0].t()[where]
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        shift = lambda at, line: (at[:, None, None] - line[None]).to(x.dtype) / 8
        maps = torch.cat([torch.stack([shift(where % w, columns), shift(where // w, rows)], 1), self.masks(x).expand(self.top, -1, -1, -1)], 1)
        w1, w2, w3, b1, b2, b3 = own.split([80, 64, 8, 8, 8, 1], 1)
        y = maps.reshape(1, -1, h, w)
        y = F.relu(F.conv2d(y, w1.reshape(-1, 10, 1, 1), b1.reshape(-1), groups=self.top))
        y = F.relu(F.conv2d(y, w2.reshape(-1, 8, 1, 1), b2.reshape(-1), groups=self.top))
        y = F.conv2d(y, w3.reshape(-1, 8, 1, 1), b3.reshape(-1), groups=self.top)
        return torch.sigmoid(F.interpolate(y, scale_factor=4.0, mode="bilinear", align_corners=False)[0]), best, kinds[0][where]


@network("instances", "dynamo", 18)
def instances():
    return Instances(), {"picture": image(160)}


class SampledSets(nn.Module):
    """PointNet++: farthest points, their neighbours in a ball, features carried back by the three nearest."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Mlp(6, 32, 32, 64, last=True), Mlp(67, 64, 64, 128, last=True)
        self.back, self.last = Mlp(64 + 128, 128, 64, last=True), Mlp(64 + 3, 64, 13)

    def farthest(self, points, count):
        b = points.shape[0]
        near = torch.full((b, points.shape[1]), 1e10, dtype=points.dtype)
        last, chosen = torch.zeros(b, 1, dtype=torch.int64), []
        for _ in range(count):
            chosen.append(last)
            centre = points.gather(1, last[..., None].expand(-1, -1, 3))
            near = torch.minimum(near, (points - centre).square().sum(-1))
            last = near.argmax(-1, keepdim=True)
        return torch.cat(chosen, 1)

    def take(self, x, index):
        flat = index.flatten(1)
        return x.gather(1, flat[..., None].expand(-1, -1, x.shape[-1])).unflatten(1, index.shape[1:])

    def group(self, points, features, count, radius, most):
        centres = self.take(points, self.farthest(points, count))
        apart = (centres[:, :, None] - points[:, None]).square().sum(-1)
        n = points.shape[1]
        index = torch.where(apart > radius ** 2, n, torch.arange(n)).sort(-1).values[..., :most]
        index = torch.where(index == n, index[..., :1], index)
        return centres, torch.cat([self.take(points, index) - centres[:, :, None], self.take(features, index)], -1)

    def forward(self, points):
        c1, g1 = self.group(points, points, 64, 0.3, 16)
        f1 = self.first(g1).amax(2)
        c2, g2 = self.group(c1, f1, 16, 0.7, 8)
        f2 = self.second(g2).amax(2)
        for fine, coarse, skip, mlp in ((c1, c2, f1, self.back), (points, c1, points, self.last)):
            apart, index = (fine[:, :, None] - coarse[:, None]).square().sum(-1).topk(3, -1, largest=False)
            weight = 1 / (apart + 1e-4)
            f2 = mlp(torch.cat([skip, (self.take(f2, index) * (weight / weight.sum(-1, keepdim=True))[..., None]).sum(2)], -1))
        return f2.log_softmax(-1)


@network("sampled_sets_ts", "script", 17)
def sampled_sets():
    return SampledSets(), {"points": torch.rand(2, 256, 3)}


class VectorAttention(nn.Module):
    """Point Transformer: a weight for every channel of every neighbour, positions in both."""

    def __init__(self, width=64, near=12, layers=2):
        super().__init__()
        self.near, self.entry = near, Mlp(6, width, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.place, self.weigh = (nn.ModuleList(Mlp(size, width, width) for _ in range(layers)) for size in (3, width))
        self.norms, self.head = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers)), Mlp(width, 128, 20)

    def forward(self, points, colours):
        x = self.entry(torch.cat([points, colours], -1))
        index = torch.cdist(points, points).topk(self.near, -1, largest=False).indices
        b = torch.arange(points.shape[0])[:, None, None]
        apart = points[:, :, None] - points[b, index]
        for qkv, place, weigh, norm in zip(self.qkv, self.place, self.weigh, self.norms):
            q, k, v = qkv(norm(x)).chunk(3, -1)
            at = place(apart)
            weights = weigh(q[:, :, None] - k[b, index] + at).softmax(2)
            x = x + (weights * (v[b, index] + at)).sum(2)
        return self.head(x.amax(1))


@network("vector_attention_dyn", "dynamo", 18, {"points": {1: "points"}, "colours": {1: "points"}})
def vector_attention():
    inputs = lambda n: {"points": torch.rand(2, n, 3), "colours": torch.rand(2, n, 3)}
    return VectorAttention(), inputs(128), inputs(90)


@network("vector_attention_ts", "script", 17)
def vector_attention_scripted():
    return vector_attention()[:2]


class CameraQueries(nn.Module):
    """DETR3D: queries look where their reference points are in the pictures of six cameras, and move them."""

    def __init__(self, width=128, queries=60):
        super().__init__()
        self.body = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, 64, 3, 2), ConvNorm(64, width, 3, 2))
        self.query, self.place, self.points = nn.Parameter(torch.randn(1, queries, width)), nn.Linear(3, width), nn.Parameter(torch.randn(1, queries, 3))
        self.attend, self.weigh, self.out = Attention(width, 4), nn.Linear(width, 6), nn.Linear(width, width)
        self.norms, self.move, self.head = nn.ModuleList(nn.LayerNorm(width) for _ in range(2)), Mlp(width, width, 3), Mlp(width, width, 10)

    def forward(self, pictures, cameras):
        b, n = pictures.shape[:2]
        x = self.body(pictures.flatten(0, 1))
        query, points = self.query.expand(b, -1, -1), torch.sigmoid(self.points).expand(b, -1, -1)
        for _ in range(2):
            world = torch.cat([points * 20 - 10, torch.ones_like(points[..., :1])], -1)
            seen = (cameras[:, :, None] @ world[:, None, :, :, None]).squeeze(-1)
            depth = seen[..., 2:3]
            at = seen[..., :2] / depth.clamp(min=1e-5)
            at = (at / at.new_tensor([128.0, 64.0]) - 0.5) * 2
            valid = (depth > 0.1) & (at.abs() < 1).all(-1, keepdim=True)
            found = F.grid_sample(x, at.flatten(0, 1)[:, :, None], align_corners=False)[..., 0].reshape(b, n, -1, at.shape[2]).permute(0, 3, 1, 2)
            weights = torch.sigmoid(self.weigh(query)) * valid[..., 0].permute(0, 2, 1).to(x.dtype)
            query = self.norms[0](query + self.attend(query + self.place(points)))
            query = self.norms[1](query + self.out(torch.nan_to_num(found * weights[..., None]).sum(2)))
            logits = torch.log(points.clamp(1e-5, 1)) - torch.log((1 - points).clamp(1e-5, 1))
            points = torch.sigmoid(logits + self.move(query))
        return self.head(query), points


@network("camera_queries_ts_dyn", "script", 17, {"pictures": {0: "batch"}, "cameras": {0: "batch"}})
def camera_queries():
    def inputs(b):
        turns = torch.arange(6) * math.pi / 3
        lines = torch.zeros(6, 3, 4)
        for k, turn in enumerate(turns):
            side, ahead = torch.tensor([-turn.sin(), turn.cos(), 0]), torch.tensor([turn.cos(), turn.sin(), 0])
            lines[k, :, :3] = torch.stack([64 * ahead + 60 * side, 32 * ahead + torch.tensor([0, 0, 60.0]), ahead])
        return {"pictures": torch.randn(b, 6, 3, 64, 128), "cameras": lines.repeat(b, 1, 1, 1)}
    return CameraQueries(), inputs(1), inputs(2)


class Matting(nn.Module):
    """RVM: a recurrent decoder with convolutional GRUs, refined by a guided filter of box means."""

    def __init__(self, width=32):
        super().__init__()
        self.down = nn.ModuleList([ConvNorm(3, 16, 3, 2, act=nn.Hardswish), ConvNorm(16, 32, 3, 2, act=nn.Hardswish), ConvNorm(32, 64, 3, 2, act=nn.Hardswish)])
        self.gates = nn.ModuleList(nn.Conv2d(2 * c, 2 * c, 3, 1, 1) for c in (32, 16))
        self.states = nn.ModuleList(nn.Conv2d(2 * c, c, 3, 1, 1) for c in (32, 16))
        self.up = nn.ModuleList([ConvNorm(64 + 32, 64, 3), ConvNorm(64 + 16, 32, 3), ConvNorm(32 + 3, 16, 3)])
        self.last, self.linear = nn.Conv2d(16, 4, 1), nn.Sequential(ConvNorm(8, 16), nn.Conv2d(16, 4, 1))

    def remember(self, k, x, h):
        a, b = x.chunk(2, 1)
        reset, update = torch.sigmoid(self.gates[k](torch.cat([b, h], 1))).chunk(2, 1)
        candidate = torch.tanh(self.states[k](torch.cat([b, reset * h], 1)))
        h = (1 - update) * h + update * candidate
        return torch.cat([a, h], 1), h

    def filtered(self, small, guess, whole):
        mean = lambda t: F.avg_pool2d(F.pad(t, (1, 1, 1, 1), mode="replicate"), 3, 1)
        grey = small.mean(1, keepdim=True)
        middle_x, middle_y = mean(grey), mean(guess)
        spread = mean(grey * grey) - middle_x.square()
        a = (mean(grey * guess) - middle_x * middle_y) / (spread + 1e-2)
        both = F.interpolate(torch.cat([a, middle_y - a * middle_x], 1), whole.shape[2:], mode="bilinear", align_corners=False)
        return both[:, :4] * whole.mean(1, keepdim=True) + both[:, 4:]

    def forward(self, picture, first, second):
        small = F.interpolate(picture, scale_factor=0.5, mode="bilinear", align_corners=False, recompute_scale_factor=False)
        a = self.down[0](small)
        b = self.down[1](a)
        x = F.interpolate(self.down[2](b), scale_factor=2.0, mode="bilinear", align_corners=False)
        x, first = self.remember(0, self.up[0](torch.cat([x, b], 1)), first)
        x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        x, second = self.remember(1, self.up[1](torch.cat([x, a], 1)), second)
        x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        x = self.last(self.up[2](torch.cat([x, small], 1)))
        y = self.filtered(small, x, picture)
        return (y[:, :3] + picture).clamp(0, 1), torch.sigmoid(4 * y[:, 3:]), first, second


@network("matting_ts_dyn", "script", 17, {"picture": {2: "height", 3: "width"}, "first": {2: "h4", 3: "w4"}, "second": {2: "h2", 3: "w2"}})
def matting():
    inputs = lambda h, w: {"picture": torch.rand(1, 3, h, w), "first": torch.randn(1, 32, h // 8, w // 8).tanh(), "second": torch.randn(1, 16, h // 4, w // 4).tanh()}
    return Matting(), inputs(192, 256), inputs(144, 160)


class ComplexMask(nn.Module):
    """DCCRN: complex convolutions over a spectrum, a complex LSTM, a mask by magnitude and phase."""

    def __init__(self, widths=(1, 16, 32, 64)):
        super().__init__()
        pairs = lambda make: nn.ModuleList([make(), make()])
        self.down = nn.ModuleList(pairs(lambda a=a, b=b: nn.Conv2d(a, b, (5, 2), (2, 1), (2, 1))) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(pairs(lambda a=a, b=b: nn.ConvTranspose2d(2 * b, a, (5, 2), (2, 1), (2, 0), (1, 0))) for a, b in list(zip(widths, widths[1:]))[::-1])
        self.norms = nn.ModuleList(nn.BatchNorm2d(2 * c) for c in (*widths[1:], *widths[-2:0:-1]))
        self.slopes = nn.ParameterList(nn.Parameter(torch.full((1,), 0.25)) for _ in range(5))
        self.lstm, self.back = pairs(lambda: nn.LSTM(widths[-1] * 16, 128, batch_first=True)), pairs(lambda: nn.Linear(128, widths[-1] * 16))

    def both(self, parts, real, imag):
        return parts[0](real) - parts[1](imag), parts[0](imag) + parts[1](real)

    def normed(self, k, real, imag):
        return F.prelu(self.norms[k](torch.cat([real, imag], 1)), self.slopes[k]).chunk(2, 1)

    def forward(self, spectrum):
        real, imag = spectrum[:, :1, :128], spectrum[:, 1:, :128]
        skips = []
        for k, parts in enumerate(self.down):
            real, imag = self.both(parts, real, imag)
            real, imag = self.normed(k, real[..., :-1], imag[..., :-1])
            skips.append((real, imag))
        b, c, f, n = real.shape
        series = [t.permute(0, 3, 1, 2).reshape(b, n, c * f) for t in (real, imag)]
        one, two = (lambda t: self.lstm[0](t)[0]), (lambda t: self.lstm[1](t)[0])
        real, imag = one(series[0]) - two(series[1]), one(series[1]) + two(series[0])
        real, imag = (t.reshape(b, n, c, f).permute(0, 2, 3, 1) for t in self.both(self.back, real, imag))
        for k, (parts, skip) in enumerate(zip(self.up, skips[::-1])):
            real, imag = self.both(parts, torch.cat([real, skip[0]], 1), torch.cat([imag, skip[1]], 1))
            real, imag = real[..., 1:], imag[..., 1:]
            if k < 2:
                real, imag = self.normed(3 + k, real, imag)
        size = torch.sqrt(real.square() + imag.square() + 1e-8)
        loud, phase = torch.tanh(size) * torch.sqrt(spectrum.square().sum(1, keepdim=True)[:, :, :128] + 1e-8), torch.atan2(imag / size, real / size)
        phase = phase + torch.atan2(spectrum[:, 1:, :128], spectrum[:, :1, :128])
        return torch.cat([loud * phase.cos(), loud * phase.sin()], 1)


@network("complex_mask_ts", "script", 17)
def complex_mask():
    return ComplexMask(), {"spectrum": torch.randn(1, 2, 129, 60)}


class MaskedPixels(nn.Module):
    """PixelCNN with gates: vertical and horizontal stacks of masked convolutions, a mixture of logistics read off."""

    def __init__(self, width=64, layers=4):
        super().__init__()
        self.entry_v, self.entry_h = nn.Conv2d(3, width, (4, 7), padding=0), nn.Conv2d(3, width, (1, 4))
        self.vertical, self.horizontal = (nn.ModuleList(nn.Conv2d(width, 2 * width, kernel) for _ in range(layers)) for kernel in ((2, 3), (1, 2)))
        self.across, self.out = (nn.ModuleList(nn.Conv2d(a, b, 1) for _ in range(layers)) for a, b in ((2 * width, 2 * width), (width, width)))
        self.last = nn.Conv2d(width, 3 * 10, 1)

    def forward(self, picture):
        down = lambda t: F.pad(t, (0, 0, 1, 0))[:, :, :-1]
        right = lambda t: F.pad(t, (1, 0))[..., :-1]
        v = down(self.entry_v(F.pad(picture, (3, 3, 3, 0))))
        h = right(self.entry_h(F.pad(picture, (3, 0)))) + v
        gate = lambda t: torch.tanh(t.chunk(2, 1)[0]) * torch.sigmoid(t.chunk(2, 1)[1])
        for vertical, horizontal, across, out in zip(self.vertical, self.horizontal, self.across, self.out):
            rising = vertical(F.pad(v, (1, 1, 1, 0)))
            h = h + out(gate(horizontal(F.pad(h, (1, 0))) + across(rising)))
            v = gate(rising)
        logits, means, scales = self.last(F.elu(h)).chunk(3, 1)
        inverse = torch.exp(-scales.clamp(min=-7))
        levels = torch.linspace(-1, 1, 8).view(1, 1, 8, 1, 1).to(h.dtype)
        centred = (levels - means[:, :, None]) * inverse[:, :, None]
        mass = torch.sigmoid(centred + inverse[:, :, None] / 8) - torch.sigmoid(centred - inverse[:, :, None] / 8)
        return torch.logsumexp(torch.log(mass.clamp(min=1e-8)) + logits.log_softmax(1)[:, :, None], 1)


@network("masked_pixels", "dynamo", 18)
def masked_pixels():
    return MaskedPixels(), {"picture": torch.rand(1, 3, 32, 32) * 2 - 1}


class Molecules(nn.Module):
    """SchNet: filters of distances by radial functions and a cosine cutoff, summed over edges to atoms, atoms to molecules."""

    def __init__(self, width=128, layers=3):
        super().__init__()
        self.register_buffer("centres", torch.linspace(0, 5, 50))
        self.embed = nn.Embedding(100, width, padding_idx=0)
        self.filters = nn.ModuleList(nn.Sequential(nn.Linear(50, width), nn.Softplus(), nn.Linear(width, width)) for _ in range(layers))
        self.entry = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.exit = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Softplus(), nn.Linear(width, width)) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(width, width // 2), nn.Softplus(), nn.Linear(width // 2, 1))

    def forward(self, numbers, places, edges, molecule, molecules):
        source, target = edges[0], edges[1]
        apart = (places[source] - places[target]).norm(dim=-1)
        spread = torch.exp(-10 * (apart[:, None] - self.centres).square())
        cutoff = 0.5 * (torch.cos(apart * math.pi / 5) + 1) * (apart < 5).to(places.dtype)
        x = self.embed(numbers)
        for filters, entry, leave in zip(self.filters, self.entry, self.exit):
            message = entry(x)[source] * (filters(spread) * cutoff[:, None])
            x = x + leave(torch.zeros_like(x).scatter_add(0, target[:, None].expand_as(message), message)) - math.log(2)
        energy = self.head(x)
        return torch.zeros_like(molecules).scatter_add(0, molecule[:, None], energy)


@network("molecules_ts_dyn", "script", 17, {"numbers": {0: "atoms"}, "places": {0: "atoms"}, "edges": {1: "edges"}, "molecule": {0: "atoms"}, "molecules": {0: "count"}})
def molecules():
    def inputs(atoms, edges, count):
        return {"numbers": torch.randint(1, 20, (atoms,)), "places": 4 * torch.rand(atoms, 3), "edges": torch.stack([torch.arange(edges) % atoms, (torch.arange(edges) * 7 + 1 + torch.arange(edges) // atoms) % atoms]),
                "molecule": torch.arange(atoms) * count // atoms, "molecules": torch.zeros(count, 1)}
    return Molecules(), inputs(60, 400, 4), inputs(45, 310, 3)


class Wavelets(nn.Module):
    """Denoising among wavelets: Haar transforms by strided groups and back, kernels that the place computes (involution), experts' kernels mixed."""

    def __init__(self, width=32):
        super().__init__()
        haar = torch.tensor([[[1, 1], [1, 1]], [[1, 1], [-1, -1]], [[1, -1], [1, -1]], [[1, -1], [-1, 1]]]) / 2.0
        self.register_buffer("haar", haar[:, None])
        self.entry, self.exit = nn.Conv2d(12, width, 3, 1, 1), nn.Conv2d(width, 12, 3, 1, 1)
        self.reduce, self.span = ConvNorm(width, width // 4), nn.Conv2d(width // 4, 9 * 4, 1)
        self.experts, self.route = nn.Parameter(torch.randn(4, width, width, 3, 3) / (9 * width) ** 0.5), nn.Linear(width, 4)
        self.norm = nn.InstanceNorm2d(width, affine=True)

    def involve(self, x):
        b, c, h, w = x.shape
        weight = self.span(self.reduce(x)).reshape(b, 4, 1, 9, h, w)
        return (F.unfold(x, 3, padding=1).reshape(b, 4, c // 4, 9, h, w) * weight).sum(3).reshape(b, c, h, w)

    def mixed(self, x):
        b, c, h, w = x.shape
        shares = self.route(x.mean((2, 3))).softmax(-1)
        kernel = (shares @ self.experts.flatten(1)).reshape(b * c, c, 3, 3)
        return F.conv2d(x.reshape(1, b * c, h, w), kernel, padding=1, groups=b).reshape(b, c, h, w)

    def forward(self, picture):
        b, c, h, w = picture.shape
        waves = F.conv2d(picture.reshape(b * c, 1, h, w), self.haar, stride=2).reshape(b, 4 * c, h // 2, w // 2)
        x = F.gelu(self.entry(waves))
        x = x + F.relu(self.norm(self.involve(x)))
        x = x + F.relu(self.mixed(x))
        y = (waves + self.exit(x)).reshape(b * c, 4, h // 2, w // 2)
        return F.conv_transpose2d(y, self.haar, stride=2).reshape(b, c, h, w)


@network("wavelets_ts", "script", 17)
def wavelets():
    return Wavelets(), {"picture": torch.rand(2, 3, 128, 128)}


@network("wavelets", "dynamo", 18)
def wavelets_exported():
    return wavelets()
