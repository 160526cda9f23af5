"""Jobs made up, the same on any machine, for what engines make of them."""

from __future__ import annotations

from dataclasses import replace

from hasten.records.launch_job import LaunchJob, Nodes

JOB = LaunchJob(
    command=("/env/bin/python", "/lib/hasten/cli/rank_entry.py", "run", "train.py", "--lr", "1"),
    folder="/home/me/project",
    name="hasten-0123456789ab",
    python="/env/bin/python",
    port=29400,
    environment={"OMP_NUM_THREADS": "1", "HASTEN_LAUNCHED": "{}"},
)
TWO = replace(JOB, nodes=Nodes(2, 2), nproc_per_node=2, hosts=("h1", "h2"))
HOSTILE_WORDS = (
    "a b",
    "it's",
    'say "x"',
    "$(touch /tmp/no)",
    "; rm -rf ~",
    "`id`",
    "line\nbreak",
    "*",
    "",
    "é",
)
HOSTILE = replace(
    TWO,
    command=(*JOB.command, *HOSTILE_WORDS),
    folder="/home/my project/it's; $(id)\nx",
    environment={"PYTHONPATH": "a b;c'd\n$(id)"},
)
