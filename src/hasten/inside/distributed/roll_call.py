"""Which rank is to blame, where a script that makes its process groups itself cannot go on.

A rank that waits for another in vain learns from torch that it waited, not for whom. So each rank looks now
and then whether another has failed. The first to fail leaves word of that in the store of the job; if it
waited in vain, the others tell where they stand. Whoever fails says what is known then, in one line that
names rank and host. A step does not wait for any of it.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta

import torch.distributed as dist

from ...saying import say
from ..internals.groups import PrefixStore, Store, TCPStore
from ..process.stacks import where_it_stands
from ..seams import Call, Seams
from .nan_losses import watch_losses
from .parting import WAITED

_TURN_SECONDS = 1.0
_ANSWER_SECONDS = 3 * _TURN_SECONDS  # in which all that can have said where they stand
_GRACE_SECONDS = 30.0  # for an end of its own, where another has failed; torchrun's is as long
_STORE = timedelta(seconds=10)
_MOST_STACKS = 4
_FAILED = "failed"
_WITHOUT_STORE = ("mpi", "mpi4py")  # MPI's ranks meet by themselves
_ADDRESS = re.compile(r"\[([0-9a-fA-F.:]+)\]:\d+")
# what backends of torch's, and ours, say where another rank is missing
_OF_BACKENDS = re.compile(r"gloo|nccl|kept rank \d+ waiting|has ended while rank", re.IGNORECASE)
_WAITED = re.compile(r"timed? ?out|kept rank \d+ waiting", re.IGNORECASE)


@dataclass(frozen=True)
class Failure:
    """``why``: an error of its own, in a line; "" if it waited for others in vain."""

    rank: int
    host: str
    why: str


class RollCall:
    """A rank's part in it. Raises dist.DistError if the place where ranks meet cannot be reached."""

    def __init__(self, rank: int, size: int, host: str, port: int) -> None:
        self.rank, self.size, self._here = rank, size, socket.gethostname()
        met = TCPStore(host, port, is_master=False, timeout=_STORE, wait_for_workers=False)
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store: Store = PrefixStore(f"hasten roll call {attempt}", met)
        self._serves = rank == 0
        self._failure: Failure | None = None  # the first of any rank
        self._over = threading.Event()
        self._store.set(f"host/{rank}", json.dumps([self._here, _address_towards(host)]))
        self._thread = threading.Thread(target=self._listen, name="hasten roll call", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """This rank needs the others no longer."""
        self._over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(_ANSWER_SECONDS)

    def loss_is_nan(self, passes: int) -> None:
        """This rank's loss is no number in that backward pass. All others' are from the next step on."""
        with suppress(RuntimeError, OSError):
            word = str(self.rank).encode()
            if not self._over.is_set() and self._store.compare_set("nan", "", word.decode()) == word:
                self._say(
                    f"has a loss that is NaN in its backward pass {passes}, before any other rank: "
                    "the gradients of all are NaN from there on. Look at the batch that it had"
                )

    def failed(self, error: BaseException) -> None:
        """This rank ends by an error: say whose fault it is."""
        if self._over.is_set() or isinstance(error, KeyboardInterrupt):
            return
        text = str(error)
        of_others = isinstance(error, RuntimeError) and _OF_BACKENDS.search(text)
        try:
            if not of_others and not isinstance(error, dist.DistError):
                self._own(_in_a_line(error))
            elif _WAITED.search(text):
                self._waited(text)
            else:
                self._lost(text)
        except (RuntimeError, OSError):
            self._say("cannot go on: the store of rank 0 is gone, with its process, its host or the network")
        self.end()

    # ---- who is to blame
    def _own(self, why: str) -> None:
        self._say(f"failed: {why}")
        self._leave_word(why)
        if self._serves:
            time.sleep(2 * _TURN_SECONDS)  # the store ends with this process

    def _lost(self, text: str) -> None:
        """The connection to another rank broke: its process has ended."""
        self._over.wait(2 * _TURN_SECONDS)  # in which word of it comes
        told = self._word()
        if told is not None and told.rank != self.rank:
            self._blame(told)
            return
        address = _ADDRESS.search(text)
        hosts = self._hosts()
        theirs = [n for n, (_, one) in hosts.items() if address and one == address[1] and n != self.rank]
        who = _listed(theirs, hosts) if theirs else "another rank"
        self._say(f"ended because it has lost {who}, whose process ended, or its host, without a word")

    def _waited(self, text: str) -> None:
        self._leave_word("")
        told = self._word()
        if told is not None and told.why:
            self._blame(told)
            return
        stands = self._stands()
        silent = [rank for rank in range(self.size) if rank != self.rank and rank not in stands]
        others = {rank: stack for rank, stack in stands.items() if stack}
        what = text.partition("\n")[0].rpartition("] ")[2]
        hosts = self._hosts()
        if silent:
            self._say(
                f"waited in vain ({what}): {_listed(silent, hosts)} does not answer: it is stopped or was "
                "killed, or its host is down, or the network to it is cut"
            )
        elif others:
            self._say(f"waited in vain ({what}) for {_listed([*others], hosts)}")
        else:
            self._say(
                f"waited in vain ({what}), as all others did: packets are lost, or too slow, between them"
            )
        for rank, stack in [*others.items()][:_MOST_STACKS]:
            say(f"hasten: where rank {rank} on host {_name(rank, hosts)} stood:\n{stack}", lines=True)

    def _stands(self) -> dict[int, str]:
        """Where each other rank stands that answers; "" for those that waited in vain, too."""
        until, found = time.monotonic() + _ANSWER_SECONDS, dict[int, str]()
        # of several, those that still stand somewhere may be about to find that they waited in vain
        while time.monotonic() < until and (
            len(found) < self.size - 1 or (self.size > 2 and any(found.values()))
        ):
            for rank in range(self.size):
                if rank != self.rank and self._store.check([f"waited/{rank}"]):
                    found[rank] = ""
                elif rank != self.rank and rank not in found and self._store.check([f"stands/{rank}"]):
                    found[rank] = self._store.get(f"stands/{rank}").decode()
            time.sleep(0.1)
        return found

    def _blame(self, told: Failure) -> None:
        self._say(f"ended because of rank {told.rank} on host {told.host}: {told.why}")

    def _say(self, what: str) -> None:
        sys.stdout.flush()
        say(f"hasten: rank {self.rank} of {self.size} on host {self._here} {what}")

    # ---- the store
    def _leave_word(self, why: str) -> None:
        if not why:
            self._store.set(f"waited/{self.rank}", "")
        word = json.dumps(asdict(Failure(self.rank, self._here, why)))
        self._store.compare_set(_FAILED, "", word)

    def _word(self) -> Failure | None:
        if self._failure is None and self._store.check([_FAILED]):
            self._failure = Failure(**json.loads(self._store.get(_FAILED)))
        return self._failure

    def _hosts(self) -> dict[int, tuple[str, str]]:
        """Name and address of each rank's host."""
        found = dict[int, tuple[str, str]]()
        for rank in range(self.size):
            if self._store.check([f"host/{rank}"]):
                name, address = json.loads(self._store.get(f"host/{rank}"))
                found[rank] = (name, address)
        return found

    def _listen(self) -> None:
        """Until the first failure: whoever waited in vain is told where this rank stands. A rank that
        stands there still some time later is ended: not every launcher does that.
        """
        with suppress(RuntimeError, OSError):  # rank 0 has ended
            while not self._over.wait(_TURN_SECONDS):
                told = self._word()
                if told is None:
                    continue
                if not told.why and told.rank != self.rank:
                    self._store.set(f"stands/{self.rank}", where_it_stands())
                break
        told = self._failure
        if told is not None and told.rank != self.rank and not self._over.wait(_GRACE_SECONDS):
            who = f"rank {told.rank} on host {told.host}"
            self._say(f"is ended: it has not ended within {_GRACE_SECONDS:g} s after {who} did")
            os._exit(WAITED)


class Rolls:
    """Calls the roll from the first process group on, where the environment says where ranks meet."""

    def __init__(self, seams: Seams) -> None:
        self._made: RollCall | None = None
        for owner in (dist, dist.distributed_c10d):
            seams.replace(owner, "init_process_group", self._beginning)
            seams.replace(owner, "destroy_process_group", self._ending)
        watch_losses(seams, self._loss_is_nan)

    def script_failed(self, error: BaseException) -> None:
        if self._made is not None:
            self._made.failed(error)

    def _loss_is_nan(self, passes: int) -> None:
        if self._made is not None:
            self._made.loss_is_nan(passes)

    def _beginning(self, original: Call) -> Call:
        def init_process_group(*args: object, **options: object) -> object:
            result = original(*args, **options)
            if self._made is None and dist.get_world_size() > 1 and _by_environment(args, options):
                with suppress(RuntimeError, OSError, KeyError, ValueError):  # it only explains failures
                    self._made = _begun(os.environ)
                    atexit.register(self._made.end)
            return result

        return init_process_group

    def _ending(self, original: Call) -> Call:
        def destroy_process_group(*args: object, **options: object) -> object:
            if self._made is not None and not (args or options):
                self._made.end()
            return original(*args, **options)

        return destroy_process_group


def _by_environment(args: Sequence[object], options: Mapping[str, object]) -> bool:
    """Whether a group's ranks have met at a store where the environment says."""
    method = args[1] if len(args) > 1 else options.get("init_method")
    with_store = len(args) > 5 or options.get("store") is not None
    return method in (None, "env://") and not with_store and dist.get_backend() not in _WITHOUT_STORE


def _begun(environment: Mapping[str, str]) -> RollCall:
    place = environment["MASTER_ADDR"], int(environment["MASTER_PORT"])
    return RollCall(dist.get_rank(), dist.get_world_size(), *place)


def _address_towards(host: str) -> str:
    """This host's address where it speaks with that one; nothing is sent."""
    with suppress(OSError):
        family, kind, _, _, place = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as towards:
            towards.connect(place)
            return str(towards.getsockname()[0])
    return ""


def _in_a_line(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"its script ended with exit code {error.code}"
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _name(rank: int, hosts: Mapping[int, tuple[str, str]]) -> str:
    return hosts[rank][0] if rank in hosts else "unknown"


def _listed(ranks: list[int], hosts: Mapping[int, tuple[str, str]]) -> str:
    named = [f"rank {rank} on host {_name(rank, hosts)}" for rank in ranks[:_MOST_STACKS]]
    rest = len(ranks) - len(named)
    return ", ".join(named) + (f" and {rest} more" if rest else "")
