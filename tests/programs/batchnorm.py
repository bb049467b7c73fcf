"""Convolutions with batch normalisation; running statistics printed, evaluation with them.

    batchnorm.py [samples] [epochs]
"""
import sys

import torch
import torch.nn as nn

from dump import dump_gradients, dump_parameters

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 300
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
torch.manual_seed(6)
labels = torch.randint(0, 3, (samples,))
images = torch.randn(samples, 3, 12, 12) * (1 + labels.view(-1, 1, 1, 1)) + labels.view(-1, 1, 1, 1)

model = nn.Sequential(
    nn.Conv2d(3, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(inplace=True),
    nn.Conv2d(12, 24, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(inplace=True),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    nn.Linear(24, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)

for epoch in range(epochs):
    model.train()
    train_loss, correct, total = 0, 0, 0
    permutation = torch.randperm(samples)
    for i in range(0, samples, 28):
        index = permutation[i:i + 28]
        inputs, targets = images[index], labels[index]
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        dump_gradients(model)
        optimizer.step()
        train_loss += loss.item()
        _, predicted = outputs.max(1)
        total += targets.size(0)
        correct += predicted.eq(targets).sum().item()
    print("epoch %d: loss %.4f | accuracy %.3f (%d/%d) | lr %.5f" % (
        epoch, train_loss / (i // 28 + 1), correct / total, correct, total, scheduler.get_last_lr()[0]))
    scheduler.step()
    model.eval()
    with torch.no_grad():
        print("evaluation loss %.4f" % criterion(model(images[:100]), labels[:100]).item())
print("running mean", ["%.4f" % value for value in model[1].running_mean.tolist()])
print("running variance", ["%.4f" % value for value in model[9].running_var.tolist()], model[9].num_batches_tracked.item())
dump_parameters(model)
