"""``hasten doctor [SCRIPT]``: what is this machine, and what slows training down? Runs nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from .common import console_for, require_platform, script_of
from .options import JSON, script

NAME = "doctor"
HELP = "say what this machine is and what slows training down on it; find hard-coded devices in a script"
PARAMETERS = (JSON, *script(required=False))


def execute(arguments: SimpleNamespace) -> int:
    from ..bench.comparing.warnings import before_tuning
    from ..doctor import examine, of_distribution, of_gpus, of_script, protection_here
    from ..machine import this_machine
    from ..machine.gpu_links import gpu_links
    from ..machine.torch_build import torch_build
    from ..machine.vitals import idle_vitals
    from ..records.codec import to_json
    from ..records.diagnosis import Distribution
    from ..report.caution import caution_words
    from ..report.doctor import print_doctor
    from ..report.machine_readable import write_json
    from ..scripts.devices import hard_coded_devices
    from ..scripts.distribution import distribution_of

    require_platform()
    named = arguments.script is not None or arguments.module is not None
    script = script_of(arguments) if named else None
    machine, torch = this_machine(), torch_build()
    folders = script.folders if script is not None else (str(Path.cwd().resolve()),)
    busy = [caution_words(caution) for caution in before_tuning(*idle_vitals())]
    findings = examine(machine, torch, protection_here(folders), busy)
    devices = hard_coded_devices(script) if script is not None else []
    distribution = distribution_of(script) if script is not None else Distribution()
    links = gpu_links() if len(machine.accelerators) > 1 else None
    about_script = [*of_script(devices), *of_distribution(distribution)]
    findings = sorted([*about_script, *findings, *of_gpus(links)], key=lambda finding: not finding.hinders)
    if arguments.json is not None:
        content = {
            "machine": to_json(machine),
            "torch": to_json(torch),
            "findings": to_json(findings),
            "hard_coded_devices": to_json(devices),
            "distribution": to_json(distribution),
            "gpu_links": to_json(links) if links is not None else None,
        }
        write_json(content, arguments.json)
    print_doctor(machine, torch, findings, console_for(arguments.json))
    return 0
