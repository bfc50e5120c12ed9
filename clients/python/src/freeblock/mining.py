"""Rows of a PostgreSQL table, by the blocks that pass under the head (OSDI 2000, section 6)."""
import bisect
import collections
import os
import random
import warnings
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _native, postgres
from .control import USUAL_PATH, Record, Session
from .nbd import Export
from .places import Ext4, Extent, Mounted, opened
from .simulation import UsageError

_BATCH = 256
"""The number of pages of a batch."""

_STRATA = 32
"""The number of parts of a table that are estimated separately, because the order of the pages is not random (docs/MINER.md)."""

_READS = 3
"""The number of reads of a page that looks damaged, because the server may be writing it."""

_SECTOR = 512

_AT_ONCE = 256
"""The number of page reads that wait at an export, of which the scheduler takes the cheapest: 2 MiB."""


class Estimate(NamedTuple):
    """An estimate for all pages of a table, from those that have been read."""

    value: float
    """The estimate, in the column's unit; None values are not in sums, and rows of pages that are damaged count as not read."""
    low: float
    """The lower end of the 95% interval (Cochran 1977, sections 5.3 and 11.2; docs/MINER.md)."""
    high: float
    """The upper end of the 95% interval."""


def mine(
    table: str,
    *,
    data: "Union[str, os.PathLike[str]]",
    disk: Optional[str] = None,
    image: "Union[str, os.PathLike[str], None]" = None,
    mounted: bool = True,
    offset: int = 0,
    database: str = "postgres",
    columns: Optional[Sequence[str]] = None,
    control: str = USUAL_PATH,
    priority: int = 20,
    seed: int = 0,
) -> "Mine":
    """Reads a PostgreSQL table from its disk, in whatever order is free, beside the server that uses it (OSDI 2000, section 6).

    table: "name" or "schema.name"; without a schema, in `public`. Rows of child tables are not read, as with SELECT ... FROM ONLY.
    data: the data directory: a path of this machine, or with mounted=False a path inside the ext4 of the image.
    disk: the disk of a daemon that serves it; its blocks come through a background session.
    image: without a disk, the file, block device or export over NBD that is read, in a random order by `seed`. An export may be a
        snapshot ("nbd+unix:///d0@nightly?socket=/run/freeblock/d0.sock"), whose reads are background work. With mounted=False the
        map of the files is read from the image, too.
    offset: the bytes of the disk before its file system.
    database: the name of the database, `postgres` by default.
    columns: those that are wanted; by default all. Their types and units: `postgres.TYPES`.
    control, priority: the daemon's control socket, and the session's weight among sessions, 1 to 100.
    seed: decides the order in which an image is read.

    The answer is that of a transaction which began at the server's last checkpoint: run CHECKPOINT first. While the server changes the
    table, keep a transaction of the level REPEATABLE READ open that has read a row of the table, from before the CHECKPOINT to the end,
    so that no old row is removed and the table keeps its files; or read a snapshot of the disk, which does not change.

    Warns of a running server whose pages have no checksums: a page that is being written cannot be told from a whole one then.

    A value in a TOAST table is not read: it is null, and `Mine.undecided` counts it. Values that are compressed in their row, by pglz
    or LZ4, are read. PostgreSQL's versions: `postgres.VERSIONS`.

    Raises UsageError for wrong options, LookupError if the data directory, the database, the table or the checkpoint is not what is
    needed, `postgres.Damaged` if a file of the server's cannot be understood, and OSError if one cannot be read.

        for batch in freeblock.mine("orders", data="/srv/data", disk="data", columns=["total"]):
            ...     # a freeblock.Table: pandas, polars, DuckDB and pyarrow take it
    """
    place = os.fspath(data)
    if not isinstance(table, str) or not isinstance(place, str):
        raise UsageError(f"the table is {table!r} in {data!r}; give texts")
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset < 1 << 62:
        raise UsageError(f"offset is {offset!r}; give the bytes of the disk before its file system")
    if disk is None and image is None:
        raise UsageError("mine needs a disk of a daemon, or an image")
    if mounted:
        files: Union[Mounted, Ext4] = Mounted(place, offset)
    elif image is None:
        raise UsageError("with mounted=False, mine needs the image for the map of the files")
    else:
        files = Ext4(os.fspath(image), place, offset)
    try:
        snapshot = postgres.Snapshot(files.read, files.name)
        found = postgres.relation(files.read, snapshot, database, table)
        runs, size = _runs(files, found.path)
        if not size and snapshot.control.running and files.modified(found.path) >= snapshot.control.time:
            raise LookupError(
                f"{files.name}: the file of {table} is empty since the checkpoint or its second, perhaps by TRUNCATE; run CHECKPOINT again"
            )
        # Read now, because the server may remove parts of the commit log during the scan.
        snapshot.keep()
    finally:
        if isinstance(files, Ext4):
            files.close()
    if mounted and snapshot.control.running and not snapshot.control.checksums:
        warnings.warn(
            f"{files.name}: the pages have no checksums, so that one which the server writes during the scan may be misread; read a"
            " snapshot of the disk, or run pg_checksums --enable while the server is shut down",
            stacklevel=2,
        )
    wanted = [not column.dropped and (columns is None or column.name in columns) for column in found.columns]
    names = [column.name for column, want in zip(found.columns, wanted) if want]
    for name in columns or ():
        if name not in names:
            raise UsageError(f"table {table} has no column {name}; it has {', '.join(c.name for c in found.columns if not c.dropped)}")
    for column, want in zip(found.columns, wanted):
        if want and (column.type not in postgres.TYPES or column.length != postgres.TYPES[column.type].length):
            raise UsageError(
                f"column {column.name} has the type {column.type}, which is not read; give `columns` without it, and any of "
                + ", ".join(known.name for known in postgres.TYPES.values())
            )
    blocks = _Daemon(disk, control, priority) if disk is not None else _Image(os.fspath(image or ""), seed)

    def moved() -> bool:
        """Whether a byte of the table has another place than at the start; an image that is not mounted does not change."""
        return isinstance(files, Mounted) and not _in_place(runs, _runs(files, found.path)[0])

    return Mine(table, found, wanted, snapshot, runs, size, blocks, moved)


class Mine:
    """A scan of a table. Iterating gives batches, each a `freeblock.Table` with a row for each visible row of its pages.

    A batch has the columns that were asked for, in the table's order, with the units that `postgres.TYPES` gives. If the table's files
    were moved or truncated while they were read, the end of the iteration raises `postgres.Damaged`.
    """

    pages: int
    """The pages of the table, of 8192 bytes each."""
    pages_read: int
    """The pages that have been read and decoded."""
    changed_pages: int
    """The pages that the server has changed since the checkpoint. With none, no row is missing, unless VACUUM has shortened the
    table; with some, rows are missing that VACUUM or pruning removed, unless a transaction was open that needs them (see `mine`)."""
    rows: int
    """The visible rows so far."""
    damaged: List[Tuple[int, str]]
    """Pages that were left out, with the reason; the first 1,000."""
    damaged_pages: int
    """The number of pages that were left out as damaged."""
    undecided_rows: int
    """Versions of rows whose visibility the commit log does not decide; they are left out. Those are versions that were made or ended
    by transactions which were under way at the checkpoint, or began after the oldest of these, and had committed when the scan began."""
    undecided: Dict[str, int]
    """The numbers of values that their pages do not have, by reason, such as "in a TOAST table"; these values are null in the batches,
    and not in sums."""

    def __init__(
        self,
        table: str,
        found: postgres.Relation,
        wanted: Sequence[bool],
        snapshot: postgres.Snapshot,
        runs: "List[_Run]",
        pages: int,
        blocks: "Union[_Daemon, _Image]",
        moved: Callable[[], bool],
    ):
        """`mine` makes a scan: `table` is the name, `found` the files and columns, `wanted` the columns to read, `snapshot` decides the
        visible rows, `runs` are the places of the `pages`, `blocks` reads them, and `moved` tells whether the places have changed."""
        self._table, self._place, self._moved = table, snapshot.place, moved
        self._columns, self._wanted, self._snapshot = found.columns, wanted, snapshot
        self._runs, self._blocks = runs, blocks
        shown = [column for column, want in zip(found.columns, wanted) if want]
        self._names = [column.name for column in shown]
        self._kinds = [postgres.TYPES[column.type].kind for column in shown]
        self._numbers = [n for n, column in enumerate(shown) if column.type in (20, 21, 23, 26, 700, 701, 1700)]
        self._exact = {n for n, column in enumerate(shown) if column.type == 1700}
        self._strata: Dict[int, "_Stratum"] = {}
        self.pages, self.pages_read, self.rows = pages, 0, 0
        self.damaged, self.damaged_pages, self.changed_pages = [], 0, 0
        self.undecided_rows, self.undecided = 0, {}
        self._begun = False

    @property
    def undecided_values(self) -> int:
        """The number of values in `undecided`."""
        return sum(self.undecided.values())

    def __iter__(self) -> Iterator[_native.Table]:
        if self._begun:
            raise RuntimeError("a scan is iterated once; call mine again")
        self._begun = True
        rows: List[List[Any]] = []
        since = 0
        # Pages of holes have no place on the disk and no rows.
        after = 0
        for first, end in [*sorted((run.page, run.page + max(run.pages, 1)) for run in self._runs), (self.pages, self.pages)]:
            for page in range(after, first):
                self._page_done(page, [])
            after = max(after, end)
        try:
            for page, data in self._pages():
                rows += self._decode(page, data)
                since += 1
                if since == _BATCH:
                    yield self._batch(rows)
                    rows, since = [], 0
        finally:
            self._blocks.close()
        if since:
            yield self._batch(rows)
        if self._moved():
            raise postgres.Damaged(
                f"{self._place}: the files of {self._table} were moved or truncated during the scan, so that rows may be missing or of"
                " another table; run CHECKPOINT and mine again, with a transaction open that has read the table"
            )

    def _pages(self) -> Iterator[Tuple[int, bytes]]:
        """Yields whole pages that pass their checks, each once."""
        parts: Dict[int, Dict[int, bytes]] = {}
        tries: Dict[int, int] = {}
        expected: Dict[int, int] = {}
        for run in self._runs:
            if not run.whole:
                expected[run.page] = expected.get(run.page, 0) + run.length
        unreadable = set()
        starts = [run.physical for run in self._runs]
        left = sum(run.pages for run in self._runs if run.whole) + len({run.page for run in self._runs if not run.whole})
        for run in self._runs:
            self._blocks.want(run.physical, run.length, postgres.PAGE if run.whole else run.length)
        while left:
            physical, block = self._blocks.next()
            run = self._runs[bisect.bisect_right(starts, physical) - 1]
            page = run.page + (physical - run.physical) // postgres.PAGE
            if block is None:
                if page not in unreadable:
                    left -= self._left_out(page, "a sector cannot be read")
                unreadable.add(page)
                continue
            if not run.whole:
                if page in unreadable:
                    continue
                parts.setdefault(page, {})[run.within] = block
                if sum(map(len, parts[page].values())) < expected[page]:
                    continue
                # Parts of the page that lie in a hole are zeros.
                whole = bytearray(postgres.PAGE)
                for within, part in parts.pop(page).items():
                    whole[within : within + len(part)] = part
                block = bytes(whole)
            try:
                postgres.tuples(block, page if self._snapshot.control.checksums else None)
            except postgres.Damaged as damage:
                tries[page] = tries.get(page, 1) + 1
                if tries[page] <= _READS:
                    for other in self._runs:
                        if other.page <= page < other.page + other.pages or (not other.whole and other.page == page):
                            start = other.physical + ((page - other.page) * postgres.PAGE if other.whole else 0)
                            length = postgres.PAGE if other.whole else other.length
                            self._blocks.want(start, length, length)
                    continue
                left -= self._left_out(page, str(damage))
                continue
            left -= 1
            yield page, block

    def _left_out(self, page: int, why: str) -> int:
        self.damaged_pages += 1
        if len(self.damaged) < 1000:
            self.damaged.append((page, why))
        return 1

    def _decode(self, page: int, data: bytes) -> List[List[Any]]:
        rows: List[List[Any]] = []
        undecided_rows, undecided = 0, []
        try:
            for tuple_ in postgres.tuples(data):
                visible = self._snapshot.visible(tuple_)
                if visible is None:
                    undecided_rows += 1
                if not visible:
                    continue
                row = postgres.values(tuple_, self._columns, self._wanted)
                for n, value in enumerate(row):
                    if isinstance(value, postgres.Undecided):
                        undecided.append(value.why)
                        row[n] = None
                rows.append(row)
        except postgres.Damaged as damage:
            self._left_out(page, str(damage))
            return []
        self.undecided_rows += undecided_rows
        for why in undecided:
            self.undecided[why] = self.undecided.get(why, 0) + 1
        self.changed_pages += postgres.changed(data) > self._snapshot.control.redo
        self._page_done(page, rows)
        return rows

    def _page_done(self, page: int, rows: List[List[Any]]) -> None:
        self.pages_read += 1
        self.rows += len(rows)
        part = page * _STRATA // max(self.pages, 1)
        stratum = self._strata.setdefault(part, _Stratum())
        sums = [sum(float(row[n]) for row in rows if row[n] is not None) for n in self._numbers]
        counts = [sum(row[n] is not None for row in rows) for n in self._numbers]
        stratum.pages.append((len(rows), sums, counts))

    def _batch(self, rows: List[List[Any]]) -> _native.Table:
        columns = []
        for n, (name, kind) in enumerate(zip(self._names, self._kinds)):
            values = [row[n] for row in rows]
            if n in self._exact:
                values = [None if value is None else format(value, "f") for value in values]
            columns.append((name, kind, values))
        return _native.table(columns)

    def count(self) -> Estimate:
        """An estimate of the number of visible rows."""
        return self._total(lambda page: page[0])

    def total(self, column: str) -> Estimate:
        """An estimate of the sum of a column of numbers."""
        n = self._number(column)
        return self._total(lambda page: page[1][n])

    def mean(self, column: str) -> Estimate:
        """An estimate of the mean of a column of numbers."""
        n = self._number(column)
        total, count = self._total(lambda page: page[1][n]).value, self._total(lambda page: page[2][n]).value
        if not count:
            return Estimate(float("nan"), float("nan"), float("nan"))
        ratio = total / count
        rest = self._total(lambda page: page[1][n] - ratio * page[2][n])
        half = (rest.high - rest.low) / 2 / count
        return Estimate(ratio, ratio - half, ratio + half)

    def _number(self, column: str) -> int:
        if column not in self._names or self._names.index(column) not in self._numbers:
            raise UsageError(f"{column} is not a column of numbers of this scan")
        return self._numbers.index(self._names.index(column))

    def _total(self, of: Any) -> Estimate:
        """An estimate of the sum of `of` over all pages. Pages are clusters, and each stratum is extrapolated by itself (Cochran 1977,
        sections 5.3 and 11.2)."""
        value = variance = 0.0
        degrees = 0
        for size, pages in self._joined():
            n = len(pages)
            numbers = [of(page) for page in pages]
            mean = sum(numbers) / n
            # A sum of all pages is exact.
            value += sum(numbers) if n == size else size * mean
            if n < size:
                if n < 2:
                    return Estimate(value, float("-inf"), float("inf"))
                spread = sum((number - mean) ** 2 for number in numbers) / (n - 1)
                variance += size * size * (1 - n / size) * spread / n
                degrees += n - 1
        # The normal quantile, widened for few pages (Cornish and Fisher).
        quantile = 1.959964 * (1 + 1.21 / degrees) + 2.8 / degrees**2 if degrees else 0.0
        half = quantile * variance**0.5
        return Estimate(value, value - half, value + half)

    def _joined(self) -> "Iterator[Tuple[int, List[Any]]]":
        """The sizes of strata with their pages that have been read; a stratum with fewer than five such pages joins the next."""
        size, pages, waiting = 0, [], []
        for part in range(_STRATA):
            size += -(-(part + 1) * self.pages // _STRATA) - -(-part * self.pages // _STRATA)
            pages += self._strata[part].pages if part in self._strata else []
            if len(pages) >= 5:
                waiting.append((size, pages))
                size, pages = 0, []
        if size or pages:
            if waiting:
                before = waiting.pop()
                size, pages = before[0] + size, before[1] + pages
            if pages:
                waiting.append((size, pages))
        yield from waiting


class _Stratum:
    """The pages of a part of a table that have been read: their rows, and the sums and numbers of values of each column of numbers."""

    def __init__(self) -> None:
        self.pages: List[Tuple[int, List[float], List[int]]] = []


class _Run(NamedTuple):
    """Bytes in one piece on the disk: whole pages, or a part of one."""

    physical: int
    length: int
    page: int
    within: int
    """The place of the run's first byte in the page; 0 for whole pages."""
    whole: bool

    @property
    def pages(self) -> int:
        return self.length // postgres.PAGE


def _runs(files: "Union[Mounted, Ext4]", path: str) -> Tuple[List[_Run], int]:
    """The runs of all files of a table by their places, and the number of its pages."""
    runs: List[_Run] = []
    pages = segment = 0
    while True:
        found = files.extents(path if segment == 0 else f"{path}.{segment}")
        if found is None:
            break
        size, extents = found
        first = segment * postgres.SEGMENT_PAGES
        # The server may have written only a part of a page that it appends.
        whole = size // postgres.PAGE * postgres.PAGE
        for extent in _merged(extents):
            at, end = extent.logical, min(extent.logical + extent.length, whole)
            while at < end:
                page, within = divmod(at, postgres.PAGE)
                length = end - at if not within else min(postgres.PAGE - within, end - at)
                if not within and length >= postgres.PAGE:
                    length -= length % postgres.PAGE
                full = not within and length >= postgres.PAGE
                runs.append(_Run(extent.physical + at - extent.logical, length, first + page, within, full))
                at += length
        pages = first + whole // postgres.PAGE
        segment += 1
    if segment == 0:
        raise FileNotFoundError(f"the table has no file {path}")
    return sorted(runs), pages


def _in_place(before: Sequence[_Run], after: Sequence[_Run]) -> bool:
    """Whether every byte of the runs is where it was."""

    def extents(runs: Sequence[_Run]) -> List[Extent]:
        return _merged(sorted(Extent(run.page * postgres.PAGE + run.within, run.physical, run.length) for run in runs))

    now = extents(after)
    starts = [extent.logical for extent in now]
    for old in extents(before):
        n = bisect.bisect_right(starts, old.logical) - 1
        if n < 0:
            return False
        inside = old.logical - now[n].logical
        if inside + old.length > now[n].length or now[n].physical + inside != old.physical:
            return False
    return True


def _merged(extents: Sequence[Extent]) -> List[Extent]:
    merged: List[Extent] = []
    for extent in extents:
        if merged and merged[-1].logical + merged[-1].length == extent.logical:
            last = merged[-1]
            if last.physical + last.length == extent.physical:
                merged[-1] = Extent(last.logical, last.physical, last.length + extent.length)
                continue
        merged.append(extent)
    return merged


# A daemon takes 4,096 tasks of a session that are not over (docs/CONTROL.md).
_TASKS_OPEN = 4000


class _Daemon:
    """Blocks from a daemon's background session. Ranges beyond those that the session takes at a time wait here."""

    def __init__(self, disk: str, control: str, priority: int):
        self._session = Session(disk, priority=priority, control=control)
        if self._session.sector_bytes != _SECTOR:
            self._session.close()
            raise UsageError(f"disk {disk} has sectors of {self._session.sector_bytes} bytes, and not {_SECTOR}")
        self._waiting: Deque[Tuple[int, int, int]] = collections.deque()
        self._blocks_left: Dict[int, int] = {}

    def want(self, physical: int, length: int, block: int) -> None:
        if physical % _SECTOR or length % _SECTOR:
            raise UsageError("a file does not begin at a sector; is `offset` right?")
        self._waiting.append((physical // _SECTOR, length // _SECTOR, block // _SECTOR))
        self._register()

    def _register(self) -> None:
        while self._waiting and len(self._blocks_left) < _TASKS_OPEN:
            start, sectors, block = self._waiting.popleft()
            self._blocks_left[self._session.read(start, sectors, block=block)] = -(-sectors // block)

    def next(self) -> Tuple[int, Optional[bytes]]:
        while True:
            record = self._session.get()
            if isinstance(record, Record):
                self._blocks_left[record.task] -= 1
                if self._blocks_left[record.task] == 0:
                    del self._blocks_left[record.task]
                    self._register()
                return record.start * _SECTOR, record.data if record.bad is None else None

    def close(self) -> None:
        self._session.close()


class _Image:
    """Blocks of a file, block device or export, in a random order. An export gets many requests at a time, and answers in an order of
    its own."""

    def __init__(self, path: str, seed: int):
        self._disk = opened(path)
        self._draw = random.Random(seed)
        self._wanted: List[Tuple[int, int]] = []

    def want(self, physical: int, length: int, block: int) -> None:
        self._wanted += [(at, block) for at in range(physical, physical + length, block)]

    def next(self) -> Tuple[int, Optional[bytes]]:
        if isinstance(self._disk, Export):
            while self._wanted and self._disk.outstanding < _AT_ONCE:
                self._disk.ask(*self._drawn())
            return self._disk.answer()
        at, length = self._drawn()
        try:
            data = self._disk.pread(length, at)
        except OSError:
            return at, None
        return at, data if len(data) == length else None

    def _drawn(self) -> Tuple[int, int]:
        n = self._draw.randrange(len(self._wanted))
        self._wanted[n], self._wanted[-1] = self._wanted[-1], self._wanted[n]
        return self._wanted.pop()

    def close(self) -> None:
        self._disk.close()
