"""What a command costs before it does anything: nothing heavy is imported until it is needed."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from hasten.cli.commands import VERBS as MODULES

from .patience import PATIENCE_SECONDS

HEAVY = ("torch", "rich", "numpy", "tomli_w")
VERBS = [verb.NAME for verb in MODULES]

PROGRAM = """
import json, sys
heavy = json.loads(sys.argv.pop(1))
code = None
try:
    exec(sys.argv.pop(1))
except SystemExit as ended:
    code = ended.code
sys.stderr.write(json.dumps([code, [name for name in heavy if name in sys.modules]]))
"""


def heavy_modules_after(code: str, *arguments: str) -> tuple[int | None, list[str]]:
    """The exit code of ``code`` in a fresh interpreter, and which heavy modules it imported."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(HEAVY), code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    exit_code, imported = json.loads(done.stderr)
    return exit_code, imported


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([verb, "--help"] for verb in VERBS)])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert heavy_modules_after("from hasten.cli.main import main; sys.exit(main())", *arguments) == (0, [])


@pytest.mark.parametrize(
    "module", ["hasten", "hasten.tuning.pipeline", "hasten.plans.files", "hasten.report.terminal"]
)
def test_the_coordinator_starts_without_torch(module: str) -> None:
    assert heavy_modules_after(f"import {module}") == (None, [])


def test_a_heavy_import_is_noticed() -> None:
    assert heavy_modules_after("import rich; sys.exit(3)") == (3, ["rich"])


def test_every_verb_is_listed_by_help() -> None:
    command = [sys.executable, "-m", "hasten.cli.main", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    assert [verb for verb in VERBS if re.search(rf"\n  {verb} +[a-z]", done.stdout)] == VERBS
