"""How people train with libraries: what each script in ``libraries/`` does, for tests to go by.

Each script trains something tiny on made-up data, on the CPU, and prints one line per optimizer step that
starts with "step ", its number and its loss; two plain runs print the same lines. Notes tell of exceptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from .shapes import Shape

FOLDER = Path(__file__).with_suffix("")


@dataclass(frozen=True)
class LibraryScript(Shape):
    """A shape that imports ``needs`` besides torch and numpy. Its optimizers are torch's."""

    needs: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.py"

    @property
    def missing(self) -> tuple[str, ...]:
        """What it needs and this environment does not have."""
        return tuple(name for name in self.needs if find_spec(name) is None)


def library_script(
    name: str,
    needs: str,
    steps: int,
    batch_size: int,
    roots: str,
    optimizers: str,
    *,
    cycle: int = 1,
    note: str = "",
) -> LibraryScript:
    """A row of the table. ``needs``, ``roots`` and ``optimizers``: names with spaces between."""
    return LibraryScript(
        name,
        steps=steps,
        cycle=cycle,
        batch_size=batch_size,
        roots=tuple(roots.split()),
        optimizers=tuple(optimizers.split()),
        note=note,
        needs=tuple(needs.split()),
    )


# fmt: off
LIBRARY_SCRIPTS: tuple[LibraryScript, ...] = (
    # ---- transformers and accelerate
    library_script("hf_trainer", "transformers accelerate", 120, 16, "BertForSequenceClassification", "AdamW",
                   note="evaluates and saves after each epoch of 40 steps; the Trainer's AdamW is fused"),
    library_script("hf_trainer_accumulation", "transformers accelerate", 100, 16, "GPT2LMHeadModel", "AdamW",
                   note="four batches of 4 are fetched first and then trained; the Trainer's AdamW is fused"),
    library_script("peft_lora", "transformers peft", 120, 8, "PeftModelForCausalLM", "AdamW",
                   note="the base is frozen, yet its parameters are in the optimizer too"),
    library_script("accelerate_loop", "accelerate", 120, 32, "Net", "AdamW",
                   note="evaluates after each epoch of 40 steps; loaders fetch one batch ahead"),
    library_script("accelerate_accumulate", "accelerate", 100, 32, "Regressor", "Adam",
                   note="four batches of 8 a step; step() is called after each and does nothing in three"),

    # ---- Lightning
    library_script("lightning_trainer", "lightning", 120, 32, "Classifier", "Adam",
                   note="the forward and backward pass run in the optimizer's closure; validates each epoch"),
    library_script("lightning_manual", "lightning", 120, 32, "Discriminator Generator", "Adam Adam", cycle=2,
                   note="a GAN, a line for each of the two optimizers: 60 batches; losses need not go down"),
    library_script("lightning_fabric", "lightning", 120, 32, "_FabricModule", "SGD",
                   note="Fabric wraps the script's Net, and hands attributes set on the wrapper on to it"),

    # ---- others
    library_script("ignite_engine", "ignite", 120, 32, "Net", "SGD",
                   note="evaluates after each epoch of 40 steps"),
    library_script("skorch_classifier", "skorch sklearn", 125, 32, "Mlp", "SGD",
                   note="the forward and backward pass run in the optimizer's closure; validates each epoch"),
    library_script("timm_loop", "timm torchvision PIL", 120, 16, "ResNet", "AdamW",
                   note="random augmentation in the dataset and mixup after the loader"),
    library_script("torchvision_resnet", "torchvision", 100, 16, "ResNet", "SGD",
                   note="random augmentation in the dataset"),
    library_script("torch_geometric_gcn", "torch_geometric", 120, 500, "GCN", "Adam",
                   note="no loader: the batch is one graph of 500 nodes"),
    library_script("torch_geometric_batches", "torch_geometric", 120, 16, "GraphNet", "Adam",
                   note="a batch is an object of the library's that holds 16 graphs; samples are graphs"),
)
