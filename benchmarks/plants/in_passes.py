"""What makes the passes of a step, or its update, take longer than they need."""

from __future__ import annotations

from .plant import LAST, LOSS, OPTIMIZER, SEED, TRAINED_ON, Plant, wider

_ONE_BY_ONE = """\
            outputs = [model(picture[None]) for picture in pictures]
            loss = loss_function(torch.cat(outputs), labels)
"""
_LOSS_BY_HAND = """\
            outputs = torch.log_softmax(model(pictures), dim=1)
            loss = 0.0
            for i in range(len(labels)):
                for c in range(10):
                    if labels[i] == c:
                        loss = loss - outputs[i][c] / len(labels)
"""
_LAYERS = (
    "        self.layers = nn.Sequential(nn.Linear(128, width), nn.Tanh(), nn.Linear(width, 1))\n",
    "        self.cell = nn.GRUCell(1, width)\n        self.head = nn.Linear(width, 1)\n",
)
_RECURRENCE = (
    "        return self.layers(waves)\n",
    """\
        hidden = waves.new_zeros(len(waves), self.cell.hidden_size)
        for place in range(waves.shape[1]):
            hidden = self.cell(waves[:, place : place + 1], hidden)
        return self.head(hidden)
""",
)
_SMALL_BATCHES = (("split(512)", "split(8)"), ("waves(20480)", "waves(320)"))
_NORMS = ((LAST, f"        *[nn.LayerNorm(256) for _ in range(60)],\n{LAST}"),)
_FUSED = ((OPTIMIZER, "    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)\n"),)
_GROUPS = """\
    groups = [{"params": [p], "weight_decay": 0.01 * (p.ndim > 1)} for p in model.parameters()]
    optimizer = torch.optim.Adam(groups, lr=1e-3)
"""
_PADDED = """\
    padded = torch.full((len(texts), 128), PAD)
    for row, text in zip(padded, texts, strict=True):
        row[: len(text)] = text
    return padded, torch.stack(labels)
"""
_LOOP = """\
        for chosen in torch.randperm(len(series)).split(512):
            batch = series[chosen]
            forecast = model(batch[:, :128])
            loss = nn.functional.mse_loss(forecast, batch[:, 128:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
_PROFILED = "        with torch.profiler.profile(record_shapes=True, with_stack=True):\n" + "".join(
    f"    {line}\n" for line in _LOOP.splitlines()
)

PLANTS = (
    Plant("many_threads", "pictures", ("threads",), ((SEED, f"{SEED}    torch.set_num_threads(16)\n"),)),
    Plant(
        "one_thread",
        "pictures",
        ("threads",),
        ((SEED, f"{SEED}    torch.set_num_threads(1)\n"),),
        both=(*wider(2048), (TRAINED_ON, "Pictures(640, 1)")),
    ),
    Plant("sample_by_sample", "pictures", ("overhead",), ((LOSS, _ONE_BY_ONE),), both=wider(32)),
    Plant("loss_by_hand", "pictures", ("loss",), ((LOSS, _LOSS_BY_HAND),)),
    Plant("recurrence_by_hand", "series", ("overhead",), (_LAYERS, _RECURRENCE), both=_SMALL_BATCHES),
    Plant(
        "update_by_loop",
        "pictures",
        ("optimizer",),
        ((OPTIMIZER, "    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)\n"),),
        without=_FUSED,
        both=_NORMS,
    ),
    Plant("many_groups", "pictures", ("optimizer",), ((OPTIMIZER, _GROUPS),), without=_FUSED, both=_NORMS),
    Plant(
        "large_embedding",
        "texts",
        ("optimizer",),
        (
            (
                "nn.Embedding(WORDS, width, padding_idx=PAD)",
                "nn.Embedding(50 * WORDS, width, padding_idx=PAD)",
            ),
            (", lr=5e-4, fused=True)", ", lr=5e-4)"),
        ),
    ),
    Plant(
        "padding",
        "texts",
        ("padding",),
        (
            ("from torch.nn.utils.rnn import pad_sequence\n", ""),
            (
                "    return pad_sequence(list(texts), batch_first=True, padding_value=PAD), "
                "torch.stack(labels)\n",
                _PADDED,
            ),
        ),
    ),
    Plant(
        "anomaly_detection",
        "series",
        ("debugging",),
        ((SEED, f"    torch.autograd.set_detect_anomaly(True)\n{SEED}"),),
    ),
    Plant("profiler_left_on", "series", ("debugging",), ((_LOOP, _PROFILED),)),
    Plant(
        "double_by_accident",
        "pictures",
        ("float64",),
        (
            (
                "generator=generator)\n        self.pictures[",
                "generator=generator).double()\n        self.pictures[",
            ),
            (f"{LAST}    )\n", f"{LAST}    ).double()\n"),
        ),
        both=(
            ("nn.Linear(784, 256)", "nn.Linear(784, 2048)"),
            ("nn.Linear(256, 256)", "nn.Linear(2048, 256)"),
        ),
    ),
)
