"""What a training script for an accelerator does: pinned batches copied without waiting, mixed precision with a loss scale, clipped gradients, a fused
optimizer, a schedule, evaluation, a checkpoint that is loaded again.

    device_trainer.py DEVICE float32|bfloat16|float16 [file to save to]
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch.device(sys.argv[1])
PRECISION = getattr(torch, sys.argv[2])
ON_HOST = DEVICE.type == "cpu"
torch.backends.cudnn.allow_tf32 = False  # three digits, of which kernels for other numbers of rows leave other ones
torch.backends.cudnn.deterministic = True


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.hidden, self.narrow, self.dropout = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), nn.Dropout(0.1)

    def forward(self, x):
        rows, time, width = x.shape
        q, k, v = self.query_key_value(self.norm1(x)).view(rows, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(rows, time, width)
        x = x + self.out(attended)
        return x + self.dropout(self.narrow(F.gelu(self.hidden(self.norm2(x)))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.1))
        self.block, self.recurrent = Block(96, 3), nn.LSTM(96, 32, batch_first=True)
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        maps = self.conv(x)  # rows x 16 x 6 x 6
        time, _ = self.recurrent(self.block(maps.permute(0, 2, 1, 3).flatten(2)))
        return self.head(time[:, -1])


def train(model, loader, optimizer, scaler, epoch):
    model.train()
    correct = total = 0
    for step, (images, targets) in enumerate(loader):
        images, targets = images.to(DEVICE, non_blocking=True), targets.to(DEVICE, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE.type, dtype=PRECISION, enabled=PRECISION != torch.float32):
            output = model(images)
            loss = F.cross_entropy(output, targets, label_smoothing=0.1)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        correct += (output.argmax(1) == targets).sum().item()
        total += targets.size(0)
        print(f"epoch {epoch} step {step} loss {loss.item():.4f} norm {norm.item():.3f} scale {scaler.get_scale()}")
    print(f"epoch {epoch} accuracy {correct / total:.2f}")


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss = correct = total = 0.0
    for images, targets in loader:
        images, targets = images.to(DEVICE), targets.to(DEVICE)
        output = model(images)
        loss += F.cross_entropy(output, targets, reduction="sum").item()
        correct += (output.argmax(1) == targets).float().sum().item()
        total += len(targets)
    print(f"test loss {loss / total:.3f} accuracy {correct / total:.2f}")


def main():
    torch.manual_seed(1)
    targets = torch.randint(0, 5, (325,))
    images = torch.randn(5, 1, 12, 12)[targets] + 0.5 * torch.randn(325, 1, 12, 12)
    options = {} if ON_HOST else {"pin_memory": True}
    train_loader = DataLoader(TensorDataset(images[:260], targets[:260]), batch_size=31, shuffle=True, num_workers=2, **options)
    test_loader = DataLoader(TensorDataset(images[260:], targets[260:]), batch_size=50, **options)
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=not ON_HOST or None)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=3)
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0**13, growth_interval=4, enabled=PRECISION == torch.float16)
    for epoch in range(3):
        train(model, train_loader, optimizer, scaler, epoch)
        scheduler.step()
        evaluate(model, test_loader)
    if len(sys.argv) > 3:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, sys.argv[3])
        again = Net().to(DEVICE)
        again.load_state_dict(torch.load(sys.argv[3], map_location=DEVICE)["model"])
        evaluate(again, test_loader)


if __name__ == "__main__":
    main()
