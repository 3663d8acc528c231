"""ViT and ConvNeXt in plain PyTorch with timm's state-dict names, for tests; written from the papers' descriptions.

python -m tests.models.torch_copies      prints the logits that test_small_timm.py stores
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class Scale(nn.Module):
    """LayerScale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        return self.proj(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, c))


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(functional.gelu(self.fc1(x)))


class ViTBlock(nn.Module):
    def __init__(self, width: int, heads: int, scaled: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, 1e-6) for _ in range(2))
        self.attn, self.mlp = Attention(width, heads), Mlp(width)
        self.ls1, self.ls2 = (Scale(width) if scaled else nn.Identity() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class PatchEmbed(nn.Module):
    def __init__(self, patch: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, patch)


class ViT(nn.Module):
    """timm's VisionTransformer for pictures of any size."""

    def __init__(self, *, mean=False, token=True, registers=0, token_positions=True, scaled=False, classes=3) -> None:
        super().__init__()
        width, heads, depth, self.patch, self.side = 16, 2, 2, 4, 4
        self.mean, self.extra = mean, int(token) + registers
        self.own = self.extra if token_positions else 0
        self.patch_embed = PatchEmbed(self.patch, width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width)) if token else None
        self.reg_token = nn.Parameter(torch.zeros(1, registers, width)) if registers else None
        self.pos_embed = nn.Parameter(torch.zeros(1, self.own + self.side**2, width))
        self.blocks = nn.Sequential(*(ViTBlock(width, heads, scaled) for _ in range(depth)))
        self.norm = nn.Identity() if mean else nn.LayerNorm(width, 1e-6)
        self.fc_norm = nn.LayerNorm(width, 1e-6) if mean else nn.Identity()
        self.head = nn.Linear(width, classes)

    def positions(self, height: int, width: int) -> tuple[Tensor, Tensor]:
        own, grid = self.pos_embed[:, : self.own], self.pos_embed[:, self.own :]
        grid = grid.reshape(1, self.side, self.side, -1).permute(0, 3, 1, 2)
        if (height, width) != (self.side, self.side):
            grid = functional.interpolate(grid, (height, width), mode="bicubic", antialias=True, align_corners=False)
        return own, grid.flatten(2).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        pads = [(self.patch - side % self.patch) % self.patch for side in x.shape[2:]]
        x = self.patch_embed.proj(functional.pad(x, (0, pads[1], 0, pads[0])))
        own, grid = self.positions(*x.shape[2:])
        x = x.flatten(2).transpose(1, 2) + grid
        extra = [token for token in (self.cls_token, self.reg_token) if token is not None]
        if extra:
            before = torch.cat(extra, 1)
            x = torch.cat([(before + own if self.own else before).expand(len(x), -1, -1), x], 1)
        x = self.norm(self.blocks(x))
        return self.head(self.fc_norm(x[:, self.extra :].mean(1) if self.mean else x[:, 0]))


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))
        self.conv_dw = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.mlp = nn.LayerNorm(width, 1e-6), Mlp(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.mlp(self.norm(self.conv_dw(x).permute(0, 2, 3, 1))) * self.gamma
        return x + y.permute(0, 3, 1, 2)


class Norm2d(nn.LayerNorm):
    """A layer norm of [N, C, H, W]."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtStage(nn.Module):
    def __init__(self, before: int, width: int, blocks: int) -> None:
        super().__init__()
        same = before == width
        self.downsample = nn.Identity() if same else nn.Sequential(Norm2d(before, 1e-6), nn.Conv2d(before, width, 2, 2))
        self.blocks = nn.Sequential(*(ConvNeXtBlock(width) for _ in range(blocks)))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(self.downsample(x))


class ConvNeXtHead(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.norm(x.mean((2, 3))))


class ConvNeXt(nn.Module):
    """timm's ConvNeXt."""

    def __init__(self, *, classes=3) -> None:
        super().__init__()
        widths, blocks = (4, 8, 16, 32), (1, 2, 1, 1)
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 4, 4), Norm2d(widths[0], 1e-6))
        befores = (widths[0], *widths)
        self.stages = nn.Sequential(*map(ConvNeXtStage, befores, widths, blocks))
        self.head = ConvNeXtHead(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.stages(self.stem(x)))


def main() -> None:
    """Compute what the tests store."""
    from tests.models import timm_like
    from tests.models.small_timm import NETWORKS, filled

    for name, (kind, arguments) in NETWORKS.items():
        copy = filled(globals()[kind](**arguments))
        with torch.no_grad():
            logits = copy(torch.from_numpy(timm_like.pictures(33, 46)).permute(0, 3, 1, 2))
        print(name, np.array2string(logits.numpy(), separator=", "))


if __name__ == "__main__":
    main()
