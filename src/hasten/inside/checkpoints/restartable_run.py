"""Brings a run to its last checkpoint, where there is one, and follows it from there on."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import FrameType, ModuleType
from typing import Any, NoReturn

from ...records.run_checkpoints import RunCheckpoints
from ...saying import say
from ..job import Job
from ..process.forked_children import spare_cuda_objects
from ..random_state import seed_before_imports
from ..seams import Seams
from ..source_files import SourceFiles
from . import store
from .cannot import Cannot, Diverged, told, why_not_continued
from .choosing import Chosen, check_torch, choose, made_by
from .course import Course
from .following import Recording
from .graphs import saved_in_graphs, with_graph
from .heap import Found, Heap
from .image import Images, Restoring
from .muted_output import Files, Muted
from .of_ranks import Roles
from .own_modules import OwnModules
from .playing import Playing
from .random_numbers import compare_rng_states, compare_samples, digests
from .repeating import Repeated
from .same_step import SameStep
from .schedule import schedule_of
from .script_journal import Reader, Writer
from .seams_of_course import SeamsOfCourse
from .stopping import Stopping
from .unnamed_tensors import GivenToWorkers, digests_of_others
from .writing import Background
from .written_list import WrittenList

_TAIL_SECONDS = 5.0
_TRIES = 20  # ends of steps at which something could still be gone backward through
_NOT_CONTINUED = 2  # exit code


class Keeper:
    """Created before the script starts. ``begin``, then ``torch_came``, and ``script_ended`` at last."""

    def __init__(self, job: Job, asked: RunCheckpoints, seams: Seams, sources: SourceFiles) -> None:
        self._job, self._asked, self._seams, self._sources = job, asked, seams, sources
        self._optimizers: list[weakref.ref[Any]] = []
        self._models: list[weakref.ref[Any]] = []  # those called
        self._home, digests = os.getcwd(), dict[str, str]()  # the script may go elsewhere, and change
        self._made_by = partial(made_by, job, sources, digests, self._home)
        self._muted: Muted | None = None
        self._tries = 0
        self._tail_time = time.perf_counter()
        self._schedule = schedule_of(asked)
        self._looked = self._stopped = False
        self._clock = time.perf_counter
        self.plays = False  # the script is on its way to the last checkpoint
        self.on_landing: Callable[[], None] = lambda: None
        self.roles = Roles()  # of a rank of ours: as whom it comes to the checkpoint

    # ---- the beginning
    def begin(self) -> None:
        """Before anything of the script runs. Ends the process where it cannot be continued."""
        folder = self._asked.own_folder
        fresh = not os.path.isdir(folder)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._lock = store.lock(folder)
            store.remove_unfinished(folder)
            self._chosen = choose(self._asked, self._job, self._home, fresh)
            self._schedule.begin()
        except OSError as error:
            self._stop(Cannot(f"{folder} cannot be used for checkpoints: {error.strerror}"))
        except Cannot as error:
            self._stop(error)
        chosen = self._chosen
        self.plays = chosen is not None
        self._made_by()  # what runs, not what the files become meanwhile
        self._background = Background(self._asked, chosen.segments if chosen is not None else [])
        self._writer = Writer(len(chosen.journal) if chosen is not None else 0)
        self._course = Course(None, self._mode(chosen))
        self._files = Files(self._seams, self.plays, self._stop, WrittenList(folder), self._course.aside)
        self._stopping = Stopping(self._waits)
        self._stopping.install(self._seams)
        seed_before_imports(self._asked.own_seed)
        self.course_seams = SeamsOfCourse(self._course, self._seams, self._give_up)
        self.course_seams.install_clocks(self._sources.is_local, self._skips_sleep)
        self.course_seams.install_temporary_folders()
        self._files.install(self._sources.is_local)

    def _skips_sleep(self) -> bool:
        return self._files.playing and threading.current_thread() is threading.main_thread()

    def _mode(self, chosen: Chosen | None) -> Any:
        self._recording = Recording(self._course_of, self._writer, self._boundary)
        self._recording.on_failure(self._give_up)
        if chosen is None:
            return self._recording
        header = chosen.checkpoint.header
        self._say_once(
            f"going on after step {chosen.checkpoint.step:,} in {self._asked.folder}; what the "
            "script did before is played back, without what it printed"
        )
        self._muted = Muted()
        self._began = self._clock()
        self._playing = Playing(
            self._course_of, Reader(chosen.journal), header["boundary"], self._land, self._stop
        )
        self._playing.optimizers = self._living
        self._playing.roles = self.roles = Roles(chosen.roles)
        return self._playing

    def _course_of(self) -> Course:
        return self._course

    def torch_came(self, torch: ModuleType) -> None:
        self._torch = self._course.torch = torch
        spare_cuda_objects(torch)
        torch.manual_seed(self._asked.own_seed)
        is_own = OwnModules(self._sources).is_own
        self._heap = Heap(torch, is_own, self._sources.is_local, self._files.follows)
        self._images = Images(torch, self._heap)
        self._recording.torch_came(torch)
        self._files.install_saves(torch)
        self.course_seams.install(torch, self._optimizers, self._models)
        step = self._chosen.checkpoint.step if self._chosen is not None else 0
        SameStep(self._asked, step, self._stop).install(torch, self._seams)
        if self._chosen is not None:
            self._playing.torch_came(torch)
            try:
                made = self._chosen.checkpoint.header["made_by"]
                check_torch(made, str(torch.__version__), self._asked.own_folder)
            except Cannot as error:
                self._stop(error)

    def _living(self) -> list[Any]:
        self._optimizers[:] = [ref for ref in self._optimizers if ref() is not None]
        return [ref() for ref in self._optimizers]

    def _look(self, frame: FrameType) -> Found:
        self._models[:] = [ref for ref in self._models if ref() is not None]
        return self._heap.look(frame, self._living(), [ref() for ref in self._models])

    # ---- between two steps, recording
    def _waits(self) -> bool:
        """Whether a signal is to wait for the end of a step."""
        return not self._course.off and self._course.mode is self._recording

    def _boundary(self, kind: str) -> None:
        try:
            with self._course:
                self._between_steps(kind, sys._getframe())
        except Exception as error:
            self._give_up(error)
        if self._stopped:
            self._stopping.go()

    def _between_steps(self, kind: str, frame: FrameType) -> None:
        now = self._clock()
        if not self._looked:
            self._looked = True
            self._schedule.training_begins()
            self._made_by()
            self._images.first_look(frame, self._living())
        if self._background.lost:
            self._course.off = True
        elif self._schedule.is_due(self._recording.steps, self._background.busy, self._stopping.asked):
            self._take(kind, frame)
        elif now - self._tail_time > _TAIL_SECONDS:
            self._tail_time = now
            self._background.tail(self._writer.take())

    def _take(self, kind: str, frame: FrameType) -> None:
        gc.collect()  # what was dropped is gone at the same time in each run
        found = self._look(frame)
        held = with_graph(found.tensors.items())
        if held and self._tries < _TRIES:  # the end of another step may do without
            self._tries += 1
            return
        image = self._images.take(found, self._living())
        self._tries = 0
        self._recording.settle(always=True)
        image.header |= {
            "boundary": kind,
            "random": digests(self._torch),
            "others": sorted(digest for digest, _ in self._others(found)),
            **self._files.state(),
            "drawn": self._course.drawn,
            "made_by": self._made_by(),
            "roles": self.roles.as_json(),
        }
        self._schedule.took(self._recording.steps)
        self._background.submit(self._recording.steps, image, self._writer.take())
        if self._schedule.stops:
            self._background.wait()
            self._schedule.wait_for_others(self._recording.steps)
            self._stopped = True
            self._say_once(f"stopped after step {self._recording.steps:,}; start again to go on from there")

    def _give_up(self, error: Exception) -> None:
        """The training goes on as without us."""
        self._course.off = True
        say(f"hasten: this training cannot be continued from a checkpoint and goes on without: {told(error)}")
        if self._stopping.asked:
            self._stopping.go()

    # ---- where the last checkpoint was taken, playing
    def _land(self) -> None:
        chosen = self._chosen
        assert chosen is not None
        header = chosen.checkpoint.header
        try:
            with self._course:
                gc.collect()
                compare_rng_states(header["random"], digests(self._torch))
                compare_samples(header["drawn"], self._course.drawn)
                self._put_back(chosen.checkpoint)
                self._compare_others(Counter(header["others"]))
                self._files.go_on(header, self._playing.made_again, chosen.written_by_others)
                self.roles.landed()
        except Exception as error:
            self._stop(error)
        self._unmute()
        seconds = self._clock() - self._began
        self._say_once(f"at step {chosen.checkpoint.step:,} again, after {seconds:.1f} s; training goes on")
        self._recording.steps = chosen.checkpoint.step
        self._schedule.took(chosen.checkpoint.step)
        self._recording.went_backward = True
        self._recording.ahead = self._playing.ahead()
        self._recording.check = Repeated(chosen.tail, self._recording, self._stop).check
        store.remove_tail(self._asked.own_folder, chosen.checkpoint.step)
        self._course.mode = self._recording
        self._chosen, self.plays = None, False
        self.on_landing()

    def _put_back(self, checkpoint: store.Checkpoint) -> None:
        restoring = Restoring(self._torch, checkpoint.header, checkpoint.body)
        given = GivenToWorkers(self._torch)
        restoring.put_back(self._look(sys._getframe()), self._living())
        given.compare()

    def _others(self, found: Found, *ours: Any) -> list[tuple[int, str]]:
        graphs = saved_in_graphs(found.tensors.values())  # which nothing can go through without being told
        return digests_of_others(self._torch, found, (one.state for one in self._living()), (*ours, *graphs))

    def _compare_others(self, before: Counter[int]) -> None:
        """What no name leads to was not put back."""
        self._playing.forget()
        gc.collect()
        found = self._look(sys._getframe())
        now = self._others(found, self._playing.anchor)
        more = Counter(digest for digest, _ in now) - before
        new = [about for digest, about in now if digest in more]
        if new:
            raise Diverged(
                f"{len(new)} tensors ({new[0]}) that no name leads to have other values than they "
                "had: a library keeps them"
            )

    def _say_once(self, text: str) -> None:
        """For all ranks."""
        if self._asked.rank == 0:
            say(f"hasten: {text}")

    def _unmute(self) -> None:
        if self._muted is not None:
            self._muted.end()
            self._muted = None

    def _stop(self, error: Exception) -> NoReturn:
        """Nothing was trained yet, and nothing written."""
        self._unmute()
        say(f"hasten: {why_not_continued(error)}")
        os._exit(_NOT_CONTINUED)

    # ---- the end
    def watching_failed(self, why: str) -> None:
        """What the plan needs is gone, and our seams with it."""
        self._stop(Cannot(why)) if self.plays else self._give_up(Cannot(why))

    def script_ended(self, error: BaseException | None) -> None:
        """By itself, or with ``error``."""
        if self._muted is not None:
            how = f"failed ({type(error).__name__}: {error})" if error is not None else "ended"
            self._stop(Diverged(f"the script {how} before it came to the step again"))
        self._background.wait()
        if not (self._recording.steps or self._course.off):
            say("hasten: no optimizer's step was seen in this process, so no checkpoint was written")
