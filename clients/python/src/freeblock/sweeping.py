"""Sweeps: many simulations, on processes of this machine or on a cluster."""
import asyncio
import hashlib
import itertools
import json
import math
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time
import zlib
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _native, parquet
from .simulation import CommandError, UsageError, _flat
from .worker import point

Grid = Union[Mapping[str, Any], Iterable[Mapping[str, Any]]]
"""Options with the values of each, of which every combination is a point; or the points themselves."""

RUNS_MOST = 1_000_000
"""The most simulations of a sweep: the results of more do not fit into the memory of most machines."""

_ATTEMPTS = 3
"""The number of workers that may die while they compute one point."""

_CONTENT, _CHECKSUM = "freeblock", "freeblock.crc32"
"""The names of the texts in a kept file: options and whole result as JSON, and the checksum of that text."""


def sweep(
    grid: Grid,
    seeds: Union[int, Iterable[int]] = 1,
    client: Any = None,
    *,
    directory: "Union[str, os.PathLike[str], None]" = None,
    workers: Optional[int] = None,
    progress: Optional[bool] = None,
) -> _native.Table:
    """Simulates every point of a grid with every seed, and returns a table with a row each.

    grid: options of `simulate` with the values of each, such as {"policy": ["fcfs", "sptf"], "outstanding": [1, 4, 16]}: every
        combination is a point, and the last option varies fastest. Or the points themselves, as dictionaries. Values are texts,
        numbers and truth values.
    seeds: a number n for the seeds 1 to n, or the seeds.
    client: a `dask.distributed.Client`, on whose cluster the simulations then run; freeblock must be installed there.
    directory: keeps the row of each simulation in a file of Parquet as soon as it is known. A sweep that was interrupted goes on from
        there, and one with more points runs only the new ones.
    workers: processes of this machine without a client; by default one for each processor.
    progress: a line on standard error; by default if that is a terminal.

    The rows have the order of the grid, the seeds of a point together, wherever they were computed. A row has the options, the
    seed, and the numbers of the result under names such as "foreground.mean_response_ms". The same sweep gives the same table.
    The first simulation that fails raises CommandError; results that are known then stay in the directory. A worker that dies is
    replaced, and its simulation is run again.
    """
    chosen = _seeds(seeds)
    points = [_checked(options) for options in _points(grid)]
    if len(points) * len(chosen) > RUNS_MOST:
        raise UsageError(f"{len(points):,} points with {len(chosen):,} seeds; give at most {RUNS_MOST:,} simulations")
    runs = [{**options, "seed": seed} for options in points for seed in chosen]
    return _native.table(_columns(list(zip(runs, _computed(runs, client, directory, workers, progress)))))


def _computed(
    runs: Sequence[Mapping[str, Any]],
    client: Any,
    directory: "Union[str, os.PathLike[str], None]",
    workers: Optional[int],
    progress: Optional[bool],
) -> List[Dict[str, Any]]:
    """The results of all runs in their order; results in the directory are not computed again."""
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise UsageError(f"workers is {workers!r}; give a number of processes from 1")
    if client is not None and (not hasattr(client, "map") or not hasattr(client, "cancel")):
        raise UsageError(f"client is {client!r}; give a dask.distributed.Client")
    if client is not None and _closed(client):
        raise UsageError("the client is closed; give one that is connected to its cluster")
    store = None if directory is None else pathlib.Path(directory)
    if store is not None:
        store.mkdir(parents=True, exist_ok=True)
    keys = [_key(run) for run in runs]
    known: Dict[str, Dict[str, Any]] = {}
    if store is not None:
        for run, key in zip(runs, keys):
            kept = _kept(store, key, run)
            if kept is not None:
                known[key] = kept
    missing = {key: run for run, key in zip(runs, keys) if key not in known}
    bar = _Bar(len(known), len(known) + len(missing), progress)

    def found(key: str, result: Dict[str, Any]) -> None:
        if "error" in result:
            raise CommandError(f"{missing[key]}: {result['error']}")
        if key in known:
            return
        known[key] = result
        if store is not None:
            _keep(store, key, missing[key], result)
        bar.at(len(known))

    try:
        if client is None:
            _on_processes(missing, found, workers or os.cpu_count() or 1)
        else:
            _on_cluster(client, missing, found)
    finally:
        bar.end()
    return [known[key] for key in keys]


def _seeds(seeds: Union[int, Iterable[int]]) -> List[int]:
    if isinstance(seeds, bool) or not isinstance(seeds, (int, Iterable)) or isinstance(seeds, (str, bytes)):
        raise UsageError(f"seeds is {seeds!r}; give a number of seeds, or the seeds")
    if isinstance(seeds, int):
        if not 1 <= seeds <= RUNS_MOST:
            raise UsageError(f"{seeds} seeds; give 1 to {RUNS_MOST:,}")
        return list(range(1, seeds + 1))
    chosen = list(itertools.islice(seeds, RUNS_MOST + 1))
    if len(chosen) > RUNS_MOST:
        raise UsageError(f"more than {RUNS_MOST:,} seeds; give fewer")
    for seed in chosen:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise UsageError(f"a seed is {seed!r}; give whole numbers from 0 to {2**64 - 1}")
    return chosen


def _points(grid: Grid) -> List[Dict[str, Any]]:
    if not isinstance(grid, Mapping):
        several = isinstance(grid, Iterable) and not isinstance(grid, (str, bytes))
        points: List[Any] = list(itertools.islice(grid, RUNS_MOST + 1)) if several else [grid]
        for options in points:
            if not isinstance(options, Mapping):
                raise UsageError(f"a point of the grid is {options!r}; give dictionaries of options, or options with lists of values")
        if len(points) > RUNS_MOST:
            raise UsageError(f"a grid of more than {RUNS_MOST:,} points; give fewer")
        return [dict(options) for options in points]
    for name, values in grid.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise UsageError(f"the grid has {values!r} for {name}; give a list of values")
    lists = [list(itertools.islice(values, RUNS_MOST + 1)) for values in grid.values()]
    if math.prod(map(len, lists)) > RUNS_MOST:
        raise UsageError(f"the grid has {math.prod(map(len, lists)):,} points or more; give at most {RUNS_MOST:,} simulations")
    return [dict(zip(grid, values)) for values in itertools.product(*lists)]


def _checked(options: Dict[str, Any]) -> Dict[str, Any]:
    for name, value in options.items():
        if not isinstance(name, str):
            raise UsageError(f"a point of the grid has {name!r} for the name of an option; `options(\"simulate\")` lists them")
        if name in ("seed", "keep_requests"):
            raise UsageError(f"a point of the grid has {name}; give seeds as `seeds`, and use `simulate` for tables of requests")
        if not isinstance(value, (str, int, float, bool, type(None))):
            raise UsageError(f"a point of the grid has {type(value).__name__} for {name}; give texts, numbers or truth values")
    return options


def _key(run: Mapping[str, Any]) -> str:
    text = json.dumps([_native.__version__, run], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _kept(store: pathlib.Path, key: str, run: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """A result that an earlier sweep has kept; a file that is damaged or of other options counts as none."""
    try:
        texts = parquet.texts((store / f"{key}.parquet").read_bytes())
        if texts[_CHECKSUM] != f"{zlib.crc32(texts[_CONTENT].encode()):08x}":
            return None
        kept = json.loads(texts[_CONTENT])
        if kept["options"] == run and isinstance(kept["result"], dict):
            result: Dict[str, Any] = kept["result"]
            return result
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _keep(store: pathlib.Path, key: str, run: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    content = json.dumps({"options": run, "result": result})
    texts = {_CONTENT: content, _CHECKSUM: f"{zlib.crc32(content.encode()):08x}"}
    # A file under its name is whole: it is renamed when its bytes are on the disk.
    new = store / f".{key}.{os.getpid()}"
    with open(new, "wb") as file:
        file.write(parquet.encoded(_columns([(run, result)]), texts))
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, store / f"{key}.parquet")


class _Worker:
    """A process that simulates, one run after another."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from freeblock.worker import main; main()"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def simulate(self, run: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
        """The results; None if the process has died."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(run) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            return None
        if not line.endswith("\n"):
            return None
        result: Dict[str, Any] = json.loads(line)
        return result

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


def _on_processes(runs: Mapping[str, Mapping[str, Any]], found: Callable[[str, Dict[str, Any]], None], workers: int) -> None:
    waiting: "queue.SimpleQueue[Tuple[str, Mapping[str, Any]]]" = queue.SimpleQueue()
    for run in runs.items():
        waiting.put(run)
    results: "queue.SimpleQueue[Tuple[str, Dict[str, Any]]]" = queue.SimpleQueue()
    ended = threading.Event()
    live: "set[_Worker]" = set()
    lock = threading.Lock()

    def start() -> Optional[_Worker]:
        """Starts a worker; None after the end of the sweep, because nothing would end the worker."""
        with lock:
            if ended.is_set():
                return None
            worker = _Worker()
            live.add(worker)
            return worker

    def serve() -> None:
        try:
            serve_all()
        except BaseException as error:  # otherwise the sweep would wait for the result for ever
            results.put(("", {"error": f"a worker process cannot be used: {error!r}"}))

    def serve_all() -> None:
        worker = start()
        while worker is not None and not ended.is_set():
            try:
                key, run = waiting.get_nowait()
            except queue.Empty:
                break
            for _ in range(_ATTEMPTS):
                result = worker.simulate(run)
                if result is not None or ended.is_set():
                    break
                worker.end()
                worker = start()
                if worker is None:
                    return
            results.put((key, result or {"error": f"{_ATTEMPTS} worker processes have died of it"}))

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(workers, len(runs)))]
    try:
        for thread in threads:
            thread.start()
        for _ in runs:
            key, result = results.get()
            if not key:
                raise CommandError(result["error"])
            found(key, result)
    finally:
        with lock:
            ended.set()
        for worker in live:
            worker.end()
        for thread in threads:
            thread.join()


def _on_cluster(client: Any, runs: Mapping[str, Mapping[str, Any]], found: Callable[[str, Dict[str, Any]], None]) -> None:
    from dask.distributed import as_completed  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if not runs:
        return
    # The scheduler of the cluster runs a point again if its worker is lost.
    futures = client.map(point, list(runs.values()), key=[f"freeblock-{key}" for key in runs], retries=_ATTEMPTS)
    keys = dict(zip(futures, runs))
    try:
        for future in as_completed(futures):  # type: ignore[no-untyped-call, unused-ignore]
            found(keys[future], future.result())
    except (Exception, asyncio.CancelledError) as error:
        if _closed(client):
            raise CommandError("the client was closed during the simulations; give a new one, and with a directory it goes on") from error
        raise
    finally:
        if not _closed(client):
            client.cancel(futures)


def _closed(client: Any) -> bool:
    return getattr(client, "status", "running") in ("closing", "closed")


def _columns(rows: Sequence[Tuple[Mapping[str, Any], Mapping[str, Any]]]) -> List[Tuple[str, str, List[Any]]]:
    flat = [{**run, **{name: value for name, value in _flat(result).items() if name != "seed"}} for run, result in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return [(name, *_column([row.get(name) for row in flat])) for name in names]


def _column(values: List[Any]) -> Tuple[str, List[Any]]:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool}:
        return "bool", values
    if kinds <= {int} and all(value is None or 0 <= value < 2**64 for value in values):
        return "uint64", values
    if kinds <= {int, float}:
        return "double", [None if value is None else float(value) for value in values]
    return "text", [None if value is None else str(value) for value in values]


class _Bar:
    """A line on a terminal with the share that is done and the time to go."""

    def __init__(self, done: int, whole: int, wanted: Optional[bool]):
        self.shown = sys.stderr.isatty() if wanted is None else wanted
        self.first, self.whole, self.began = done, whole, time.monotonic()

    def at(self, done: int) -> None:
        if self.shown:
            gone = time.monotonic() - self.began
            left = gone / max(done - self.first, 1) * (self.whole - done)
            print(f"\r{done} of {self.whole} simulations, {left:.0f} s to go ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.shown:
            print(file=sys.stderr)
