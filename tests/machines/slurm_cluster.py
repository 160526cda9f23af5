"""A Slurm of our own on hosts of a test: munged, a controller, a slurmd on each host; all end with it.

Nothing of the machine's own Slurm or munge is read or changed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hasten.inside.sandbox.containment import die_with_parent

from .hosts import Hosts

_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo", "squeue")
_PATIENCE_SECONDS = 30
_CONF = """\
ClusterName=hasten
SlurmctldHost={first}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmctldPort=6817
SlurmdPort=6818
SrunPortRange=60001-60100
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
KillWait=2
MinJobAge=300
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,defer_batch
{nodes}
PartitionName=p Nodes={names} Default=YES MaxTime=10 State=UP
"""


def why_not() -> str:
    """Why there can be no Slurm here; "" where there can."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(missing)} missing: apt install slurmctld slurmd slurm-client munge" if missing else ""


@contextmanager
def slurm(hosts: Hosts, folder: Path) -> Iterator[dict[str, str]]:
    """The environment by which its programs are found, once all hosts wait for jobs."""
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    cpus = os.cpu_count() or 1
    lines = [
        f"NodeName={name} NodeAddr={hosts.address(name)} CPUs={cpus} RealMemory=1000 State=UNKNOWN"
        for name in hosts.names
    ]
    conf = folder / "slurm.conf"
    conf.write_text(
        _CONF.format(
            first=hosts.names[0],
            address=hosts.address(hosts.names[0]),
            folder=folder,
            nodes="\n".join(lines),
            names=",".join(hosts.names),
        )
    )
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    environment = {"SLURM_CONF": str(conf)}
    with ExitStack() as stack:
        munged = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket"]
        munged += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log"]
        munged += [f"--seed-file={folder}/munged.seed"]
        stack.enter_context(_daemon(munged, folder / "munged.out", {}))
        _wait_for(lambda: (folder / "munge.socket").exists(), folder)
        controller = hosts.start(hosts.names[0], "slurmctld", "-D", "-f", str(conf))
        stack.enter_context(_daemon(controller, folder / "slurmctld.out", environment))
        for name in hosts.names:
            daemon = hosts.start(name, "slurmd", "-D", "-N", name, "-f", str(conf))
            stack.enter_context(_daemon(daemon, folder / f"slurmd.{name}.out", environment))
        asked = hosts.start(hosts.names[0], "sinfo", "--noheader", "--states=idle", "--format=%D")
        _wait_for(lambda: _output(asked, environment).strip() == str(len(hosts.names)), folder)
        yield environment


@contextmanager
def _daemon(argv: list[str], output: Path, environment: Mapping[str, str]) -> Iterator[None]:
    with output.open("wb") as file:
        process = subprocess.Popen(
            argv,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _output(argv: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        argv, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return done.stdout


def _wait_for(happened: object, folder: Path) -> None:
    assert callable(happened)
    ends_by = time.monotonic() + _PATIENCE_SECONDS
    while not happened():
        if time.monotonic() > ends_by:
            told = [
                f"{path.name}:\n{path.read_text(errors='replace')[-2000:]}" for path in folder.glob("*.log")
            ]
            told += [
                f"{path.name}:\n{path.read_text(errors='replace')[-2000:]}" for path in folder.glob("*.out")
            ]
            raise AssertionError("Slurm has not come up:\n" + "\n".join(told))
        time.sleep(0.1)
