"""What takes the time of a run besides its steps."""

from __future__ import annotations

from .plant import LOADER, OPTIMIZER, PRINT, SEED, STEP, TESTED_ON, TOTAL, TRAINED_ON, Plant, wider

_EVALUATION = """\
    with torch.no_grad():
        for pictures, labels in loader:
            correct += (model(pictures).argmax(dim=1) == labels).sum().item()
"""
_WITH_GRAPH = """\
    for pictures, labels in loader:
        correct += (model(pictures).argmax(dim=1) == labels).sum().item()
"""
_MANY_OBJECTS = (  # a million of them in an epoch
    ("        total = 0.0\n", "        total = 0.0\n        shades = []\n"),
    (TOTAL, TOTAL + "            shades.extend([shade] for shade in pictures.flatten().tolist())\n"),
)
_SAVE = f"""{PRINT}\
        state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}
        torch.save(state, "last.pt")
        torch.save(state, f"epoch_{{epoch % 5}}.pt")
"""
_ADAM = "    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)\n"
_GRADIENTS = """\
            for name, parameter in model.named_parameters():
                print(name, "gradient:", parameter.grad)
"""
_LOG = """\
            for sample, label in enumerate(labels.tolist() * 20):
                logging.debug("sample %d of class %d", sample, label)
"""

PLANTS = (
    Plant(
        "workers_anew",
        "pictures",
        ("epochs",),
        ((LOADER, "batch_size=32, shuffle=True, num_workers=2)"),),
        without=((LOADER, "batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)"),),
        both=((TRAINED_ON, "Pictures(320, 1)"),),
    ),
    Plant(
        "long_evaluation", "pictures", ("evaluation",), ((TESTED_ON, "Pictures(24000, 2), batch_size=64)"),)
    ),
    Plant(
        "evaluation_with_graph",
        "pictures",
        ("evaluation",),
        ((_EVALUATION, _WITH_GRAPH), (TESTED_ON, "Pictures(24000, 2), batch_size=64)")),
    ),
    Plant(
        "evaluation_in_training_mode",
        "pictures",
        ("evaluation",),
        (
            (TESTED_ON, "Pictures(24000, 2), batch_size=64)"),
            ("    model.eval()\n", ""),
            ("    model.train()\n", ""),
        ),
    ),
    Plant(
        "collects_each_step",
        "pictures",
        ("garbage",),
        (
            ("import argparse\n", "import argparse\nimport gc\n"),
            (TOTAL, TOTAL + "            gc.collect()  # keeps memory free\n"),
        ),
        both=((TRAINED_ON, "Pictures(320, 1)"),),
    ),
    Plant(
        "a_million_objects",
        "pictures",
        ("garbage",),
        (),
        without=(("import argparse\n", "import argparse\nimport gc\n"), (SEED, f"{SEED}    gc.disable()\n")),
        both=_MANY_OBJECTS,
    ),
    Plant(
        "saves_each_epoch",
        "pictures",
        ("saving",),
        ((PRINT, _SAVE),),
        both=(*wider(2048), (OPTIMIZER, _ADAM), (TRAINED_ON, "Pictures(64, 1)")),
    ),
    Plant("prints_much", "pictures", ("output",), ((STEP, STEP + _GRADIENTS),)),
    Plant(
        "logs_much",
        "pictures",
        ("output",),
        (
            ("import argparse\n", "import argparse\nimport logging\n"),
            (SEED, '    logging.basicConfig(filename="train.log", level=logging.DEBUG)\n' + SEED),
            (TOTAL, TOTAL + _LOG),
        ),
    ),
)
