"""Whose argument is it? All that follows the script's name is the script's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hasten.cli.commands import parse
from hasten.cli.values import MOST_SEED


def parsed(*words: str) -> SimpleNamespace:
    return parse(words)


THE_SCRIPTS_OWN = [
    [],
    ["--epochs", "5"],
    ["--budget", "3"],  # tune has it, too
    ["--json", "-"],
    ["--help"],
    ["--debug"],
    ["-m", "module"],
    ["--plan", "p.toml", "--no-plan"],
    ["-x", "value", "--", "--more"],
    ["--"],
    ["--", "--budget", "3"],
    ["a b", "", "*"],
    ["run", "tune"],
]
VERBS = [["tune"], ["profile", "--steps", "5"], ["run", "--no-plan"]]


@pytest.mark.parametrize("arguments", THE_SCRIPTS_OWN)
@pytest.mark.parametrize("verb", VERBS)
def test_what_follows_the_script_is_its_own(verb: list[str], arguments: list[str]) -> None:
    found = parsed(*verb, "train.py", *arguments)
    assert (found.script, found.module, found.arguments) == ("train.py", None, arguments)


@pytest.mark.parametrize("arguments", THE_SCRIPTS_OWN)
@pytest.mark.parametrize("verb", VERBS)
def test_what_follows_the_module_is_its_own(verb: list[str], arguments: list[str]) -> None:
    found = parsed(*verb, "-m", "package.train", *arguments)
    assert (found.script, found.module, found.arguments) == (None, "package.train", arguments)


def test_what_comes_before_is_ours() -> None:
    found = parsed("tune", "--budget", "3", "--json", "-", "train.py", "--budget", "7")
    assert (found.budget, found.json, found.arguments) == (3.0, "-", ["--budget", "7"])


def test_a_tune_may_use_what_is_known_unless_it_is_told_not_to() -> None:
    assert parsed("tune", "train.py").fresh is False
    assert parsed("tune", "--fresh", "train.py").fresh is True


def test_a_script_may_have_a_name_like_an_option() -> None:
    found = parsed("run", "--strict", "--", "-train.py", "--", "-x")
    assert (found.strict, found.script, found.arguments) == (True, "-train.py", ["--", "-x"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "VERB"),
        (["hurry", "train.py"], "invalid choice: 'hurry'"),
        (["tune"], "the following arguments are required: SCRIPT\n"),
        (["tune", "-m"], "-m: expected a module's name"),
        (["run", "--"], "the following arguments are required: SCRIPT\n"),
        (["tune", "--epochs", "5", "train.py"], "unrecognized arguments|expected|required"),
        (["tune", "--budget", "soon", "train.py"], "found 'soon'"),
        (["tune", "--budget", "0", "train.py"], "--budget: expected seconds above zero"),
        (["tune", "--budget", "-1", "train.py"], "--budget: expected"),
        (["tune", "--budget", "inf", "train.py"], "found 'inf'"),
        (["tune", "--budget", "nan", "train.py"], "found 'nan'"),
        (["tune", "--risk", "any", "train.py"], "--risk: invalid choice: 'any'"),
        (
            ["profile", "--steps", "1", "train.py"],
            "--steps: expected a whole number from 2 to 1,000,000, found '1'",
        ),
        (
            ["profile", "--steps", "some", "train.py"],
            "--steps: expected a whole number from 2 to 1,000,000, found 'some'",
        ),
        (
            ["profile", "--warmup", "0", "train.py"],
            "--warmup: expected a whole number from 1 to 1,000,000, found '0'",
        ),
        (["profile", "--seconds", "0", "train.py"], "--seconds: expected seconds above zero"),
        (["run", "--plan", "p.toml", "--no-plan", "train.py"], "not allowed with argument --plan"),
    ],
)
def test_what_makes_no_sense_is_told(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert any(part in error for part in message.split("|"))
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tnue", "train.py"], "invalid choice: 'tnue' (choose from 'doctor',"),
        (["tnue", "train.py"], "Did you mean tune?"),
        (["tune", "--budgt", "3", "train.py"], "unrecognized arguments: --budgt. Did you mean --budget"),
        (["tune", "--nproc", "3", "train.py"], "Did you mean --nproc-per-node?"),
        (["tune", "--epochs", "5", "train.py"], "--epochs (the script's own come after its name)"),
        (["tune", "--budget"], "hasten tune: error: Option '--budget' requires an argument"),
        (["run", "--no-plan", "--plan", "p.toml", "train.py"], "--plan: not allowed with argument --no-plan"),
        (["--budget", "3", "tune", "train.py"], "hasten: error: unrecognized arguments: --budget"),
        (["tune", "--quiet=3", "train.py"], "hasten tune: error: Option '--quiet' does not take a value"),
    ],
)
def test_what_may_have_been_meant(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(*words)
    said = capsys.readouterr().err
    assert message in said
    assert " --help lists the options.\n" in said


def test_options_come_before_or_after_the_sign_for_a_module() -> None:
    for words in (["--strict", "-m", "package.train"], ["-m", "--strict", "package.train"]):
        found = parsed("run", *words, "--strict", "5")
        assert (found.strict, found.module, found.arguments) == (True, "package.train", ["--strict", "5"])


# ---- seeds
@pytest.mark.attack("arguments")
@pytest.mark.parametrize("seed", ["0", "7", "4294967295", "4294967296", "9223372036854775807"])
def test_a_seed_that_torch_numpy_and_python_can_take(seed: str) -> None:
    assert parsed("tune", "--seed", seed, "train.py").seed == int(seed)


BAD_SEEDS = [
    "-1",
    "-9223372036854775808",
    "9223372036854775808",
    "999999999999999999999999",
    "9" * 3000,
    "9" * 30000,
    "1e3",
    "1.0",
    "0x10",
    "nan",
    "inf",
    "abc",
    "",
    "1 2",
    "None",
]


@pytest.mark.attack("arguments")
@pytest.mark.parametrize("seed", BAD_SEEDS, ids=lambda seed: seed[:30])
def test_a_seed_that_nothing_can_take_is_refused_at_once(
    seed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parsed("tune", f"--seed={seed}", "train.py")
    assert end.value.code == 2
    said = f"argument --seed: expected a whole number from 0 to {MOST_SEED:,}, found '{seed[:40]}"
    assert said in capsys.readouterr().err


@pytest.mark.attack("arguments")
@pytest.mark.parametrize(
    "seeds", ["1", "0", "-3", "1001", "999999999999999999999999", "1e3", "abc", "2.5", ""]
)
def test_so_many_seeds_cannot_be_trained(seeds: str) -> None:
    with pytest.raises(SystemExit) as end:
        parsed("verify", f"--seeds={seeds}", "train.py")
    assert end.value.code == 2
