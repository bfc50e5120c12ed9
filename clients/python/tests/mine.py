"""Compares rows of a live PostgreSQL's tables with the server's own answers: `python mine.py [FREEBLOCK [SECONDS ROUNDS]]`.

It needs root, loop devices, mke2fs, PostgreSQL 15, 16 or 18 and the package duckdb, and ends with 77 without one of them, which it
names. POSTGRES_BIN names the directory of the server's programs, by default that of Debian's newest. With the path of the command, the scan also goes through a daemon with an emulated drive, while pgbench runs; that needs nbdfuse. With SECONDS and ROUNDS it only
compares: as many rounds of SECONDS, pgbench alone and beside a scan in a drawn order, give the transactions a second with and without.
"""
import contextlib
import datetime
import decimal
import glob
import math
import os
import pathlib
import pwd
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import freeblock
from freeblock import postgres

# The number of pgbench's accounts at its smallest scale, and of those that are kept: all in the long tier of the tests. Fewer would be
# too few pages for estimates.
ACCOUNTS = 100_000
KEPT = ACCOUNTS if "FREEBLOCK_LONG" in os.environ else 50_000

WORK = pathlib.Path(tempfile.mkdtemp(prefix="freeblock-mine."))
BIN = [os.environ["POSTGRES_BIN"]] if "POSTGRES_BIN" in os.environ else sorted(glob.glob("/usr/lib/postgresql/1[568]/bin"))[-1:]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd="/", **options)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def pg(program, *arguments, **options):
    return run("runuser", "-u", "postgres", "--", f"{BIN[0]}/{program}", *arguments, **options)


def sql(text, database="postgres"):
    return pg("psql", "-h", WORK / "run", "-qAtX", "-F", "\t", "-v", "ON_ERROR_STOP=1", database, input=text)


def rows(text):
    return [tuple(line.split("\t")) for line in sql(text).splitlines()]


@contextlib.contextmanager
def server(data, **settings):
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    pg("pg_ctl", "-s", "-w", "-t", "120", "-D", data, "-l", WORK / "run" / "log", "-o", f"-k {WORK}/run -c listen_addresses= {options}", "start")
    try:
        yield
    finally:
        pg("pg_ctl", "-s", "-w", "-D", data, "-m", "fast", "stop")


@contextlib.contextmanager
def mounted(device, *options):
    mount = WORK / "mnt"
    mount.mkdir(exist_ok=True)
    run("mount", *options, device, mount)
    try:
        yield mount
    finally:
        run("umount", mount)


def cluster(directory, *options):
    directory.mkdir()
    shutil.chown(directory, "postgres")
    pg("initdb", "-D", directory, "--no-sync", "-A", "trust", "-E", "UTF8", "--locale", "C", *options)
    return directory


TYPES = """
create table kinds (
  id int4, small int2, big int8, words text, letters varchar(80), padded char(12), single real, wide float8, exact numeric,
  money numeric(14,3), truth bool, day date, moment timestamp, instant timestamptz, gone int4, late text
);
insert into kinds select
  i, (i % 60000 - 30000)::int2, i * 10000000019::int8, repeat(chr(65 + i % 26), i % 300), 'v' || i, 'p' || i, i / 3.0, i / 7.0,
  (i - 1500) * power(10::numeric, i % 41 - 20), i * 1.125, i % 3 = 0, date '1970-01-01' + i * 17 - 20000,
  timestamp '2000-01-01' + i * interval '1 hour 1.000001 second', timestamptz '1999-01-01 00:00+00' + i * interval '1 day', i, 'old'
from generate_series(1, 3000) i;
insert into kinds (id, exact, day) values (3001, 'NaN', 'infinity'), (3002, 'Infinity', null), (3003, 0, '2000-01-01'), (3004, -0.00001, null);
update kinds set words = null where id % 11 = 0;
update kinds set words = repeat('freeblock ', 900) where id = 5;
update kinds set wide = -wide where id % 13 = 0;
delete from kinds where id % 17 = 0;
alter table kinds drop column gone;
alter table kinds add column more int4 default 7;
alter table kinds add column less int4;
insert into kinds (id, more, less) values (3005, 8, 9);
begin; insert into kinds (id) select generate_series(5000, 5100); rollback;
begin; savepoint a; insert into kinds (id) values (3006); release a; commit;
create table wide_rows (id int4, body text);
alter table wide_rows alter body set storage external;
insert into wide_rows select i, repeat(md5(i::text), 200) from generate_series(1, 50) i;
create schema other; create table other.empty (a int4);
create unlogged table careless (a int4); insert into careless values (1);
create table filled (a int4); insert into filled select generate_series(1, 5000);
"""

LZ4 = """
create table packed (id int4, body text compression lz4);
insert into packed select i, repeat('freeblock ' || i, 500) || md5(i::text) || repeat(chr(65 + i % 26), i * 30) from generate_series(1, 40) i;
"""

VIRTUAL = "create table computed (a int4, b int4 generated always as (a * 2) virtual, c int4); insert into computed (a, c) values (1, 3)"


def shown(value):
    """The value as psql prints it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "t" if value else "f"
    return str(value)


def mined(table, order=0, **options):
    scan = freeblock.mine(table, **options)
    found = {}
    for batch in scan:
        for name, column in batch.to_pydict().items():
            found.setdefault(name, []).extend(column)
    lines = sorted(zip(*found.values()), key=lambda row: row[order])
    return scan, lines


def check_every_type(**options):
    names = ["id", "small", "big", "words", "letters", "padded", "exact", "money", "truth", "late", "less"]
    scan, ours = mined("kinds", columns=names, **options)
    theirs = rows(f"select {', '.join(names)} from kinds order by id")
    assert len(ours) == len(theirs) > 2_800, (len(ours), len(theirs))
    for mine, row in zip(ours, theirs):
        assert tuple(map(shown, mine)) == row, (mine, row)
    assert (scan.undecided_rows, scan.undecided_values, scan.damaged_pages) == (0, 0, 0), vars(scan)
    assert scan.rows == len(ours) and scan.pages_read == scan.pages
    times = ["id", "single", "wide", "day", "moment", "instant"]
    scan, ours = mined("kinds", columns=times, **options)
    assert scan.undecided_values == 1  # the infinite day
    asked = rows(
        "select id, single::float8, wide, case when isfinite(day) then day - date '1970-01-01' end, "
        "(extract(epoch from moment) * 1000000)::int8, (extract(epoch from instant) * 1000000)::int8 from kinds order by id"
    )
    for mine, row in zip(ours, asked):
        assert [None if cell == "" else float(cell) for cell in row] == [None if v is None else float(v) for v in mine], (mine, row)
    # A column that was added with a default is not in the old tuples.
    scan, ours = mined("kinds", columns=["id", "more"], **options)
    old = int(sql("select count(*) from kinds where id < 3005"))
    assert scan.undecided_values == old and [row for row in ours if row[1] is not None] == [(3005, 8), (3006, 7)]
    assert scan.undecided == {"default of a column that was added later": old}
    scan, ours = mined("wide_rows", **options)
    assert len(ours) == 50 and scan.undecided == {"in a TOAST table": 50} and {row[1] for row in ours} == {None}
    assert mined("other.empty", **options)[1] == []
    for name, said in (("absent", "no table public.absent"), ("absent.kinds", "absent.kinds"), ("kind", "did you mean kinds?"), ("careless", "unlogged")):
        refused(said, name, **options)
    refused("no database is called postgre; did you mean postgres?", "kinds", **{**options, "database": "postgre"})


def check_compressed_and_virtual_values(**options):
    """LZ4 in the row, where the server has it, and columns that PostgreSQL 18 generates when they are read."""
    if "lz4" in sql("select enumvals from pg_settings where name = 'default_toast_compression'"):
        sql(LZ4)
        assert rows("select distinct pg_column_compression(body) from packed") == [("lz4",)]
        theirs = [(int(a), body) for a, body in rows("select * from packed order by id")]
        scan, ours = settled("packed", **options)
        assert ours == theirs and scan.undecided == {}, vars(scan)
    if int(sql("show server_version_num")) >= 180_000:
        sql(VIRTUAL)
        scan, ours = settled("computed", **options)
        assert ours == [(1, None, 3)] and scan.undecided == {"generated by the server when it is read": 1}, (ours, vars(scan))


def settled(table, **options):
    """The rows after a checkpoint, when the file system's own data are on the disk, too."""
    sql("checkpoint")
    run("sync")
    return mined(table, **options)


def next_second():
    """Waits for the next second: an empty file of the second of a checkpoint is refused, because it may have been truncated since."""
    time.sleep(1.1)


def refused(said, table, **options):
    try:
        freeblock.mine(table, **options)
    except LookupError as error:
        assert said in str(error), error
        return
    raise AssertionError(f"{table} was read, and {said!r} expected")


def check_a_table_that_is_truncated(**options):
    """A table is truncated after the checkpoint, and during the scan: missing rows are an error, and never silent."""
    scan = freeblock.mine("filled", **options)
    batches = iter(scan)
    assert next(batches).num_rows == 5_000 and scan.changed_pages == 0
    sql("vacuum full filled")
    try:
        list(batches)
    except postgres.Damaged as error:
        assert "filled were moved" in str(error), error
    else:
        raise AssertionError("the files of the table were moved")
    sql("insert into filled select generate_series(1, 5000)")
    scan, ours = settled("filled", **options)
    assert len(ours) == 10_000 and scan.changed_pages == 0
    sql("truncate filled")
    refused("the file of filled is empty", "filled", **options)
    next_second()
    assert settled("filled", **options)[1] == []


@contextlib.contextmanager
def open_transactions():
    """Transactions of each kind at the instant of a checkpoint: under way, of several parts, aborted, prepared, and committed since the
    oldest of them began. Yields the rows that the server sees then, and those of them that the checkpoint leaves undecided."""
    sql("drop table if exists going; create table going (a int4, b text) with (autovacuum_enabled = off); insert into going select i, 'old' from generate_series(1, 400) i")
    # Two transactions end before any other begins: one with a part that was rolled back, and one that was rolled back as a whole.
    sql("begin; savepoint a; update going set b = 'never' where a between 61 and 65; rollback to a; update going set b = 'kept' where a between 66 and 70; commit")
    sql("begin; insert into going select i, 'never' from generate_series(1201, 1210) i; delete from going where a between 51 and 60; rollback")
    one, parts = Psql(), Psql()
    one.ask("begin; insert into going select i, 'later' from generate_series(1001, 1050) i; update going set b = 'later' where a <= 20; delete from going where a between 21 and 25")
    parts.ask("begin; savepoint a; update going set b = 'later' where a between 31 and 40; insert into going select i, 'later' from generate_series(1101, 1110) i; release a; savepoint b; delete from going where a between 41 and 45; rollback to b; savepoint c; delete from going where a = 46")
    sql("begin; update going set b = 'later' where a between 71 and 80; insert into going values (1301, 'later'); delete from going where a = 81; prepare transaction 'p'")
    sql("begin; insert into going values (1401, 'never'); delete from going where a = 90; rollback")
    sql("update going set b = 'undecided' where a between 91 and 93; insert into going values (1501, 'undecided')")
    theirs = [(int(a), b) for a, b in rows("select * from going order by a")]
    try:
        yield theirs, [row for row in theirs if row[1] == "undecided"]
    finally:
        one.ask("commit")
        parts.ask("commit")
        sql("commit prepared 'p'")
        one.end()
        parts.end()


def check_open_transactions(**options):
    with open_transactions() as (theirs, undecided):
        scan, ours = settled("going", **options)
        assert len(theirs) == 401 and len(undecided) == 4
        assert ours == [row for row in theirs if row not in undecided], (set(ours) ^ set(theirs), vars(scan))
        # Three rows in two versions each, and one row in one version.
        assert scan.undecided_rows == 7, vars(scan)
    scan, ours = mined("going", **options)
    assert set(ours) <= set(theirs) and len(theirs) - len(ours) <= scan.undecided_rows
    scan, ours = settled("going", **options)
    theirs = [(int(a), b) for a, b in rows("select * from going order by a")]
    assert ours == theirs and scan.undecided_rows == 0 and (1050, "later") in ours and len(ours) == 401 + 50 - 5 + 10 - 1 + 1 - 1


def check_pages_without_checksums(data, **options):
    pg("pg_checksums", "--disable", "-D", data)
    with server(data), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        theirs = [(int(a),) for (a,) in rows("select id from kinds order by id")]
        assert settled("kinds", data=data, columns=["id"], **options)[1] == theirs
    assert [str(one.message) for one in warned if "pg_checksums --enable" in str(one.message)], warned
    pg("pg_checksums", "--enable", "-D", data)


def check_checkpoints_that_do_not_say_what_was_under_way(data, **options):
    """A checkpoint of a shutdown if transactions may be prepared, and any checkpoint with wal_level=minimal."""
    with server(data, max_prepared_transactions=4):
        refused("run CHECKPOINT", "kinds", data=data, **options)
        settled("kinds", data=data, columns=["id"], **options)
    with server(data, wal_level="minimal", max_wal_senders=0):
        sql("checkpoint")
        refused("wal_level=replica", "kinds", data=data, **options)
    with server(data):
        settled("kinds", data=data, columns=["id"], **options)


def check_aggregates(**options):
    scan, ours = mined("pgbench_accounts", columns=["aid", "bid", "abalance"], **options)
    count, total, least, most = rows("select count(*), sum(abalance), min(abalance), max(abalance) from pgbench_accounts")[0]
    balances = [row[2] for row in ours]
    assert (len(ours), sum(balances), min(balances), max(balances)) == (int(count), int(total), int(least), int(most))
    assert len({row[0] for row in ours}) == len(ours) == KEPT
    by_branch = {}
    for _, bid, balance in ours:
        by_branch[bid] = by_branch.get(bid, 0) + balance
    assert sorted(by_branch.items()) == [(int(a), int(b)) for a, b in rows("select bid, sum(abalance) from pgbench_accounts group by 1")]
    assert scan.count() == (len(ours),) * 3 and scan.undecided_rows == 0
    assert scan.total("abalance").value == sum(balances) and scan.mean("aid").low == scan.mean("aid").high


def check_estimates(**options):
    """A part of the scan gives estimates near the truth; check.py counts how often intervals hold it."""
    scan = freeblock.mine("pgbench_accounts", columns=["aid", "abalance"], **options)
    count, total, mean = (float(cell) for cell in rows("select count(*), sum(aid), avg(aid) from pgbench_accounts")[0])
    for _ in scan:
        if scan.pages_read > 0.3 * scan.pages:
            break
    assert 0.3 < scan.pages_read / scan.pages < 0.7
    for estimate, truth in ((scan.count(), count), (scan.total("aid"), total), (scan.mean("aid"), mean)):
        assert estimate.low < estimate.value < estimate.high
        assert abs(estimate.value / truth - 1) < 0.02 and estimate.high - estimate.low < 0.05 * truth, (estimate, truth)


def check_locks_of_groups(cluster_, **options):
    """Rows with a multixact: only locked, and locked and changed."""
    sql("create table locked (id int4 primary key, v int4); insert into locked select i, 0 from generate_series(1, 40) i; "
        "create table child (id int4 references locked)")
    keep = subprocess.Popen(
        ["runuser", "-u", "postgres", "--", f"{BIN[0]}/psql", "-h", WORK / "run", "-qAtX", "postgres"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
    )
    keep.stdin.write("begin; select count(*) from (select * from locked where id <= 20 for key share) x;\n")
    keep.stdin.flush()
    assert keep.stdout.readline() == "20\n"
    sql("update locked set v = 5 where id between 11 and 30")
    sql("begin; select 1 from locked where id <= 5 for key share; commit")
    keep.stdin.write("commit;\n")
    keep.communicate()
    assert keep.returncode == 0
    sql("checkpoint")
    scan, ours = mined("locked", **options)
    multis = [t for n in range(scan.pages) for t in page_of(cluster_, "locked", n) if t.infomask & 0x1000]
    assert any(not t.infomask & 0x80 for t in multis), "no row was changed in a group"
    assert ours == [(int(a), int(b)) for a, b in rows("select * from locked order by id")] and scan.undecided_rows == 0


def check_transactions(**options):
    """Frozen rows; and rows of transactions that were aborted, or were under way at the checkpoint and end later."""
    sql("create table changing (a int4, b text); insert into changing select i, 'v' || i from generate_series(1, 300) i; vacuum freeze changing")
    sql("begin; insert into changing values (301, 'never'); update changing set b = 'never' where a < 20; delete from changing where a = 25; rollback")
    going = Psql()
    going.ask("begin; insert into changing select i, 'later' from generate_series(400, 500) i; update changing set b = 'later' where a between 30 and 60")
    sql("checkpoint")
    theirs = [(int(a), b) for a, b in rows("select * from changing order by a")]
    assert len(theirs) == 300
    scan, ours = mined("changing", **options)
    assert ours == theirs and scan.undecided_rows == 0, (ours[:30], vars(scan))
    going.ask("commit")
    run("sync")
    # The answer stays that of the checkpoint. Rows whose transactions have ended since are counted and left out.
    scan, ours = mined("changing", **options)
    assert set(ours) <= set(theirs) and len(theirs) - len(ours) <= scan.undecided_rows, (len(ours), vars(scan))
    going.ask("begin")
    going.end()
    sql("checkpoint")
    scan, ours = mined("changing", **options)
    assert ours == [(int(a), b) for a, b in rows("select * from changing order by a")] and len(ours) == 401


def check_a_table_of_several_files(path, **options):
    """Rows before and after 1 GiB, where the second file of the table begins, and pages of a hole between them."""
    sql("checkpoint")
    assert (options["data"] / f"{path}.1").stat().st_size > 0
    theirs = [(int(a),) for (a,) in rows("select * from long order by a")]
    scan, ours = mined("long", **options)
    assert ours == theirs and len(ours) == 3_000 and scan.pages == scan.pages_read > 131_072, (len(ours), vars(scan))
    assert scan.count() == (3_000,) * 3 and scan.total("a").value == sum(a for (a,) in theirs)


def page_of(data, table, number):
    path = data / sql(f"select pg_relation_filepath('{table}')").strip()
    with open(path, "rb") as file:
        file.seek(number * 8192)
        return postgres.tuples(file.read(8192))


def main():
    if os.geteuid() != 0:
        skip("loop devices need root")
    if not BIN:
        skip("PostgreSQL 15, 16 or 18 not found; Debian has it in postgresql")
    if "POSTGRES_BIN" in os.environ and "MINE_ALONE" in os.environ:
        # The programs and their libraries are mounted where the server's user can reach them; read-only, since WORK is removed at the end.
        WORK.chmod(0o755)
        programs, place = pathlib.Path(BIN[0]).resolve(), WORK / "server"
        place.mkdir()
        run("mount", "--options", "bind,ro", programs.parents[2], place)
        BIN[0] = place / programs.relative_to(programs.parents[2])
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        skip("user postgres not found")
    for program in ("mke2fs", "runuser", "mount", "unshare", "fsfreeze"):
        if shutil.which(program) is None:
            skip(f"{program} not found")
    if "MINE_ALONE" not in os.environ:
        # Runs in a mount namespace of its own. Otherwise a namespace that begins meanwhile would keep the file system mounted.
        command = ["unshare", "--mount", sys.executable, *sys.orig_argv[1:]]
        sys.exit(subprocess.run(command, env={**os.environ, "MINE_ALONE": "1"}, check=False).returncode)
    if len(sys.argv) > 3:
        WORK.chmod(0o755)
        (WORK / "run").mkdir()
        shutil.chown(WORK / "run", "postgres")
        compare(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
        return
    image = WORK / "disk.img"
    WORK.chmod(0o755)
    (WORK / "run").mkdir()
    shutil.chown(WORK / "run", "postgres")
    # The file system begins at 1 MiB, as a first partition does.
    offset = 1 << 20
    with open(image, "wb") as file:
        file.truncate(400 << 20)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-E", f"offset={offset}", image, f"{(400 << 10) - 1024}k")
    where = {"image": image, "offset": offset}
    with mounted(image, "-o", f"loop,offset={offset}") as mount:
        data = cluster(mount / "data", "--data-checksums")
        with server(data, max_prepared_transactions=4):
            sql(TYPES)
            pg("pgbench", "-h", WORK / "run", "-i", "-q", "-s", 1, "postgres")
            if KEPT < ACCOUNTS:
                # A transaction of an account that is gone changes its branch all the same.
                sql(f"delete from pgbench_accounts where aid > {KEPT}; vacuum full pgbench_accounts")
            pg("pgbench", "-h", WORK / "run", "-n", "-c", 2, "-t", 500, "postgres")
            next_second()
            sql("checkpoint")
            run("sync")
            check_every_type(data=data, **where)
            print("types, nulls, dropped and added columns: equal", flush=True)
            check_compressed_and_virtual_values(data=data, **where)
            check_a_table_that_is_truncated(data=data, **where)
            print("compressed and generated values, a table that is truncated: equal or refused", flush=True)
            check_aggregates(data=data, **where)
            print("aggregates: equal", flush=True)
            run_recipes(data=data, **where)
            print("recipes: equal", flush=True)
            check_estimates(data=data, **where)
            print("estimates hold the truth", flush=True)
            check_locks_of_groups(data, data=data, **where)
            print("groups of locks: equal", flush=True)
            path = sql("select pg_relation_filepath('pgbench_accounts')").strip()
            aids = len(rows("select aid from pgbench_accounts"))
            check_transactions(data=data, **where)
            print("frozen rows, aborted transactions and those under way: equal", flush=True)
            check_open_transactions(data=data, **where)
            print("open transactions: equal", flush=True)
            sql("create table long (a int4); insert into long select generate_series(1, 1000)")
            long = sql("select pg_relation_filepath('long')").strip()
        check_pages_without_checksums(data, **where)
        print("pages without checksums: equal, with a warning", flush=True)
        os.truncate(data / long, 1 << 30)
        with server(data):
            sql("insert into long select generate_series(1001, 3000)")
            check_a_table_of_several_files(long, data=data, **where)
            print("a table of several files: equal", flush=True)
        check_checkpoints_that_do_not_say_what_was_under_way(data, **where)
        print("checkpoints that do not say what was under way: refused", flush=True)
        # The file system is not mounted now: the scan reads ext4's own map.
    scan, ours = mined("pgbench_accounts", data="/data", mounted=False, columns=["aid"], **where)
    assert len(ours) == aids == scan.rows
    print("by the map of an image: equal", flush=True)
    check_damage(path, scan.pages, where)
    print("damage is named and costs its page alone", flush=True)
    if len(sys.argv) > 1:
        if shutil.which("nbdfuse") is None:
            skip("nbdfuse not found; the rest has passed")
        check_while_pgbench_goes_on(sys.argv[1])
        print("a transaction while pgbench goes on: equal", flush=True)


@contextlib.contextmanager
def served(freeblock_command):
    """A daemon with an emulated drive, as a block device; yields the device and the daemon's control socket."""
    drive = pathlib.Path(__file__).parents[3] / "proofs" / "drive.toml"
    socket, control, fuse = WORK / "nbd", WORK / "control", WORK / "fuse"
    fuse.mkdir()
    with open(WORK / "log", "w") as log:
        disk = f"d0=emulated:{drive},file={WORK / 'served'}"
        command = [freeblock_command, "serve", "--disk", disk, "--listen", f"unix:{socket}", "--state", WORK / "state", "--control", control]
        # The floor holds for snapshots, too: without it their reads would wait for minutes beside pgbench.
        command += ["--background", "d0-background", "--background-floor", "1MB/s"]
        daemon = subprocess.Popen(command, stdout=log, stderr=log)
        device = nbd = None
        try:
            waited(control.exists, daemon)
            nbd = subprocess.Popen(["nbdfuse", fuse, f"nbd+unix:///?socket={socket}"], stdout=log, stderr=log)
            waited((fuse / "nbd").exists, nbd)
            device = run("losetup", "--find", "--show", fuse / "nbd").strip()
            yield device, control
        finally:
            if device is not None:
                run("losetup", "--detach", device)
            if nbd is not None:
                waited(lambda: subprocess.run(["umount", fuse], capture_output=True, check=False).returncode == 0, daemon)
                nbd.wait()
            daemon.terminate()
            daemon.wait()


def waited(there, process):
    while not there():
        assert process.poll() is None, (WORK / "log").read_text()
        time.sleep(0.05)


class Psql:
    """A session of psql that stays open."""

    def __init__(self):
        command = ["runuser", "-u", "postgres", "--", f"{BIN[0]}/psql", "-h", WORK / "run", "-qAtX", "-F", "\t", "postgres"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")

    def ask(self, text):
        self.process.stdin.write(text + ";\n\\echo end\n")
        self.process.stdin.flush()
        found = []
        while (line := self.process.stdout.readline().rstrip("\n")) != "end":
            assert self.process.poll() is None
            found.append(tuple(line.split("\t")))
        return found

    def end(self):
        self.process.communicate()


def bench(seconds, seed):
    command = ["runuser", "-u", "postgres", "--", f"{BIN[0]}/pgbench", "-h", WORK / "run", "-n", "-c", "4", "-T", str(seconds)]
    return subprocess.Popen([*command, f"--random-seed={seed}", "postgres"], stdout=subprocess.PIPE, text=True, cwd="/")


def tps(process):
    said, _ = process.communicate()
    assert process.returncode == 0, said
    return float(re.search(r"tps = ([0-9.]+) \(without", said)[1])


def check_while_pgbench_goes_on(command, seconds=6):
    """The answer is that of a transaction which began when the checkpoint did, whatever pgbench changes meanwhile."""
    names = ["aid", "bid", "abalance"]
    with served(command) as (device, control):
        run("mke2fs", "-q", "-F", "-t", "ext4", device)
        with mounted(device) as mount:
            data = cluster(mount / "data", "--data-checksums")
            settings = {"shared_buffers": "8MB", "checkpoint_timeout": "30s", "max_wal_size": "64MB", "max_prepared_transactions": 4}
            with server(data, **settings):
                pg("pgbench", "-h", WORK / "run", "-i", "-q", "-s", 1, "postgres")
                pg("pgbench", "-h", WORK / "run", "-n", "-t", 40, "postgres")
                sql("checkpoint")
                run_recipes(data=data, disk="d0", control=str(control))
                check_open_transactions_in_a_snapshot_of_the_disk(command, mount, control)
                print("a snapshot of the disk with open transactions: equal", flush=True)
                check_a_snapshot_of_the_disk(command, mount, control)
                print("a snapshot of the disk while pgbench goes on: equal", flush=True)
                keep = Psql()
                keep.ask("begin isolation level repeatable read")
                theirs = [tuple(map(int, row)) for row in keep.ask(f"select {', '.join(names)} from pgbench_accounts order by aid")]
                sql("checkpoint")
                before = sql("select sum(abalance * aid) from pgbench_accounts")
                going = bench(seconds, 0)
                time.sleep(0.5)
                scan, ours = mined("pgbench_accounts", data=data, disk="d0", control=str(control), columns=names)
                tps(going)
                assert sql("select sum(abalance * aid) from pgbench_accounts") != before, "pgbench has changed nothing"
                assert scan.undecided_rows == scan.damaged_pages == 0, vars(scan)
                assert ours == theirs, (len(ours), len(theirs))
                keep.end()


ROUNDS = ("alone", "beside a scan", "beside a copy's scan")


def compare(command, seconds, triples):
    """The transactions a second of pgbench in three kinds of rounds, in a drawn order: alone, beside a scan that lasts as long, and
    beside a scan of as many pages a second that reads the file behind the drive. The third kind takes as much processor time as the
    second, and no time of the disk."""
    draw, found, speeds = random.Random(1), {kind: [] for kind in ROUNDS}, []
    with served(command) as (device, control):
        run("mke2fs", "-q", "-F", "-t", "ext4", device)
        with mounted(device) as mount:
            data = cluster(mount / "data", "--data-checksums")
            # No checkpoint falls into a round, and after a checkpoint pages are not written whole to the log.
            settings = {"checkpoint_timeout": "1d", "max_wal_size": "2GB", "full_page_writes": "off", "autovacuum": "off"}
            with server(data, shared_buffers="8MB", **settings):
                pg("pgbench", "-h", WORK / "run", "-i", "-q", "-s", 1, "postgres")
                sql("checkpoint")
                tps(bench(2 * seconds, 0))
                where = {"data": data, "columns": ["abalance"]}
                places = {ROUNDS[1]: {"disk": "d0", "control": str(control)}, ROUNDS[2]: {"image": WORK / "served"}}
                for n in range(1, triples + 1):
                    order = draw.sample(ROUNDS, 3) if n > 1 else ROUNDS
                    for kind in order:
                        ended, pages, thread = threading.Event(), [], None
                        if kind in places:
                            pace = None if kind == ROUNDS[1] else 1 / statistics.fmean(speeds)
                            thread = threading.Thread(target=scanned, args=(ended, pages, pace, {**where, **places[kind]}))
                            thread.start()
                            while not pages:
                                assert thread.is_alive()
                                time.sleep(0.01)
                        first = len(pages)
                        found[kind].append(tps(bench(seconds, n)))
                        if kind == ROUNDS[1]:
                            speeds.append(max(1, len(pages) - first) / seconds)
                        ended.set()
                        if thread is not None:
                            thread.join()
                    print(f"{n}: " + ", ".join(f"{found[kind][-1]:.1f} tps {kind}" for kind in ROUNDS), flush=True)
            done = freeblock.request("GET", "/v1/status", control=str(control))["disks"][0]["status"]
    for kind in ROUNDS:
        print(f"{statistics.fmean(found[kind]):.1f} tps {kind}, mean of {triples} rounds of {seconds} s")
    for one, other in ((1, 0), (2, 0), (1, 2)):
        print(f"{ROUNDS[one]} against {ROUNDS[other]}: {change(found[ROUNDS[one]], found[ROUNDS[other]])}")
    bytes_ = done["background"]
    total = sum(bytes_[key] for key in ("gap_bytes", "idle_bytes", "promoted_bytes"))
    print(f"the scan: {statistics.fmean(speeds):.0f} pages a second, {bytes_['gap_bytes'] / total:.0%} of its bytes in gaps")
    print(f"the daemon's estimate of harm: {done['detours']['share'] + max(0, done['idle']['share']):.2%} of the requests' time")


def change(ones, others):
    """The mean change of pairs, by the logarithms of their ratios, with its interval."""
    ratios = [math.log(one / other) for one, other in zip(ones, others)]
    mean, free = statistics.fmean(ratios), len(ratios) - 1
    # Student's t at 97.5%, by Cornish and Fisher.
    half = (1.959964 * (1 + 1.21 / free) + 2.8 / free**2) * statistics.stdev(ratios) / math.sqrt(len(ratios))
    low, middle, high = (100 * math.expm1(value) for value in (mean - half, mean, mean + half))
    return f"{middle:+.1f}%, 95% between {low:+.1f}% and {high:+.1f}%"


def scanned(ended, pages, pace, options):
    """Scans until `ended`, at most a page each `pace` seconds; one scan follows another."""
    # The thread gives way to the server and to the daemon.
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
    while not ended.is_set():
        scan = freeblock.mine("pgbench_accounts", **options)
        try:
            for page, block in scan._pages():
                scan._decode(page, block)
                pages.append(page)
                if ended.wait(pace) if pace else ended.is_set():
                    break
        finally:
            scan._blocks.close()
        assert not scan.damaged_pages or "image" in options, scan.damaged


def snapshot(command, mount, control):
    """A snapshot `now` of the disk; returns the options of `mine` for it."""
    run("fsfreeze", "--freeze", mount)
    try:
        run(command, "snapshot", "d0", "--name", "now", "--control", control)
    finally:
        run("fsfreeze", "--unfreeze", mount)
    return {"image": f"nbd+unix:///d0@now?socket={WORK}/nbd", "data": "/data", "mounted": False}


def check_open_transactions_in_a_snapshot_of_the_disk(command, mount, control):
    """The transactions end after the snapshot, and the next checkpoint writes that to the disk."""
    with open_transactions() as (theirs, undecided):
        sql("checkpoint")
        where = snapshot(command, mount, control)
    sql("delete from going where a < 300; vacuum going; checkpoint")
    run("sync")
    scan, ours = mined("going", **where)
    assert ours == [row for row in theirs if row not in undecided] and scan.undecided_rows == 7, (set(ours) ^ set(theirs), vars(scan))
    assert scan.changed_pages == scan.damaged_pages == 0
    run(command, "snapshot", "d0", "--name", "now", "--remove", "--control", control)


def check_a_snapshot_of_the_disk(command, mount, control):
    """The answer is the server's at the instant of the snapshot, whatever pgbench changes before and after."""
    names = ["aid", "bid", "abalance"]
    going = bench(3_600, 5)
    time.sleep(1)
    # A transaction of pgbench begins with pgbench_accounts: with its lock, none is under way.
    keep = Psql()
    keep.ask("begin; lock table pgbench_accounts in exclusive mode")
    theirs = [tuple(map(int, row)) for row in keep.ask(f"select {', '.join(names)} from pgbench_accounts order by aid")]
    sql("checkpoint")
    where = snapshot(command, mount, control)
    keep.ask("commit")
    keep.end()
    assert sum(row[2] for row in theirs) != 0, "pgbench had changed nothing"
    scan = freeblock.mine("pgbench_accounts", columns=names, **where)
    pages = scan._pages

    def ended_early():
        # pgbench takes most of the drive's time, so a scan gets some pages a second at best: the rest is read without pgbench.
        for n, page in enumerate(pages()):
            if n == 30:
                assert going.poll() is None, "pgbench was done before the scan"
                sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgbench'")
                going.communicate()
            yield page

    scan._pages = ended_early
    ours = [row for batch in scan for row in zip(*batch.to_pydict().values())]
    assert scan.undecided_rows == scan.damaged_pages == 0, vars(scan)
    assert sorted(ours) == theirs, (len(ours), len(theirs))
    assert sorted(tuple(map(int, row)) for row in rows(f"select {', '.join(names)} from pgbench_accounts")) != theirs
    run(command, "snapshot", "d0", "--name", "now", "--remove", "--control", control)
    # The export ends with the snapshot.
    try:
        freeblock.mine("pgbench_accounts", **where)
    except ConnectionError as error:
        assert "d0@now" in str(error), error
    else:
        raise AssertionError("a snapshot that is gone was read")


def run_recipes(**options):
    """The recipes of docs/PYTHON.md, with the places of this test."""
    text = (pathlib.Path(__file__).parents[3] / "docs" / "PYTHON.md").read_text()
    recipes = [block.split("```")[0] for block in text.split("```python mine\n")[1:]]
    places = 'data="/srv/data", disk="d0", control="/run/freeblock/control.sock"'
    found = []
    for recipe in recipes:
        assert places in recipe
        names = {"options": options}
        exec(compile(recipe.replace(places, "**options"), "recipe", "exec"), names)
        found.append(names)
    branches, sql_ = found
    theirs = {int(a): int(b) for a, b in rows("select bid, sum(abalance) from pgbench_accounts group by 1")}
    assert any(theirs.values()) and branches["by_branch"] == theirs, (branches["by_branch"], theirs)
    asked = {
        "groups": "select bid, count(*), sum(abalance) from pgbench_accounts group by bid order by bid",
        "top": "select aid, abalance from pgbench_accounts order by abalance desc, aid limit 3",
    }
    for name, query in asked.items():
        assert sql_[name] == [tuple(map(int, row)) for row in rows(query)], (name, sql_[name])
    assert sql_["total"] == (sum(theirs.values()),) * 3


def check_damage(path, pages, where):
    files = freeblock.places.Ext4(where["image"], "/data", where["offset"])
    _, extents = files.extents(path)
    files.close()
    draw = random.Random(7)
    hurt = sorted(draw.sample(range(pages), 12))
    with open(where["image"], "r+b") as file:
        for page in hurt:
            extent = next(e for e in extents if e.logical <= page * 8192 < e.logical + e.length)
            file.seek(extent.physical + page * 8192 - extent.logical + draw.randrange(8192))
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 0x40]))
    scan, ours = mined("pgbench_accounts", data="/data", mounted=False, columns=["aid"], **where)
    assert sorted(page for page, _ in scan.damaged) == hurt and scan.damaged_pages == 12, (scan.damaged, hurt)
    assert scan.pages_read == pages - 12 and 0 < KEPT - len(ours) < 12 * 70


if __name__ == "__main__":
    try:
        main()
        print("all checks passed")
    finally:
        if "KEEP" not in os.environ:
            shutil.rmtree(WORK, ignore_errors=True)
