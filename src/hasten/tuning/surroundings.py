"""What else goes on on this machine while a tune measures."""

from __future__ import annotations

from ..bench.comparing.quiet import Quiet
from ..machine.container import quota_cpus
from ..machine.processor_time import allowed_cpus, processor_time
from ..machine.vitals import vitals
from ..records.facts import Facts
from ..records.machine import Machine
from ..records.vitals import Vitals
from ..records.waiting import waiting_threads
from .progress import Progress


def quiet_here(patience: float, progress: Progress, facts: Facts) -> Quiet:
    """What sets aside the blocks that other programs disturb on this machine. While ``facts`` were observed,
    they may have run all the time.
    """
    quiet = Quiet(processor_time, allowed_cpus(), quota_cpus())
    quiet.patience = patience
    quiet.others_stay = waiting_threads(facts) is not None
    quiet.say = progress.remark
    return quiet


def vitals_of(machine: Machine) -> Vitals:
    """A reading of the machine's counters, its GPUs' clocks included if it has GPUs."""
    return vitals(gpus=bool(machine.accelerators))
