"""Padded batches, bags, matching, rendering, resampled activations: what is neither a picture nor a plain text."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import ConvNorm, Mlp, TransformerLayer, image, tokens


class PackedTagger(nn.Module):
    """Packed sequences: a recurrence with sequence lengths."""

    def __init__(self, kind, width=96):
        super().__init__()
        self.embed, self.read = nn.Embedding(500, 64), kind(64, width, 2, batch_first=True, bidirectional=True)
        self.score = nn.Linear(2 * width, 9)

    def forward(self, ids, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(ids), lengths, batch_first=True)
        y, state = self.read(packed)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=ids.shape[1])
        return self.score(y), state[0] if isinstance(state, tuple) else state


def padded(lengths):
    return {"ids": tokens(len(lengths), lengths[0], 500), "lengths": torch.tensor(lengths)}


@network("packed_lstm_ts_dyn", "script", 17, {"ids": {0: "batch", 1: "length"}, "lengths": {0: "batch"}})
def packed_lstm():
    return PackedTagger(nn.LSTM), padded([14, 9, 4]), padded([21, 2])


@network("packed_gru_ts_dyn", "script", 17, {"ids": {0: "batch", 1: "length"}, "lengths": {0: "batch"}})
def packed_gru():
    return PackedTagger(nn.GRU), padded([14, 9, 4]), padded([21, 2])


class Matching(nn.Module):
    """SuperGlue's head: scores, a dustbin, Sinkhorn's normalisation with LogSumExp, mutual maxima."""

    def __init__(self, width=64, rounds=10):
        super().__init__()
        self.place, self.mix, self.final = Mlp(3, 32, width), TransformerLayer(width, 4, 2 * width), nn.Linear(width, width)
        self.bin, self.rounds = nn.Parameter(torch.tensor(1.0)), rounds

    def forward(self, places, descriptors, other_places, other_descriptors):
        x, y = self.final(self.mix(descriptors + self.place(places))), self.final(self.mix(other_descriptors + self.place(other_places)))
        scores = torch.einsum("bnd,bmd->bnm", x, y) / x.shape[-1] ** 0.5
        b, m, n = scores.shape
        scores = torch.cat([torch.cat([scores, self.bin.expand(b, m, 1)], 2), self.bin.expand(b, 1, n + 1)], 1)
        u, v = torch.zeros_like(scores[..., 0]), torch.zeros_like(scores[:, 0])
        for _ in range(self.rounds):
            u = -torch.logsumexp(scores + v[:, None], 2)
            v = -torch.logsumexp(scores + u[..., None], 1)
        scores = scores + u[..., None] + v[:, None]
        best, back = scores[:, :-1, :-1].argmax(2), scores[:, :-1, :-1].argmax(1)
        return scores, torch.where(torch.arange(m)[None] == back.gather(1, best), best, -1)


def points(m, n):
    return {"places": torch.rand(1, m, 3), "descriptors": torch.randn(1, m, 64), "other_places": torch.rand(1, n, 3), "other_descriptors": torch.randn(1, n, 64)}


MATCHED = {"places": {1: "m"}, "descriptors": {1: "m"}, "other_places": {1: "n"}, "other_descriptors": {1: "n"}}


@network("superglue_ts_dyn", "script", 17, MATCHED)
def superglue_ts():
    return Matching(), points(40, 52), points(33, 21)


@network("superglue_dyn", "dynamo", 20, MATCHED)
def superglue():
    return Matching(), points(40, 52), points(33, 21)


class RenderedField(nn.Module):
    """NeRF's volume rendering: transmittance by cumulative sums, samples drawn where the first pass found weight, sorted."""

    def __init__(self):
        super().__init__()
        self.field = Mlp(39, 64, 64, 4)

    def render(self, origin, direction, depth):
        p = origin[:, None] + direction[:, None] * depth[..., None]
        y = self.field(torch.cat([p] + [f(p * 2 ** i) for i in range(6) for f in (torch.sin, torch.cos)], -1))
        step = torch.cat([depth[:, 1:] - depth[:, :-1], torch.full_like(depth[:, :1], 1e10)], 1)
        alpha = 1 - torch.exp(-F.relu(y[..., 3]) * step)
        kept = torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1)
        weight = alpha * torch.exp(torch.cumsum(torch.log(kept), 1))[:, :-1]
        return (weight[..., None] * y[..., :3].sigmoid()).sum(1), weight

    def forward(self, origin, direction):
        depth = torch.linspace(2, 6, 24, dtype=origin.dtype).expand(origin.shape[0], -1)
        _, weight = self.render(origin, direction, depth)
        middle, weight = 0.5 * (depth[:, 1:] + depth[:, :-1]), weight[:, 1:-1] + 1e-5
        cdf = torch.cumsum(weight / weight.sum(-1, keepdim=True), -1)
        cdf = torch.cat([torch.zeros_like(cdf[:, :1]), cdf], -1)
        u = torch.linspace(0.01, 0.99, 16, dtype=origin.dtype).expand(origin.shape[0], -1)
        place = (cdf[:, None] <= u[..., None]).sum(-1)
        low, high = (place - 1).clamp(min=0), place.clamp(max=cdf.shape[1] - 1)
        a, b = cdf.gather(1, low), cdf.gather(1, high)
        wide = torch.where(b - a < 1e-5, torch.ones_like(a), b - a)
        fine = middle.gather(1, low) + (u - a) / wide * (middle.gather(1, high) - middle.gather(1, low))
        return self.render(origin, direction, torch.sort(torch.cat([depth, fine], -1), -1)[0])[0]


def rays(count):
    return {"origin": torch.randn(count, 3), "direction": F.normalize(torch.randn(count, 3), dim=-1)}


@network("nerf_render_ts_dyn", "script", 17, {"origin": {0: "rays"}, "direction": {0: "rays"}})
def nerf_render():
    return RenderedField(), rays(32), rays(17)


class Snake(nn.Module):
    """x + sin²(ax) / b at twice the rate: up and down with a fixed filter (BigVGAN)."""

    def __init__(self, channels):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(channels, 1)), nn.Parameter(torch.zeros(channels, 1))
        self.register_buffer("filter", (torch.hann_window(14)[None, None, 1:-1] / 6.5).expand(channels, -1, -1).contiguous())

    def forward(self, x):
        groups = self.filter.shape[0]
        x = 2 * F.conv_transpose1d(F.pad(x, (5, 5), mode="replicate"), self.filter, stride=2, groups=groups)[..., 15:-15]
        x = x + torch.sin(x * self.a.exp()).pow(2) / (self.b.exp() + 1e-9)
        return F.conv1d(F.pad(x, (5, 6), mode="replicate"), self.filter, stride=2, groups=groups)


class Vocoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.up = nn.Conv1d(40, 64, 7, padding=3), nn.ConvTranspose1d(64, 32, 8, 4, 2)
        self.acts = nn.ModuleList(Snake(32) for _ in range(4))
        self.mixes = nn.ModuleList(nn.Conv1d(32, 32, 3, padding=d, dilation=d) for d in (1, 3, 5))
        self.leave = nn.Conv1d(32, 1, 7, padding=3)

    def forward(self, mel):
        x = self.up(self.enter(mel))
        for act, mix in zip(self.acts, self.mixes):
            x = x + mix(act(x))
        return self.leave(self.acts[3](x)).tanh()


@network("bigvgan_ts_dyn", "script", 17, {"mel": {0: "batch", 2: "frames"}})
def bigvgan():
    return Vocoder(), {"mel": torch.randn(1, 40, 40)}, {"mel": torch.randn(2, 40, 23)}


class SpectrumVocoder(nn.Module):
    """Vocos: magnitudes and phases, the inverse transform as transposed convolutions, windows divided out."""

    def __init__(self, length=256, hop=64):
        super().__init__()
        self.length, self.hop = length, hop
        self.enter, self.deep = nn.Conv1d(40, 128, 7, padding=3), nn.Conv1d(128, 128, 7, padding=3, groups=128)
        self.norm, self.mlp, self.leave = nn.LayerNorm(128), Mlp(128, 384, 128, act=nn.GELU), nn.Linear(128, length + 2)
        angle = torch.arange(length)[:, None] * torch.arange(length // 2 + 1)[None] * (2 * math.pi / length)
        window, twice = torch.hann_window(length), torch.full((length // 2 + 1,), 2.0)
        twice[0] = twice[-1] = 1
        self.register_buffer("real", (angle.cos() * twice / length * window[:, None]).t()[:, None])
        self.register_buffer("imaginary", (-angle.sin() * twice / length * window[:, None]).t()[:, None])
        self.register_buffer("squares", (window ** 2)[None, None])

    def forward(self, mel):
        x = self.enter(mel)
        x = (x + self.mlp(self.norm(self.deep(x).transpose(1, 2))).transpose(1, 2)).transpose(1, 2)
        size, phase = self.leave(x).transpose(1, 2).chunk(2, 1)
        size = size.exp().clip(max=1e2)
        y = F.conv_transpose1d(size * phase.cos(), self.real, stride=self.hop) + F.conv_transpose1d(size * phase.sin(), self.imaginary, stride=self.hop)
        y = y / (F.conv_transpose1d(torch.ones_like(size[:1, :1]), self.squares, stride=self.hop) + 1e-6)
        return y[..., self.length // 2:-self.length // 2]


@network("vocos_ts_dyn", "script", 17, {"mel": {0: "batch", 2: "frames"}})
def vocos():
    return SpectrumVocoder(), {"mel": torch.randn(1, 40, 30)}, {"mel": torch.randn(2, 40, 47)}


class EmbeddedBag(nn.Module):
    """EmbeddingBag: the exporter writes a Loop over the bags."""

    def __init__(self):
        super().__init__()
        self.bag, self.mlp = nn.EmbeddingBag(500, 32, mode="mean"), Mlp(32, 64, 2)

    def forward(self, ids, offsets):
        return self.mlp(self.bag(ids, offsets))


@network("embedding_bag_ts", "script", 17)
def embedding_bag():
    return EmbeddedBag(), {"ids": tokens(1, 40, 500)[0], "offsets": torch.tensor([0, 5, 11, 30])}


class Warped(nn.Module):
    """RIFE: flow and a mask, both pictures warped along it by GridSample."""

    def __init__(self):
        super().__init__()
        self.find = nn.Sequential(nn.Conv2d(6, 32, 3, 2, 1), nn.PReLU(32), nn.Conv2d(32, 32, 3, 2, 1), nn.PReLU(32), nn.ConvTranspose2d(32, 5, 4, 2, 1))

    def warp(self, x, flow):
        h, w = x.shape[2:]
        rows, columns = torch.meshgrid(torch.linspace(-1, 1, h, dtype=x.dtype), torch.linspace(-1, 1, w, dtype=x.dtype), indexing="ij")
        grid = torch.stack([columns, rows])[None] + torch.cat([flow[:, :1] / ((w - 1) / 2), flow[:, 1:] / ((h - 1) / 2)], 1)
        return F.grid_sample(x, grid.permute(0, 2, 3, 1), mode="bilinear", padding_mode="border", align_corners=True)

    def forward(self, image, other):
        y = F.interpolate(self.find(torch.cat([image, other], 1)), scale_factor=2.0, mode="bilinear", align_corners=False)
        mask = y[:, 4:].sigmoid()
        return self.warp(image, 2 * y[:, :2]) * mask + self.warp(other, 2 * y[:, 2:4]) * (1 - mask)


@network("rife_ts_dyn", "script", 16, {name: {2: "height", 3: "width"} for name in ("image", "other")})
def rife():
    return Warped(), {"image": image(64, 96), "other": image(64, 96)}, {"image": image(96, 64), "other": image(96, 64)}


class SiameseTracker(nn.Module):
    """SiamRPN: features of the template are the weights that the search picture is convolved with."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(ConvNorm(3, 32, 7, 2), nn.MaxPool2d(3, 2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3))
        self.score = nn.Conv2d(64, 20, 1)

    def forward(self, template, search):
        weights, x = self.body(template), self.body(search)
        b, c = x.shape[:2]
        y = F.conv2d(x.reshape(1, -1, *x.shape[2:]), weights.reshape(-1, 1, *weights.shape[2:]), groups=b * c)
        return self.score(y.view(b, c, *y.shape[2:]) / weights[0].numel())


@network("siamrpn_ts", "script", 17)
def siamrpn():
    return SiameseTracker(), {"template": image(63, batch=2), "search": image(127, batch=2)}
