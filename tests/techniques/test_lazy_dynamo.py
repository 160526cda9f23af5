"""torch's compiler stays out until something asks for it, and then works as usual."""

from __future__ import annotations

import pytest

from hasten.inside.observing.uses import IMPORTS_COMPILER
from hasten.inside.techniques.lazy_dynamo import LazyDynamo
from hasten.records.plan import Plan

from ..thorough import cases
from .made_up import facts
from .processes import Run, absent, proof_of

TRAIN = """
import sys, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    scheduler.step()
optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
optimizer.load_state_dict(optimizer.state_dict())
"""
IN_PLACE = (
    "import torch\nfrom hasten.inside.internals import lazy_dynamo\nassert lazy_dynamo.put_in_place()\n"
)
IMPORTED = (
    "any(name.startswith('torch._dynamo.') and type(one) is type(sys) for name, one in sys.modules.items())"
)


def test_a_training_imports_no_compiler(run: Run) -> None:
    run(f"{IN_PLACE}{TRAIN}\nassert not {IMPORTED}")


def test_it_does_where_nothing_stands_in_its_place(run: Run) -> None:
    """Else this technique would be for nothing."""
    run(f"{TRAIN}\nassert {IMPORTED}")


ASKED = [
    "from torch._dynamo import config; config.suppress_errors",
    "import importlib; importlib.import_module('torch._dynamo.eval_frame')",
    "torch._dynamo.reset()",
    "from torch._dynamo.utils import counters; counters['stats']",
    "import torch._dynamo.utils as utils; utils.counters['stats']",
    "import torch._dynamo.utils; torch._dynamo.utils.counters['stats']",
    "import torch._dynamo.config as config; config.suppress_errors",
    "torch._dynamo.config.suppress_errors",
    "torch.compiler.reset()",
    "import torch._dynamo as dynamo; dynamo.config.suppress_errors = True",
    "torch._dynamo.disable(lambda: 0)",
    "torch.compiler.disable(lambda: 0)",
]


@pytest.mark.parametrize(
    "asked",
    cases(ASKED, ASKED[:1]),
)
def test_whoever_asks_gets_the_real_one(run: Run, asked: str) -> None:
    run(
        f"{IN_PLACE}{TRAIN}\nassert not {IMPORTED}\n{asked}\nassert {IMPORTED}\n"
        "module = sys.modules['torch._dynamo']\nassert type(module) is type(sys), type(module)\n"
        "assert torch._dynamo is module and callable(module.optimize)"
    )


@pytest.mark.parametrize("name", cases(["config", "exc"], ["config"]))
def test_no_module_of_it_is_there_twice(run: Run, name: str) -> None:
    """Whoever sets an option sets the one that the compiler reads."""
    run(
        f"{IN_PLACE}{TRAIN}\nimport importlib\nmodule = importlib.import_module('torch._dynamo.{name}')\n"
        f"assert module is torch._dynamo.symbolic_convert.{name} is sys.modules['torch._dynamo.{name}']\n"
        "assert module.__spec__.origin == module.__file__\n"
        "assert not any(type(finder).__name__ == '_Finder' for finder in sys.meta_path)"
    )


def test_python_s_own_questions_import_nothing(run: Run) -> None:
    run(
        f"{IN_PLACE}{TRAIN}\nimport inspect, warnings\ninspect.getmodule(inspect.currentframe())\n"
        "warnings.warn('hello')\nrepr(sys.modules['torch._dynamo'])\n"
        "getattr(sys.modules['torch._dynamo'], '__version__', None)\n"
        f"assert not {IMPORTED}"
    )


@pytest.mark.thorough
def test_a_function_that_a_library_imports_early_is_the_real_ones_once_it_is_called(run: Run) -> None:
    """torchvision imports this one, and calls it in one operator only."""
    run(
        f"{IN_PLACE}from torch._dynamo.utils import is_compile_supported as early\n{TRAIN}\n"
        f"assert not {IMPORTED}\nfound = early('cpu')\nassert {IMPORTED}\n"
        "from torch._dynamo.utils import is_compile_supported as real\n"
        "assert real is not early and real('cpu') is found is early('cpu')"
    )


@pytest.mark.thorough
def test_what_was_left_alone_is_said_anew_to_the_real_one(run: Run) -> None:
    """A compiled function that updates parameters finds the optimizer's methods marked as usual."""
    marked = "getattr(torch.optim.Optimizer.add_param_group.__wrapped__, '__dynamo_disable', None)"
    run(
        f"{IN_PLACE}{TRAIN}\nplain = torch.optim.Optimizer.add_param_group.__wrapped__\n"
        f"assert {marked} is plain\ntorch._dynamo.config\nassert {marked} is None\n"
        "torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"assert {marked} not in (None, plain)"
    )


def test_a_function_compiled_later_computes_the_same(run: Run) -> None:
    compiled = (
        "\n@torch.compile(backend='eager')\ndef twice(x):\n    return 2 * x + 1\n"
        "assert twice(torch.ones(3)).tolist() == [3.0] * 3\n"
        "from torch._dynamo.utils import counters\nassert counters['stats']['unique_graphs'] == 1\n"
    )
    run(f"{IN_PLACE}{TRAIN}{compiled}{TRAIN}")


@pytest.mark.thorough
def test_threads_that_ask_at_once_get_one_module(run: Run) -> None:
    run(
        f"{IN_PLACE}{TRAIN}\nimport threading\nfound = []\n"
        "ask = lambda: found.append((torch._dynamo.config, torch._dynamo.reset))\n"
        "threads = [threading.Thread(target=ask) for _ in range(8)]\n"
        "[thread.start() for thread in threads]\n[thread.join() for thread in threads]\n"
        "assert len(found) == 8 and len(set(map(id, (config for config, _ in found)))) == 1"
    )


WATCHED = """
import sys, torch
from hasten.inside.internals import lazy_dynamo
asked = []
assert lazy_dynamo.put_in_place(lambda: asked.append(1))
"""


def test_where_it_only_watches_an_optimizer_gets_the_real_one_at_once(run: Run) -> None:
    run(f"{WATCHED}{TRAIN}\nassert {IMPORTED}\ntorch._dynamo.reset()\nassert not asked")


def test_where_it_only_watches_whoever_needs_more_is_noted_once(run: Run) -> None:
    run(
        f"{WATCHED}torch._dynamo.config.suppress_errors\nassert {IMPORTED} and asked == [1]\n"
        f"from torch._dynamo.utils import counters\n{TRAIN}assert asked == [1]"
    )


@pytest.mark.parametrize(
    "asked", ["from torch._dynamo.utils import counters", "import torch._dynamo.eval_frame"]
)
def test_a_module_of_it_is_more_than_an_optimizer_needs(run: Run, asked: str) -> None:
    run(f"{WATCHED}{asked}\nassert {IMPORTED} and asked == [1]")


def test_it_cannot_stand_in_for_what_is_there(run: Run) -> None:
    run(
        "import torch._dynamo\nfrom hasten.inside.internals import lazy_dynamo\n"
        "assert not lazy_dynamo.put_in_place() and not lazy_dynamo.is_lazy()"
    )


# ---- the technique
def test_its_proof_says_that_the_compiler_stayed_out() -> None:
    under = Plan({"lazy_dynamo": {}})
    effective, evidence = proof_of("lazy_dynamo", {}, under, script=TRAIN)
    assert (effective, evidence) == (True, "torch._dynamo was not imported before the first step")


@pytest.mark.thorough
def test_and_that_it_did_not() -> None:
    under = Plan({"lazy_dynamo": {}})
    effective, evidence = proof_of("lazy_dynamo", {}, under, script=f"import torch._dynamo.config\n{TRAIN}")
    assert (effective, evidence) == (False, "something imported torch._dynamo before the first step")


def test_without_it_the_proof_fails() -> None:
    assert absent("lazy_dynamo", {})


def test_a_script_that_compiles_has_no_use_for_it() -> None:
    assert LazyDynamo.refuse(facts(uses=("compile",))) == ["the script compiles its model"]
    assert LazyDynamo.refuse(facts()) == []


def test_a_script_that_imports_the_compiler_has_no_use_for_it_either() -> None:
    (reason,) = LazyDynamo.refuse(facts(uses=(IMPORTS_COMPILER,)))
    assert reason == "the script, or a library it imports, imports torch._dynamo itself"
