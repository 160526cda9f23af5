"""A GCN that classifies whole graphs, in batches of graphs from PyG's own loader."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_mean_pool
from torch_geometric.seed import seed_everything


class GraphNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GCNConv(8, 32)
        self.conv2 = GCNConv(32, 32)
        self.lin = torch.nn.Linear(32, 2)

    def forward(self, x, edge_index, batch):
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(x, edge_index)
        return self.lin(global_mean_pool(x, batch))


def made_up_graph():
    """Dense graphs are of class 1, sparse ones of class 0."""
    nodes = int(torch.randint(8, 17, ()))
    label = int(torch.randint(0, 2, ()))
    edges = torch.randint(0, nodes, (2, nodes * (2 + 2 * label)))
    return Data(x=torch.randn(nodes, 8) + label / 4, edge_index=edges, y=torch.tensor([label]))


def main():
    seed_everything(0)
    loader = DataLoader([made_up_graph() for _ in range(640)], batch_size=16, shuffle=True)
    model = GraphNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    step = 0
    for _epoch in range(3):
        model.train()
        for data in loader:
            loss = F.cross_entropy(model(data.x, data.edge_index, data.batch), data.y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            print("step", step, loss.item())


if __name__ == "__main__":
    main()
