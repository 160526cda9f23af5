"""A script that tries to come past its protection: each way is closed, as root and as another user."""

from __future__ import annotations

import sys

import pytest

from ..ground import Ground, as_root, fingerprint

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protection is for Linux"),
    pytest.mark.attack("files"),
]

# As a worker starts: in a process namespace if there is one, then protected.
CONTAINED = """
import signal
from hasten.inside.sandbox import mounts
from hasten.inside.sandbox.containment import contain
admin = mounts.is_admin()
contained = not contain()
protection = protect(asked["folders"], asked["layers"], asked["prelude"], asked["through"])
assert protection.kind == "overlay", protection
if contained and not admin:
    mounts.drop_capabilities()
libc = ctypes.CDLL(None, use_errno=True)
target = os.path.join(asked["folders"][0], "data.txt")
def call(name, *arguments):
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)
def write():
    Path(target).write_text("out")
def program(*words):
    subprocess.run(words, check=True, timeout=20)
"""

# Each tries to reach the real file, and to write "out" into it.
WAYS_OUT = {
    "umount /": "program('umount', '/'); write()",
    "lazy umount /": "program('umount', '-l', '/'); write()",
    "umount of all overlays": "program('umount', '-a', '-t', 'overlay'); write()",
    "umount of the folder": "call('umount2', os.fsencode(os.path.dirname(target)), 2); write()",
    "umount2 of /": "call('umount2', b'/', 2); write()",
    "umount of /proc": "call('umount2', b'/proc', 2); Path('/proc/1/root' + target).write_text('out')",
    "umount of the hidden layers": "call('umount2', os.fsencode(asked['layers']), 2)",
    "root of process 1": "Path('/proc/1/root' + target).write_text('out')",
    "folder of process 1": "os.chdir('/proc/1/cwd'); Path(target).name; Path('data.txt').write_text('out')",
    "descriptors of process 1": "[open(f'/proc/1/fd/{n}', 'w') for n in os.listdir('/proc/1/fd')]",
    "root of the parent": "Path(f'/proc/{os.getppid()}/root' + target).write_text('out')",
    "memory of process 1": "open('/proc/1/mem', 'r+b')",
    "mounts of process 1": "call('setns', os.open('/proc/1/ns/mnt', os.O_RDONLY), 0); write()",
    "nsenter": "program('nsenter', '-t', '1', '-m', 'sh', '-c', f'echo out > {target}')",
    "ptrace of process 1": "call('ptrace', 16, 1, 0, 0)",
    "ptrace by seizing": "call('ptrace', 0x4206, 1, 0, 0)",
    "new mount": "program('mount', '-t', 'tmpfs', 'none', '/mnt')",
    "bind mount": "program('mount', '--bind', '/', '/mnt'); Path('/mnt' + target).write_text('out')",
    "remount of layers": "program('mount', '-o', 'remount,rw', asked['layers'])",
    "new /proc": "program('mount', '-t', 'proc', 'none', '/proc')",
    "user namespace, umount": "program('unshare', '-Urm', 'umount', '-l', '/')",
    "user namespace, umount of the folder": (
        "program('unshare', '-Urm', 'umount', '-l', os.path.dirname(target))"
    ),
    "user namespace, process 1": (
        "program('unshare', '-Urmpf', 'sh', '-c', f'echo out > /proc/1/root{target}')"
    ),
    "user namespace, bind": (
        "program('unshare', '-Urm', 'sh', '-c', f'mount --bind / /mnt && echo out > /mnt{target}')"
    ),
    "chroot and up": """
os.makedirs("jail", exist_ok=True)
outside = os.open("/", os.O_RDONLY)
os.chroot("jail")
os.fchdir(outside)
for _ in range(64):
    os.chdir("..")
os.chroot(".")
Path(target).write_text("out")
os.listdir("/no such folder")
""",
    "file handle": """
handle = (ctypes.c_ubyte * 136)()
ctypes.memmove(handle, (ctypes.c_uint * 1)(128), 4)
mount_id = ctypes.c_int()
folder = os.open("/", os.O_RDONLY)
call("name_to_handle_at", -100, os.fsencode(target), handle, ctypes.byref(mount_id), 0)
descriptor = libc.open_by_handle_at(folder, handle, os.O_WRONLY)
if descriptor < 0:
    raise OSError(ctypes.get_errno(), "open_by_handle_at")
os.write(descriptor, b"out")
""",
    "up from the hidden layers": """
os.chdir(asked["layers"])
for folder, _, names in os.walk("/", onerror=None):
    if "upper0" in folder or folder.count("/") > 6:
        raise SystemExit("the layers are seen")
    if folder.count("/") > 3:
        break
os.listdir("/no such folder")
""",
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_there_is_no_way_out(ground: Ground, way: str) -> None:
    before = fingerprint(ground.project)
    done = ground.start(CONTAINED + WAYS_OUT[way], protected=False)
    assert fingerprint(ground.project) == before
    assert done.returncode != 0, f"nothing stopped it: {done.stdout} {done.stderr}"
    assert "AssertionError" not in done.stderr
    assert "the layers are seen" not in done.stderr


@as_root
@pytest.mark.parametrize("program", ["umount", "mount"])
def test_programs_that_root_starts_get_nothing_back(ground: Ground, program: str) -> None:
    body = """
held = int(next(l.split()[1] for l in open("/proc/self/status") if l.startswith("CapBnd")), 16)
result = [held >> number & 1 for number in (2, 19, 21)]
"""
    assert ground.run(body) == [0, 0, 0]
    assert ground.start(f"subprocess.run([{program!r}, '-l', '/'], check=True)").returncode != 0


@as_root
def test_root_may_do_what_a_training_needs(ground: Ground) -> None:
    """Change owners, read what is closed, set its priority, bind to CPUs."""
    ground.run("""
os.chown("data.txt", 5, 5)
os.chmod("data.txt", 0)
assert Path("data.txt").read_text() == "old\\n"
os.nice(-1)
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.mknod("null", 0o20666, os.makedev(1, 3))
""")
