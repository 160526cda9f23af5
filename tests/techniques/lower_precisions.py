"""The contract of what lowers precision, in a separate process: a processor is imitated from its start.

python -m tests.techniques.lower_precisions
"""

from __future__ import annotations

import torch

from hasten.testing.technique_contract import (
    check_steps_leave_no_trace,
    check_switching_alone_leaves_no_trace,
    pairs_of,
    plan_of,
)
from hasten.testing.workbench import normed_cnn, workbench

NAMES = ["bf16", "matmul_precision", "channels_last", "fused_optimizer"]


def main() -> None:
    torch.set_num_threads(1)
    for first, second in pairs_of(NAMES):
        with workbench(make_model=normed_cnn) as bench:
            check_switching_alone_leaves_no_trace(bench, plan_of(first, second))
            check_steps_leave_no_trace(bench, plan_of(first), plan_of(first, second), plan_of(second))
        print(f"{first} + {second}: no trace")


if __name__ == "__main__":
    main()
