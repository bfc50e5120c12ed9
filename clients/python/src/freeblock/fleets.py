"""Fleets: the time that a scrub, a rebuild or a backup takes over many disks."""
import os
import random
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _native
from .simulation import UsageError, Value, drive as described
from .sweeping import RUNS_MOST, _computed

DRIVES = {"desktop-2tb": 1.0, "nearline-4tb": 2.0, "nearline-20tb": 2.0}
"""The default mix of drives: names with their weights."""

LOADS: Sequence[Tuple[float, Mapping[str, Value]]] = (
    (5.0, {"workload": "utilisation:5"}),
    (3.0, {"workload": "utilisation:20"}),
    (2.0, {"workload": "utilisation:50"}),
)
"""The default mix of loads: weights with options of `simulate`."""

PERCENTILES = (10, 50, 90, 99, 100)
"""The percentiles of a summary, in percent of the groups."""

_TASKS = {"scrub": (1.0, 1), "rebuild": (10.0, 8), "backup": (1.0, 1)}
"""The bound on harm in percent, and the disks of a group, by task."""

_TAIL = 3.0
"""Bounds the factor by which the mean rate of a whole task is lower than the rate in its windows. They lie at the beginning of the task,
and the last blocks are far apart. Scans of whole drives had 1.4 to 2.9 (docs/PYTHON.md)."""

_PILOT = 300
"""The number of requests of the simulation that measures the rate of arrivals."""

_DISKS_MOST = RUNS_MOST // 3
"""The most disks of a fleet: each disk takes three simulations, and a sweep has at most RUNS_MOST."""

_ONLY_WITH_BACKGROUND = frozenset(
    ("background", "block_size", "idle_time", "harm", "conservatism", "pass_through", "audit", "plan_rest", "extra_revolutions", "budget")
)


_OWN = frozenset(("background", "requests", "warmup", "seeds", "keep_requests"))
"""The options of a simulation that a fleet sets for each disk."""


class Fleet(NamedTuple):
    """The results of `fleet`."""

    disks: _native.Table
    """A row for each disk: disk, group, drive, load, part (the share of the disk that the task reads), mb_per_s (of the task), hours,
    hours_low and hours_high (null if the task read nothing in the windows), harm_percent (the added mean response time), harm_ms,
    response_ms (with the task), window_s (simulated), extrapolated (the share of the task that lies outside the windows), seed."""
    summary: _native.Table
    """Rows hours, hours_low, hours_high and harm_percent, with the percentiles p10, p50, p90, p99 and p100 over the groups, of which
    the slowest disk counts. A percentile among the tasks without an end is null: it is longer than any number in its row."""
    unfinished_share: float
    """The share of groups whose task reads nothing in the windows, or takes longer than `within_hours`."""
    disk_days: float
    """The disk-days that the results describe: the sum of the hours of all disks."""
    simulated_days: float
    """The disk-days that were simulated."""


def fleet(
    disks: int = 1000,
    task: str = "scrub",
    *,
    drives: Optional[Mapping[str, float]] = None,
    loads: Optional[Sequence[Tuple[float, Mapping[str, Value]]]] = None,
    full: Tuple[float, float] = (0.3, 0.9),
    group: Optional[int] = None,
    within_hours: Optional[float] = None,
    seed: int = 1,
    window_s: float = 200.0,
    client: Any = None,
    directory: "Union[str, os.PathLike[str], None]" = None,
    workers: Optional[int] = None,
    progress: Optional[bool] = None,
    **options: Value,
) -> Fleet:
    """Estimates how long a task takes on each disk of a fleet, and what it costs the foreground.

    disks: the number of disks.
    task: "scrub" reads each disk as a whole; "rebuild" does so too, and ends with the slowest disk of a group; "backup" reads the
        outer part of each disk that is in use.
    drives: names or profiles with their weights in the mix; by default `fleets.DRIVES`.
    loads: weights and options of `simulate`, such as (2, {"workload": "oltp", "rate": 40}); by default `fleets.LOADS`. For a rebuild,
        give the load of a degraded array.
    full: the least and the most share of a disk that is in use; a backup draws from it evenly.
    group: the number of disks that have one drive and one load, and of which the slowest counts; by default 8 for a rebuild and 1
        otherwise.
    within_hours: a task that takes longer counts as unfinished.
    seed: decides the mix and every simulation; disk n has the same drive, load and seed in every fleet with more than n disks.
    window_s: the time of a disk that is simulated, in s; its first quarter, in which the scheduler learns the drive, does not count.
    client, directory, workers, progress: as in `sweep`, which runs the simulations.
    options: those of `simulate` for all disks. By default where="outside" with idle_time=True, block_size=8192, and harm=1 (in
        percent), or harm=10 for a rebuild.

    A task of hours is not simulated to its end, but in windows: for each disk two at the beginning of the task, with two seeds, and a
    third without the task. The hours are the bytes of the task at the mean rate of the windows; `extrapolated` is the share of the
    task outside them. hours_low is at the rate of the faster window, and hours_high at a third of the slower one's, because the rate
    falls when few blocks are left. A task that uses idle time takes nearly `hours`, and one that uses only gaps nearly `hours_high`.
    """
    if task not in _TASKS:
        raise UsageError(f"no task is called {task!r}; give {', '.join(_TASKS)}")
    harm, usual_group = _TASKS[task]
    together = usual_group if group is None else group
    mix, given_loads = _mix(drives, loads)
    if any(isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _DISKS_MOST for count in (disks, together)):
        raise UsageError(f"a fleet of {disks!r} disks in groups of {together!r}; give whole numbers from 1 to {_DISKS_MOST:,}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise UsageError(f"the seed is {seed!r}; give a whole number from 0 to {2**64 - 1}")
    if within_hours is not None and (isinstance(within_hours, bool) or not isinstance(within_hours, (int, float)) or not within_hours > 0):
        raise UsageError(f"within_hours is {within_hours!r}; give hours, more than 0")
    if isinstance(window_s, bool) or not isinstance(window_s, (int, float)) or not 0 < window_s < 1e6:
        raise UsageError(f"window_s is {window_s!r}; give seconds, more than 0 and less than 1,000,000")
    if not isinstance(full, (tuple, list)) or len(full) != 2 or not 0 < full[0] <= full[1] <= 1:
        raise UsageError(f"full is {full!r}; give the least and the most share of a disk that is in use, such as (0.3, 0.9)")
    own = sorted(set(options) & _OWN)
    if own:
        raise UsageError(f"a fleet decides {', '.join(own)} itself; leave it out")
    usual = {"where": "outside", "idle_time": True, "block_size": 8192, "harm": harm, **options}
    if usual["where"] != "outside":
        usual.pop("harm")
    plans = [_drawn(n, together, task, mix, given_loads, full, seed) for n in range(disks)]
    pilots = [{"drive": plan.drive, **_without_task({**usual, **plan.load}), "requests": _PILOT, "seed": 1} for plan in plans]

    def computed(runs: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
        return _computed(runs, client, directory, workers, progress)

    runs: List[Dict[str, Any]] = []
    for plan, pilot in zip(plans, computed(pilots)):
        requests = max(100, round(pilot["foreground"]["iops"] * window_s))
        with_task = {"drive": plan.drive, **usual, **plan.load, "background": "scan", "requests": requests, "warmup": requests // 4}
        runs.append({**with_task, "seed": plan.seed})
        runs.append({**with_task, "seed": plan.seed ^ 1})
        runs.append({**_without_task(with_task), "seed": plan.seed})
    results = computed(runs)
    shown = {name: described(name) for name in {plan.drive for plan in plans}}
    rows = [
        _row(n, plan, int(shown[plan.drive]["capacity_bytes"]) * plan.part, *results[3 * n : 3 * n + 3])
        for n, plan in enumerate(plans)
    ]
    table = _native.table([(name, kind, [row[name] for row in rows]) for name, kind in _COLUMNS])
    groups = [rows[first : first + together] for first in range(0, disks, together)]
    slow = [_slowest(group) for group in groups]
    late = [hours is None or (within_hours is not None and hours > within_hours) for hours in (row["hours"] for row in slow)]
    simulated = sum(result["simulated_s"] for result in results) / 86_400
    return Fleet(
        table,
        _summary(slow),
        sum(late) / len(late),
        sum(row["hours"] or 0.0 for row in rows) / 24,
        simulated,
    )


_Mix = Tuple[Mapping[str, float], Sequence[Tuple[float, Mapping[str, Value]]]]


def _mix(drives: Optional[Mapping[str, float]], loads: Optional[Sequence[Tuple[float, Mapping[str, Value]]]]) -> _Mix:
    """The drives and the loads with their weights, by default the module's."""
    named = DRIVES if drives is None else drives
    listed = LOADS if loads is None else loads
    if not isinstance(named, Mapping) or not _are_weights(list(named.values())):
        raise UsageError(f"drives is {drives!r}; give names with weights from 0, one of them more, such as {{'nearline-4tb': 2}}")
    pairs = isinstance(listed, (list, tuple)) and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in listed)
    if not pairs or not all(isinstance(load, Mapping) for _, load in listed) or not _are_weights([weight for weight, _ in listed]):
        raise UsageError(f"loads is {loads!r}; give pairs of a weight and options, such as [(1, {{'workload': 'utilisation:20'}})]")
    return named, listed


def _are_weights(weights: Sequence[Any]) -> bool:
    return all(isinstance(weight, (int, float)) and 0 <= weight < float("inf") for weight in weights) and sum(weights) > 0


class _Plan(NamedTuple):
    group: int
    drive: str
    load: Mapping[str, Value]
    part: float
    seed: int


_COLUMNS = (
    ("disk", "uint64"),
    ("group", "uint64"),
    ("drive", "text"),
    ("load", "text"),
    ("part", "double"),
    ("mb_per_s", "double"),
    ("hours", "double"),
    ("hours_low", "double"),
    ("hours_high", "double"),
    ("harm_percent", "double"),
    ("harm_ms", "double"),
    ("response_ms", "double"),
    ("window_s", "double"),
    ("extrapolated", "double"),
    ("seed", "uint64"),
)


def _drawn(
    disk: int,
    together: int,
    task: str,
    drives: Mapping[str, float],
    loads: Sequence[Tuple[float, Mapping[str, Value]]],
    full: Tuple[float, float],
    seed: int,
) -> _Plan:
    group = disk // together
    draw = random.Random(f"freeblock fleet {seed} group {group}")
    name = draw.choices(list(drives), list(drives.values()))[0]
    load = draw.choices([load for _, load in loads], [weight for weight, _ in loads])[0]
    part = round(draw.uniform(*full), 2) if task == "backup" else 1.0
    return _Plan(group, name, load, part, random.Random(f"freeblock fleet {seed} disk {disk}").getrandbits(32))


def _without_task(options: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in options.items() if name not in _ONLY_WITH_BACKGROUND}


def _text(load: Mapping[str, Value]) -> str:
    return " ".join(str(value) if name == "workload" else f"{name}={value}" for name, value in load.items())


def _row(
    disk: int, plan: _Plan, size: float, scan: Mapping[str, Any], second: Mapping[str, Any], alone: Mapping[str, Any]
) -> Dict[str, Any]:
    response, before = scan["foreground"]["mean_response_ms"], alone["foreground"]["mean_response_ms"]
    rates = [(window["background"]["mb_per_s"] or 0.0) * 1e6 for window in (scan, second)]
    rate = sum(rates) / 2
    seen = rates[0] * scan["simulated_s"] + rates[1] * second["simulated_s"]

    def hours(rate: float) -> Optional[float]:
        return size / rate / 3600 if rate > 0 else None

    return {
        "disk": disk,
        "group": plan.group,
        "drive": plan.drive,
        "load": _text(plan.load),
        "part": plan.part,
        "mb_per_s": rate / 1e6,
        "hours": hours(rate),
        "hours_low": hours(max(rates)),
        "hours_high": hours(min(rates) / _TAIL),
        "harm_percent": (response / before - 1) * 100 if before else None,
        "harm_ms": response - before,
        "response_ms": response,
        "window_s": scan["simulated_s"],
        "extrapolated": max(0.0, 1 - seen / size),
        "seed": plan.seed,
    }


def _slowest(rows: Sequence[Mapping[str, Any]]) -> Dict[str, Optional[float]]:
    slow: Dict[str, Optional[float]] = {}
    for name in _SUMMED:
        values = [row[name] for row in rows]
        slow[name] = None if None in values else max(values)
    return slow


_SUMMED = ("hours", "hours_low", "hours_high", "harm_percent")


def _summary(slow: Sequence[Mapping[str, Optional[float]]]) -> _native.Table:
    columns: List[Tuple[str, str, List[Any]]] = [("quantity", "text", list(_SUMMED))]
    for percentile in PERCENTILES:
        columns.append((f"p{percentile}", "double", [_percentile([row[name] for row in slow], percentile) for name in _SUMMED]))
    return _native.table(columns)


def _percentile(values: Sequence[Optional[float]], percent: int) -> Optional[float]:
    """The smallest value that `percent` of the values do not exceed; an unknown value (None) counts as larger than all others."""
    known = sorted(value for value in values if value is not None)
    rank = max(1, -(-len(values) * percent // 100))
    return known[rank - 1] if rank <= len(known) else None
