"""What a protected process writes stays away from the real files. Each test starts one, as root and not."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from hasten.inside.sandbox import landlock, mounts
from hasten.inside.sandbox.overlay_folders import remove_layers

from ...thorough import cases
from ..ground import (
    Ground,
    as_root,
    as_user,
    fingerprint,
    in_own_mounts,
    mount,
    sources_for,
)
from ..users import NOBODY, python_for

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protection is for Linux"),
    pytest.mark.attack("files"),
]

# Each changes the folder it runs in, and reads back what it did.
WRITERS = {
    "open": "Path('data.txt').write_text('new'); assert Path('data.txt').read_text() == 'new'",
    "new file": "Path('new.txt').write_text('new'); assert 'new.txt' in os.listdir()",
    "append": "open('data.txt', 'a').write('new'); assert Path('data.txt').read_text() == 'old\\nnew'",
    "absolute path": "Path(asked['folders'][0], 'n').write_text('new'); assert 'n' in os.listdir()",
    "rename": "os.rename('data.txt', 'r'); assert Path('r').exists() and not Path('data.txt').exists()",
    "replace": "Path('t').touch(); os.replace('t', 'data.txt'); assert Path('data.txt').read_text() == ''",
    "remove": "os.remove('data.txt'); assert not Path('data.txt').exists()",
    "makedirs": "os.makedirs('a/b/c'); Path('a/b/c/f').touch(); assert os.listdir('a/b/c') == ['f']",
    "rmtree": "shutil.rmtree('dir'); assert not Path('dir').exists()",
    "new directory for old": "shutil.rmtree('dir'); os.mkdir('dir'); assert os.listdir('dir') == []",
    "symlink": "os.symlink('data.txt', 's'); assert Path('s').read_text() == 'old\\n'",
    "through a symlink": "Path('link').write_text('new'); assert Path('data.txt').read_text() == 'new'",
    "hard link": "os.link('data.txt', 'h'); assert Path('h').read_text() == 'old\\n'",
    "chmod": "os.chmod('data.txt', 0o600); assert Path('data.txt').stat().st_mode & 0o777 == 0o600",
    "utime": "os.utime('data.txt', (1, 1)); assert Path('data.txt').stat().st_mtime == 1",
    "truncate": "os.truncate('bytes.bin', 7); assert Path('bytes.bin').stat().st_size == 7",
    "mmap": """
with open("bytes.bin", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
    memory[4096:4099] = b"new"
assert Path("bytes.bin").read_bytes()[4096:4099] == b"new"
""",
    "sqlite": """
database = sqlite3.connect("log.db")
database.execute("PRAGMA journal_mode=WAL")
with database:
    database.execute("INSERT INTO log VALUES ('new')")
database.close()
assert sqlite3.connect("log.db").execute("SELECT * FROM log").fetchall() == [("old",), ("new",)]
""",
    "subprocess": """
subprocess.run(["sh", "-c", "echo new > data.txt"], check=True)
assert Path("data.txt").read_text() == "new\\n"
""",
    "C": """
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(b"data.txt", b"w"))
assert libc.fwrite(b"new", 1, 3, file) == 3 and libc.fclose(file) == 0
assert Path("data.txt").read_text() == "new"
""",
}


def mount_overlay_for_layers(ground: Ground) -> None:
    """Put the layers where they cannot work: as in a container, whose own files are an overlay."""
    parts = {part: ground.base / part for part in ("lowerdir", "upperdir", "workdir")}
    for path in parts.values():
        path.mkdir()
    options = ",".join(f"{part}={path}" for part, path in parts.items())
    mount("-t", "overlay", "none", ground.layers, "-o", options)


@pytest.mark.parametrize("writer", WRITERS)
def test_writes_are_read_back_and_leave_the_files_alone(ground: Ground, writer: str) -> None:
    before = fingerprint(ground.project)
    ground.run(WRITERS[writer])
    assert fingerprint(ground.project) == before


@pytest.mark.parametrize("writer", cases(WRITERS, {"open", "mmap", "sqlite", "C"}))
@as_user
def test_every_writer_would_change_the_files(ground: Ground, writer: str) -> None:
    before = fingerprint(ground.project)
    ground.run(WRITERS[writer], protected=False)
    assert fingerprint(ground.project) != before


@as_root
@pytest.mark.skipif(
    "sys.platform == 'linux' and mounts.in_user_namespace()",
    reason="the kernel allows it only outside user namespaces",
)
def test_root_can_rename_a_directory_that_was_there_before(ground: Ground) -> None:
    before = fingerprint(ground.project)
    kept = str(ground.layers / "kept")
    look = "assert os.listdir('moved') == ['inner.txt'] and not os.path.exists('dir')"
    place, upper = ground.run(f"os.rename('dir', 'moved'); {look}; result = [place, upper]")
    ground.run(f"keep({upper!r}, {kept!r})", protected=False)
    ground.run(look, prelude={place: kept})
    assert fingerprint(ground.project) == before


@as_root
def test_folder_keeps_its_owner(ground: Ground) -> None:
    try:
        os.chown(ground.project, NOBODY, NOBODY)
    except OSError:
        pytest.skip("files cannot be given to another user here")
    assert ground.run("found = os.stat('.'); result = [found.st_uid, found.st_gid]") == [NOBODY, NOBODY]


def test_working_directory_is_beneath_the_protection(ground: Ground) -> None:
    before = fingerprint(ground.project)
    inside = ground.project / "dir"
    body = "Path('x').write_text('new'); Path('..', 'y').touch(); result = [os.getcwd(), os.listdir()]"
    cwd, names = ground.run(body, cwd=inside)
    assert (cwd, sorted(names)) == (str(inside), ["inner.txt", "x"])
    assert fingerprint(ground.project) == before


def test_several_folders_are_protected_once_each(ground: Ground) -> None:
    other = ground.base / "other"
    ground.populate(other)
    before = fingerprint(ground.project), fingerprint(other)
    wanted = [str(ground.project / "dir"), str(ground.project), str(other), f"{other}/../project"]
    body = f"Path('dir/new').touch(); Path({str(other)!r}, 'new').touch(); result = protection.folders"
    assert ground.run(body, folders=wanted) == [str(ground.project), str(other)]
    assert (fingerprint(ground.project), fingerprint(other)) == before


def test_folder_reached_by_a_symlink_is_protected(ground: Ground) -> None:
    (ground.base / "alias").symlink_to(ground.project)
    before = fingerprint(ground.project)
    body = "Path('n').touch(); Path(asked['folders'][0], 'm').touch(); result = protection.folders"
    assert ground.run(body, folders=[str(ground.base / "alias")]) == [str(ground.project)]
    assert fingerprint(ground.project) == before


@pytest.mark.parametrize("name", ["a:b", "a,b", "a\\b", "a b", "ü\n", "lowerdir=x:y,z"])
def test_folders_of_any_name_are_protected(ground: Ground, name: str) -> None:
    strange = ground.base / name
    ground.populate(strange)
    before = fingerprint(strange)
    ground.run(WRITERS["open"], folders=[str(strange)], cwd=strange)
    assert fingerprint(strange) == before


def test_folder_looks_as_outside(ground: Ground) -> None:
    ground.project.chmod(0o2751)
    os.utime(ground.project, (5, 5))
    body = "s = os.stat('.'); result = [s.st_mode, s.st_mtime_ns, sorted(os.listdir()), *os.getresuid()]"
    assert ground.run(body) == ground.run(body, protected=False)


@as_user
@pytest.mark.parametrize(
    "body", ["os.chmod('data.txt', 0); open('data.txt')", "os.chmod('.', 0o555); Path('n').touch()"]
)
def test_permissions_bind_the_script_as_outside(ground: Ground, body: str) -> None:
    assert "PermissionError" in ground.start(body).stderr


@as_user
def test_folder_of_somebody_else_stays_closed(ground: Ground) -> None:
    if ground.user is None:
        pytest.skip("it takes root to make a folder of another owner")
    os.chown(ground.project, 0, 0)
    assert "PermissionError" in ground.start("Path('new.txt').touch()").stderr
    ground.run(WRITERS["open"])


def test_nothing_is_mounted_for_anybody_else(ground: Ground) -> None:
    before = mounts.mounted()
    body = "result = [line for line in open('/proc/self/mountinfo') if ' - overlay ' in line]"
    assert ground.run(body)
    assert mounts.mounted() == before


def test_no_path_leads_to_the_real_files(ground: Ground) -> None:
    names = ground.run("result = [n for _, _, names in os.walk(asked['layers']) for n in names]")
    assert "data.txt" not in names


def test_layers_can_be_removed_by_their_owner(ground: Ground) -> None:
    ground.run("os.makedirs('shut/inner'); Path('shut/f').touch(); os.chmod('shut', 0)")
    assert any(stat.S_IMODE(path.stat().st_mode) == 0 for path in ground.layers.rglob("work"))
    ground.base.chmod(0o777)
    ground.run("remove_layers(asked['layers'])", protected=False)
    assert not ground.layers.exists()


@pytest.mark.parametrize("path", ["", "/nowhere/at/all", "/proc/self/mountinfo"])
def test_removing_what_is_not_there_is_no_error(path: str) -> None:
    remove_layers(path)


def test_removing_layers_follows_no_symlink(tmp_path: Path) -> None:
    (tmp_path / "real" / "dir").mkdir(parents=True)
    (tmp_path / "real").chmod(0o750)
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers" / "way out").symlink_to(tmp_path / "real")
    before = fingerprint(tmp_path / "real")
    remove_layers(str(tmp_path / "layers"))
    assert fingerprint(tmp_path / "real") == before


MAKE_LAYERS = "tempfile.tempdir = asked['layers']; result = make_layers()"


def test_layers_are_made_in_the_folder_for_temporary_files(ground: Ground) -> None:
    layers = ground.run(MAKE_LAYERS, protected=False)
    assert Path(layers).parent == ground.layers
    ground.run(WRITERS["open"], layers=layers)


@as_root
def test_layers_are_not_made_on_an_overlay(ground: Ground) -> None:
    in_own_mounts(_layers_are_not_made_on_an_overlay, ground)


def _layers_are_not_made_on_an_overlay(ground: Ground) -> None:
    mount("-t", "tmpfs", "none", ground.layers)  # would do, but is hidden by what is mounted over it
    mount_overlay_for_layers(ground)
    layers = ground.run(MAKE_LAYERS, protected=False)
    remove_layers(layers)
    assert not layers.startswith(str(ground.layers))
    assert list(ground.layers.iterdir()) == []


def test_what_an_earlier_worker_wrote_and_deleted_is_kept(ground: Ground) -> None:
    kept = str(ground.layers / "kept")
    body = """
Path("download.bin").write_bytes(b"d" * 9000)
os.remove("data.txt")
shutil.rmtree("dir"); os.mkdir("dir"); Path("dir/fresh.txt").write_text("fresh")
os.symlink("download.bin", "latest"); os.symlink("dir", "runs"); os.mkfifo("pipe")
os.chmod("bytes.bin", 0o440); os.chmod("dir", 0o711)
result = [place, upper]
"""
    place, upper = ground.run(body)
    ground.run(f"keep({upper!r}, {kept!r})", protected=False)
    before = fingerprint(ground.project)
    look = """
names = sorted(str(path) for path in Path().rglob("*"))
modes = [os.stat(path).st_mode & 0o777 for path in ("bytes.bin", "dir")]
result = [names, os.path.getsize("latest"), os.readlink("latest"), os.readlink("runs"), *modes]
os.remove("download.bin"); Path("dir/later.txt").touch()
"""
    seen = ["bytes.bin", "dir", "dir/fresh.txt", "download.bin", "latest", "link", "log.db", "runs"]
    for _ in range(2):  # the second finds what the first found: a prelude is only read
        assert ground.run(look, prelude={place: kept}) == [seen, 9000, "download.bin", "dir", 0o440, 0o711]
    assert fingerprint(ground.project) == before


@as_root
def test_mounts_below_are_protected_too(ground: Ground) -> None:
    in_own_mounts(_mounts_below_are_protected_too, ground)


def _mounts_below_are_protected_too(ground: Ground) -> None:
    inner = ground.project / "dir" / "mounted here"
    inner.mkdir()
    mount("-t", "tmpfs", "none", inner)
    (inner / "deeper").mkdir()
    mount("-t", "tmpfs", "none", inner / "deeper")
    (inner / "old").write_text("old")
    (inner / "deeper" / "old").write_text("old")
    before = fingerprint(ground.project)
    seen = ground.run(f"""
for folder in ({str(inner)!r}, {str(inner / "deeper")!r}):
    os.chdir(folder)
    Path("new").write_text("new"); assert Path("old").read_text() == "old"
    os.remove("old"); assert "old" not in os.listdir()
result = len(protection.uppers)
""")
    assert seen >= 3
    assert fingerprint(ground.project) == before


@as_root
def test_mounts_that_take_no_overlay_become_read_only(ground: Ground) -> None:
    in_own_mounts(_mounts_that_take_no_overlay_become_read_only, ground)


def _mounts_that_take_no_overlay_become_read_only(ground: Ground) -> None:
    (ground.project / "settings").touch()
    mount("--bind", ground.project / "data.txt", ground.project / "settings")
    mount("-o", "remount,bind,nosuid", ground.project / "settings")
    body = "assert Path('settings').read_text() == 'old\\n'; open('settings', 'w')"
    assert "Read-only file system" in ground.start(body).stderr
    assert ground.run("result = os.statvfs('settings').f_flag & os.ST_NOSUID") == os.ST_NOSUID
    assert (ground.project / "data.txt").read_text() == "old\n"


@as_root
def test_read_only_mounts_stay_read_only(ground: Ground) -> None:
    in_own_mounts(_read_only_mounts_stay_read_only, ground)


def _read_only_mounts_stay_read_only(ground: Ground) -> None:
    mount("-t", "tmpfs", "-o", "ro", "none", ground.project / "dir")
    assert "Read-only file system" in ground.start("Path('dir/new').touch()").stderr
    ground.run(WRITERS["open"])


@as_root
def test_mount_below_takes_root(ground: Ground) -> None:
    if not python_for(NOBODY):
        pytest.skip("there is no Python >= 3.10 that an unprivileged user may run")
    python = python_for(NOBODY)
    unprivileged = Ground(ground.base, python, NOBODY, sources_for(python))
    unprivileged.give(unprivileged.layers)
    in_own_mounts(_mount_below_takes_root, unprivileged)


def _mount_below_takes_root(ground: Ground) -> None:
    mount("-t", "tmpfs", "none", ground.project / "dir")
    reason = ground.refusal()
    assert str(ground.project / "dir") in reason
    assert "takes root" in reason


@as_root
def test_layers_on_an_overlay_are_refused_by_name(ground: Ground) -> None:
    in_own_mounts(_layers_on_an_overlay_are_refused_by_name, ground)


def _layers_on_an_overlay_are_refused_by_name(ground: Ground) -> None:
    mount_overlay_for_layers(ground)
    reason = ground.refusal()
    assert "Invalid argument" in reason
    assert f"layers on overlay in {ground.layers}" in reason


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("/dev", "/dev belongs to the system and cannot be protected: run it from a project folder"),
        ("/proc/self", "belongs to the system"),
        ("/dev/shm", "belongs to the system"),
        ("{base}/missing", "{base}/missing cannot be protected: it is not a directory"),
    ],
)
def test_folder_that_cannot_be_protected_is_refused_by_name(ground: Ground, folder: str, reason: str) -> None:
    said = ground.refusal(folders=[folder.format(base=ground.base)])
    assert reason.format(base=ground.base) in said


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"layers": ""}, "there is no folder that can take the writes"),
        ({"layers": "/nowhere"}, "there is no folder that can take the writes"),
        ({"layers": "/proc"}, "/proc"),
        ({"folders": []}, "no folder"),
        ({"through": ["/nowhere"]}, "No such file or directory"),
    ],
)
def test_impossible_layers_are_refused_by_name(ground: Ground, asked: dict[str, Any], reason: str) -> None:
    assert reason in ground.refusal(**asked)


def test_refusal_leaves_the_process_as_it_was(ground: Ground) -> None:
    """What is refused comes late, when the folder is covered already: it may not be, afterwards."""
    other = ground.base / "other"
    ground.populate(other)
    assert ground.run(
        f"""
refused = protect([{str(ground.project)!r}, {str(other)!r}], asked["layers"], through=["/nowhere"])
assert (refused.kind, refused.folders, refused.uppers) == ("off", (), {{}}), refused
Path("new.txt").touch()
result = namespaces == [os.readlink(f"/proc/self/ns/{{kind}}") for kind in ("mnt", "user")]
""",
        protected=False,
    )
    assert (ground.project / "new.txt").exists()


def test_writes_are_denied_where_they_cannot_be_led_elsewhere(ground: Ground) -> None:
    """If asked for, and only in a worker that need not see what an earlier one wrote."""
    try:
        landlock.version()
    except OSError as refused:
        pytest.skip(str(refused))
    body = """
later = protect(asked["folders"], "", {"/": "/nowhere"}, or_deny=True)
assert later.kind == "off", later
denying = protect(asked["folders"], "", or_deny=True)
result = [denying.kind, denying.folders, denying.uppers, denying.reason.split(":")[0]]
try:
    open("data.txt", "w")
except PermissionError:
    result.append("denied")
"""
    folder = str(ground.project)
    why = "there is no folder that can take the writes"
    assert ground.run(body, protected=False) == ["landlock", [folder], {}, why, "denied"]


def test_second_thread_turns_protection_off(ground: Ground) -> None:
    body = """
wait = threading.Event()
threading.Thread(target=wait.wait).start()
result = protect(asked["folders"], asked["layers"]).reason
wait.set()
"""
    assert ground.run(body, protected=False) == "files cannot be protected once a second thread runs"
