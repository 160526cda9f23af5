"""Scripts that do what honest scripts do now and then, and what a program around them may stumble over."""

from __future__ import annotations

from dataclasses import dataclass

STEPS = 30  # that each trains, unless it ends before
_HEAD = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
"""


@dataclass(frozen=True)
class Hostile:
    """``ends``: "completed", or what is in the message that tells of its end. ``quick``: it is tried wherever
    anything is.
    """

    before: str = ""  # torch is imported
    midst: str = ""  # of the training
    after: str = ""
    ends: str = "completed"
    quick: bool = False

    @property
    def source(self) -> str:
        half = STEPS // 2
        return f"{self.before}\n{_HEAD}\ntrain({half})\n{self.midst}\ntrain({half})\n{self.after}\n"


_BROKEN = "def broken(*args, **kwargs):\n    raise RuntimeError('not for you')\n"
_FORK = "import os\nchild = os.fork()\nif not child:\n    {}\n    os._exit(0)\nos.waitpid(child, 0)"
_IN_A_THREAD = (
    "import threading\nother = threading.Thread(target=train, args=(5,))\nother.start()\nother.join()"
)
_LIMITS = (
    "import resource\nfor what in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):\n"
    "    resource.setrlimit(what, (0, 0))"
)
HOSTILE = {
    # ---- replaces what we need
    "json": Hostile(
        before="import json\njson.dumps = json.loads = json.JSONEncoder.default = None", quick=True
    ),
    "socket": Hostile(
        before=f"{_BROKEN}import socket\n"
        "for name in ('send', 'sendall', 'recv', 'settimeout', 'close'):\n"
        "    setattr(socket.socket, name, broken)",
        quick=True,
    ),
    "os": Hostile(midst="import os\nos.kill = os.getppid = os.close = os.read = os.write = os.fork = None"),
    "os.getcwd": Hostile(midst=f"{_BROKEN}import os\nos.getcwd = os.path.relpath = os.path.isabs = broken"),
    "the clocks": Hostile(
        midst="import time\ntime.time = time.monotonic = time.perf_counter = time.sleep = lambda *_: 0"
    ),
    "sys.exit": Hostile(midst="import sys\nsys.exit = exit = quit = None"),
    "os._exit": Hostile(midst="import os\nos._exit = lambda code: None"),
    "builtins.print": Hostile(before="import builtins\nbuiltins.print = lambda *a, **k: None"),
    "threading": Hostile(
        midst=f"{_BROKEN}import threading\nthreading.Thread.start = threading.Lock = broken"
    ),
    "sys.modules": Hostile(
        midst="import sys\nkept = dict(sys.modules)\nsys.modules.clear()",
        ends="the script raised",
        quick=True,
    ),
    "torch.Tensor.backward": Hostile(
        midst="plain = torch.Tensor.backward\n"
        "torch.Tensor.backward = lambda self, *args, **kwargs: plain(self, *args, **kwargs)"
    ),
    "Module.__call__": Hostile(
        midst="plain = torch.nn.Module.__call__\n"
        "torch.nn.Module.__call__ = lambda self, *args, **kwargs: plain(self, *args, **kwargs)"
    ),
    "Module.__call__ before": Hostile(
        before="import torch\nplain = torch.nn.Module.__call__\n"
        "torch.nn.Module.__call__ = lambda self, *args, **kwargs: plain(self, *args, **kwargs)"
    ),
    "signal.signal": Hostile(before="import signal\nsignal.signal = signal.alarm = None"),
    # ---- streams and descriptors
    "sys.stdout": Hostile(before="import sys, io\nsys.stdout = io.StringIO()\nsys.stderr = None", quick=True),
    "a stream without flush": Hostile(
        before="import sys\nclass Bare:\n    def write(self, text):\n        return 0\n"
        "sys.stdout = sys.stderr = Bare()",
        quick=True,
    ),
    "closes its streams": Hostile(midst="import sys\nsys.stdout.close()\nsys.stderr.close()", quick=True),
    "closes all descriptors": Hostile(
        midst="import os\nos.closerange(3, 4096)",
        ends="closed the connection to hasten|ended with exit code 0",  # whichever is seen first
        quick=True,
    ),
    "half characters": Hostile(
        midst="import sys\nsys.stdout.reconfigure(errors='surrogatepass')\nprint('\\udcff')"
    ),
    "prints much": Hostile(midst="import sys\nfor _ in range(200):\n    sys.stdout.write('x' * 2**16)"),
    # ---- processes and signals
    "os._exit in its midst": Hostile(midst="import os\nos._exit(3)", ends="ended with exit code 3"),
    "kills itself": Hostile(
        midst="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        ends="was killed by SIGKILL",
        quick=True,
    ),
    "a signal of its own": Hostile(
        midst="import os, signal\nos.kill(os.getpid(), signal.SIGRTMIN + 3)", ends="was killed by signal"
    ),
    "aborts": Hostile(midst="import os\nos.abort()", ends="was killed by SIGABRT"),
    "forks": Hostile(midst=_FORK.format("pass")),
    "a child that trains": Hostile(midst=_FORK.format("train(5)")),
    "daemonizes": Hostile(
        before="import os\nif os.fork():\n    os._exit(0)\nos.setsid()", ends="ended with exit code 0"
    ),
    "becomes another": Hostile(
        midst="import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'pass'])",
        ends="ended with exit code 0",
    ),
    "ignores signals": Hostile(
        before="import signal\nfor name in ('SIGTERM', 'SIGINT', 'SIGHUP', 'SIGCHLD'):\n"
        "    signal.signal(getattr(signal, name), signal.SIG_IGN)"
    ),
    "limits itself": Hostile(midst=_LIMITS),
    # ---- folders and files
    "another folder": Hostile(midst="import os\nos.chdir('/')"),
    "its folder is gone": Hostile(
        midst="import os, tempfile\nfolder = tempfile.mkdtemp()\nos.chdir(folder)\nos.rmdir(folder)\n"
        "print('x')",
        quick=True,
    ),
    "its own file": Hostile(midst="import os\nos.remove(__file__)"),
    # ---- the interpreter
    "traces": Hostile(before="import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)"),
    "no garbage": Hostile(before="import gc\ngc.disable()\ngc.freeze()"),
    "recursion": Hostile(
        midst="import sys\nsys.setrecursionlimit(400)\ndef deep():\n    deep()\ntry:\n    deep()\n"
        "except RecursionError:\n    pass"
    ),
    "too deep": Hostile(midst="def deep():\n    deep()\ndeep()", ends="raised RecursionError"),
    "warnings": Hostile(before="import warnings\nwarnings.simplefilter('error')"),
    "atexit": Hostile(midst="import atexit\natexit.register(lambda: 1 / 0)"),
    "an own hook": Hostile(
        before="import sys\nsys.excepthook = None",
        after="raise ValueError('mine')",
        ends="raised ValueError: mine",
    ),
    "__del__": Hostile(midst="class Bad:\n    def __del__(self):\n        1 / 0\nBad()"),
    # ---- threads
    "two threads": Hostile(midst=_IN_A_THREAD, quick=True),
    "a thread that goes on": Hostile(
        midst="import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    ),
    # ---- ends
    "exits with a text": Hostile(
        midst="import sys\nsys.exit('need a dataset')", ends="the script stopped by itself: need a dataset"
    ),
    "exits with an object": Hostile(midst="raise SystemExit([1, 2])", ends=r"stopped by itself: \[1, 2\]"),
    "exits with 256": Hostile(midst="raise SystemExit(256)", ends="completed early"),
    "exits with -1": Hostile(midst="raise SystemExit(-1)", ends="ended with exit code 255"),
    "a base exception": Hostile(
        before="class Mine(BaseException):\n    pass",
        midst="raise Mine('so there')",
        ends="raised .*Mine: so there",
    ),
    "GeneratorExit": Hostile(midst="raise GeneratorExit('so there')", ends="raised GeneratorExit"),
    "KeyboardInterrupt": Hostile(midst="raise KeyboardInterrupt", ends="raised KeyboardInterrupt"),
    "an error without words": Hostile(
        before="class Silent(Exception):\n    def __str__(self):\n        raise RuntimeError",
        midst="raise Silent",
        ends="Silent",
    ),
    "a loop of causes": Hostile(
        midst="one, two = ValueError('one'), ValueError('two')\none.__cause__ = two\n"
        "two.__cause__ = one\nraise one",
        ends="raised ValueError: one",
    ),
}
