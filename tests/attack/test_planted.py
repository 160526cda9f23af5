"""A project that was downloaded, with a ``.hasten`` in it: what we would read or write there is something
else. It is refused by name, in one line, and nothing outside is changed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from hasten.bench.trials import Trials
from hasten.bench.workers.worker_output import keep_ends, open_output
from hasten.errors import UnsafeFile, UsageError
from hasten.launch.ranks_of_plan import Wish
from hasten.lock import alone
from hasten.plans.files import SavedPlan, write_plan
from hasten.plans.own import own_plan, prepare
from hasten.records.plan import Plan
from hasten.scripts.sources import Sources
from hasten.scripts.workspace import Script, Workspace
from hasten.tuning import rehearsing
from hasten.tuning.journal import Journal

from .planted import IN_PLACE, NO_FILE, NO_FOLDER, SECRET

pytestmark = [pytest.mark.attack("intruders")]

SCRIPT = Script(Path("train.py"), ())
HERE = Workspace(SCRIPT)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project next to a file of the user's; we are in it."""
    (tmp_path / ".bashrc").write_bytes(SECRET)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print('trains')\n")
    monkeypatch.chdir(folder)
    return folder


def lock() -> None:
    with alone(HERE, False, print):
        pass


def journal() -> None:
    Journal(HERE.journal_path, {}).close("finished")


def findings() -> None:
    class Machine:
        identity = "this one"

    class PaperStage:
        machine = Machine()
        environment: Mapping[str, str] = {}
        world = None

    class PaperTrials:
        stage = PaperStage()
        sources = Sources(SCRIPT, "rehearsed")

    rehearsing.findings_for(SCRIPT, Wish(2), cast(Trials, PaperTrials()), print)


def output() -> None:
    with open_output(HERE.folder / "trials/000/worker-001.stdout") or pytest.fail(
        "nothing was opened"
    ) as file:
        file.write(b"a loss\n")


def plan_written() -> None:
    write_plan(HERE.plan_path, SavedPlan(Plan({"bf16": {}})))


Use = tuple[str, Callable[[], object], dict[str, Callable[[Path], None]]]
USES: dict[str, Use] = {  # what is done: where, how, and what may stand there instead
    "make": (".hasten", lambda: prepare(HERE), NO_FOLDER),
    "make the script's": (".hasten/train", lambda: prepare(HERE), NO_FOLDER),
    "read a plan below": (".hasten", lambda: own_plan(HERE), {**NO_FOLDER, "a file": Path.touch}),
    "read a plan": (".hasten/train/plan.toml", lambda: own_plan(HERE), NO_FILE),
    "write a plan": (".hasten/train/plan.toml", plan_written, NO_FILE),
    "read ranks": (".hasten/train/ranks.json", findings, NO_FILE),
    "begin a trial": (".hasten/train/trials", HERE.new_trial, NO_FOLDER),
    "open the journal": (".hasten/journal.db", journal, IN_PLACE),
    "open its log": (".hasten/journal.db-wal", journal, IN_PLACE),
    "open its index": (".hasten/journal.db-shm", journal, IN_PLACE),
    "lock": (".hasten/.lock", lock, IN_PLACE),
    "print": (".hasten/train/trials/000/worker-001.stdout", output, IN_PLACE),
}


@pytest.mark.parametrize(
    ("use", "kind"), [(use, kind) for use, (_, _, kinds) in USES.items() for kind in kinds]
)
def test_it_is_refused_by_name(project: Path, use: str, kind: str) -> None:
    where, act, kinds = USES[use]
    path = project / where
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds[kind](path)
    before = os.lstat(path)
    with pytest.raises(UsageError) as raised:
        act()
    message = str(raised.value)
    assert where in message
    assert "move it away" in message
    assert "\n" not in message
    assert os.path.samestat(before, os.lstat(path)), "it was put out of the way"
    assert (project.parent / ".bashrc").read_bytes() == SECRET
    assert sorted(found.name for found in project.parent.iterdir()) == [".bashrc", "project"]


@pytest.mark.parametrize("name", ["trial.json", "command"])
@pytest.mark.parametrize("kind", NO_FILE)
def test_what_is_written_into_a_trial_goes_nowhere_else(project: Path, name: str, kind: str) -> None:
    from hasten import safe_files

    folder = HERE.new_trial()
    NO_FILE[kind](folder.absolute() / name)
    with pytest.raises(UnsafeFile, match=rf"trials/000/{name} (is|belongs)"):
        safe_files.write(folder / name, b"{}")
    assert (project.parent / ".bashrc").read_bytes() == SECRET


def test_a_long_output_is_shortened_here_alone(project: Path) -> None:
    path = HERE.new_trial() / "worker-001.stdout"
    os.link(project.parent / ".bashrc", path)
    keep_ends(path, 4)
    assert (project.parent / ".bashrc").read_bytes() == SECRET


@pytest.mark.parametrize("name", ["plan.toml.new", "plan.new", ".new-"])
def test_a_name_that_could_be_guessed_is_not_written_to(project: Path, name: str) -> None:
    prepare(HERE)
    (HERE.folder / name).symlink_to(project.parent / ".bashrc")
    plan_written()
    assert (project.parent / ".bashrc").read_bytes() == SECRET
    assert sorted(os.listdir(HERE.folder)) == sorted([name, "plan.toml"])


def test_what_others_could_write_into_is_closed_to_them(project: Path) -> None:
    Path(".hasten").mkdir()
    Path(".hasten").chmod(0o777)
    prepare(HERE)
    assert Path(".hasten").stat().st_mode & 0o777 == 0o755


def test_a_folder_of_ours_is_private_and_no_concern_of_gits(project: Path) -> None:
    prepare(HERE)
    assert Path(".hasten").stat().st_mode & 0o777 == 0o700
    assert Path(".hasten/.gitignore").read_text() == "*\n"


@pytest.mark.parametrize("mode", [0o500, 0o700, 0o750, 0o755])
def test_a_folder_that_was_there_is_left_as_it_is(project: Path, mode: int) -> None:
    Path(".hasten/train").mkdir(parents=True)
    Path(".hasten").chmod(mode)
    prepare(HERE)
    assert Path(".hasten").stat().st_mode & 0o777 == mode
    assert not Path(".hasten/.gitignore").exists()
    Path(".hasten").chmod(0o700)


def test_a_gitignore_of_the_users_stays(project: Path) -> None:
    Path(".hasten").mkdir()
    Path(".hasten/.gitignore").write_text("trials\n")
    prepare(HERE)
    assert Path(".hasten/.gitignore").read_text() == "trials\n"


# ---- folders of trials
@pytest.mark.parametrize("name", ["9" * 255, "²", "1²", "٣", "-1", "1e9", "0x10", "9" * 10, " 7"])
def test_a_name_that_is_no_number_of_ours_does_not_stop_trials(project: Path, name: str) -> None:
    (HERE.folder / "trials" / name).mkdir(parents=True)
    assert HERE.new_trial().name == "000"


def test_the_last_number_may_be_taken(project: Path) -> None:
    (HERE.folder / "trials" / "999999999").mkdir(parents=True)
    assert [HERE.new_trial().name, HERE.new_trial().name] == ["1000000000", "1000000001"]


# ---- a journal that somebody else made
def made(*statements: str) -> None:
    """A journal of ours, changed by ``statements``."""
    prepare(HERE)
    journal()
    with closing(sqlite3.connect(HERE.journal_path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
COLUMNS = (
    "id INTEGER PRIMARY KEY, began REAL NOT NULL, identity TEXT NOT NULL, state TEXT NOT NULL, result TEXT"
)
PLANTED = {
    "a trigger without end": (
        "CREATE TRIGGER t AFTER INSERT ON tunes BEGIN INSERT INTO trials SELECT i, 1, 1, '', '', '', '' "
        f"FROM ({ENDLESS}); END",
    ),
    "a trigger that removes": ("CREATE TRIGGER t AFTER INSERT ON tunes BEGIN DELETE FROM tunes; END",),
    "a trigger on an update": ("CREATE TRIGGER t AFTER UPDATE ON tunes BEGIN DELETE FROM trials; END",),
    "a view in place of a table": ("DROP TABLE tunes", f"CREATE VIEW tunes AS {ENDLESS}"),
    "another view": (f"CREATE VIEW v AS {ENDLESS}",),
    "another table": ("CREATE TABLE other (a)",),
    "a table less": ("DROP TABLE trials",),
    "an index": ("CREATE INDEX i ON tunes (abs(began))",),
    "a virtual table": ("CREATE VIRTUAL TABLE f USING fts5(a)",),
    "a column more": ("ALTER TABLE tunes ADD COLUMN more",),
    "a constraint": ("DROP TABLE tunes", f"CREATE TABLE tunes ({COLUMNS}, CHECK (length(zeroblob(1)) < 0))"),
    "a default": (
        "DROP TABLE tunes",
        f"CREATE TABLE tunes ({COLUMNS} DEFAULT (hex(randomblob(1000000000))))",
    ),
    "a generated column": ("DROP TABLE tunes", f"CREATE TABLE tunes ({COLUMNS}, g AS (hex(began)))"),
    "other types": ("DROP TABLE tunes", f"CREATE TABLE tunes ({COLUMNS.replace('REAL', 'TEXT')})"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_journal_that_is_not_as_we_make_it_is_refused(project: Path, what: str) -> None:
    made(*PLANTED[what])
    before = HERE.journal_path.read_bytes()
    with pytest.raises(UnsafeFile, match=r"journal\.db cannot be used \(.* not hasten's\): move it away"):
        journal()
    assert HERE.journal_path.read_bytes() == before


def test_what_is_only_in_its_log_is_seen(project: Path) -> None:
    """The file itself is as we make it; its log has a trigger."""
    made()
    writer = sqlite3.connect(HERE.journal_path)
    writer.execute("PRAGMA wal_autocheckpoint=0")
    writer.execute(*PLANTED["a trigger that removes"])
    writer.commit()
    for ending in ("", "-wal"):
        copied = Path(f"copy{ending}")
        copied.write_bytes(Path(f"{HERE.journal_path}{ending}").read_bytes())
    writer.close()
    for ending in ("", "-wal"):
        Path(f"copy{ending}").rename(f"{HERE.journal_path}{ending}")
    with pytest.raises(UnsafeFile, match="not hasten's"):
        journal()


@pytest.mark.parametrize("content", [b"", b"\0" * 512, b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 2000])
def test_a_rollback_journal_is_not_carried_out(project: Path, content: bytes) -> None:
    """SQLite would remove the file that it names."""
    made()
    Path(f"{HERE.journal_path}-journal").write_bytes(content)
    with pytest.raises(UnsafeFile, match=r"journal\.db-journal lies next to it, which hasten never makes"):
        journal()


def test_a_journal_that_is_too_large_is_not_opened(project: Path) -> None:
    prepare(HERE)
    with HERE.journal_path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UnsafeFile, match=r"journal\.db has 1024\.0 GiB\): move it away"):
        journal()


@pytest.mark.parametrize("cut", [16, 100, 4096, 5000])
def test_a_journal_that_was_cut_off_is_refused(project: Path, cut: int) -> None:
    made()
    with HERE.journal_path.open("r+b") as file:
        file.truncate(cut)
    with pytest.raises(UnsafeFile, match="move it away and run again"):
        journal()


def test_a_tree_that_leads_back_to_itself(project: Path) -> None:
    """The first page of a table as its own child."""
    made()
    content = bytearray(HERE.journal_path.read_bytes())
    page = int.from_bytes(content[16:18], "big")
    content[page : page + 12] = bytes([5, 0, 0, 0, 1, 0, page // 2 >> 8, 0, 0, 0, 0, 2])
    HERE.journal_path.write_bytes(content)
    with pytest.raises(UnsafeFile, match="move it away and run again"):
        journal()


def test_a_journal_that_was_only_begun_is_taken_up(project: Path) -> None:
    """Its maker was killed: there is a file, and nothing in it."""
    prepare(HERE)
    HERE.journal_path.touch()
    journal()
    journal()
    with closing(sqlite3.connect(HERE.journal_path)) as database:
        assert database.execute("SELECT COUNT(*) FROM tunes").fetchall() == [(2,)]


OLDER = """
CREATE TABLE IF NOT EXISTS tunes (
    id INTEGER PRIMARY KEY, began REAL NOT NULL, identity TEXT NOT NULL, state TEXT NOT NULL, result TEXT
);
CREATE TABLE IF NOT EXISTS trials (
    id INTEGER PRIMARY KEY, tune INTEGER NOT NULL REFERENCES tunes(id), ended REAL NOT NULL,
    purpose TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL, trial TEXT NOT NULL
);
"""


def test_a_journal_of_an_older_version_is_taken_up(project: Path) -> None:
    prepare(HERE)
    with closing(sqlite3.connect(HERE.journal_path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.executescript(OLDER)
    journal()
    assert not Path(f"{HERE.journal_path}-journal").exists()


# ---- texts that somebody else wrote
PLANS = {
    "lists in lists": "x = " + "[" * 50_000,
    "tables in tables": "x = " + "{a=" * 50_000,
    "lists over lines": "x = " + "[\n" * 50_000,
    "a long key": "x" + ".a" * 50_000 + " = 1\n",
    "a long key in quotes": "x" + '."a"' * 20_000 + " = 1\n",
    "a long name of a table": "[x" + ".a" * 50_000 + "]\n",
    "a key in a table": "x = {a" + ".a" * 50_000 + " = 1}\n",
    "many long keys": "".join(f"a{n}{'.a' * 200} = 1\n" for n in range(600)),
}


@pytest.mark.parametrize("named", [False, True], ids=["its own", "named"])
@pytest.mark.parametrize("what", PLANS)
def test_a_plan_that_is_nested_deeply_is_refused(project: Path, what: str, named: bool) -> None:
    from hasten.plans.files import read_plan

    prepare(HERE)
    HERE.plan_path.write_text("format = 1\n" + PLANS[what])
    with pytest.raises(UsageError, match=r"plan\.toml is nested too deeply for a plan"):
        read_plan(HERE.plan_path) if named else own_plan(HERE)


def test_a_plan_that_is_too_large_is_refused(project: Path) -> None:
    prepare(HERE)
    with HERE.plan_path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UsageError, match=r"plan\.toml is larger than 262144 bytes, .*move it away"):
        own_plan(HERE)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\0" * 100, b"\x7fELF", b"format = 1\n\x1b[2J"])
def test_a_plan_that_is_no_text_is_refused(project: Path, content: bytes) -> None:
    prepare(HERE)
    HERE.plan_path.write_bytes(content)
    with pytest.raises(UsageError, match=r"plan\.toml (cannot be read|is not TOML)") as raised:
        own_plan(HERE)
    assert "\x1b" not in str(raised.value)


def test_a_plan_with_long_arguments_can_be_read_again(project: Path) -> None:
    """What is refused for its depth must not be what we write."""
    prepare(HERE)
    arguments = ["--cfg", "{'betas': [0.9, 0.999], 'x': 1.5}" * 100, "./" * 1000, "[" * 1000]
    saved = SavedPlan(Plan({"bf16": {}}), {"script": "train.py", "arguments": arguments})
    write_plan(HERE.plan_path, saved)
    assert own_plan(HERE) == (saved, "")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"made_for": ' * 50_000,
        b"[]",
        b"null",
        b'{"made_for": {}}',
        b"1e999",
    ],
)
def test_ranks_that_cannot_be_read_are_found_out_again(
    project: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hasten.records.ranks import Findings

    monkeypatch.setattr(rehearsing, "rehearse", lambda *_: Findings())
    prepare(HERE)
    path = HERE.folder / "ranks.json"
    path.write_bytes(content)
    findings()
    assert path.read_bytes().startswith(b'{"made_for": {"argv"')


def test_ranks_that_are_too_large_are_refused(project: Path) -> None:
    prepare(HERE)
    with (HERE.folder / "ranks.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UnsafeFile, match=r"ranks\.json is larger than"):
        findings()
