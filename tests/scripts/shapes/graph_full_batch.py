"""A graph convolutional network of two layers: one graph, full batch, most labels hidden."""

import torch
import torch.nn.functional as F
from torch import nn


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x, adj):
        return torch.sparse.mm(adj, self.linear(x))


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


def make_graph(n=200):
    labels = torch.arange(n) % 4
    same = labels[:, None] == labels[None, :]
    edges = torch.rand(n, n) < torch.where(same, 0.15, 0.01)
    adj = (edges | edges.T | torch.eye(n, dtype=torch.bool)).float()
    d = adj.sum(dim=1).rsqrt()
    return torch.randn(n, 16), (d[:, None] * adj * d[None, :]).to_sparse(), labels


torch.manual_seed(0)
features, adj, labels = make_graph()
idx_train = torch.arange(60)
idx_test = torch.arange(60, 200)

model = GCN(nfeat=16, nhid=16, nclass=4, dropout=0.5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

for epoch in range(1, 161):
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss_train = F.nll_loss(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    print("step", epoch, loss_train.item())

model.eval()
with torch.no_grad():
    hits = model(features, adj)[idx_test].argmax(dim=1) == labels[idx_test]
print(f"test accuracy {hits.float().mean():.3f}")
