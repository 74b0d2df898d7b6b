"""Speech: recognisers, speakers, synthesis."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import Mlp


class TacotronStep(nn.Module):
    """One frame of Tacotron 2's decoder: LSTM cells, attention that knows where it has looked, the states as inputs and outputs."""

    def __init__(self, width=512, memory=512):
        super().__init__()
        self.prenet = Mlp(80, 256, 256, last=True)
        self.attend, self.decode = nn.LSTMCell(256 + memory, width), nn.LSTMCell(width + memory, width)
        self.query, self.memory, self.energy = nn.Linear(width, 128, bias=False), nn.Linear(memory, 128, bias=False), nn.Linear(128, 1, bias=False)
        self.places, self.place = nn.Conv1d(2, 32, 31, padding=15, bias=False), nn.Linear(32, 128, bias=False)
        self.frame, self.stop = nn.Linear(width + memory, 80), nn.Linear(width + memory, 1)

    def forward(self, frame, memory, mask, h1, c1, h2, c2, weights, total, context):
        h1, c1 = self.attend(torch.cat([self.prenet(frame), context], -1), (h1, c1))
        looked = self.place(self.places(torch.stack([weights, total], 1)).transpose(1, 2))
        energy = self.energy(torch.tanh(self.query(h1)[:, None] + looked + self.memory(memory))).squeeze(-1)
        weights = energy.masked_fill(mask, float("-inf")).softmax(1)
        context = torch.bmm(weights[:, None], memory).squeeze(1)
        h2, c2 = self.decode(torch.cat([h1, context], -1), (h2, c2))
        both = torch.cat([h2, context], -1)
        return self.frame(both), self.stop(both), h1, c1, h2, c2, weights, total + weights, context


@network("tacotron_step_ts_dyn", "script", 17, {name: {0: "batch"} for name in ("frame", "h1", "c1", "h2", "c2", "context")} | {name: {0: "batch", 1: "length"} for name in ("memory", "mask", "weights", "total")})
def tacotron():
    def inputs(batch, length):
        mask = torch.zeros(batch, length, dtype=torch.bool)
        mask[-1, length - 5:] = True
        weights = torch.randn(batch, length).softmax(1)
        return {"frame": torch.randn(batch, 80), "memory": torch.randn(batch, length, 512), "mask": mask, "h1": torch.randn(batch, 512) * 0.3, "c1": torch.randn(batch, 512),
                "h2": torch.randn(batch, 512) * 0.3, "c2": torch.randn(batch, 512), "weights": weights, "total": 2 * weights, "context": torch.randn(batch, 512)}
    return TacotronStep(), inputs(2, 60), inputs(1, 83)


class Conformer(nn.Module):
    """Half feed-forwards around attention with relative positions (Transformer-XL's shift) and a convolution module."""

    class Layer(nn.Module):
        def __init__(self, width=256, heads=4, kernel=15):
            super().__init__()
            self.heads, half = heads, lambda: nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
            self.first, self.second, self.norm, self.last = half(), half(), nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.position, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False), nn.Linear(width, width)
            self.u, self.v = (nn.Parameter(0.1 * torch.randn(heads, width // heads)) for _ in range(2))
            self.conv_norm, self.expand = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
            self.depthwise, self.batch_norm, self.project = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width), nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)

        def attention(self, x, positions):
            b, t, width = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).unbind(2)
            p = self.position(positions).view(2 * t - 1, self.heads, -1)
            content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
            place = torch.einsum("bihd,phd->bhip", q + self.v, p)
            place = F.pad(place, (1, 0)).view(b, self.heads, 2 * t, t)[:, :, 1:].reshape(b, self.heads, t, 2 * t - 1)[..., :t]
            scores = (content + place) / math.sqrt(width // self.heads)
            return self.out(torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).reshape(b, t, width))

        def convolution(self, x):
            x = F.glu(self.expand(self.conv_norm(x).transpose(1, 2)), 1)
            return self.project(F.silu(self.batch_norm(self.depthwise(x)))).transpose(1, 2)

        def forward(self, x, positions):
            x = x + 0.5 * self.first(x)
            x = x + self.attention(self.norm(x), positions)
            x = x + self.convolution(x)
            return self.last(x + 0.5 * self.second(x))

    def __init__(self, width=256):
        super().__init__()
        self.width = width
        self.down = nn.Sequential(nn.Conv2d(1, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU())
        self.first, self.layers, self.head = nn.Linear(64 * 20, width), nn.ModuleList(self.Layer(width) for _ in range(2)), nn.Linear(width, 1000)

    def forward(self, mel):
        x = self.down(mel[:, None])
        x = self.first(x.transpose(1, 2).flatten(2))
        t = x.shape[1]
        places = torch.arange(t - 1, -t, -1, dtype=x.dtype)
        angles = places[:, None] * torch.exp(torch.arange(0, self.width, 2, dtype=x.dtype) * (-math.log(10000.0) / self.width))
        positions = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        for layer in self.layers:
            x = layer(x, positions)
        return self.head(x).log_softmax(-1)


@network("conformer_ts", "script", 17)
def conformer():
    return Conformer(), {"mel": torch.randn(1, 160, 80)}


@network("conformer_dyn", "dynamo", 18, {"mel": {0: "batch", 1: "frames"}})
def conformer_dynamic():
    return Conformer(), {"mel": torch.randn(2, 128, 80)}, {"mel": torch.randn(3, 200, 80)}


class Ecapa(nn.Module):
    """ECAPA-TDNN: Res2Net over time, squeeze and excite, attentive statistics."""

    class Block(nn.Module):
        def __init__(self, width, dilation, scale=8):
            super().__init__()
            self.scale, part = scale, width // scale
            norm = lambda conv: nn.Sequential(conv, nn.ReLU(), nn.BatchNorm1d(conv.out_channels))
            self.first, self.last = norm(nn.Conv1d(width, width, 1)), norm(nn.Conv1d(width, width, 1))
            self.parts = nn.ModuleList(norm(nn.Conv1d(part, part, 3, padding=dilation, dilation=dilation)) for _ in range(scale - 1))
            self.squeeze = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Conv1d(width, 128, 1), nn.ReLU(), nn.Conv1d(128, width, 1), nn.Sigmoid())

        def forward(self, x):
            pieces = torch.chunk(self.first(x), self.scale, 1)
            done = [pieces[0]]
            for index, part in enumerate(self.parts):
                done.append(part(pieces[index + 1] if index == 0 else pieces[index + 1] + done[-1]))
            y = self.last(torch.cat(done, 1))
            return x + y * self.squeeze(y)

    def __init__(self, width=256):
        super().__init__()
        self.first, self.blocks = nn.Sequential(nn.Conv1d(80, width, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(width)), nn.ModuleList(self.Block(width, d) for d in (2, 3, 4))
        self.join, self.attend = nn.Conv1d(3 * width, 768, 1), nn.Sequential(nn.Conv1d(3 * 768, 128, 1), nn.ReLU(), nn.BatchNorm1d(128), nn.Tanh(), nn.Conv1d(128, 768, 1))
        self.head = nn.Sequential(nn.BatchNorm1d(1536), nn.Linear(1536, 192))

    def forward(self, mel):
        x, seen = self.first(mel), []
        for block in self.blocks:
            x = block(x)
            seen.append(x)
        x = F.relu(self.join(torch.cat(seen, 1)))
        t = x.shape[-1]
        mean, deviation = x.mean(2, keepdim=True), x.var(2, keepdim=True).clamp(min=1e-4).sqrt()
        weights = self.attend(torch.cat([x, mean.repeat(1, 1, t), deviation.repeat(1, 1, t)], 1)).softmax(2)
        mean = (x * weights).sum(2)
        spread = ((x ** 2 * weights).sum(2) - mean ** 2).clamp(min=1e-4).sqrt()
        return F.normalize(self.head(torch.cat([mean, spread], 1)), dim=1)


@network("ecapa_tdnn_ts_dyn", "script", 18, {"mel": {0: "batch", 2: "frames"}})
def ecapa():
    return Ecapa(), {"mel": torch.randn(2, 80, 200)}, {"mel": torch.randn(1, 80, 311)}


class LengthRegulator(nn.Module):
    """FastSpeech 2: durations predicted, every symbol repeated as often as that: the length of the output is data."""

    class Block(nn.Module):
        def __init__(self, width, heads=2):
            super().__init__()
            self.attention, self.norm1, self.norm2 = nn.MultiheadAttention(width, heads, batch_first=True), nn.LayerNorm(width), nn.LayerNorm(width)
            self.conv1, self.conv2 = nn.Conv1d(width, 4 * width, 9, padding=4), nn.Conv1d(4 * width, width, 1)

        def forward(self, x):
            x = self.norm1(x + self.attention(x, x, x, need_weights=False)[0])
            return self.norm2(x + self.conv2(F.relu(self.conv1(x.transpose(1, 2)))).transpose(1, 2))

    def __init__(self, width=256):
        super().__init__()
        self.embed, self.encode, self.decode = nn.Embedding(80, width), self.Block(width), self.Block(width)
        self.durations, self.head = nn.Sequential(nn.Conv1d(width, 256, 3, padding=1), nn.ReLU(), nn.Conv1d(256, 1, 1)), nn.Linear(width, 80)

    def forward(self, symbols):
        x = self.encode(self.embed(symbols))
        counts = (F.softplus(self.durations(x.transpose(1, 2)).squeeze(1)) * 4).ceil().long()
        ends = counts.cumsum(1)
        frames = torch.arange(ends[0, -1])
        places = (frames[:, None] >= ends[0][None]).sum(1)
        return self.head(self.decode(x[:, places])), counts


@network("fastspeech_ts", "script", 17)
def fastspeech():
    return LengthRegulator(), {"symbols": torch.randint(0, 80, (1, 30))}
