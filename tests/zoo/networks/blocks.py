"""What several networks are made of."""

import torch
from torch import nn


def image(height, width=None, batch=1, channels=3):
    return torch.randn(batch, channels, height, width or height)


def tokens(batch, length, vocabulary=2000):
    return torch.randint(1, vocabulary, (batch, length))


class ConvNorm(nn.Sequential):
    """Convolution, BatchNorm, activation (None: none)."""

    def __init__(self, inputs, outputs, kernel=1, stride=1, groups=1, dilation=1, act=nn.ReLU):
        pads = tuple((k - 1) // 2 * dilation for k in kernel) if isinstance(kernel, tuple) else (kernel - 1) // 2 * dilation
        layers = [nn.Conv2d(inputs, outputs, kernel, stride, pads, dilation, groups, bias=False), nn.BatchNorm2d(outputs)]
        super().__init__(*layers, *([act()] if act else []))


class SqueezeExcite(nn.Module):
    def __init__(self, channels, squeezed, act=nn.ReLU, gate=nn.Sigmoid):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.act, self.gate = act(), gate()

    def forward(self, x):
        return x * self.gate(self.expand(self.act(self.reduce(x.mean((2, 3), keepdim=True)))))


class Mlp(nn.Sequential):
    def __init__(self, *widths, act=nn.ReLU, last=False):
        layers = []
        for index, (a, b) in enumerate(zip(widths, widths[1:])):
            layers.append(nn.Linear(a, b))
            if last or index + 2 < len(widths):
                layers.append(act())
        super().__init__(*layers)


class Attention(nn.Module):
    """Multi-head attention with its products written out; `memory` makes it cross attention, `bias` is added to the scores."""

    def __init__(self, width, heads, memory_width=None):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(memory_width or width, 2 * width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, memory=None, bias=None):
        key, value = self.key_value(x if memory is None else memory).chunk(2, -1)
        scores = self.split(self.query(x)) @ self.split(key).transpose(-2, -1) * self.scale
        if bias is not None:
            scores = scores + bias
        mixed = scores.softmax(-1) @ self.split(value)
        return self.out(mixed.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class TransformerLayer(nn.Module):
    """Pre-norm encoder layer."""

    def __init__(self, width, heads, hidden, act=nn.GELU):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width), Mlp(width, hidden, width, act=act)

    def forward(self, x, bias=None):
        x = x + self.attention(self.norm1(x), bias=bias)
        return x + self.mlp(self.norm2(x))
