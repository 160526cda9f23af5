"""What the table of docs/faults.md says of each fault: what hasten does with torchrun, and what others do."""

from __future__ import annotations

_SRUN = "srun ends the job (`--kill-on-bad-exit`), mpirun all ranks"
_SAME = "the same"
WORDS = {
    "rank killed": (
        "named with rank and host; all end, or begin anew with `--max-restarts`",
        f"{_SRUN}; Slurm begins anew with `--max-restarts`",
    ),
    "rank stopped": (
        "after `HASTEN_DEADLINE` its stack is shown and it is killed; then as a rank that is killed",
        "the others end after `--group-timeout` and name it; a script that knows of no ranks as here",
    ),
    "rank hangs": (
        "after `--group-timeout` the others name it and show its stack; then as a rank that is killed",
        _SAME,
    ),
    "out of memory": ("as a rank that is killed, with the reason", _SRUN),
    "exception in one rank": (
        "named with rank, host and error by all ranks; all end, or begin anew with `--max-restarts`",
        _SRUN,
    ),
    "launcher killed": (
        "ssh's standard input closes, and each host ends what it started",
        "mpirun's ranks end with it; a Slurm job goes on: `scancel` ends it",
    ),
    "host lost": (
        "after `HASTEN_DEADLINE` it is named; all end, with `--nnodes 1:2` the others go on",
        "Slurm requeues or ends the job (`SlurmdTimeout`); mpirun ends where its daemon is lost",
    ),
    "link cut": ("as a host that is lost", "the others end after `--group-timeout` and name the rank"),
    "link cut and restored": ("TCP sends again; nothing is said", _SAME),
    "slow link": ("slower steps; the preflight says how slow a link is", _SAME),
    "packet loss": ("TCP sends again; slower steps", _SAME),
    "rendezvous host lost": (
        "as a host that is lost; nothing can begin anew without it",
        "a host like others: Slurm and mpirun meet elsewhere; rank 0's host is named",
    ),
    "disk full on one host": ("the error of the script, as an exception in one rank", _SAME),
    "straggler": (
        "all wait for it in each step, up to `--group-timeout`; where steps become slower under a plan, "
        "ranks of hasten's own name it",
        _SAME,
    ),
    "clock step": ("nothing: deadlines go by clocks that cannot be set", _SAME),
    "two jobs on one port": (
        "the second is refused, the first goes on; unasked, hasten draws a port for each job",
        "each job has a port of its own number",
    ),
    "stale checkpoint": (
        "a script whose ranks go on from different steps fails at the end, where one has ended before the "
        "other: take one checkpoint for all. Ranks of ours are refused",
        _SAME,
    ),
    "half-written checkpoint": (
        "the error of the script, as an exception; `--checkpoint` takes the one before it",
        _SAME,
    ),
    "checkpoint of another world size": (
        "weights of DistributedDataParallel and of ranks of ours do not know how many there were",
        _SAME,
    ),
    "data missing on one host": (
        "the error of the script, as an exception in one rank; ranks of ours end before they train",
        _SAME,
    ),
    "NaN on one rank": (
        "named with rank, host and step, before gradients are mixed; the training goes on",
        _SAME,
    ),
    "Ctrl-C": (
        "all hosts end, exit code 130",
        "mpirun's the same; hasten cancels the Slurm job (not with `--detach`)",
    ),
    "preemption": (
        "SIGTERM reaches all ranks, which have 10 s to save; exit code 143. The same command goes on",
        "Slurm sends SIGTERM itself, and SIGKILL after `KillWait`; mpirun passes SIGTERM on",
    ),
}
