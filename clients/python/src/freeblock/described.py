"""Units, meanings and sources of every number in the results and of every column of the tables."""
import difflib
import re
from typing import Dict, List, NamedTuple

from . import _native
from .simulation import UsageError


class Described(NamedTuple):
    """A number of a result, or a column of a table."""

    name: str
    """The key in a result, with dots between the levels as in a sweep's columns, or table and column, such as "requests.seek_ns"."""
    unit: str
    """The unit; "1" for a share from 0 to 1, "count" for a whole number of things, "text" or "truth" where there is no number."""
    meaning: str
    """What is measured, and how."""
    source: str
    """The paper and its section that the number or its model is from; empty without one."""


_OSDI = "Lumb, Schindler, Ganger, Nagle and Riedel, OSDI 2000"
_FAST02 = "Lumb, Schindler and Ganger, FAST 2002"
_FAST04 = "Thereska, Schindler, Bucy, Salmon, Lumb and Ganger, FAST 2004"
_ATC03 = "Popovici, Arpaci-Dusseau and Arpaci-Dusseau, USENIX ATC 2003"
_DEMERIT = "Ruemmler and Wilkes, IEEE Computer 27(3), 1994"
_MB = "MB/s of 10^6 bytes"

_RESPONSES = (
    ("sd_ms", "ms", "standard deviation of the response times"),
    ("p50_ms", "ms", "median of the response times, to three digits"),
    ("p90_ms", "ms", "90th percentile of the response times, to three digits"),
    ("p95_ms", "ms", "95th percentile of the response times, to three digits"),
    ("p999_ms", "ms", "99.9th percentile of the response times, to three digits"),
    ("max_ms", "ms", "the longest response time"),
    ("iops", "requests/s", "requests completed a second"),
    ("mb_per_s", _MB, "bytes read and written a second"),
    ("requests", "count", "requests completed after the warm-up"),
)

_RESULTS = (
    ("title", "text", "drive, load, place of the scheduler, preset, queue, buffer and bus", ""),
    ("where", "text", "the place of the scheduler: inside, outside or device", ""),
    ("behaviour", "text", "the preset and the switches of the drive's firmware; none inside the drive", f"{_FAST02}, section 3"),
    ("seed", "count", "the seed of every random number", ""),
    ("simulated_s", "s", "the time of the simulation that was measured, without the warm-up", ""),
    ("wall_s", "s", "the real time of the run, which differs from one run to the next", ""),
    ("interrupted", "truth", "whether Ctrl-C ended the run before its goal", ""),
    ("warmup.requests", "count", "the requests of the warm-up, which are in no figure", ""),
    ("warmup.simulated_s", "s", "the time of the simulation in the warm-up", ""),
    ("array", "text", "the layout of an array, or independent", ""),
    ("foreground.mean_response_ms", "ms", "mean response time, from arrival to completion", ""),
    ("foreground.p99_response_ms", "ms", "99th percentile of the response times, to three digits", ""),
    ("foreground.mean_access_ms", "ms", "mean time from the completion before, or from the arrival at an idle drive, to completion", ""),
    ("foreground.queue_length", "requests", "mean number of requests that wait or are in service, weighted by time", ""),
    ("foreground.queue_length_max", "count", "the most requests that waited or were in service at one instant", ""),
    ("foreground.utilisation", "1", "share of the time with at least one request that waited or was in service", ""),
    ("head_time.seek", "1", "share of the head's time for moves of the foreground", f"{_OSDI}, section 3 and figure 2"),
    ("head_time.rotation", "1", "share of the head's time that waits for sectors: unused latency", f"{_OSDI}, section 3 and figure 2"),
    ("head_time.transfer", "1", "share of the head's time with foreground sectors under it", f"{_OSDI}, section 3 and figure 2"),
    ("head_time.free_transfer", "1", "share of the head's time with wanted background sectors under it", f"{_OSDI}, section 4"),
    ("head_time.extra_seek", "1", "share of the head's time for more moves, to the background's tracks", f"{_OSDI}, section 4"),
    ("head_time.idle", "1", "share of the head's time without work, or with waits that no request has", ""),
    ("background.blocks", "count", "blocks delivered", ""),
    ("background.mb_per_s", _MB, "bytes delivered a second: the free bandwidth", f"{_OSDI}, section 5"),
    ("background.scans_per_day", "1/day", "the rate in scans of the whole drive a day", f"{_OSDI}, section 6"),
    ("background.potential_used", "1", "share of the foreground's rotational latency used for wanted sectors", f"{_OSDI}, section 5"),
    ("background.last5_time_share", "1", "share of the scan's time for the last twentieth of its blocks, if it has ended", ""),
    ("background.done", "truth", "whether every block was delivered", ""),
    ("flushes.requests", "count", "flushes of a trace without a write; they are in no other figure", ""),
    ("flushes.mean_ms", "ms", "mean response time of the flushes", ""),
    ("flushes.max_ms", "ms", "the longest response time of a flush", ""),
    ("discards.requests", "count", "discards of a trace; they are in no other figure", ""),
    ("discards.mean_ms", "ms", "mean response time of the discards", ""),
    ("discards.max_ms", "ms", "the longest response time of a discard", ""),
    ("trace.format", "text", "the format of the trace", ""),
    ("trace.devices", "count", "the devices in the trace", ""),
    ("trace.device", "number", "the device that was replayed; none for all", ""),
    ("trace.requests", "count", "the requests of the trace that were replayed", ""),
    ("trace.out_of_order", "count", "requests that arrived before an earlier one of the file", ""),
    ("trace.late", "count", "requests more than 524,288 places too late in the file, which were replayed with the one before", ""),
    ("trace.wrapped", "count", "requests past the end of the drive, which were placed elsewhere", ""),
    ("trace.widened", "count", "requests that were widened to whole sectors", ""),
    ("trace.left_out", "count", "requests that were left out", ""),
    ("trace.flushes", "count", "flushes in the trace", ""),
    ("trace.discards", "count", "discards in the trace", ""),
    ("trace.forced", "count", "writes with forced unit access in the trace", ""),
    ("trace.notes", "text", "remarks on the reading of the trace", ""),
    ("mimic.observed", "count", "service times that the learner of SMTF has observed", f"{_ATC03}, section 6"),
    ("mimic.known", "count", "distances with samples of their own", f"{_ATC03}, section 3"),
    ("mimic.changes", "count", "how often another drive was noticed", f"{_ATC03}, section 6.2"),
    ("mimic.mean_error_ms", "ms", "mean error of the latest predictions", f"{_ATC03}, section 6"),
    ("mimic.memory_bytes", "bytes", "the memory of the table", f"{_ATC03}, section 5.3"),
    ("outside.caution", "text", "why gaps are unused at the end of the run; none if they are used", ""),
    ("outside.caution_s", "s", "time of the simulation in which gaps stayed unused, by the reason in the last part of the name", ""),
    ("outside.mistrusted", "truth", "whether the predictions are too bad for gaps", ""),
    ("outside.foresight.commands", "count", "commands whose end was predicted", f"{_FAST02}, section 4"),
    ("outside.foresight.late", "count", "commands that ended later than predicted", f"{_FAST02}, section 4"),
    ("outside.foresight.early", "count", "commands that ended earlier than predicted", f"{_FAST02}, section 4"),
    ("outside.foresight.unexplained", "count", "commands whose end no rule of the drive explains", ""),
    ("outside.foresight.within_100us", "1", "share of the commands that ended within 100 us of the prediction", f"{_FAST02}, section 5.2"),
    ("outside.gaps.seen", "count", "gaps that were planned", f"{_OSDI}, section 4"),
    ("outside.gaps.used", "count", "gaps in which background blocks were read", f"{_OSDI}, section 4"),
    ("outside.gaps.extra_revolutions", "count", "gaps for which a request waited one more revolution", ""),
    ("outside.detours.foreground_us", "us", "time of the requests against which the harm of gaps is held", ""),
    ("outside.detours.lost_us", "us", "time that requests lost by gaps, estimated", ""),
    ("outside.detours.share", "1", "lost_us by foreground_us", ""),
    ("outside.idle.foreground_us", "us", "time of the requests against which the harm of work in idle time is held", ""),
    ("outside.idle.lost_us", "us", "time that requests lost by work in idle time, estimated", f"{_FAST04}, section 5.2"),
    ("outside.idle.share", "1", "lost_us by foreground_us", f"{_FAST04}, section 5.2"),
    ("outside.harm_percent", "%", "the bound on the harm of gaps, of the mean response time", ""),
    ("outside.measured.requests", "count", "requests that came while background work was wanted", ""),
    ("outside.measured.on.windows", "count", "windows of time with background work", ""),
    ("outside.measured.on.requests", "count", "requests in windows with background work", ""),
    ("outside.measured.on.response_ms", "ms", "their mean response time", ""),
    ("outside.measured.plain.windows", "count", "windows of time without background work", ""),
    ("outside.measured.plain.requests", "count", "requests in windows without background work", ""),
    ("outside.measured.plain.response_ms", "ms", "their mean response time", ""),
    ("outside.measured.through.windows", "count", "windows of the disk alone, with requests in the drive's own order", ""),
    ("outside.measured.through.requests", "count", "requests in windows of the disk alone", ""),
    ("outside.measured.through.response_ms", "ms", "their mean response time", ""),
    ("outside.measured.pairs_missing", "count", "pairs of windows that are still needed for background, and for order", ""),
    ("outside.measured.background", "1", "increase of the mean response time by background work; low and high end its 95% interval", ""),
    ("outside.measured.order", "1", "increase by the order in which requests are sent; low and high end its 95% interval", ""),
    ("outside.measured.bound", "1", "upper end of both increases, with 95% confidence at all times since the first interval", ""),
    ("outside.measured.unaccounted", "1", "increase that is not in the account of harm, and is taken off its bound as far as it is known", ""),
    ("outside.measured.window", "text", "the kind of the current window: on, plain or through", ""),
    ("seeds.count", "count", "the number of seeds, over which every number of the result is the mean", ""),
    ("seeds.confidence", "1", "the confidence of the intervals, whose half widths are in seeds.half_width (Student's t)", ""),
    ("series.from_s", "s", "the beginning of the interval", ""),
    ("series.to_s", "s", "the end of the interval; a request counts where it is completed", ""),
    ("drives[].device", "number", "the number of the drive in an array, from 0", ""),
    ("drives[].drive", "text", "the name of the drive that was given", ""),
)

_TABLES = (
    ("requests.id", "number", "the number of the request", ""),
    ("requests.arrival_ns", "ns", "arrival, since the start of the run", ""),
    ("requests.start_ns", "ns", "start of the service, since the start of the run", ""),
    ("requests.completion_ns", "ns", "completion, since the start of the run", ""),
    ("requests.op", "text", "read or write", ""),
    ("requests.lbn", "LBN", "the first sector", ""),
    ("requests.sectors", "sectors", "the length", ""),
    ("requests.cache_hit", "truth", "whether the drive's buffer served it", ""),
    ("requests.seek_ns", "ns", "the arm's move for it", f"{_OSDI}, section 3"),
    ("requests.rotation_ns", "ns", "the rotational latency that the background left", f"{_OSDI}, section 3"),
    ("requests.transfer_ns", "ns", "its sectors under the head", f"{_OSDI}, section 3"),
    ("drives.name", "text", "the name for `simulate`", ""),
    ("drives.title", "text", "maker, model, capacity and year", ""),
    ("drives.synthetic", "truth", "whether the parameters are made up at least in part; `drive` has their sources", ""),
    ("drives.capacity_bytes", "bytes", "the capacity", ""),
    ("drives.rpm", "1/min", "revolutions a minute", ""),
    ("drives.cylinders", "count", "cylinders", ""),
    ("drives.heads", "count", "heads, each with a surface", ""),
    ("drives.sectors_per_track.least", "sectors", "the shortest track", ""),
    ("drives.sectors_per_track.most", "sectors", "the longest track", ""),
    ("claims.claim", "text", "the name of the claim", ""),
    ("claims.paper", "text", "the value in the paper; the paper and its figure are in the claim's name", ""),
    ("claims.measure", "text", "the quantity that is compared", ""),
    ("claims.ours", "by row", "mean over the runs, in the row's unit", ""),
    ("claims.min", "by row", "the least of the runs, in the row's unit", ""),
    ("claims.max", "by row", "the most of the runs, in the row's unit", ""),
    ("claims.runs", "count", "runs, each with a seed of its own", ""),
    ("claims.unit", "text", "the unit of ours, min and max; a number without one is a share or a ratio", ""),
    ("claims.holds", "truth", "whether the number lies in the band around the paper's", ""),
    ("claims.note", "text", "why a claim does not hold, if it does not", ""),
    ("disks.disk", "number", "the disk's number, from 0", ""),
    ("disks.group", "number", "the number of its group, from 0", ""),
    ("disks.drive", "text", "the drive", ""),
    ("disks.load", "text", "the load", ""),
    ("disks.part", "1", "share of the disk that the task reads", ""),
    ("disks.mb_per_s", _MB, "mean rate of the task in the windows", f"{_OSDI}, section 5"),
    ("disks.hours", "h", "the task's bytes at that rate, extrapolated; none if it read nothing", ""),
    ("disks.hours_low", "h", "the same at the faster window's rate", ""),
    ("disks.hours_high", "h", "the same at a third of the slower window's rate, because the last blocks are far apart", ""),
    ("disks.harm_percent", "%", "increase of the mean response time by the task", ""),
    ("disks.harm_ms", "ms", "increase of the mean response time by the task", ""),
    ("disks.response_ms", "ms", "mean response time with the task", ""),
    ("disks.window_s", "s", "the time of the window that was simulated", ""),
    ("disks.extrapolated", "1", "share of the task that lies outside the windows", ""),
    ("disks.seed", "count", "the seed of the disk's simulations", ""),
    ("summary.quantity", "text", "hours, hours_low, hours_high or harm_percent, with the units that they have in disks", ""),
    ("summary.p10", "by row", "10th percentile over the groups, of which the slowest disk counts", ""),
    ("summary.p50", "by row", "median over the groups", ""),
    ("summary.p90", "by row", "90th percentile over the groups", ""),
    ("summary.p99", "by row", "99th percentile over the groups", ""),
    ("summary.p100", "by row", "the most of the groups", ""),
    ("validate.requests", "count", "requests compared", ""),
    ("validate.demerit_ms", "ms", "root mean square distance of the two distributions of response times", _DEMERIT),
    ("validate.model_mean_ms", "ms", "mean response time of the model", ""),
    ("validate.trace_mean_ms", "ms", "mean response time in the trace", ""),
    ("validate.per_request_rms_ms", "ms", "root mean square difference, request by request", ""),
    ("validate.cdf.share", "1", "share of the requests", ""),
    ("validate.cdf.trace_ms", "ms", "the time that this share did not exceed in the trace", ""),
    ("validate.cdf.model_ms", "ms", "the time that this share did not exceed in the model", ""),
    ("validate.classes.op", "text", "read or write", ""),
    ("validate.classes.after", "text", "the request before", ""),
    ("validate.classes.distance", "text", "the distance to the request before", ""),
    ("validate.classes.served", "text", "by the medium or the buffer", ""),
    ("validate.classes.requests", "count", "requests of the class", ""),
    ("validate.classes.trace_mean_ms", "ms", "mean response time in the trace", ""),
    ("validate.classes.model_mean_ms", "ms", "mean response time of the model", ""),
    ("validate.classes.demerit_ms", "ms", "the demerit of the class", _DEMERIT),
    ("validate.classes.residual_p5_ms", "ms", "5th percentile of trace minus model", ""),
    ("validate.classes.residual_p50_ms", "ms", "median of trace minus model", ""),
    ("validate.classes.residual_p95_ms", "ms", "95th percentile of trace minus model", ""),
)


def _all() -> Dict[str, Described]:
    rows = list(_RESULTS)
    rows += [(f"foreground.{name}", unit, meaning, "") for name, unit, meaning in _RESPONSES]
    own = (("mean_ms", "ms", "mean response time"), ("p99_ms", "ms", "99th percentile of the response times, to three digits"))
    for kind in ("reads", "writes"):
        rows += [(f"foreground.{kind}.{name}", unit, f"{meaning}, {kind} alone", "") for name, unit, meaning in (*own, *_RESPONSES)]
    return {row[0]: Described(*row) for row in (*rows, *_TABLES)}


_BY_NAME = _all()

_LIKE_A_RESULT = ("seeds.half_width.", "seeds.runs[].", "drives[].")
"""Prefixes that are followed by the name of a result."""


def describe(name: str) -> Described:
    """The unit, the meaning and the source of a number or a column by its name.

    name: a key of a simulation's result, such as "background.potential_used", "drives[0].foreground.iops" or
        "seeds.half_width.foreground.iops"; a column of a sweep has the same name. Or a table and its column: "requests.seek_ns",
        "series.p90_ms", "drives.rpm", "claims.ours" (`lab`), "disks.hours" and "summary.p90" (`fleet`), "validate.demerit_ms". A
        column of a sweep that is an option is described by `options("simulate")`, and one of `mine` by `postgres.TYPES`.

        >>> freeblock.describe("background.potential_used").unit
        '1'
    """
    if not isinstance(name, str):
        raise UsageError(f"the name is {name!r}; give a text, such as \"foreground.iops\"")
    text = re.sub(r"\[\d*\]", "[]", name)
    plain = text
    while (start := next((start for start in _LIKE_A_RESULT if plain.startswith(start)), None)) is not None:
        plain = plain[len(start) :]
    of_interval = re.sub(r"^series(\[\])?\.", "foreground.", plain)
    for key in (text, text.replace("[]", ""), plain, of_interval):
        if key in _BY_NAME:
            return _BY_NAME[key]._replace(name=name)
    above, _, last = plain.rpartition(".")
    # Names that are not listed singly: a reason of caution, and the ends and the mean of an interval, which have its unit.
    if above == "outside.caution_s" or (above in _BY_NAME and last in ("low", "mean", "high")):
        return _BY_NAME[above]._replace(name=name)
    near = difflib.get_close_matches(name, _BY_NAME, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"no number and no column is called {name}{hint}")


def descriptions() -> _native.Table:
    """All descriptions as a table with the columns name, unit, meaning and source: first of results, then of tables."""
    columns: List[List[str]] = [list(column) for column in zip(*_BY_NAME.values())]
    return _native.table([(field, "text", values) for field, values in zip(Described._fields, columns)])
