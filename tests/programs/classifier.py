"""A small convolutional classifier: TensorDataset, shuffled DataLoader, Adam, accuracy, evaluation, saved state.

    classifier.py [samples] [epochs] [file to save to]
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from dump import dump_gradients, dump_parameters


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * 6 * 6, 64)
        self.dropout = nn.Dropout(0.2)
        self.fc2 = nn.Linear(64, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        x = torch.flatten(x, 1)
        x = self.dropout(F.relu(self.fc1(x)))
        return self.fc2(x)


def train(model, loader, criterion, optimizer, epoch):
    model.train()
    running_loss, correct, total = 0.0, 0, 0
    for batch_idx, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        dump_gradients(model)
        optimizer.step()
        running_loss += loss.item() * data.size(0)
        correct += (output.argmax(1) == target).sum().item()
        total += target.size(0)
        if batch_idx % 5 == 0:
            print("Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.4f}".format(
                epoch, batch_idx * len(data), len(loader.dataset), 100.0 * batch_idx / len(loader), loss.item()))
    print(f"epoch {epoch}: loss {running_loss / total:.4f}, accuracy {correct / total:.4f} of {total}")


def evaluate(model, loader, criterion):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            test_loss += criterion(output, target).item() * len(data)
            prediction = output.max(1, keepdim=True)[1]
            correct += prediction.eq(target.view_as(prediction)).sum().item()
    print(f"test: average loss {test_loss / len(loader.dataset):.4f}, accuracy {correct}/{len(loader.dataset)}")


def main():
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 700
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    torch.manual_seed(1)
    targets = torch.randint(0, 5, (samples,))
    patterns = torch.randn(5, 1, 12, 12)
    images = patterns[targets] + 1.5 * torch.randn(samples, 1, 12, 12)
    split = samples * 4 // 5
    train_loader = DataLoader(TensorDataset(images[:split], targets[:split]), batch_size=32, shuffle=True)
    test_loader = DataLoader(TensorDataset(images[split:], targets[split:]), batch_size=100)

    model = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(1, epochs + 1):
        train(model, train_loader, criterion, optimizer, epoch)
        evaluate(model, test_loader, criterion)
    if len(sys.argv) > 3:
        torch.save(model.state_dict(), sys.argv[3])
    dump_parameters(model)


if __name__ == "__main__":
    main()
