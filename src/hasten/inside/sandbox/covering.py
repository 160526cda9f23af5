"""Mount overlays in a mount namespace of this process, whose writes go into separate folders: layers.

Two ways. ``cover_everything`` builds a second root of overlays over every mounted file system, and
makes it this process' root; that needs root. ``cover_places`` mounts an overlay over each of some folders.

``through`` are folders that are written directly. Sockets of other programs stay reachable. Both functions
return where the writes of each place go, and raise OSError if the kernel refuses; then this process must
end.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from . import mounts, reach

Uppers = dict[str, str]
"""A place, by its absolute real path -> where its writes go."""


def cover_everything(
    folders: Sequence[str], layers: str, prelude: Mapping[str, str], through: Sequence[str]
) -> Uppers:
    """``folders`` must lie in an overlay; any other file system that cannot have one stays visible,
    read-only.
    """
    mounts.leave_shared_mounts()
    found = reach.seen_mounts()
    needed = {mounts.holder(folder, found).point for folder in folders}
    with _own_folder(layers) as own:
        os.mkdir("root")
        covering = _Covering("root", prelude)
        covering.prepare("/")
        covering.lay("/", needed=True)
        for mount in found:
            if mount.point != "/" and reach.is_file_system(mount) and os.path.lexists(mount.point):
                covering.cover(mount.point, needed=mount.point in needed)
        for system in reach.SYSTEM:
            if os.path.isdir(system):
                mounts.bind_with_mounts(system, f"root{system}")
        for folder in folders:
            if _is_below_any(folder, reach.SYSTEM):  # in /dev/shm
                covering.cover(folder, needed=True)
        for mount in found:
            if not reach.is_file_system(mount) and not _is_below_any(mount.point, reach.SYSTEM):
                with suppress(OSError):  # its mount point may not be visible
                    mounts.bind(mount.point, f"root{mount.point}")
        covering.hold(through, reach.sockets())
        covering.open_ways(layers)
        mounts.make_root("root")
    return covering.uppers(own)


def cover_places(
    folders: Sequence[str],
    others: Sequence[str],
    layers: str,
    prelude: Mapping[str, str],
    through: Sequence[str],
) -> Uppers:
    """``folders`` must be covered, with what is mounted below them; ``others`` are covered if the kernel lets
    us.
    """
    mounts.leave_shared_mounts()
    with _own_folder(layers) as own:
        covering = _Covering("", prelude)
        needed = [place for folder in folders for place in (folder, *_mounted_below(folder))]
        for place in needed:
            covering.prepare(place)
        prepared = [place for place in others if place not in needed and covering.try_to_prepare(place)]
        covering.hold(through, reach.sockets())
        for place in sorted(
            [*needed, *prepared], key=lambda place: place.split("/")
        ):  # one may lie in another
            covering.lay(place, needed=place in folders)
        covering.open_ways(layers)
    return covering.uppers(own)


@contextmanager
def _own_folder(layers: str) -> Iterator[str]:
    """Work in a new folder in ``layers``, where the names of layers are short and relative, and need no
    escaping as mount options. Afterwards the former directory may be beneath an overlay.
    """
    cwd = os.getcwd()
    own = tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=os.path.realpath(layers))
    os.chdir(own)
    yield own
    os.chdir(cwd)


def _mounted_below(folder: str) -> list[str]:
    points = [mount.point for mount in reach.seen_mounts()]
    return [point for point in points if point != folder and mounts.below(point, folder)]


def _is_below_any(path: str, folders: Sequence[str]) -> bool:
    return any(mounts.below(path, folder) for folder in folders)


class _Covering:
    """Overlays under construction. The working directory is the folder for layers; ``root`` is where the
    covered tree is built, "" for in place.
    """

    def __init__(self, root: str, prelude: Mapping[str, str]) -> None:
        self._root = root
        self._prelude = {place: os.path.abspath(path) for place, path in prelude.items()}
        self._numbers: dict[str, int] = {}
        self._laid: list[str] = []
        self._held: dict[str, str] = {}  # path -> the name under which it is kept uncovered

    def uppers(self, own: str) -> Uppers:
        """Raises OSError if a prelude could not be laid."""
        left_over = sorted(set(self._prelude) - set(self._laid))
        if left_over:
            raise OSError(f"what an earlier worker wrote below {left_over[0]} cannot be shown there again")
        return {place: os.path.join(own, f"upper{self._numbers[place]}") for place in self._laid}

    def cover(self, place: str, needed: bool) -> None:
        if needed:
            self.prepare(place)
            self.lay(place, needed)
        elif self.try_to_prepare(place):
            self.lay(place, needed)

    def try_to_prepare(self, place: str) -> bool:
        try:
            self.prepare(place)
        except OSError:  # it is gone, or we may not see it
            return False
        return True

    def prepare(self, place: str) -> None:
        """Create the layers of a place, and bind it elsewhere: a covered folder hides the mounts below it."""
        number = self._numbers[place] = len(self._numbers)
        lower, upper = f"lower{number}", f"upper{number}"
        os.mkdir(upper)
        os.mkdir(f"work{number}")
        if os.path.isdir(place):
            os.mkdir(lower)
            _look_like(upper, place)
        else:
            open(lower, "x").close()
        try:
            mounts.bind(place, lower)
        except OSError as refused:
            inner = _mounted_below(place)
            if not inner:
                raise
            why = (
                f"{place} cannot be protected: something is mounted below it, at {inner[0]}, which takes root"
            )
            raise OSError(f"{why} ({refused})") from None
        if place in self._prelude:  # now: later its path may lead through an overlay
            os.mkdir(f"prelude{number}")
            mounts.bind(self._prelude[place], f"prelude{number}")

    def lay(self, place: str, needed: bool) -> None:
        """Cover a place with its overlay. A mount that cannot have one, such as a file, becomes read-only;
        pipes, sockets and devices stay.
        """
        number, target = self._numbers[place], self._root + place
        lower = f"lower{number}"
        layers = [lower]  # the uppermost first
        if place in self._prelude:
            if mounts.below(self._prelude[place], place):  # the kernel refuses a layer within another
                os.mkdir(f"empty{number}")
                mounts.mount_scratch(f"empty{number}")
                os.mkdir(f"merged{number}")
                mounts.merge(f"merged{number}", [lower, f"empty{number}"])
                layers = [f"merged{number}"]
            layers.insert(0, f"prelude{number}")
        try:
            if not needed and os.statvfs(lower).f_flag & os.ST_RDONLY:
                mounts.bind_read_only(lower, target)
            elif not needed and not os.path.isdir(lower):
                is_file = stat.S_ISREG(os.stat(lower).st_mode)
                (mounts.bind_read_only if is_file else mounts.bind)(lower, target)
            else:
                mounts.overlay(target, layers, f"upper{number}", f"work{number}")
                self._laid.append(place)
        except OSError as refused:
            if needed:
                here = os.getcwd()
                raise OSError(f"{refused} (overlay, layers on {mounts.kind_at(here)} in {here})") from None
            with suppress(OSError):  # it is gone
                mounts.bind_read_only(lower, target)
        for layer in {lower, *layers}:
            mounts.detach(layer)  # the overlay holds it itself; now no path leads to the real files

    def hold(self, folders: Sequence[str], sockets: Sequence[str]) -> None:
        """Keep these reachable as they are, before they are covered."""
        for number, path in enumerate(folders):
            os.mkdir(name := f"held{number}")
            mounts.bind(path, name)
            self._held[path] = name
        for number, path in enumerate(sockets, len(folders)):
            open(name := f"held{number}", "x").close()
            with suppress(OSError):  # it is already gone
                mounts.bind(path, name)
                self._held[path] = name

    def open_ways(self, layers: str) -> None:
        """Show the held paths in their places, and nothing else of ``layers``."""
        hidden = os.path.realpath(layers)
        mounts.mount_scratch(self._root + hidden)
        for path, name in self._held.items():
            target = self._root + path
            if mounts.below(path, hidden):
                os.makedirs(target, exist_ok=True)
            if os.path.isdir(name):
                mounts.bind(name, target)
            else:
                with suppress(OSError):  # it is in a place that is covered in another way
                    mounts.bind(name, target)
            mounts.detach(name)
        mounts.make_read_only(self._root + hidden)


def _look_like(upper: str, place: str) -> None:
    """The top of an overlay shows the owner, mode and times of its upper."""
    found = os.stat(place)
    with suppress(OSError):  # only root may change its owner
        os.chown(upper, found.st_uid, found.st_gid)
    writable = 0o777 if os.access(place, os.W_OK) else 0o555
    os.chmod(upper, stat.S_IMODE(found.st_mode) & (0o7000 | writable))
    os.utime(upper, ns=(found.st_atime_ns, found.st_mtime_ns))
