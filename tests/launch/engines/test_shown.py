"""What --render prints: what a person can read and run, and no secret."""

from __future__ import annotations

import subprocess
from dataclasses import replace

from hasten.launch.engines.exporters import Kubernetes
from hasten.launch.engines.mpi import Mpich
from hasten.launch.engines.shown import shown
from hasten.launch.engines.slurm import Slurm
from hasten.launch.engines.torchrun import Torchrun

from .jobs import HOSTILE_WORDS, JOB, TWO

SECRET = {"A_TOKEN": "not-to-be-shown"}


def test_each_host_has_its_command_and_what_is_started_there() -> None:
    text = shown(Torchrun().render(TWO), TWO.secrets)
    assert text.count("\nssh -T") + text.startswith("ssh -T") == 2
    assert "# on its standard input it is told what to start on h2:\n#   cd /home/me/project\n" in text
    assert "\n#   export OMP_NUM_THREADS=1\n" in text


def test_secrets_are_left_out_everywhere() -> None:
    job = replace(TWO, environment={**TWO.environment, **SECRET}, secrets=frozenset(SECRET))
    for engine, changed in ((Torchrun(), job), (Mpich(), job), (Slurm(), replace(job, hosts=()))):
        text = shown(engine.render(changed), changed.secrets)
        assert "not-to-be-shown" not in text
        assert "A_TOKEN=(not shown)" in text


def test_files_come_with_their_names() -> None:
    text = shown(Slurm().render(replace(TWO, hosts=())), TWO.secrets)
    assert text.startswith("# /home/me/project/.hasten/launches/hasten-0123456789ab.sbatch\n#!/bin/bash\n")
    assert "# (end of the file)\nsbatch --parsable" in text


def test_a_file_that_is_all_there_is_can_go_into_a_pipe() -> None:
    (text,) = Kubernetes().render(replace(JOB, image="i")).files.values()
    assert shown(Kubernetes().render(replace(JOB, image="i")), JOB.secrets) == text


def test_a_shell_reads_the_words_as_they_are() -> None:
    job = replace(JOB, command=("printf", r"%s\0", *HOSTILE_WORDS), environment={})
    line = shown(Mpich().render(job), job.secrets).removeprefix("mpiexec.hydra -n 1 -wdir /home/me/project ")
    done = subprocess.run(["sh"], input=line, capture_output=True, text=True, check=True)
    assert tuple(done.stdout.split("\0")[:-1]) == HOSTILE_WORDS
