"""A variational autoencoder with summed losses and noise drawn in the model.

    vae.py [samples] [epochs]
"""
import sys

import torch
from torch import nn, optim
from torch.nn import functional as F

from dump import dump_gradients, dump_parameters

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 600
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
torch.manual_seed(1)
centres = torch.rand(6, 64)
data = (centres[torch.randint(0, 6, (samples,))] + 0.1 * torch.randn(samples, 64)).clamp(0, 1)
train_loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 48)
        self.fc21 = nn.Linear(48, 6)
        self.fc22 = nn.Linear(48, 6)
        self.fc3 = nn.Linear(6, 48)
        self.fc4 = nn.Linear(48, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(1, epochs + 1):
    model.train()
    train_loss = 0
    for batch_idx, x in enumerate(train_loader):
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(x)
        loss = loss_function(recon_batch, x, mu, logvar)
        loss.backward()
        dump_gradients(model)
        train_loss += loss.item()
        optimizer.step()
        if batch_idx % 4 == 0:
            print("Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.4f}".format(
                epoch, batch_idx * len(x), len(train_loader.dataset), 100.0 * batch_idx / len(train_loader), loss.item() / len(x)))
    print("====> Epoch: {} Average loss: {:.4f}".format(epoch, train_loss / len(train_loader.dataset)))
with torch.no_grad():
    sample = model.decode(torch.randn(16, 6))
    print("samples", tuple(sample.shape), "mean %.4f" % sample.mean().item())
dump_parameters(model)
