"""Sound: waveforms in or out."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from networks import network


class WaveNet(nn.Module):
    """Causal dilated convolutions, gates, skips; padded on the left only."""

    def __init__(self, width=64, skip=128, dilations=(1, 2, 4, 8, 16, 32)):
        super().__init__()
        self.embed, self.dilations = nn.Embedding(256, width), dilations
        self.filter = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=d) for d in dilations)
        self.residual, self.skip = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in dilations), nn.ModuleList(nn.Conv1d(width, skip, 1) for _ in dilations)
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, 256, 1))

    def forward(self, codes):
        x, total = self.embed(codes).transpose(1, 2), 0
        for d, both, residual, skip in zip(self.dilations, self.filter, self.residual, self.skip):
            a, b = both(F.pad(x, (d, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            total = total + skip(y)
            x = x + residual(y)
        return self.last(total)


@network("wavenet_dyn", "dynamo", 18, {"codes": {0: "batch", 1: "samples"}})
def wavenet():
    return WaveNet(), {"codes": torch.randint(0, 256, (2, 800))}, {"codes": torch.randint(0, 256, (1, 1000))}


class GlobalNorm(nn.Module):
    """Over channels and time."""

    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width, 1)), nn.Parameter(torch.zeros(width, 1))

    def forward(self, x):
        mean = x.mean((1, 2), keepdim=True)
        return self.weight * (x - mean) / torch.sqrt(((x - mean) ** 2).mean((1, 2), keepdim=True) + 1e-8) + self.bias


class ConvTasNet(nn.Module):
    class Block(nn.Module):
        def __init__(self, width, hidden, dilation):
            super().__init__()
            self.body = nn.Sequential(nn.Conv1d(width, hidden, 1), nn.PReLU(), GlobalNorm(hidden), nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden), nn.PReLU(), GlobalNorm(hidden))
            self.residual, self.skip = nn.Conv1d(hidden, width, 1), nn.Conv1d(hidden, width, 1)

        def forward(self, x):
            y = self.body(x)
            return x + self.residual(y), self.skip(y)

    def __init__(self, filters=256, width=128, hidden=256, sources=2):
        super().__init__()
        self.sources = sources
        self.encoder, self.norm, self.narrow = nn.Conv1d(1, filters, 16, 8, bias=False), GlobalNorm(filters), nn.Conv1d(filters, width, 1)
        self.blocks = nn.ModuleList(self.Block(width, hidden, 2 ** k) for k in range(5))
        self.mask, self.decoder = nn.Sequential(nn.PReLU(), nn.Conv1d(width, sources * filters, 1), nn.Sigmoid()), nn.ConvTranspose1d(filters, 1, 16, 8, bias=False)

    def forward(self, mixture):
        code = F.relu(self.encoder(mixture[:, None]))
        x, total = self.narrow(self.norm(code)), 0
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        b, c, t = code.shape
        masked = self.mask(total).view(b, self.sources, c, t) * code[:, None]
        return self.decoder(masked.view(b * self.sources, c, t)).view(b, self.sources, -1)


@network("conv_tasnet_ts_dyn", "script", 17, {"mixture": {0: "batch", 1: "samples"}})
def conv_tasnet():
    return ConvTasNet(), {"mixture": torch.randn(1, 4000)}, {"mixture": torch.randn(2, 3200)}


class Demucs(nn.Module):
    """Strided convolutions with GLU, a bidirectional LSTM in the middle, transposed convolutions with skips."""

    def __init__(self, width=32, depth=3):
        super().__init__()
        self.encoder, self.decoder, inputs = nn.ModuleList(), nn.ModuleList(), 2
        for level in range(depth):
            outputs = width * 2 ** level
            self.encoder.append(nn.Sequential(nn.Conv1d(inputs, outputs, 8, 4), nn.ReLU(), nn.Conv1d(outputs, 2 * outputs, 1), nn.GLU(1)))
            up = [nn.Conv1d(outputs, 2 * outputs, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(outputs, inputs if level else 8, 8, 4)]
            self.decoder.insert(0, nn.Sequential(*up, *([nn.ReLU()] if level else [])))
            inputs = outputs
        self.lstm, self.linear = nn.LSTM(inputs, inputs, 2, bidirectional=True), nn.Linear(2 * inputs, inputs)

    def forward(self, mix):
        mean, scale = mix.mean((1, 2), keepdim=True), mix.std((1, 2), keepdim=True)
        x, skips = (mix - mean) / (scale + 1e-5), []
        for layer in self.encoder:
            x = layer(x)
            skips.append(x)
        x = self.linear(self.lstm(x.permute(2, 0, 1))[0]).permute(1, 2, 0)
        for layer in self.decoder:
            x = layer(x + skips.pop()[..., :x.shape[-1]])
        return x * scale + mean


@network("demucs_lstm", "dynamo", 18)
def demucs():
    samples = 8 + 4 * (8 + 4 * (8 + 4 * 40 - 4) - 4) - 4
    return Demucs(), {"mix": torch.randn(1, 2, samples)}


class HifiGan(nn.Module):
    """Mel frames to samples: transposed convolutions, residual blocks of several kernels and dilations, averaged."""

    class Residual(nn.Module):
        def __init__(self, width, kernel):
            super().__init__()
            self.one = nn.ModuleList(nn.Conv1d(width, width, kernel, padding=(kernel - 1) // 2 * d, dilation=d) for d in (1, 3, 5))
            self.two = nn.ModuleList(nn.Conv1d(width, width, kernel, padding=(kernel - 1) // 2) for _ in range(3))

        def forward(self, x):
            for one, two in zip(self.one, self.two):
                x = x + two(F.leaky_relu(one(F.leaky_relu(x, 0.1)), 0.1))
            return x

    def __init__(self, width=128, rates=(8, 8, 2), kernels=(3, 7)):
        super().__init__()
        self.first = nn.Conv1d(80, width, 7, padding=3)
        self.up = nn.ModuleList(nn.ConvTranspose1d(width // 2 ** k, width // 2 ** (k + 1), 2 * rate, rate, rate // 2) for k, rate in enumerate(rates))
        self.blocks = nn.ModuleList(nn.ModuleList(self.Residual(width // 2 ** (k + 1), kernel) for kernel in kernels) for k in range(len(rates)))
        self.last = nn.Conv1d(width // 2 ** len(rates), 1, 7, padding=3)

    def forward(self, mel):
        x = self.first(mel)
        for up, blocks in zip(self.up, self.blocks):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(block(x) for block in blocks) / len(blocks)
        return torch.tanh(self.last(F.leaky_relu(x)))


@network("hifigan_ts_dyn", "script", 17, {"mel": {0: "batch", 2: "frames"}})
def hifigan():
    return HifiGan(), {"mel": torch.randn(1, 80, 40)}, {"mel": torch.randn(2, 80, 27)}


class Keywords(nn.Module):
    """Log-mel spectrum by convolutions with sines, then depthwise separable convolutions, then a GRU's last state."""

    def __init__(self, size=400, hop=160, bands=40):
        super().__init__()
        angles = 2 * math.pi * torch.arange(size)[None] * torch.arange(size // 2 + 1)[:, None] / size
        window = torch.hann_window(size)
        self.hop, self.size = hop, size
        self.register_buffer("basis", torch.cat([angles.cos(), -angles.sin()])[:, None] * window)
        self.register_buffer("mel", torch.rand(bands, size // 2 + 1) ** 8)
        layers, width = [], 1
        for outputs, stride in ((32, (2, 2)), (64, (2, 1)), (64, (2, 1))):
            layers += [nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            width = outputs
        self.body, self.gru, self.head = nn.Sequential(*layers), nn.GRU(64 * 5, 128, batch_first=True), nn.Linear(128, 35)

    def forward(self, wave):
        spectrum = F.conv1d(wave[:, None], self.basis, stride=self.hop)
        real, imaginary = spectrum.chunk(2, 1)
        x = torch.log(self.mel @ (real ** 2 + imaginary ** 2) + 1e-6)
        x = (x - x.mean((1, 2), keepdim=True)) / x.std((1, 2), keepdim=True)
        x = self.body(x[:, None]).flatten(1, 2).transpose(1, 2)
        return self.head(self.gru(x)[1][-1])


@network("keywords_gru_ts_dyn", "script", 17, {"wave": {0: "batch"}})
def keywords():
    return Keywords(), {"wave": torch.randn(1, 16000)}, {"wave": torch.randn(3, 16000)}


class SpectrumMask(nn.Module):
    """Enhances speech in frames: Fourier transform of PyTorch, a mask, the inverse, overlap-add by fold."""

    def __init__(self, size=256, hop=128):
        super().__init__()
        self.size, self.hop, self.gru, self.mask = size, hop, nn.GRU(size // 2 + 1, 128, batch_first=True), nn.Linear(128, size // 2 + 1)
        self.register_buffer("window", torch.hann_window(size))

    def forward(self, wave):
        frames = wave.unfold(1, self.size, self.hop) * self.window
        spectrum = torch.view_as_real(torch.fft.rfft(frames))
        power = torch.log(spectrum.pow(2).sum(-1) + 1e-5)
        gain = torch.sigmoid(self.mask(self.gru(power)[0]))
        clean = torch.fft.irfft(torch.view_as_complex((spectrum * gain[..., None]).contiguous()), n=self.size) * self.window
        length = (frames.shape[1] - 1) * self.hop + self.size
        return F.fold(clean.transpose(1, 2), (1, length), (1, self.size), stride=(1, self.hop)).flatten(1)


@network("spectrum_mask", "dynamo", 20)
def spectrum_mask():
    return SpectrumMask(), {"wave": torch.randn(1, 8192)}


class NeuralCodec(nn.Module):
    """EnCodec: strided convolutions with reflected edges, an LSTM, residual vector quantization by nearest codes, and the way back."""

    def __init__(self, width=32, codes=256, books=4):
        super().__init__()
        conv = lambda a, b, k, s=1: nn.Conv1d(a, b, k, s)
        self.first, self.downs = conv(1, width, 7), nn.ModuleList(conv(width * 2 ** i, width * 2 ** (i + 1), 2 * s, s) for i, s in enumerate((2, 4, 5)))
        self.residuals = nn.ModuleList(nn.ModuleList((conv(width * 2 ** i, width * 2 ** i // 2, 3), conv(width * 2 ** i // 2, width * 2 ** i, 1))) for i in range(3))
        deep = width * 8
        self.lstm, self.narrow, self.books = nn.LSTM(deep, deep, 2), conv(deep, 128, 7), nn.Parameter(torch.randn(books, codes, 128))
        self.wide = conv(128, deep, 7)
        self.ups = nn.ModuleList(nn.ConvTranspose1d(deep // 2 ** i, deep // 2 ** (i + 1), 2 * s, s) for i, s in enumerate((5, 4, 2)))
        self.last = conv(width, 1, 7)

    @staticmethod
    def padded(conv, x):
        extra = conv.kernel_size[0] - conv.stride[0]
        return conv(F.pad(x, (extra - extra // 2, extra // 2), mode="reflect"))

    def forward(self, wave):
        x = self.padded(self.first, wave)
        for down, (one, two) in zip(self.downs, self.residuals):
            x = x + two(F.elu(self.padded(one, F.elu(x))))
            x = self.padded(down, F.elu(x))
        y = x.permute(2, 0, 1)
        x = F.elu((self.lstm(y)[0] + y).permute(1, 2, 0))
        left = self.padded(self.narrow, x).transpose(1, 2)
        total, found = torch.zeros_like(left), []
        for book in self.books:
            distance = left.square().sum(-1, keepdim=True) - 2 * left @ book.t() + book.square().sum(-1)
            codes = (-distance).argmax(-1)
            nearest = F.embedding(codes, book)
            left, total = left - nearest, total + nearest
            found.append(codes)
        x = self.padded(self.wide, total.transpose(1, 2))
        for up in self.ups:
            x = up(F.elu(x))
            extra = up.kernel_size[0] - up.stride[0]
            x = x[..., extra - extra // 2: x.shape[-1] - extra // 2]
        return self.padded(self.last, F.elu(x)), torch.stack(found)


@network("neural_codec_ts_dyn", "script", 17, {"wave": {0: "batch", 2: "samples"}})
def neural_codec():
    return NeuralCodec(), {"wave": torch.randn(1, 1, 4000)}, {"wave": torch.randn(2, 1, 2400)}


def waves(size, taps):
    """Windowed cosines and negative sines of all bins, as convolutions of a signal have them: [bins, 1, taps] each."""
    n, k = torch.arange(taps, dtype=torch.float64), torch.arange(size // 2 + 1, dtype=torch.float64)[:, None]
    angle, window = 2 * math.pi * (k * n % size) / size, torch.hann_window(taps, dtype=torch.float64)
    return (window * angle.cos()).float()[:, None], (-window * angle.sin()).float()[:, None]


class SoundTagger(nn.Module):
    """PANNs: the spectrogram by two convolutions with waves (torchlibrosa), mel bands, decibels, blocks of convolutions."""

    def __init__(self, size=1024, hop=320, bands=64, classes=50):
        super().__init__()
        real, imag = waves(size, size)
        self.register_buffer("real", real)
        self.register_buffer("imag", imag)
        centers = torch.linspace(2, size // 2 - 2, bands)
        self.register_buffer("mel", (1 - (torch.arange(size // 2 + 1)[:, None] - centers).abs() / 12).clamp(min=0) / 12)
        self.hop, self.norm = hop, nn.BatchNorm2d(bands)
        widths = (1, 32, 64, 128)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1, bias=False),
                                                  nn.BatchNorm2d(b), nn.ReLU(), nn.AvgPool2d(2)) for a, b in zip(widths, widths[1:]))
        self.out = nn.Linear(widths[-1], classes)

    def forward(self, wave):
        x = F.pad(wave[:, None], (512, 512), mode="reflect")
        real, imag = (F.conv1d(x, w, stride=self.hop).transpose(1, 2) for w in (self.real, self.imag))
        mel = (real ** 2 + imag ** 2) @ self.mel
        x = 10 * torch.log10(mel.clamp(min=1e-10))
        x = self.norm(x.transpose(1, 2)[:, :, :, None]).permute(0, 3, 2, 1)
        for block in self.blocks:
            x = block(x)
        x = x.mean(3)
        return torch.sigmoid(self.out(x.amax(2) + x.mean(2)))


@network("sound_tagger_ts_dyn", "script", 17, {"wave": {0: "batch", 1: "samples"}})
def sound_tagger():
    return SoundTagger(), {"wave": torch.randn(1, 32000)}, {"wave": torch.randn(2, 20000)}


class ConvStftMask(nn.Module):
    """DCCRN's way in and out: one convolution with waves of 400 of a transform of 512, a mask by GRU, the transposed convolution."""

    def __init__(self, size=512, taps=400, hop=100):
        super().__init__()
        self.hop, bins = hop, size // 2 + 1
        kernel = torch.cat(waves(size, taps))
        self.register_buffer("kernel", kernel)
        self.register_buffer("inverse", torch.linalg.pinv(kernel[:, 0].double()).t()[:, None].float())
        self.gru, self.mask = nn.GRU(bins, 128, batch_first=True), nn.Linear(128, bins)

    def forward(self, wave):
        x = F.conv1d(F.pad(wave[:, None], (300, 300)), self.kernel, stride=self.hop)
        real, imag = x.chunk(2, 1)
        gain = torch.sigmoid(self.mask(self.gru(torch.sqrt(real ** 2 + imag ** 2 + 1e-8).transpose(1, 2))[0])).transpose(1, 2)
        return F.conv_transpose1d(torch.cat([real * gain, imag * gain], 1), self.inverse, stride=self.hop)[..., 300:-300].squeeze(1)


@network("conv_stft_mask_ts_dyn", "script", 17, {"wave": {0: "batch", 1: "samples"}})
def conv_stft_mask():
    return ConvStftMask(), {"wave": torch.randn(1, 16000)}, {"wave": torch.randn(2, 9000)}
