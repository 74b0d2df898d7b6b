"""Graph networks as torch_geometric builds them: messages gathered, scattered and normalised over edges; nodes and edges open."""

import torch
import torch_geometric.nn as geometric
from torch import nn

from . import network

OPEN = {"x": {0: "nodes"}, "edges": {1: "edges"}}


def graph(nodes, edges, features=32, seed=0):
    random = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(nodes, features, generator=random), "edges": torch.randint(0, nodes, (2, edges), generator=random)}


class Stack(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x, edges):
        for index, layer in enumerate(self.layers):
            x = layer(x, edges)
            x = torch.relu(x) if index + 1 < len(self.layers) else x
        return x


def register(name, exporter, opset, make_layers):
    @network(f"pyg_{name}" + ("_ts" if exporter == "script" else "") + "_dyn", exporter, opset, OPEN)
    def make():
        return Stack(*make_layers()), graph(300, 1800), graph(211, 900, seed=1)


register("gcn", "script", 17, lambda: (geometric.GCNConv(32, 64), geometric.GCNConv(64, 7)))
register("gat", "script", 17, lambda: (geometric.GATConv(32, 16, heads=4), geometric.GATConv(64, 7)))
register("gatv2", "script", 18, lambda: (geometric.GATv2Conv(32, 16, heads=4), geometric.GATv2Conv(64, 7)))
register("sage", "dynamo", 18, lambda: (geometric.SAGEConv(32, 64), geometric.SAGEConv(64, 7, aggr="max")))
register("gin", "script", 17, lambda: (geometric.GINConv(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64))), geometric.GINConv(nn.Linear(64, 7))))
register("transformer", "script", 18, lambda: (geometric.TransformerConv(32, 16, heads=4), geometric.TransformerConv(64, 7)))
register("arma_tag", "script", 17, lambda: (geometric.ARMAConv(32, 64, num_stacks=2, num_layers=2), geometric.TAGConv(64, 7)))
