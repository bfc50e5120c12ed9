"""Simulations, validation, probing and the lab: the commands of `freeblock` as functions.

Each keyword of `simulate`, `replay`, `probe` and `lab` is an option of the command with `_` for `-`: `block_size="64k"` is
`--block-size 64k`. None leaves an option out. `options("simulate")` lists them with their descriptions.
"""
import difflib
import json
import os
import re
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _native

Value = Union[str, int, float, bool, "os.PathLike[str]", None]
"""A value of an option."""

Policy = Callable[[List[_native.Waiting], int], int]
"""A foreground policy: it gets the waiting requests and the time in ns, and returns the index of the next request."""

Load = Iterable[Tuple[str, int, int]]
"""A foreground load: requests as ("read" or "write", first LBN, sectors)."""


class CommandError(RuntimeError):
    """A command with valid options has failed: the message, and in `help` the remedy, if one is known."""

    def __init__(self, message: str, help: Optional[str] = None):
        super().__init__(message if help is None else f"{message}\n{help}")
        self.help = help

    def __reduce__(self) -> Tuple[Any, ...]:
        return _again, (type(self), str(self), self.help)


class UsageError(CommandError, ValueError):
    """An option is unknown or has a wrong value, or two options do not go together. Nothing was begun."""


def _again(kind: "type[CommandError]", text: str, help: Optional[str]) -> CommandError:
    """Makes the error again, in another process."""
    error = kind.__new__(kind, text)
    error.args, error.help = (text,), help
    return error


class Option(NamedTuple):
    """An option of a command."""

    name: str
    """The keyword."""
    help: str
    """The description, with units."""
    takes_value: bool
    """Whether the option takes a value; otherwise it is True or False."""
    values: List[str]
    """The values that the option may have; empty if they cannot be listed."""


def options(*command: str) -> List[Option]:
    """Lists the options of a command: `options("simulate")`, `options("drive", "validate")`."""
    if not command or not all(isinstance(name, str) for name in command):
        raise UsageError(f"options of {command!r}; give the words of a command, such as options(\"simulate\")")
    found = _native.options(list(command))
    if not found:
        raise UsageError(f"no command with options is called {' '.join(command)}; `freeblock --help` lists the commands")
    return [Option(name.replace("-", "_"), help, takes_value, values) for name, help, takes_value, values in found]


class Simulation(Mapping[str, Any]):
    """The results of a simulation: the keys and values of `freeblock simulate --json`.

    `foreground` has mean_response_ms (from arrival to completion), p99_response_ms, iops and more; `head_time` the shares of the
    head's time, which add up to 1; `background` mb_per_s (millions of bytes a second) and potential_used, the share of the
    foreground's rotational latency that was used (OSDI 2000, section 5). `wall_s` alone differs between two equal runs. `describe`
    has the unit, the meaning and the source of each key, and of each column of `requests` and `series`. `simulate` makes the object
    of the values, the requests and the notes of a command.
    """

    requests: Optional[_native.Table]
    """Every foreground request after a warm-up, with keep_requests=True: id; arrival_ns, start_ns (of its service) and
    completion_ns since the start of the run; op, lbn, sectors; cache_hit; seek_ns, rotation_ns and transfer_ns at the head."""
    series: Optional[_native.Table]
    """With the option `every`, a row for each interval."""
    notes: List[str]
    """The notes of the command."""

    def __init__(self, values: Dict[str, Any], requests: Optional[_native.Table], notes: List[str]):
        self._values = values
        self.requests = requests
        self.series = _table_of(values.get("series"))
        self.notes = notes

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Simulation({json.dumps(self._values)})"


class Probed(NamedTuple):
    """The result of a probe."""

    profile: Dict[str, Any]
    """The profile of the drive, with the names of a profile's file."""
    report: Dict[str, Any]
    """The findings with their confidence, the check of the profile, and the places where it may be wrong."""
    partial: bool
    """Whether the profile describes only a part of the drive."""


class Lab(NamedTuple):
    """The results of the lab for claims of the papers."""

    claims: _native.Table
    """A row for each measure: claim, paper, measure, ours (mean over runs), min, max, runs, unit, holds, note."""
    holds: bool
    """Whether every claim holds."""


def simulate(
    drive: str = "quantum-atlas-10k",
    *,
    policy: Union[str, Policy, None] = None,
    workload: Union[str, Load, None] = None,
    seed: Optional[int] = None,
    keep_requests: bool = False,
    **options: Value,
) -> Simulation:
    """Simulates a drive with a foreground load and perhaps background work, as `freeblock simulate` does.

    drive: a built-in name (`drives()`), or the path of a profile or of a DiskSim file.
    policy: fcfs, c-look, sstf, sptf, sptf-sw:N or smtf; or a callable, which is slow: some 10 us for each waiting request of each
        choice.
    workload: random, oltp, utilisation:PERCENT, tpcc, postmark or replay:FILE; or an iterable of requests ("read" or "write",
        first LBN, sectors), which come by `outstanding` and `think`, or at `rate` a second. An iterable costs some us a request.
    seed: decides every random number.
    keep_requests: keep every foreground request in the table `requests`, 74 bytes each.
    options: any other option of the command: where="outside", mpl=10, requests=100_000, background="scan", block_size="64k" ...

    The interpreter's lock is released meanwhile. Raises UsageError for wrong options and CommandError if the simulation fails; an
    exception of a policy or an iterable ends the simulation and is raised here.

        >>> run = freeblock.simulate(policy="sptf", outstanding=8, requests=5_000, seed=7)
        >>> run["foreground"]["requests"]
        5000
    """
    own_policy = policy if callable(policy) else None
    named_policy = None if callable(policy) else policy
    own_load = None if workload is None or isinstance(workload, str) else iter(workload)
    named_load = workload if workload is None or isinstance(workload, str) else None
    given = {"drive": drive, "policy": named_policy, "workload": named_load, "seed": seed, **options}
    arguments = ["simulate", "--json", *_arguments("simulate", given)]
    try:
        (text, _, notes), requests = _native.simulate(
            arguments, policy=own_policy, requests=own_load, keep=keep_requests
        )
    except _native.CommandFailed as failed:
        raise _error(failed) from None
    _warn(notes)
    return Simulation(json.loads(text), requests, notes)


def replay(trace: Union[str, "os.PathLike[str]"], drive: str = "quantum-atlas-10k", **options: Any) -> Simulation:
    """Simulates a drive that serves a trace: `simulate` with the workload `replay:TRACE`.

    trace: a file in any format that `freeblock simulate` knows (docs/WORKLOADS.md), plain or compressed.
    options: those of `simulate`, such as scale=0.5 for twice the speed, or outstanding=8 for a closed loop.
    """
    return simulate(drive, workload=f"replay:{os.fspath(trace)}", **options)


def validate(drive: str, trace: Union[str, "os.PathLike[str]"]) -> Dict[str, Any]:
    """Replays a trace that was measured on a real drive, and compares the times.

    drive: a built-in name or the path of a profile or of a DiskSim file.
    trace: one of DiskSim's "validate" traces.

    Returns requests, demerit_ms (the root mean square distance of the distributions: Ruemmler and Wilkes 1994), model_mean_ms,
    trace_mean_ms and per_request_rms_ms.
    """
    return _dict(_run("drive", "validate", "--json", drive, "--trace", os.fspath(trace))[0])


def probe(device: str, *, seed: Optional[int] = None, **options: Value) -> Probed:
    """Characterises a drive by timing reads (docs/PROBE.md).

    device: "emulated:NAME" or "emulated:FILE", with ",PRESET" and ",seed=N" behind it; or the path of a disk.
    options: those of `freeblock probe`; output="drive.toml" keeps the profile for `simulate`.
    """
    text, code = _run("probe", "--json", device, *_arguments("probe", {"seed": seed, **options}))
    found = _dict(text)
    return Probed(found["profile"], found["report"], code != 0)


def drives() -> _native.Table:
    """The built-in drives, a row each: name, title, synthetic (made up at least in part), capacity_bytes, rpm, cylinders, heads,
    and the least and most sectors_per_track."""
    rows = json.loads(_run("drive", "list", "--json")[0])
    columns = []
    for name, kind in _DRIVES:
        columns.append((name, kind, [_at(row, name) for row in rows]))
    return _native.table(columns)


def drive(name: str) -> Dict[str, Any]:
    """A drive's parameters and their sources, by a built-in name or the path of a profile or of a DiskSim file."""
    return _dict(_run("drive", "show", "--json", name)[0])


def lab(*ids: str, quick: bool = True, seed: Optional[int] = None, **options: Value) -> Lab:
    """Runs experiments of the papers, and holds the results against their claims (docs/REPRODUCTION.md).

    ids: experiments or claims, or the beginnings of their names; without any, all of them.
    quick: smaller loads and fewer seeds: seconds for an experiment, not minutes.
    seed: the first seed.
    options: those of `freeblock lab check`, such as jobs=2.
    """
    given = {"quick": quick, "seed": seed, **options}
    text, code = _run("lab", "check", "--json", *ids, *_arguments(("lab", "check"), given))
    rows = []
    for claim in _dict(text)["claims"]:
        for measure in claim["measures"]:
            rows.append({"claim": claim["id"], "paper": claim["paper"], "note": claim["note"], **measure, **measure["ours"]})
    columns = [(name, kind, [row.get(key) for row in rows]) for name, key, kind in _CLAIMS]
    return Lab(_native.table(columns), code == 0)


_DRIVES = (
    ("name", "text"),
    ("title", "text"),
    ("synthetic", "bool"),
    ("capacity_bytes", "uint64"),
    ("rpm", "uint64"),
    ("cylinders", "uint64"),
    ("heads", "uint64"),
    ("sectors_per_track.least", "uint64"),
    ("sectors_per_track.most", "uint64"),
)

_CLAIMS = (
    ("claim", "claim", "text"),
    ("paper", "paper", "text"),
    ("measure", "what", "text"),
    ("ours", "mean", "double"),
    ("min", "min", "double"),
    ("max", "max", "double"),
    ("runs", "runs", "uint64"),
    ("unit", "unit", "text"),
    ("holds", "holds", "bool"),
    ("note", "note", "text"),
)


def _at(row: Any, path: str) -> Any:
    for key in path.split("."):
        row = row[key]
    return row


def _dict(text: str) -> Dict[str, Any]:
    values: Dict[str, Any] = json.loads(text)
    return values


def _flat(values: Mapping[str, Any], before: str = "") -> Dict[str, Any]:
    """Numbers and truth values of nested mappings, by their paths."""
    flat: Dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{before}{key}."))
        elif isinstance(value, (int, float, bool, type(None))):
            flat[before + key] = value
    return flat


def _table_of(found: Any) -> Optional[_native.Table]:
    """A list of rows of numbers as a table; None for anything else."""
    if not isinstance(found, list) or not found or not all(isinstance(row, Mapping) for row in found):
        return None
    rows = [_flat(row) for row in found]
    columns = []
    for name in rows[0]:
        values = [row.get(name) for row in rows]
        whole = all(value is None or (isinstance(value, int) and value >= 0) for value in values)
        columns.append((name, "uint64" if whole else "double", values))
    return _native.table(columns)


def _run(*arguments: str) -> Tuple[str, int]:
    try:
        text, code, notes = _native.run(list(arguments))
    except _native.CommandFailed as failed:
        raise _error(failed) from None
    _warn(notes)
    return text, code


def _arguments(command: Union[str, Tuple[str, ...]], given: Mapping[str, Value]) -> List[str]:
    """Options as on the command line; refuses unknown ones by name."""
    names = (command,) if isinstance(command, str) else command
    known = {option.name: option for option in options(*names)}
    arguments = []
    for name, value in given.items():
        if value is None:
            continue
        option = known.get(name)
        if option is None or name == "json":
            near = [] if name == "json" else difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"{' '.join(names)} has no option {name}{hint}")
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool) and not option.takes_value:
            arguments += [flag] if value else []
        elif isinstance(value, bool) and {"on", "off"} <= set(option.values):
            arguments += [f"{flag}={'on' if value else 'off'}"]
        elif isinstance(value, bool):
            raise UsageError(f"{name} has a value, and {value} is none")
        else:
            arguments += [f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]
    return arguments


def _error(failed: "_native.CommandFailed") -> CommandError:
    usage, message, help = failed.args
    kind = UsageError if usage else CommandError
    return kind(_as_python(message), None if help is None else _as_python(help))


def _as_python(text: str) -> str:
    """A message with keywords in place of options."""
    return re.sub(r"(?<![\w-])--([a-z][a-z-]*)", lambda match: match[1].replace("-", "_"), text)


def _warn(notes: List[str]) -> None:
    for note in notes:
        warnings.warn(note, stacklevel=3)
