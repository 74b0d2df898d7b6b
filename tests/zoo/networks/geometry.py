"""Motion, points, volumes."""

import torch
from torch import nn
from torch.nn import functional as F

from networks import network
from networks.blocks import ConvNorm, Mlp, image


class Raft(nn.Module):
    """All pairs of two feature maps, a pyramid of them, lookups by grid_sample around the current flow, a convolutional GRU; three steps."""

    class Gru(nn.Module):
        def __init__(self, hidden, inputs):
            super().__init__()
            self.z, self.r, self.q = (nn.Conv2d(hidden + inputs, hidden, 3, padding=1) for _ in range(3))

        def forward(self, h, x):
            both = torch.cat([h, x], 1)
            z, r = torch.sigmoid(self.z(both)), torch.sigmoid(self.r(both))
            return (1 - z) * h + z * torch.tanh(self.q(torch.cat([r * h, x], 1)))

    def __init__(self, radius=3):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3), nn.InstanceNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.InstanceNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1))
        self.context = nn.Sequential(ConvNorm(3, 32, 7, 2), ConvNorm(32, 64, 3, 2), nn.Conv2d(64, 160, 3, 2, 1))
        count = 2 * (2 * radius + 1) ** 2
        self.motion, self.flow_in = nn.Conv2d(count, 80, 1), nn.Conv2d(2, 16, 7, padding=3)
        self.gru, self.head, self.mask = self.Gru(96, 160), nn.Sequential(nn.Conv2d(96, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 2, 3, padding=1)), nn.Conv2d(96, 9 * 64, 1)
        steps = torch.arange(-radius, radius + 1).float()
        self.register_buffer("around", torch.stack(torch.meshgrid(steps, steps, indexing="ij")[::-1], -1))

    def sample(self, volume, places):
        h, w = volume.shape[-2:]
        size = torch.tensor([w - 1, h - 1], dtype=places.dtype)
        return F.grid_sample(volume, 2 * places / size - 1, align_corners=True)

    def forward(self, one, other):
        f1, f2 = self.features(one), self.features(other)
        b, c, h, w = f1.shape
        volume = torch.einsum("bchw,bcij->bhwij", f1, f2).reshape(b * h * w, 1, h, w) / c ** 0.5
        levels = [volume, F.avg_pool2d(volume, 2)]
        hidden, extra = self.context(one).split((96, 64), 1)
        hidden, extra = torch.tanh(hidden), F.relu(extra)
        rows, columns = torch.meshgrid(torch.arange(h, dtype=one.dtype), torch.arange(w, dtype=one.dtype), indexing="ij")
        start = torch.stack([columns, rows])[None].expand(b, -1, -1, -1)
        places = start
        for _ in range(3):
            centre = places.permute(0, 2, 3, 1).reshape(b * h * w, 1, 1, 2)
            found = [self.sample(level, centre / 2 ** k + self.around).view(b, h, w, -1) for k, level in enumerate(levels)]
            motion = F.relu(self.motion(torch.cat(found, -1).permute(0, 3, 1, 2)))
            flow = places - start
            hidden = self.gru(hidden, torch.cat([motion, F.relu(self.flow_in(flow)), extra], 1)[:, :160])
            places = places + self.head(hidden)
        mask = (0.25 * self.mask(hidden)).view(b, 1, 9, 8, 8, h, w).softmax(2)
        flow = F.unfold(8 * (places - start), 3, padding=1).view(b, 2, 9, 1, 1, h, w)
        return (mask * flow).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(b, 2, 8 * h, 8 * w)


@network("raft", "dynamo", 20)
def raft():
    return Raft(), {"one": image(128, 160), "other": image(128, 160)}


class PointNet(nn.Module):
    """A learned rotation, a network shared by all points, a maximum over them."""

    class Transform(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.points = nn.Sequential(nn.Conv1d(k, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128), nn.ReLU(), nn.Conv1d(128, 1024, 1), nn.BatchNorm1d(1024), nn.ReLU())
            self.matrix, self.k = Mlp(1024, 256, k * k), k

        def forward(self, x):
            return self.matrix(self.points(x).max(2)[0]).view(-1, self.k, self.k) * 0.1 + torch.eye(self.k, dtype=x.dtype)

    def __init__(self):
        super().__init__()
        self.rotate, self.turn = self.Transform(3), self.Transform(64)
        self.first = nn.Sequential(nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU())
        self.second = nn.Sequential(nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128), nn.ReLU(), nn.Conv1d(128, 1024, 1), nn.BatchNorm1d(1024))
        self.head = Mlp(1024, 512, 256, 40)

    def forward(self, points):
        x = torch.bmm(points, self.rotate(points.transpose(1, 2))).transpose(1, 2)
        x = self.first(x)
        x = torch.bmm(self.turn(x), x)
        return self.head(self.second(x).amax(2)).log_softmax(1)


@network("pointnet_dyn", "dynamo", 18, {"points": {0: "batch", 1: "points"}})
def pointnet():
    return PointNet(), {"points": torch.randn(2, 512, 3)}, {"points": torch.randn(3, 700, 3)}


class EdgeConv(nn.Module):
    """DGCNN: the nearest neighbours of every point by TopK of distances, gathered, convolved, maximum."""

    class Layer(nn.Module):
        def __init__(self, inputs, outputs, neighbours=16):
            super().__init__()
            self.neighbours, self.body = neighbours, nn.Sequential(nn.Conv2d(2 * inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2))

        def forward(self, x):
            b, c, n = x.shape
            inner = -2 * torch.matmul(x.transpose(2, 1), x)
            square = (x ** 2).sum(1, keepdim=True)
            places = (-square - inner - square.transpose(2, 1)).topk(self.neighbours, -1)[1]
            places = (places + torch.arange(b).view(-1, 1, 1) * n).view(-1)
            points = x.transpose(2, 1).reshape(b * n, c)
            near = points[places].view(b, n, self.neighbours, c)
            own = points.view(b, n, 1, c).expand(-1, -1, self.neighbours, -1)
            return self.body(torch.cat([near - own, own], 3).permute(0, 3, 1, 2)).max(-1)[0]

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = self.Layer(3, 64), self.Layer(64, 64), self.Layer(64, 128)
        self.join, self.head = nn.Sequential(nn.Conv1d(256, 512, 1, bias=False), nn.BatchNorm1d(512), nn.LeakyReLU(0.2)), Mlp(1024, 256, 40)

    def forward(self, points):
        a = self.first(points)
        b = self.second(a)
        x = self.join(torch.cat([a, b, self.third(b)], 1))
        return self.head(torch.cat([F.adaptive_max_pool1d(x, 1), F.adaptive_avg_pool1d(x, 1)], 1).flatten(1))


@network("dgcnn_ts", "script", 17)
def dgcnn():
    return EdgeConv(), {"points": torch.randn(2, 3, 256)}


class StereoVolume(nn.Module):
    """PSMNet: features at all disparities as a volume, 3-D convolutions and transposed ones, the mean disparity."""

    def __init__(self, disparities=12):
        super().__init__()
        self.disparities = disparities
        self.features = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, 32, 3, 2), nn.Conv2d(32, 32, 3, padding=1))
        block = lambda a, b, stride: nn.Sequential(nn.Conv3d(a, b, 3, stride, 1, bias=False), nn.BatchNorm3d(b), nn.ReLU())
        self.first, self.down = block(64, 32, 1), nn.Sequential(block(32, 64, 2), block(64, 64, 1))
        self.up, self.last = nn.Sequential(nn.ConvTranspose3d(64, 32, 3, 2, 1, 1, bias=False), nn.BatchNorm3d(32)), nn.Conv3d(32, 1, 3, padding=1)

    def forward(self, left, right):
        a, b = self.features(left), self.features(right)
        slices = []
        for d in range(self.disparities):
            moved = F.pad(b[..., :b.shape[-1] - d], (d, 0))
            slices.append(torch.cat([a, moved], 1))
        x = self.first(torch.stack(slices, 2))
        x = self.last(F.relu(x + self.up(self.down(x))))
        x = F.interpolate(x, scale_factor=(2, 4, 4), mode="trilinear", align_corners=False).squeeze(1).softmax(1)
        return (x * torch.arange(2 * self.disparities, dtype=x.dtype).view(1, -1, 1, 1)).sum(1)


@network("psmnet_stereo_ts", "script", 17)
def stereo():
    return StereoVolume(), {"left": image(64, 128), "right": image(64, 128)}


class Video(nn.Module):
    """R(2+1)D: convolutions over space, then over time."""

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            middle = inputs * outputs * 27 // (inputs * 9 + 3 * outputs)
            both = lambda a, b, s: [nn.Conv3d(a, middle, (1, 3, 3), (1, s, s), (0, 1, 1), bias=False), nn.BatchNorm3d(middle), nn.ReLU(), nn.Conv3d(middle, b, (3, 1, 1), (s, 1, 1), (1, 0, 0), bias=False), nn.BatchNorm3d(b)]
            self.body = nn.Sequential(*both(inputs, outputs, stride), nn.ReLU(), *both(outputs, outputs, 1))
            self.skip = nn.Identity() if stride == 1 else nn.Sequential(nn.Conv3d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm3d(outputs))

        def forward(self, x):
            return F.relu(self.body(x) + self.skip(x))

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3d(3, 45, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False), nn.BatchNorm3d(45), nn.ReLU(), nn.Conv3d(45, 64, (3, 1, 1), padding=(1, 0, 0), bias=False), nn.BatchNorm3d(64), nn.ReLU())
        self.body, self.head = nn.Sequential(self.Block(64, 64, 1), self.Block(64, 128, 2)), nn.Linear(128, 400)

    def forward(self, clip):
        return self.head(F.adaptive_avg_pool3d(self.body(self.stem(clip)), 1).flatten(1))


@network("r2plus1d_video", "dynamo", 18)
def video():
    return Video(), {"clip": torch.randn(1, 3, 8, 56, 56)}


class Nerf(nn.Module):
    """Positions as sines, a deep perceptron with a skip, colours summed along the ray by transmittance."""

    def __init__(self, width=256):
        super().__init__()
        self.first, self.second = Mlp(63, width, width, width, last=True), Mlp(width + 63, width, width, last=True)
        self.density, self.feature, self.colour = nn.Linear(width, 1), nn.Linear(width, width), Mlp(width + 27, 128, 3)
        self.register_buffer("steps", torch.linspace(2.0, 6.0, 32))

    @staticmethod
    def encoded(x, count):
        angles = x[..., None, :] * (2.0 ** torch.arange(count, dtype=x.dtype))[:, None]
        return torch.cat([x, torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)], -1)

    def forward(self, origin, direction):
        places = origin[:, None] + direction[:, None] * self.steps[:, None]
        ways = F.normalize(direction, dim=-1)[:, None].expand(places.shape)
        p, d = self.encoded(places * 0.05, 10), self.encoded(ways, 4)
        x = self.second(torch.cat([self.first(p), p], -1))
        density = F.relu(self.density(x)).squeeze(-1)
        colour = torch.sigmoid(self.colour(torch.cat([self.feature(x), d], -1)))
        gaps = torch.cat([self.steps[1:] - self.steps[:-1], self.steps.new_full((1,), 1e3)])
        opaque = 1 - torch.exp(-density * gaps)
        through = torch.exp(torch.cumsum(torch.log(1 - opaque + 1e-6), -1))
        weights = opaque * F.pad(through[:, :-1], (1, 0), value=1.0)
        return (weights[..., None] * colour).sum(1), (weights * self.steps).sum(1)


@network("nerf_dyn", "dynamo", 18, {"origin": {0: "rays"}, "direction": {0: "rays"}})
def nerf():
    rays = lambda count: {"origin": torch.randn(count, 3), "direction": torch.randn(count, 3)}
    return Nerf(), rays(96), rays(131)


class HashField(nn.Module):
    """Instant-NGP: features of hashed corners, trilinear weights, a small perceptron. Integer multiplications and exclusive or."""

    def __init__(self, levels=8, size=2 ** 12):
        super().__init__()
        self.size, self.resolutions = size, [int(16 * 1.5 ** level) for level in range(levels)]
        self.table = nn.Parameter(torch.randn(levels, size, 2))
        self.register_buffer("corners", torch.tensor([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)]))
        self.head = Mlp(2 * levels, 64, 64, 4)

    def forward(self, points):
        found = []
        for level, resolution in enumerate(self.resolutions):
            scaled = points * resolution
            low = scaled.floor()
            part = (scaled - low)[:, None]
            corner = low.long()[:, None] + self.corners
            index = (corner[..., 0] ^ (corner[..., 1] * 2654435) ^ (corner[..., 2] * 805459)) % self.size
            weight = torch.where(self.corners.bool(), part, 1 - part).prod(-1, keepdim=True)
            found.append((self.table[level][index] * weight).sum(1))
        return self.head(torch.cat(found, -1))


@network("hash_field", "dynamo", 18)
def hash_field():
    return HashField(), {"points": torch.rand(2048, 3)}
