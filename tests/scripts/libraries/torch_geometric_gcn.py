"""A two-layer GCN that classifies the nodes of one made-up graph, all at once in every step."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.seed import seed_everything

NODES = 500
CLASSES = 4


class GCN(torch.nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.conv1 = GCNConv(features, hidden)
        self.conv2 = GCNConv(hidden, classes)

    def forward(self, x, edge_index):
        x = F.dropout(x, p=0.5, training=self.training)
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(x, p=0.5, training=self.training)
        return self.conv2(x, edge_index)


def made_up_graph():
    y = torch.randint(0, CLASSES, (NODES,))
    ends = torch.randint(0, NODES, (2, 20_000))
    kept = (y[ends[0]] == y[ends[1]]) | (torch.rand(20_000) < 0.02)
    x = torch.randn(NODES, 32) + y.view(-1, 1) / 2
    return Data(x=x, edge_index=ends[:, kept], y=y, train_mask=torch.rand(NODES) < 0.3)


def main():
    seed_everything(0)
    data = made_up_graph()
    model = GCN(32, 16, CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    for step in range(1, 121):
        model.train()
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())

    model.eval()
    with torch.no_grad():
        guesses = model(data.x, data.edge_index).argmax(dim=1)
    print(f"accuracy {(guesses == data.y)[~data.train_mask].float().mean():.3f}")


if __name__ == "__main__":
    main()
