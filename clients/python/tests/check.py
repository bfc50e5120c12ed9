"""Checks of an installed wheel, without a test framework: `python check.py FREEBLOCK`, with the path of the binary.

Every function called `check_...` is a check. The first that fails ends the program.
"""
import ast
import collections
import inspect
import itertools
import json
import os
import pathlib
import pickle
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import duckdb
import nanoarrow

import freeblock

try:
    import pandas
    import polars
    import pyarrow
    import pyarrow.parquet
except ImportError:  # only the long tier has these packages
    pyarrow = None

BINARY = sys.argv[1]


def binary(*arguments):
    ran = subprocess.run([BINARY, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 1, 3), ran.stderr
    return json.loads(ran.stdout)


def without_wall(values):
    return {key: value for key, value in values.items() if key != "wall_s"}


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def check_numbers_are_those_of_the_binary():
    cases = [
        {},
        {"policy": "sptf", "outstanding": 12, "requests": 3_000, "background": "scan", "seed": 7},
        {"drive": "nearline-4tb", "where": "outside", "rate": 40, "requests": 1_500, "background": "scan", "idle_time": True},
        {"where": "device", "workload": "oltp", "requests": 1_000, "behaviour": "none"},
        {"policy": "smtf", "outstanding": 4, "requests": 2_000, "blind": True, "where": "outside"},
        {"workload": "tpcc", "requests": 1_000, "block_size": "64k", "background": "scan"},
    ]
    for case in cases:
        flags = []
        for name, value in case.items():
            flag = "--" + name.replace("_", "-")
            flags += [flag] if name == "blind" else [flag, "on" if value is True else str(value)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = dict(freeblock.simulate(**case))
        theirs = binary("simulate", "--json", *flags)
        assert without_wall(ours) == without_wall(theirs), (case, ours, theirs)


def check_every_request_is_in_the_table():
    run = freeblock.simulate(policy="sptf", outstanding=8, requests=2_000, reads=0.5, keep_requests=True)
    table = run.requests
    assert len(table) == run["foreground"]["requests"] == 2_000
    response = [done - came for came, done in zip(table["arrival_ns"], table["completion_ns"])]
    mean_ms = sum(response) / len(response) / 1e6
    assert abs(mean_ms - run["foreground"]["mean_response_ms"]) < 1e-9, mean_ms
    assert set(table["op"]) == {"read", "write"}
    assert len(set(table["id"])) == 2_000
    assert freeblock.simulate(requests=10).requests is None


def check_a_table_is_read_through_the_arrow_interface():
    table = freeblock.simulate(requests=500, keep_requests=True).requests
    array = nanoarrow.Array(table)
    assert [field.name for field in array.schema.fields] == table.column_names
    assert len(array) == len(table) == 500
    rows = array.to_pylist()
    lists = table.to_pydict()
    for n in (0, 1, 250, 499):
        assert rows[n] == {name: lists[name][n] for name in lists}, rows[n]
    assert [len(batch) for batch in nanoarrow.ArrayStream(table).iter_chunks()] == [500]
    schema = nanoarrow.Schema(table)
    assert str(schema.field(0).type) == "Type.UINT64", schema


def check_others_read_a_table_as_it_is():
    run = freeblock.simulate(policy="sptf", outstanding=8, requests=3_000, reads=0.5, keep_requests=True)
    requests = run.requests
    took = [done - came for came, done in zip(requests["arrival_ns"], requests["completion_ns"])]
    means = {op: [] for op in ("read", "write")}
    for op, ns in zip(requests["op"], took):
        means[op].append(ns)
    found = duckdb.sql("SELECT op, count(*), sum(completion_ns - arrival_ns)::int8 FROM requests GROUP BY op ORDER BY op").fetchall()
    assert found == [(op, len(ns), sum(ns)) for op, ns in sorted(means.items())], found
    # Readers point into the memory of the table.
    places = [nanoarrow.Array(requests).child(1).buffer(1)._addr() for _ in range(2)]
    assert places[0] == places[1], places
    if pyarrow is None:
        return
    table = pyarrow.table(requests)
    column = table.column("arrival_ns").chunk(0)
    assert column.buffers()[1].address == places[0], "pyarrow has copied"
    assert table.num_rows == 3_000 and table.column("op").to_pylist() == requests["op"]
    frame = polars.DataFrame(requests)
    assert frame["arrival_ns"].to_arrow().buffers()[1].address == places[0], "polars has copied"
    assert frame["op"].to_list() == requests["op"] and frame["cache_hit"].to_list() == requests["cache_hit"]
    # pandas' own blocks are copies; its columns of Arrow are not.
    arrow = pyarrow.table(requests).to_pandas(types_mapper=pandas.ArrowDtype)
    assert arrow["arrival_ns"].array.__arrow_array__().chunk(0).buffers()[1].address == places[0], "pandas has copied"
    frame = pandas.DataFrame.from_arrow(requests)
    assert frame["arrival_ns"].tolist() == requests["arrival_ns"] and frame["op"].tolist() == requests["op"]


def check_a_table_outlives_the_run_and_its_own_object():
    array = nanoarrow.Array(freeblock.simulate(requests=300, keep_requests=True).requests)
    assert len(array.child(4).to_pylist()) == 300


def check_a_table_goes_to_another_process():
    table = freeblock.simulate(requests=50, keep_requests=True).requests
    assert pickle.loads(pickle.dumps(table)).to_pydict() == table.to_pydict()
    error = raises(freeblock.UsageError, lambda: freeblock.simulate(requests=0))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.help) == (str(error), error.help)


def check_drives_are_listed():
    drives = freeblock.drives()
    theirs = binary("drive", "list", "--json")
    assert drives["name"] == [drive["name"] for drive in theirs]
    assert drives["capacity_bytes"] == [drive["capacity_bytes"] for drive in theirs]
    assert freeblock.drive("quantum-atlas-10k") == binary("drive", "show", "quantum-atlas-10k", "--json")


def check_a_policy_of_python_repeats_a_named_one():
    def sptf(waiting, now):
        assert all(request.arrived <= now for request in waiting)
        return min(range(len(waiting)), key=lambda n: (waiting[n].seek + waiting[n].rest, waiting[n].arrived, waiting[n].id))

    same = {"outstanding": 6, "requests": 800, "seed": 3, "background": "scan"}
    ours = without_wall(freeblock.simulate(policy=sptf, **same))
    assert "a policy of the program's own" in ours.pop("title")
    theirs = without_wall(freeblock.simulate(policy="sptf", **same))
    theirs.pop("title")
    assert ours == theirs
    assert ours != without_wall(freeblock.simulate(policy="fcfs", **same))


def check_requests_of_python_are_served():
    load = [("read" if n % 3 else "write", 4096 * n, 8) for n in range(200)]
    run = freeblock.simulate(workload=load, keep_requests=True, requests=200)
    table = run.requests
    served = sorted(zip(table["id"], table["op"], table["lbn"], table["sectors"]))
    assert [request[1:] for request in served] == load
    endless = freeblock.simulate(workload=(("read", 0, 1) for _ in iter(int, 1)), requests=100, outstanding=2)
    assert endless["foreground"]["requests"] == 100


def check_exceptions_of_python_end_the_run():
    def broken(waiting, now):
        raise KeyError("mine")

    raises(KeyError, lambda: freeblock.simulate(policy=broken, outstanding=4, requests=100))
    raises(ValueError, lambda: freeblock.simulate(policy=lambda waiting, now: len(waiting), outstanding=4, requests=100))
    raises(ValueError, lambda: freeblock.simulate(workload=[("rewind", 0, 8)], requests=10))
    raises(ValueError, lambda: freeblock.simulate(workload=[("read", 2**64 - 1, 8)], requests=10))
    raises(freeblock.CommandError, lambda: freeblock.simulate(workload=[("read", 2**60, 8)], requests=10))


def check_wrong_options_are_refused_with_a_mend():
    error = raises(freeblock.UsageError, lambda: freeblock.simulate(ploicy="sptf"))
    assert "did you mean policy?" in str(error), error
    error = raises(freeblock.UsageError, lambda: freeblock.simulate(block_size=100))
    assert "block_size 100" in str(error) and "multiple of 512" in error.help, error
    error = raises(freeblock.UsageError, lambda: freeblock.simulate(policy="sjf"))
    assert "sptf" in str(error) and "--help" not in str(error), error
    error = raises(freeblock.CommandError, lambda: freeblock.simulate("missing.toml"))
    assert not isinstance(error, freeblock.UsageError) and "missing.toml" in str(error), error
    error = raises(freeblock.UsageError, lambda: freeblock.simulate(json=True))
    assert "did you mean" not in str(error), error
    raises(freeblock.UsageError, lambda: freeblock.simulate(policy=lambda waiting, now: 0, where="device"))
    raises(freeblock.UsageError, lambda: freeblock.simulate(workload=[], locality=5))


def check_options_are_described():
    options = {option.name: option for option in freeblock.options("simulate")}
    assert options["block_size"].takes_value and "4096" in options["block_size"].help
    assert options["where"].values == ["inside", "outside", "device"]
    assert not options["blind"].takes_value
    raises(freeblock.UsageError, lambda: freeblock.options("no-such-command"))


def check_the_lock_is_released_while_simulating():
    ended = threading.Event()

    def simulate():
        freeblock.simulate(policy="sptf", outstanding=20, requests=150_000)
        ended.set()

    thread = threading.Thread(target=simulate)
    thread.start()
    turns = 0
    while not ended.is_set():
        turns += 1
        time.sleep(0)
    thread.join()
    # With the lock held, this thread would get a turn before the run and one after it.
    assert turns > 10, turns


def check_two_threads_simulate_at_once():
    for long in (
        lambda: freeblock.simulate(policy="sptf", outstanding=20, requests=100_000),
        lambda: freeblock.probe("emulated:seagate-cheetah-4lp,none"),
        lambda: freeblock.lab("osdi00-fig5", quick=True),
    ):
        begun, ended, short = threading.Event(), threading.Event(), [0]

        def simulate_on():
            while not ended.is_set():
                freeblock.simulate(requests=100)
                short[0] += 1
                begun.set()

        thread = threading.Thread(target=simulate_on)
        thread.start()
        begun.wait()
        before = short[0]
        long()
        during = short[0] - before
        ended.set()
        thread.join()
        # If one run excluded the other, at most one would end before the long one had the lock, and one behind it.
        assert during > 2, during


def check_two_runs_at_once_are_the_same_as_one():
    alone = without_wall(freeblock.simulate(policy="sptf", outstanding=5, requests=4_000, seed=11))
    together = [None, None]

    def simulate(n):
        together[n] = without_wall(freeblock.simulate(policy="sptf", outstanding=5, requests=4_000, seed=11))

    threads = [threading.Thread(target=simulate, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [alone, alone]


def check_ctrl_c_ends_a_run():
    # A background process of a shell ignores SIGINT, and Python keeps that unless a handler is set.
    program = (
        "import freeblock, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "print('on', flush=True); freeblock.simulate(requests=1_000_000_000)"
    )
    ran = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert ran.stdout.readline() == "on\n"
        # A signal before the run has begun ends it as well, before it begins.
        time.sleep(0.5)
        ran.send_signal(2)
        _, complaint = ran.communicate(timeout=60)
    finally:
        ran.kill()
    assert "KeyboardInterrupt" in complaint, complaint


def check_a_core_in_the_drive_delivers_every_block_once():
    drive = freeblock.Drive("quantum-atlas-10k")
    core = freeblock.Core(drive, policy="fcfs")
    session = core.open(priority=50)
    task = core.read(session, 0, 4_900, block=8, parameter=7)
    now, seen, completed, id = 0, [], [], 0
    while core.to_come(session):
        id += 1
        core.submit(now, id, "read", id * 1_237 % 4_900, 8)
        while (action := core.poll(now)) is not None:
            if isinstance(action, freeblock.Execute):
                assert action.request == id and action.accesses[-1].purpose == "foreground"
                now = action.until
                core.completed(now)
            elif isinstance(action, freeblock.Completed):
                completed.append(action.id)
            else:
                assert isinstance(action, freeblock.Deliver), action
                assert (action.session, action.task, action.parameter, action.bad) == (session, task, 7, None)
                seen.append(action.lbn)
    assert sorted(seen) == list(range(0, 4_900, 8))
    assert completed == list(range(1, id + 1))
    gaps, used = core.gaps
    assert 0 < used <= gaps


def outside(policy, requests=300):
    """A host outside the drive: responses in ns by request, and blocks delivered."""
    drive = freeblock.Drive("quantum-atlas-10k", behaviour="fast02", seed=5)
    core = freeblock.Core(drive, where="outside", policy=policy, harm=20_000)
    session = core.open()
    core.read(session, 0, 200_000, block=64)
    now, sent, blocks, responses, came = 0, 0, 0, {}, {}

    def submit(now):
        nonlocal sent
        sent += 1
        came[sent] = now
        core.submit(now, sent, "read", sent * 7_919_993 % (core.capacity - 8), 8)

    for _ in range(4):
        submit(now)
    while len(responses) < requests:
        while (action := core.poll(now)) is not None:
            if isinstance(action, freeblock.Send):
                drive.submit(now, action.id, action.op, action.lbn, action.sectors)
            elif isinstance(action, freeblock.Completed):
                responses[action.id] = now - came[action.id]
                submit(now)
            elif isinstance(action, freeblock.Deliver):
                blocks += 1
        times = [at for at in (drive.next_event(), core.wake_at()) if at is not None]
        now = max(now, min(times))
        for reply in drive.advance(now):
            core.command_done(reply.at, reply.id)
    return responses, blocks


def check_a_core_outside_the_drive_serves_every_request():
    responses, blocks = outside("sptf")
    assert set(range(1, 200)) <= set(responses) and blocks > 0, (len(responses), blocks)
    assert all(0 < response < 10**9 for response in responses.values())
    assert outside("sptf") == (responses, blocks)


def check_a_policy_of_python_serves_a_core_outside_the_drive():
    assert outside(lambda waiting, now: min(range(len(waiting)), key=lambda n: waiting[n].id))[1] > 0
    raises(KeyError, lambda: outside(lambda waiting, now: {}["no"]))


def check_writes_of_a_core_wait_for_their_bytes():
    core = freeblock.Core(freeblock.Drive("quantum-atlas-10k"))
    session = core.open()
    core.write(session, 800, 8, block=8, parameter=3)
    core.promote(session, 800, 8)
    asked = []

    def not_now(*wanted):
        asked.append(wanted)
        return False

    assert core.poll(0, not_now) is None and asked[0][0] == session and asked[0][2:] == (800, 8, 3)
    core.promote(session, 800, 8)
    action = core.poll(0, lambda *wanted: True)
    assert isinstance(action, freeblock.Execute) and action.accesses[0].op == "write" and action.request is None


def check_wrong_calls_of_a_core_are_refused():
    drive = freeblock.Drive("quantum-atlas-10k")
    core = freeblock.Core(drive)
    raises(ValueError, lambda: core.submit(0, 1, "read", core.capacity, 8))
    raises(ValueError, lambda: core.submit(0, 1, "read", 0, 0))
    raises(ValueError, lambda: core.submit(0, 1, "erase", 0, 8))
    raises(RuntimeError, lambda: core.completed(0))
    raises(RuntimeError, lambda: core.command_done(0, 1))
    raises(ValueError, lambda: core.open(priority=0))
    raises(ValueError, lambda: core.to_come(99))
    raises(ValueError, lambda: freeblock.Core(drive, where="beside"))
    raises(ValueError, lambda: freeblock.Core(drive, policy="sjf"))
    raises(ValueError, lambda: freeblock.Drive("no-such-drive"))
    raises(TypeError, lambda: freeblock.Core(drive, policy=3))
    # Arithmetic on a time near the end of the numbers would overflow.
    for late in (2**62 + 1, 2**64 - 1):
        for core_ in (freeblock.Core(drive), freeblock.Core(drive, where="outside", idle_time=True)):
            for call in (lambda: core_.submit(late, 1, "read", 0, 8), lambda: core_.poll(late), lambda: drive.submit(late, 1, "read", 0, 8)):
                assert "146 years" in str(raises(ValueError, call))
            core_.submit(2**62, 1, "read", 0, 8)
            assert core_.poll(2**62) is not None
    old = freeblock.Drive("quantum-atlas-10k", behaviour="modern")
    old.submit(2**62 - 10**9, 1, "read", 0, 8)
    assert len(old.advance(2**62)) == 1
    assert core.poll(100) is None
    error = raises(ValueError, lambda: core.poll(99))
    assert "does not go backwards" in str(error)


def check_an_emulated_drive_is_probed_as_by_the_binary():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/found.toml"
        found = freeblock.probe("emulated:seagate-cheetah-4lp,none", output=path)
        theirs = binary("probe", "emulated:seagate-cheetah-4lp,none", "--json")
        assert found.profile == theirs["profile"] and found.report == theirs["report"]
        assert freeblock.simulate(path, requests=100)["foreground"]["requests"] == 100


def check_a_claim_of_the_lab_is_that_of_the_binary():
    lab = freeblock.lab("osdi00-fig5", quick=True)
    theirs = binary("lab", "check", "osdi00-fig5", "--quick", "--json")["claims"]
    measures = [measure for claim in theirs for measure in claim["measures"]]
    assert lab.claims["ours"] == [measure["ours"]["mean"] for measure in measures]
    assert lab.claims["holds"] == [measure["holds"] for measure in measures]
    assert lab.holds == all(claim["holds"] for claim in theirs)


GRID = {"policy": ["fcfs", "sptf"], "outstanding": [2, 8], "requests": [400]}


def check_a_sweep_has_the_numbers_of_single_runs_in_the_order_of_the_grid():
    table = freeblock.sweep(GRID, seeds=2, workers=3)
    rows = [(policy, outstanding, seed) for policy in GRID["policy"] for outstanding in GRID["outstanding"] for seed in (1, 2)]
    assert list(zip(table["policy"], table["outstanding"], table["seed"])) == rows
    means = [
        freeblock.simulate(policy=policy, outstanding=outstanding, requests=400, seed=seed)["foreground"]["mean_response_ms"]
        for policy, outstanding, seed in rows
    ]
    assert table["foreground.mean_response_ms"] == means
    assert "wall_s" not in table.column_names
    assert len(nanoarrow.Array(table)) == 8


def check_a_sweep_goes_on_from_its_directory():
    sweeping = freeblock.sweeping
    with tempfile.TemporaryDirectory() as directory:
        whole = freeblock.sweep(GRID, seeds=[5], directory=directory, workers=1).to_pydict()
        files = sorted(pathlib.Path(directory).iterdir())
        assert len(files) == 4 and all(file.suffix == ".parquet" for file in files), files
        # A kept result is not computed again: a changed file gives the changed result. A damaged or missing one is computed again.
        run = {"policy": "fcfs", "outstanding": 2, "requests": 400, "seed": 5}
        key = sweeping._key(run)
        changed = sweeping._kept(pathlib.Path(directory), key, run)
        changed["foreground"]["requests"] = 77
        sweeping._keep(pathlib.Path(directory), key, run, changed)
        others = [file for file in files if file.stem != key]
        others[0].write_bytes(others[0].read_bytes()[:-20])
        others[1].unlink()
        again = freeblock.sweep(GRID, seeds=[5], directory=directory).to_pydict()
        assert sorted(again["foreground.requests"]) == [77, 400, 400, 400]
        del whole["foreground.requests"], again["foreground.requests"]
        assert again == whole


def check_the_directory_of_a_sweep_is_parquet_that_others_read():
    grid = [{"policy": "sptf", "outstanding": 3, "requests": 200}, {"rate": 20.5, "requests": 200, "background": "scan", "idle_time": True}]
    with tempfile.TemporaryDirectory() as directory:
        table = freeblock.sweep(grid, seeds=2, directory=directory).to_pydict()
        found = duckdb.sql(f"FROM read_parquet('{directory}/*.parquet', union_by_name = true)")
        assert sorted(found.columns) == sorted(table)
        ours = sorted(zip(*(table[name] for name in found.columns)), key=repr)
        assert sorted(found.fetchall(), key=repr) == ours
        if pyarrow is not None:
            first = pyarrow.parquet.read_table(next(pathlib.Path(directory).iterdir())).to_pylist()
            assert len(first) == 1 and tuple(first[0].get(name) for name in found.columns) in ours, first
    many = [("n", "uint64", [None, 2**64 - 1] * 20), ("t", "text", ["\u00e4", None] * 20), ("b", "bool", [True, False] * 20)]
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        file.write(freeblock.parquet.encoded([*many, ("x", "double", [0.1, None] * 20)], {"key": "text"}))
        file.flush()
        rows = duckdb.sql(f"FROM '{file.name}'").fetchall()
        assert rows == [(None, "\u00e4", True, 0.1), (2**64 - 1, None, False, None)] * 20, rows[:2]


def check_a_damaged_file_of_a_sweep_counts_as_none():
    sweeping, parquet = freeblock.sweeping, freeblock.parquet
    run, result = {"policy": "sptf", "seed": 1}, {"foreground": {"requests": 50, "mean": 1.25, "none": None}, "title": "t"}
    with tempfile.TemporaryDirectory() as directory:
        store = pathlib.Path(directory)
        sweeping._keep(store, "k", run, result)
        file = store / "k.parquet"
        whole = file.read_bytes()
        assert sweeping._kept(store, "k", run) == result and sweeping._kept(store, "k", {**run, "seed": 2}) is None
        draw, refused = random.Random(3), 0
        for n in [*range(0, len(whole), 61), *range(len(whole) - 12, len(whole))]:
            file.write_bytes(whole[:n])
            assert sweeping._kept(store, "k", run) is None, n
        for _ in range(1_000):
            hurt = bytearray(whole)
            for _ in range(draw.randrange(1, 4)):
                hurt[draw.randrange(len(hurt) // 2, len(hurt))] = draw.randrange(256)
            file.write_bytes(hurt)
            found = sweeping._kept(store, "k", run)
            assert found in (None, result), found
            refused += found is None
        assert refused > 500, refused
    for data in (b"", b"PAR1PAR1", b"PAR1" + b"\x19" * 400 + struct.pack("<I", 400) + b"PAR1", b"PAR1\x05\1\0\0\0PAR1"):
        raises(parquet.Damaged, lambda: parquet.texts(data))


def check_a_sweep_that_was_killed_goes_on():
    grid = {"policy": ["fcfs", "sptf"], "outstanding": [1, 2, 4, 8, 16], "requests": [4_000]}
    alone = freeblock.sweep(grid, seeds=2).to_pydict()
    program = f"import freeblock, sys; freeblock.sweep({grid!r}, seeds=2, workers=2, directory=sys.argv[1])"
    with tempfile.TemporaryDirectory() as directory:
        store, kills, left = pathlib.Path(directory), 0, 0
        while kills < 3:
            sweeping = subprocess.Popen([sys.executable, "-c", program, directory])
            while len(list(store.glob("*.parquet"))) < left + 3 and sweeping.poll() is None:
                time.sleep(0.002)
            sweeping.kill()
            sweeping.wait()
            kills, left = kills + 1, len(list(store.glob("*.parquet")))
        before = {file.name: file.stat().st_mtime_ns for file in store.glob("*.parquet")}
        assert 3 <= len(before) <= 20, before
        assert freeblock.sweep(grid, seeds=2, directory=directory).to_pydict() == alone
        after = {file.name: file.stat().st_mtime_ns for file in store.glob("*.parquet")}
        assert len(after) == 20 and all(after[name] == at for name, at in before.items()), "a kept result was computed again"


def check_a_worker_that_dies_is_replaced_and_its_run_is_not_lost():
    alone = freeblock.sweep(GRID, seeds=3, workers=1).to_pydict()
    started = []
    popen = subprocess.Popen

    def start(*arguments, **options):
        process = popen(*arguments, **options)
        started.append(process)
        if len(started) <= 2:
            process.kill()
        return process

    sweeping = sys.modules["freeblock.sweeping"]
    sweeping.subprocess.Popen = start
    try:
        assert freeblock.sweep(GRID, seeds=3, workers=2).to_pydict() == alone
    finally:
        sweeping.subprocess.Popen = popen
    assert len(started) >= 4, started
    assert all(process.returncode is not None for process in started)


def check_a_sweep_ends_with_the_first_simulation_that_fails():
    error = raises(freeblock.CommandError, lambda: freeblock.sweep({"drive": ["quantum-atlas-10k", "missing.toml"], "requests": [50]}))
    assert "missing.toml" in str(error), error
    raises(freeblock.UsageError, lambda: freeblock.sweep({"policy": "sptf"}))
    raises(freeblock.UsageError, lambda: freeblock.sweep([{"policy": lambda waiting, now: 0}]))
    raises(freeblock.UsageError, lambda: freeblock.sweep([{"seed": 1}]))
    for wrong in ({"workers": 0}, {"workers": -3}, {"workers": "two"}, {"seeds": -1}, {"seeds": True}, {"seeds": [1.5]}, {"seeds": "12"}):
        raises(freeblock.UsageError, lambda: freeblock.sweep({"requests": [10]}, **wrong))
    for wrong in (5, None, "abc", [5], {5: [10]}):
        raises(freeblock.UsageError, lambda: freeblock.sweep(wrong))
    assert len(freeblock.sweep([], seeds=3)) == 0


SMALL = {"drives": {"mimic-less-capacity": 1, "quantum-atlas-10k": 2}, "window_s": 20, "where": "inside"}


def check_a_fleet_is_the_same_by_its_seed_and_names_each_disk():
    loads = [(1, {"workload": "random", "rate": 20}), (1, {"workload": "utilisation:30"})]
    fleet = freeblock.fleet(6, "rebuild", group=2, loads=loads, seed=3, workers=2, **SMALL)
    table = fleet.disks.to_pydict()
    assert table["disk"] == list(range(6)) and table["group"] == [0, 0, 1, 1, 2, 2]
    assert len(set(table["seed"])) == 6
    for name in ("drive", "load"):
        assert table[name][::2] == table[name][1::2], "disks of a group differ"
    for low, hours, high in zip(table["hours_low"], table["hours"], table["hours_high"]):
        assert 0 < low <= hours <= high
    # A smaller fleet with the same seed is the beginning of a larger one.
    fewer = freeblock.fleet(2, "rebuild", group=2, loads=loads, seed=3, workers=1, **SMALL).disks.to_pydict()
    assert fewer == {name: values[:2] for name, values in table.items()}
    other = freeblock.fleet(2, "rebuild", group=2, loads=loads, seed=4, workers=1, **SMALL).disks.to_pydict()
    assert other["seed"] != fewer["seed"] and other["hours"] != fewer["hours"]
    # The slowest disk of a group counts.
    slow = [max(table["hours"][n : n + 2]) for n in (0, 2, 4)]
    hours = {name: values[0] for name, values in fleet.summary.to_pydict().items()}
    assert (hours["quantity"], hours["p100"], hours["p50"]) == ("hours", max(slow), sorted(slow)[1])
    assert fleet.unfinished_share == 0 and abs(fleet.disk_days * 24 - sum(table["hours"])) < 1e-9
    assert len(nanoarrow.Array(fleet.disks)) == 6


def check_disks_that_do_not_finish_are_counted():
    load = [(1, {"workload": "random", "rate": 40})]
    # A scheduler that knows only the size of a drive uses no gap.
    fleet = freeblock.fleet(3, loads=load, workers=2, **{**SMALL, "where": "outside", "blind": True, "idle_time": False})
    table = fleet.disks.to_pydict()
    assert table["hours"] == table["hours_high"] == [None] * 3 and table["mb_per_s"] == [0] * 3, table
    assert fleet.unfinished_share == 1 and fleet.disk_days == 0
    assert fleet.summary["p10"][0] is None and fleet.summary["p10"][3] is not None
    whole = freeblock.fleet(3, loads=load, workers=2, **SMALL)
    assert whole.unfinished_share == 0 and None not in whole.disks["hours"]
    limit = sorted(whole.disks["hours"])[1]
    late = freeblock.fleet(3, loads=load, workers=2, within_hours=limit, **SMALL)
    assert late.unfinished_share == 1 / 3 and late.disks.to_pydict() == whole.disks.to_pydict()


def check_a_backup_reads_the_part_in_use_and_a_fleet_goes_on_from_its_directory():
    load = [(1, {"workload": "random", "rate": 20})]
    with tempfile.TemporaryDirectory() as directory:
        backup = freeblock.fleet(2, "backup", loads=load, full=(0.4, 0.6), directory=directory, workers=2, **SMALL)
        parts = backup.disks["part"]
        assert all(0.4 <= part <= 0.6 for part in parts), parts
        for part, hours, rate, drive in zip(parts, *(backup.disks[name] for name in ("hours", "mb_per_s", "drive"))):
            assert abs(hours * 3600 * rate * 1e6 / (freeblock.drive(drive)["capacity_bytes"] * part) - 1) < 1e-9
        files = {file.name: file.stat().st_mtime_ns for file in pathlib.Path(directory).iterdir()}
        again = freeblock.fleet(2, "backup", loads=load, full=(0.4, 0.6), directory=directory, workers=2, **SMALL)
        assert again.disks.to_pydict() == backup.disks.to_pydict()
        assert files == {file.name: file.stat().st_mtime_ns for file in pathlib.Path(directory).iterdir()}
    raises(freeblock.UsageError, lambda: freeblock.fleet(2, "defragment"))
    raises(freeblock.UsageError, lambda: freeblock.fleet(2, full=(0.6, 0.4)))
    for wrong in (
        {"disks": 0}, {"disks": 1.5}, {"disks": "two"}, {"group": 0}, {"window_s": float("nan")}, {"window_s": float("inf")}, {"full": 0.5},
        {"drives": {}}, {"drives": {"quantum-atlas-10k": -1}}, {"drives": ["quantum-atlas-10k"]}, {"loads": []}, {"loads": [(0, {})]},
        {"loads": 5}, {"loads": [{"rate": 20}]}, {"background": "none"}, {"requests": 3}, {"client": 5},
    ):  # fmt: skip
        raises(freeblock.UsageError, lambda: freeblock.fleet(**{"disks": 1, **wrong}))


def check_the_hours_of_a_whole_scan_are_in_the_interval():
    load = {"workload": "random", "rate": 40}
    fleet = freeblock.fleet(1, drives={"mimic-less-capacity": 1}, loads=[(1, load)], workers=2, where="inside", idle_time=False)
    table = fleet.disks.to_pydict()
    assert table["extrapolated"][0] > 0.7, table
    run = freeblock.simulate("mimic-less-capacity", where="inside", background="scan", block_size=8192, seed=table["seed"][0], **load)
    hours = 24 / run["background"]["scans_per_day"]
    assert table["hours_low"][0] < hours < table["hours_high"][0], (hours, table)


def a_page(rows, lower=None, size=8196):
    """A page of PostgreSQL's with tuples: each the xmin, xmax, infomask and data of one, whose columns are not null."""
    page, upper, pointers = bytearray(8192), 8192, b""
    for xmin, xmax, mask, columns, data in rows:
        whole = struct.pack("<IIIHHHHHB", xmin, xmax, 0, 0, 0, 1, columns, mask, 24) + b"\0" + data
        upper -= -(-len(whole) // 8) * 8
        page[upper : upper + len(whole)] = whole
        pointers += struct.pack("<I", upper | 1 << 15 | len(whole) << 17)
    page[24 : 24 + len(pointers)] = pointers
    struct.pack_into("<QHHHHHHI", page, 0, 0, 0, 0, lower or 24 + len(pointers), upper, 8192, size, 0)
    return bytes(page)


INT4 = freeblock.postgres.Column("a", 23, 4, "i", False, False)
TEXT = freeblock.postgres.Column("b", 25, -1, "i", False, False)


def decoded(data, *columns):
    (tuple_,) = freeblock.postgres.tuples(a_page([(3, 0, 0x0900, len(columns), data)]))
    return freeblock.postgres.values(tuple_, columns, [True] * len(columns))


def compressed(size, method, data):
    """A value that is compressed in its tuple: by pglz (0) or LZ4 (1)."""
    return struct.pack("<II", (8 + len(data)) << 2 | 2, size | method << 30) + data


def check_values_of_postgres_are_decoded():
    postgres = freeblock.postgres
    assert decoded(struct.pack("<i", -7) + bytes([2 * 4 + 1]) + b"abc", INT4, TEXT) == [-7, "abc"]
    assert decoded(bytes([3]) + b"\0\0\0" + struct.pack("<i", 9), TEXT, INT4) == ["", 9]
    long = b"x" * 300
    assert decoded(struct.pack("<I", 304 << 2) + long, TEXT) == ["x" * 300]
    assert decoded(b"\1\x12" + bytes(16), TEXT) == [postgres.TOASTED]
    # A column that tuples have no value for, by a default of the catalog or because the server generates it.
    added, generated = INT4._replace(has_missing=True), INT4._replace(virtual=True)
    (tuple_,) = postgres.tuples(a_page([(3, 0, 0x0900, 1, struct.pack("<i", 5))]))
    assert postgres.values(tuple_, (INT4, added, generated, INT4), [True] * 4) == [5, postgres.MISSING, postgres.VIRTUAL, None]
    # "ab" and nine bytes from two before.
    assert decoded(compressed(11, 0, bytes([0b100]) + b"ab" + bytes([6, 2])), TEXT) == ["abababababa"]
    # LZ4: "ab" and nine bytes from two before, and three bytes at the end; then lengths that go on in the next bytes.
    assert decoded(compressed(14, 1, bytes([0x25]) + b"ab" + bytes([2, 0, 0x30]) + b"xyz"), TEXT) == ["abababababaxyz"]
    plain, repeated = b"n" * (15 + 255 + 7), 15 + 4 + 255 + 9
    packed = bytes([0xFF, 255, 7]) + plain + bytes([1, 0, 255, 9, 0x10]) + b"z"
    assert decoded(compressed(len(plain) + repeated + 1, 1, packed), TEXT) == ["n" * (len(plain) + repeated) + "z"]
    numeric = postgres.TYPES[1700].read
    for words, text in (
        ((0x8000 | 2 << 7, 12, 3400), "12.34"),
        ((0xA000 | 4 << 7 | 0x7F, 5), "-0.0005"),
        ((0x4000 | 0, 1, 7), "-70000"),
        ((0x8000,), "0"),
        ((0xC000,), "NaN"),
        ((0xF000,), "-Infinity"),
    ):
        assert format(numeric(struct.pack(f"<{len(words)}H", *words)), "f") == text, text
    assert postgres.TYPES[1082].read(struct.pack("<i", -10_957)) == 0
    assert postgres.TYPES[1114].read(struct.pack("<q", 2**63 - 1)) is postgres.INFINITE


def check_damaged_pages_of_postgres_are_refused_and_never_misread():
    postgres = freeblock.postgres
    page = a_page([(3, 0, 0x0900, 2, struct.pack("<i", n) + bytes([2 * 9 + 1]) + b"freeblock"[:8]) for n in range(20)])
    assert len(postgres.tuples(page)) == 20 and postgres.tuples(bytes(8192)) == []
    for broken in (page[:-1], a_page([], size=4100), a_page([], lower=23), a_page([], lower=26), a_page([], lower=9000)):
        raises(postgres.Damaged, lambda: postgres.tuples(broken))
    raises(postgres.Damaged, lambda: postgres.tuples(page, 0))
    summed = page[:8] + struct.pack("<H", postgres.page_checksum(page, 5)) + page[10:]
    assert len(postgres.tuples(summed, 5)) == 20
    raises(postgres.Damaged, lambda: postgres.tuples(summed, 6))
    draw, refused = random.Random(1), 0
    for _ in range(3_000):
        hurt = bytearray(page)
        for _ in range(draw.randrange(1, 6)):
            hurt[draw.choice((draw.randrange(24), draw.randrange(104), draw.randrange(8192)))] = draw.randrange(256)
        try:
            for tuple_ in postgres.tuples(bytes(hurt)):
                postgres.values(tuple_, (INT4, TEXT), (True, True))
        except postgres.Damaged:
            refused += 1
    assert refused > 500, refused
    for data in (b"", b"\x80\0\0\0", b"\1\5" + bytes(16), b"\xff", struct.pack("<I", 2 << 2), struct.pack("<II", 12 << 2 | 2, 90) + bytes(4)):
        raises(postgres.Damaged, lambda: decoded(data, TEXT))
    for size, method, data in (
        (4, 2, b"abcd"),  # an unknown method
        (4, 1, b""),
        (4, 1, b"\x50abcd"),  # literals past the end
        (9, 1, b"\x40abcd"),  # fewer bytes than are said
        (3, 1, b"\x40abcd"),  # more bytes than are said
        (12, 1, b"\x44abcd\0\0"),  # from before the beginning, and from itself
        (12, 1, b"\x44abcd\5\0"),
        (9, 1, b"\x44abcd\1\0"),  # a repetition past the size
        (20, 1, b"\x4fabcd\1\0"),  # a length that goes on past the end
        (1 << 29, 1, b"\x40abcd"),  # more bytes than the packed ones can hold
    ):
        raises(postgres.Damaged, lambda: decoded(compressed(size, method, data), TEXT))
    for data in (b"", b"\0", b"\0\0", struct.pack("<HHH", 0, 0, 10_000), struct.pack("<H", 0xE000)):
        raises(postgres.Damaged, lambda: postgres.TYPES[1700].read(data))


def a_control(next_xid=1_000, active=0, multi=1, offset=1, version="15", state=6, wal_level=1, prepared=0, numbers=None):
    """A control file, by default of a server of PostgreSQL 15 that is running."""
    known = freeblock.postgres.VERSIONS[version]
    control = bytearray(8192)
    struct.pack_into("<IIi", control, 8, *(numbers or (known.control, known.catalog)), state)
    struct.pack_into("<QIII", control, 64, next_xid, 0, multi, offset)
    struct.pack_into("<I", control, 120, active)
    for at, value in ((172, wal_level), (192, prepared), (204, 8), (216, 8192), (220, 131_072), (232, 64)):
        struct.pack_into("<I", control, at, value)
    struct.pack_into("<I", control, known.control_bytes, freeblock.postgres._crc32c(bytes(control[: known.control_bytes])))
    return bytes(control)


def a_snapshot(statuses, next_xid=1_000, active=0, members=()):
    """A snapshot with the states of transactions, and with groups: lists of a transaction and its kind of lock."""
    log = bytearray(8192)
    for xid, status in statuses.items():
        log[xid // 4] |= status << xid % 4 * 2
    offsets, places, at = bytearray(8192), bytearray(8192), 1
    for multi, group in enumerate(members, 1):
        struct.pack_into("<I", offsets, multi * 4, at)
        for xid, kind in group:
            places[at // 4 * 20 + at % 4] = kind
            struct.pack_into("<I", places, at // 4 * 20 + 4 + at % 4 * 4, xid)
            at += 1
    files = {
        "global/pg_control": a_control(next_xid, active, len(members) + 1, at),
        "pg_xact/0000": log,
        "pg_multixact/offsets/0000": offsets,
        "pg_multixact/members/0000": places,
    }
    return freeblock.postgres.Snapshot(lambda path: None if path not in files else bytes(files[path]))


def check_visibility_is_decided_by_the_commit_log():
    committed, aborted, part = 1, 2, 3
    snapshot = a_snapshot(
        {10: committed, 11: aborted, 12: 0, 13: part, 20: committed, 900: committed},
        active=800,
        members=[[(10, 0), (20, 1)], [(10, 0), (20, 5)], [(11, 4)], [(13, 5)]],
    )

    def visible(xmin, xmax=0, mask=0):
        (tuple_,) = freeblock.postgres.tuples(a_page([(xmin, xmax, mask, 0, b"")]))
        return snapshot.visible(tuple_)

    invalid, multi, only = 0x0800, 0x1000, 0x0080
    assert visible(10, mask=invalid) is True and visible(11, mask=invalid) is False and visible(12, mask=invalid) is False
    assert visible(13, mask=invalid) is None, "the part of a transaction whose end is unknown"
    assert visible(1_000, mask=invalid) is False, "begun after the checkpoint"
    assert visible(900, mask=invalid) is None, "under way at the checkpoint, and committed since"
    assert visible(900, mask=invalid | 0x0100) is None, "a hint is not of the checkpoint"
    assert visible(900, mask=invalid | 0x0300) is True, "frozen"
    assert visible(10, 20) is False and visible(10, 11) is True and visible(10, 12) is True and visible(10, 1_001) is True
    assert visible(10, 13) is None and visible(10, 20, only) is True and visible(10, 20, 0x0040) is True
    assert [visible(10, n, multi) for n in (1, 2, 3, 4, 5)] == [True, False, True, None, True]
    # The log of old transactions is removed when their tuples are marked.
    old = a_snapshot({}, next_xid=2**31 + 5_000_000)
    (tuple_,) = freeblock.postgres.tuples(a_page([(5_000_000, 0, invalid | 0x0100, 0, b"")]))
    assert old.visible(tuple_) is True
    assert old.visible(tuple_._replace(infomask=invalid)) is None


def check_versions_of_postgres_are_known_by_name_or_refused():
    postgres = freeblock.postgres
    for name in postgres.VERSIONS:
        control = postgres.control(a_control(version=name, active=7))
        assert (control.version, control.oldest_active, control.running) == (name, 7, True)
    # PostgreSQL 14, 17, and a beta of 15: a number of either kind alone is not enough.
    for numbers in ((1300, 202107181), (1300, 202406281), (1300, 202204291), (1800, 202209061), (1700, 202506291)):
        error = raises(postgres.Damaged, lambda: postgres.control(a_control(numbers=numbers)))
        for said in (str(numbers[0]), str(numbers[1]), "PostgreSQL 15", "PostgreSQL 16", "PostgreSQL 18"):
            assert said in str(error), error
    for broken in (b"", bytes(8192), a_control()[:200], a_control()[:120] + b"\1" + a_control()[121:]):
        raises(postgres.Damaged, lambda: postgres.control(broken))
    files = {"global/pg_control": a_control(numbers=(1300, 202107181))}
    error = raises(postgres.Damaged, lambda: postgres.Snapshot(files.get, "/srv/data"))
    assert "/srv/data/global/pg_control" in str(error), error


def check_a_checkpoint_that_does_not_say_what_was_under_way_is_refused():
    postgres = freeblock.postgres
    shut_down, running = 1, 6
    for given, enough in (
        ({"active": 5, "prepared": 4}, True),
        ({"active": 0}, True),  # a checkpoint of a shutdown, after which no transaction is under way
        ({"active": 0, "prepared": 4}, False),  # but a prepared transaction may be
        ({"active": 0, "wal_level": 0}, False),  # such a checkpoint names none in any case
        ({"active": 0, "wal_level": 0, "prepared": 4, "state": shut_down}, True),
    ):
        files = {"global/pg_control": a_control(**{"state": running, **given})}
        if enough:
            postgres.Snapshot(files.get)
        else:
            error = raises(LookupError, lambda: postgres.Snapshot(files.get, "/srv/data"))
            assert "/srv/data" in str(error) and "CHECKPOINT" in str(error) and "wal_level" in str(error), error


def check_a_directory_without_a_server_is_named():
    with tempfile.TemporaryDirectory() as directory:
        for place in (directory, f"{directory}/absent"):
            error = raises(LookupError, lambda: freeblock.mine("t", data=place, image="/dev/null"))
            assert str(error).startswith(f"{place}: ") and "SHOW data_directory" in str(error), error


def check_a_table_that_moves_is_noticed():
    mining = sys.modules["freeblock.mining"]
    run = mining._Run
    before = [run(81_920, 16_384, 0, 0, True), run(40_960, 8_192, 2, 0, True), run(20_480, 4_096, 3, 0, False)]
    # The same bytes in other runs, as after an append that fills a page, and after one more page.
    after = [run(81_920, 8_192, 0, 0, True), run(90_112, 8_192, 1, 0, True), run(40_960, 8_192, 2, 0, True), run(20_480, 8_192, 3, 0, True)]
    assert mining._in_place(before, before) and mining._in_place(before, after) and mining._in_place([], before)
    for moved in ([], after[1:], after[:3], [*after[:3], run(28_672, 8_192, 3, 0, True)], [after[0]._replace(physical=0), *after[1:]]):
        assert not mining._in_place(before, moved), moved


def check_intervals_of_a_scan_hold_the_truth():
    """Values that double over the table; pages come from its middle first, as the head's do."""
    draw, held, trials = random.Random(2), [0, 0, 0], 150
    pages = [(rows := draw.randrange(40, 60), [sum(draw.random() * (1 + n / 2_000) for _ in range(rows))], [rows]) for n in range(2_000)]
    rows, total = sum(page[0] for page in pages), sum(page[1][0] for page in pages)
    mining = sys.modules["freeblock.mining"]
    for _ in range(trials):
        scan = mining.Mine.__new__(mining.Mine)
        scan.pages, scan._names, scan._numbers, scan._strata = 2_000, ["v"], [0], {}
        for n, page in enumerate(pages):
            if draw.random() < (0.5 if 600 < n < 1_400 else 0.2):
                scan._strata.setdefault(n * 32 // 2_000, mining._Stratum()).pages.append(page)
        for n, (estimate, truth) in enumerate(((scan.count(), rows), (scan.total("v"), total), (scan.mean("v"), total / rows))):
            held[n] += estimate.low <= truth <= estimate.high
    assert all(0.9 <= count / trials <= 0.99 for count in held), held
    # When every page is read, the sums are exact, although 7 / 49 * 49 is not 7 in floating-point numbers.
    scan = mining.Mine.__new__(mining.Mine)
    scan.pages, scan._names, scan._numbers, scan._strata = 49 * 32, ["v"], [0], {}
    for n in range(scan.pages):
        scan._strata.setdefault(n // 49, mining._Stratum()).pages.append((1, [1.0 if n % 49 == 0 else 0.0], [1]))
    assert 1 / 49 * 49 != 1 and scan.total("v") == (32.0,) * 3 and scan.count() == (scan.pages,) * 3


def check_the_control_client_is_in_the_wheel():
    assert freeblock.Session.__module__ == "freeblock.control"
    for call in (lambda: freeblock.request("GET", "/", control="/no/such/socket"), lambda: freeblock.Session("d0", control="/no/such/socket")):
        error = raises(FileNotFoundError, call)
        assert "/no/such/socket" in str(error) and "freeblock serve --control" in str(error), error
    error = raises(OSError, lambda: freeblock.nbd.Export("nbd+unix:///x?socket=/no/such/socket"))
    assert "no server answers" in str(error) and "/no/such/socket" in str(error), error


def check_a_scan_of_many_ranges_registers_them_by_turns():
    mining, control = sys.modules["freeblock.mining"], sys.modules["freeblock.control"]

    class Few:
        """A session that takes as many tasks as a daemon does."""

        sector_bytes = 512

        def __init__(self, *_, **__):
            self.task, self.to_come, self.left = 0, collections.deque(), {}

        def read(self, start, sectors, block):
            self.task += 1
            self.to_come.extend((self.task, at) for at in range(start, start + sectors, block))
            self.left[self.task] = sectors // block
            assert len(self.left) <= 4096
            return self.task

        def get(self):
            task, start = self.to_come.popleft()
            self.left[task] -= 1
            if not self.left[task]:
                del self.left[task]
            return control.Record(task, start, 8, 0, False, None, not self.to_come, b"")

    session, mining.Session = mining.Session, Few
    try:
        blocks = mining._Daemon("d0", "/run/control", 20)
        for n in range(6_000):
            blocks.want(n * 16 * 512, 16 * 512, 8 * 512)
        assert sorted(blocks.next()[0] // 4096 for _ in range(12_000)) == list(range(12_000))
    finally:
        mining.Session = session


def check_other_programs_at_a_control_socket_are_refused():
    upgraded = b"HTTP/1.1 101 S\r\n\r\n"
    answers = [b"", b"\r\n\r\n", b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 abc x\r\n\r\n", b"\xff\xfe\r\n\r\n", b"x" * 200_000]
    answers += [b"HTTP/1.1 200 OK\r\n\r\nno JSON", b"HTTP/1.1 500 X\r\n\r\n{}", b"HTTP/1.1 500 X\r\n\r\n\xff", upgraded]
    # Frames: cut off, empty, of another kind, too short, of the kind of a greeting without its fields.
    answers += [upgraded + frame for frame in (b"\1\0\0\0", bytes(4), b"\1\0\0\0\x81", b"\1\0\0\0\x83", b"\x09\0\0\0\x80" + bytes(8))]
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as listening:
        path = f"{directory}/control"
        listening.bind(path)
        listening.listen()

        def answer():
            for said in answers:
                for _ in range(2):
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(65_536)
                        try:
                            connection.sendall(said)
                        except OSError:
                            pass  # the client has seen enough

        thread = threading.Thread(target=answer)
        thread.start()
        for said in answers:
            cut_off = said in (b"", upgraded, upgraded + b"\1\0\0\0")
            raises(freeblock.Gone if cut_off else freeblock.Refused, lambda: freeblock.Session("d0", control=path))
            raises(freeblock.Gone if not said else freeblock.Refused, lambda: freeblock.request("GET", "/", control=path))
        thread.join()


def check_a_session_that_is_closed_says_so():
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{directory}/control")
        listening.listen()
        greeting = struct.pack("<IBQQQ", 25, 128, 1, 1_000, 512)

        def answer():
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 101 S\r\n\r\n" + greeting)
                connection.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        with freeblock.Session("d0", control=f"{directory}/control") as session:
            assert (session.sectors, session.sector_bytes) == (1_000, 512) and session.get(0) is None
        thread.join()
        for call in (lambda: session.read(0, 8), lambda: session.get(0), lambda: next(iter(session))):
            assert "closed by this program" in str(raises(freeblock.Gone, call))


def check_wrong_and_huge_values_are_refused_by_name():
    small = {"drives": {"mimic-less-capacity": 1}, "window_s": 5, "where": "inside", "workers": 1}
    endless = itertools.repeat({"requests": 10})
    for part, call in (
        ("options of ()", lambda: freeblock.options()),
        ("called simulat", lambda: freeblock.options("simulat")),
        ("the seed is", lambda: freeblock.fleet(1, seed=object(), **small)),
        ("the seed is", lambda: freeblock.fleet(1, seed=-1, **small)),
        ("within_hours", lambda: freeblock.fleet(1, within_hours=float("nan"), **small)),
        ("within_hours", lambda: freeblock.fleet(1, within_hours="2", **small)),
        ("window_s", lambda: freeblock.fleet(1, **{**small, "window_s": True})),
        ("a fleet of", lambda: freeblock.fleet(2**40)),
        ("1,000,000", lambda: freeblock.sweep({"requests": [10]}, seeds=2**40)),
        ("1,000,000", lambda: freeblock.sweep({"requests": [10]}, seeds=itertools.count())),
        ("1,000,000", lambda: freeblock.sweep(endless)),
        ("1,000,000", lambda: freeblock.sweep({"requests": range(1, 2_000), "outstanding": range(1, 2_000)})),
        ("1,000,000", lambda: freeblock.sweep({"requests": range(1, 2_000)}, seeds=2_000)),
        ("offset is", lambda: freeblock.mine("t", data="/", image="/dev/null", offset=-1)),
        ("offset is", lambda: freeblock.mine("t", data="/", image="/dev/null", offset=2**64)),
        ("the table is", lambda: freeblock.mine(5, data="/", image="/dev/null")),
    ):
        error = raises(freeblock.UsageError, call)
        assert part in str(error), (part, error)


def leaves(value, name=""):
    """The names of all values in a result, with [] for a list of results."""
    if isinstance(value, dict):
        return [leaf for key, part in value.items() for leaf in leaves(part, f"{name}.{key}" if name else key)]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return leaves(value[0], name + "[]")
    return [(name, value)]


UNITS = {"_ns": "ns", "_us": "us", "_ms": "ms", "_s": "s", "_percent": "%", "_bytes": "bytes", "rpm": "1/min", "hours": "h"}


def check_every_number_and_column_is_described():
    runs = [
        {},
        {"drive": "nearline-4tb", "where": "outside", "rate": 40, "requests": 2_000, "background": "scan", "idle_time": True, "audit": True},
        {"policy": "smtf", "outstanding": 4, "requests": 500, "blind": True, "where": "outside"},
        {"requests": 500, "drives": 2, "background": "scan", "warmup": 50, "every": 1.0},
        {"requests": 300, "drives": 2, "seeds": 2, "background": "scan"},
    ]
    seen = {}
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as directory:
        warnings.simplefilter("ignore")
        for options in runs:
            run = freeblock.simulate(keep_requests="seeds" not in options, **options)
            seen.update(leaves(dict(run)))
            for name, table in (("requests", run.requests), ("series", run.series)):
                seen.update({f"{name}.{column}": table[column][0] for column in (table.column_names if table else [])})
        # Reads, writes, flushes and discards, as blkparse shows them.
        ops = ("R 1000 + 8", "WS 2000 + 8", "FN", "D 3000 + 8")
        trace = pathlib.Path(directory) / "blocks.txt"
        trace.write_text("".join(f"8,0 0 {n + 1} {n * 0.01:.9f} 7 Q {ops[n % 4]} [program]\n" for n in range(80)))
        seen.update(leaves(dict(freeblock.replay(trace))))
        measured = pathlib.Path(directory) / "measured.trace"
        measured.write_text("".join(f"R Read {n * 5_000} 8 {8_000 + n} 10\n" for n in range(50)))
        seen.update(leaves(freeblock.validate("quantum-atlas-10k", measured), "validate"))
    fleet = freeblock.fleet(1, drives={"mimic-less-capacity": 1}, window_s=10, where="inside", workers=1)
    quick = freeblock.lab("osdi00-fig2", quick=True)
    tables = {"drives": freeblock.drives(), "claims": quick.claims, "disks": fleet.disks, "summary": fleet.summary}
    seen.update({f"{name}.{column}": table[column][0] for name, table in tables.items() for column in table.column_names})
    used = set()
    for name, value in seen.items():
        described = freeblock.describe(name)
        used.add(described.meaning)
        assert described.name == name and described.meaning and described.unit, name
        kind = {"text": (str, list), "truth": bool}.get(described.unit, (int, float, list))
        assert value is None or isinstance(value, kind), (name, value, described)
        unit = next((unit for end, unit in UNITS.items() if re.search(rf"(?<!per){end}(_low|_high)?$", name)), None)
        assert unit in (None, described.unit) or described.unit == "by row", (name, described)
    table = freeblock.descriptions().to_pydict()
    # Names that these runs do not have: of an interruption, and of intervals of the measured harm, for which the windows are too few.
    rare = ("interrupted", "outside.measured.")
    idle = [name for name, meaning in zip(table["name"], table["meaning"]) if meaning not in used and not name.startswith(rare)]
    assert not idle and len(set(table["name"])) == len(table["name"]) > 150, idle
    assert freeblock.describe("background.potential_used").source.endswith("OSDI 2000, section 5")
    assert "did you mean foreground.iops?" in str(raises(freeblock.UsageError, lambda: freeblock.describe("foreground.iop")))
    raises(freeblock.UsageError, lambda: freeblock.describe(None))


def undocumented(body, path, public=True):
    """The public names of a module or class without documentation, and the parameters that the documentation of a function lacks."""
    found = []
    for node, after in zip(body, [*body[1:], None]):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            text, here = ast.get_docstring(node) or "", f"{path}.{node.name}"
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found += [here] * (not text) + undocumented(node.body, here, not issubclass_of_error(node))
                makes = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
                text += " ".join(ast.get_docstring(part) or "" for part in makes)
                found += missing_parameters(makes[0], text, here) if makes else []
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found += [here] * (not text) + missing_parameters(node, text, here)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and public:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            said = isinstance(after, ast.Expr) and isinstance(getattr(after.value, "value", None), str)
            if isinstance(target, ast.Name) and not target.id.startswith("_") and not said:
                found.append(f"{path}.{target.id}")
    return found


def issubclass_of_error(node):
    return any(getattr(base, "id", "") in ("Exception", "RuntimeError", "CommandError") for base in node.bases)


def missing_parameters(function, text, path):
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    names = [argument.arg for argument in given if argument.arg != "self"]
    # A single parameter need not be named: the sentence may describe it.
    return [f"{path}({name})" for name in names if len(names) > 1 and not re.search(rf"\b{name}\b", text)]


def check_every_public_name_is_documented():
    found = []
    for file in sorted(pathlib.Path(freeblock.__file__).parent.glob("*.py")):
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
        assert ast.get_docstring(tree), file
        found += undocumented(tree.body, file.stem) if file.stem != "__init__" else []
    for name in freeblock._native.__all__:
        value = getattr(freeblock._native, name)
        if inspect.isclass(value):
            parts = {part: member for part, member in vars(value).items() if not part.startswith("_")}
            found += [f"{name}.{part}" for part, member in parts.items() if not (member.__doc__ or "").strip()]
        found += [] if name == "__version__" or (value.__doc__ or "").strip() else [name]
    assert not found, found


# Checks that only the long tier runs. The short tier also checks a sweep with damaged and missing results.
LONG = (check_a_sweep_that_was_killed_goes_on,)

for name, check in list(globals().items()):
    if name.startswith("check_") and (check not in LONG or "FREEBLOCK_LONG" in os.environ):
        began = time.perf_counter()
        check()
        print(f"{name} {time.perf_counter() - began:.1f} s", flush=True)
print("all checks passed")
