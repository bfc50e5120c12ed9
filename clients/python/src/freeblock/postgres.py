"""PostgreSQL's files, read-only: pages and tuples of tables, the catalog, the commit log. PostgreSQL 15 on little-endian machines.

Every length and place comes from a disk, so that all of them are checked. Damage raises `Damaged`.
"""
import decimal
import struct
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

PAGE = 8192
"""Bytes of a page."""

SEGMENT_PAGES = 131_072
"""Pages of a file of a table."""

_VERSION = "15"
_MAPPED_MOST = 62


class Damaged(ValueError):
    """Bytes that are not what PostgreSQL writes there."""


class Undecided:
    """A value that is not on the page: a pointer to a TOAST table, LZ4's bytes, the default of a column that was added, or an
    infinite date."""


UNDECIDED = Undecided()


class Column(NamedTuple):
    """A column of a table, in the order of its tuples; a dropped one still has its place."""

    name: str
    type: int
    """The type's OID."""
    length: int
    """Bytes of a value; -1 for a varying length."""
    align: str
    """c, s, i or d: 1, 2, 4 or 8 bytes."""
    dropped: bool
    has_missing: bool
    """Whether tuples from before the column was added have a default that the catalog keeps."""


class Tuple_(NamedTuple):
    """A tuple as it lies on its page."""

    line: int
    """The number of its line pointer, from 1."""
    xmin: int
    xmax: int
    infomask: int
    attributes: int
    nulls: Optional[bytes]
    data: bytes


_HAS_NULL = 0x0001
_XMAX_EXCLUSIVE = 0x0040
_XMAX_LOCK_ONLY = 0x0080
_XMAX_LOCKS = 0x0010 | _XMAX_EXCLUSIVE
_XMIN_COMMITTED = 0x0100
_XMIN_INVALID = 0x0200
_XMIN_FROZEN = _XMIN_COMMITTED | _XMIN_INVALID
_XMAX_COMMITTED = 0x0400
_XMAX_INVALID = 0x0800
_XMAX_MULTI = 0x1000
_MOVED = 0xC000

_ALIGN = {"c": 1, "s": 2, "i": 4, "d": 8}


def tuples(page: bytes, number: Optional[int] = None) -> List[Tuple_]:
    """The tuples of a page of a table, dead ones included. With its number in the table the page's checksum is verified."""
    if len(page) != PAGE:
        raise Damaged(f"a page has {PAGE} bytes, and not {len(page)}")
    _, checksum, _, lower, upper, special, size, _ = struct.unpack_from("<QHHHHHHI", page)
    if not any(page):
        return []  # a page that the table has got, and that has not been used
    if size != PAGE | 4:
        raise Damaged(f"page size and layout version are {size:#x}, and not {PAGE | 4:#x}")
    if not 24 <= lower <= upper <= special <= PAGE or (lower - 24) % 4:
        raise Damaged(f"the page's parts end at {lower}, {upper} and {special}")
    if number is not None and checksum != page_checksum(page, number):
        raise Damaged(f"the checksum is {page_checksum(page, number):#06x}, and the page says {checksum:#06x}")
    found = []
    for line in range((lower - 24) // 4):
        (pointer,) = struct.unpack_from("<I", page, 24 + 4 * line)
        offset, flags, length = pointer & 0x7FFF, pointer >> 15 & 3, pointer >> 17
        if flags != 1:
            continue
        if offset < upper or offset + length > special or length < 23 or offset % 8:
            raise Damaged(f"line pointer {line + 1} says bytes {offset} to {offset + length}")
        xmin, xmax, _, _, _, _, mask2, mask, start = struct.unpack_from("<IIIHHHHHB", page, offset)
        count = mask2 & 0x07FF
        nulls = None
        least = 23
        if mask & _HAS_NULL:
            least += (count + 7) // 8
            nulls = page[offset + 23 : offset + least]
        if start < least or start > length or start % 8:
            raise Damaged(f"tuple {line + 1} begins its data at byte {start} of {length}")
        found.append(Tuple_(line + 1, xmin, xmax, mask, count, nulls, page[offset + start : offset + length]))
    return found


_BASES = (
    0x5B1F36E9, 0xB8525960, 0x02AB50AA, 0x1DE66D2A, 0x79FF467A, 0x9BB9F8A3, 0x217E7CD2, 0x83E13D2C,
    0xF8D4474F, 0xE39EB970, 0x42C6AE16, 0x993216FA, 0x7B093B5D, 0x98DAFF3C, 0xF718902A, 0x0B1C9CDB,
    0xE58F764B, 0x187636BC, 0x5D7B3BB1, 0xE73DE7DE, 0x92BEC979, 0xCCA6C0B2, 0x304A0979, 0x85AA43D4,
    0x783125BB, 0x6CA8EAA2, 0xE407EAC6, 0x4B5CFC3E, 0x9FBF8C76, 0x15CA20BE, 0xF2CA9FD3, 0x959BD756,
)  # fmt: skip


def page_checksum(page: bytes, number: int) -> int:
    """The checksum that PostgreSQL gives a page (storage/checksum_impl.h)."""
    words = list(struct.unpack("<2048I", page))
    words[2] &= 0xFFFF0000  # the checksum itself counts as 0
    words += [0] * 64
    whole = 0
    for lane, value in enumerate(_BASES):
        for word in words[lane::32]:
            mixed = value ^ word
            value = (mixed * 16_777_619 & 0xFFFFFFFF) ^ (mixed >> 17)
        whole ^= value
    return (whole ^ number) % 65_535 + 1


def values(tuple_: Tuple_, columns: Sequence[Column], wanted: Sequence[bool]) -> List[Any]:
    """The values of the wanted columns; None for NULL, UNDECIDED for those that are elsewhere."""
    data, at, found = tuple_.data, 0, []
    if tuple_.attributes > len(columns):
        raise Damaged(f"tuple {tuple_.line} has {tuple_.attributes} columns, and the table {len(columns)}")
    last = max((n for n, want in enumerate(wanted) if want), default=-1)
    for n, column in enumerate(columns[: last + 1]):
        if n >= tuple_.attributes:
            if wanted[n]:
                found.append(UNDECIDED if column.has_missing else None)
            continue
        if tuple_.nulls is not None and not tuple_.nulls[n // 8] >> n % 8 & 1:
            if wanted[n]:
                found.append(None)
            continue
        align = _ALIGN[column.align]
        if column.length == -1:
            # A short header is not aligned; the bytes before an aligned one are 0.
            if at >= len(data) or data[at] == 0:
                at += -at % align
            value, at = _varying(data, at, wanted[n])
        else:
            at += -at % align
            value, at = _cut(data, at, column.length)
        if wanted[n]:
            found.append(UNDECIDED if value is None else TYPES[column.type].read(value))
    return found


def _cut(data: bytes, at: int, length: int) -> Tuple[bytes, int]:
    if length < 0 or at + length > len(data):
        raise Damaged(f"a value of {length} bytes at byte {at} of a tuple of {len(data)}")
    return data[at : at + length], at + length


def _varying(data: bytes, at: int, wanted: bool) -> Tuple[Optional[bytes], int]:
    """A value of varying length, and the place behind it; None for one that is not here."""
    first = _cut(data, at, 1)[0][0]
    if first == 1:
        tag = _cut(data, at + 1, 1)[0][0]
        if tag != 18:
            raise Damaged(f"a TOAST pointer of kind {tag}")
        return None, _cut(data, at, 18)[1]
    if first & 1:
        body, end = _cut(data, at, first >> 1)
        return body[1:], end
    (word,) = struct.unpack("<I", _cut(data, at, 4)[0])
    if word >> 2 < 4:
        raise Damaged(f"a value of {word >> 2} bytes with a header of 4")
    body, end = _cut(data, at, word >> 2)
    if word & 3 == 0:
        return body[4:], end
    (info,) = struct.unpack("<I", _cut(body, 4, 4)[0])
    if not wanted or info >> 30 != 0:
        return None, end
    return _pglz(body[8:], info & 0x3FFFFFFF), end


def _pglz(packed: bytes, size: int) -> bytes:
    """PostgreSQL's own compression, unpacked (common/pg_lzcompress.c)."""
    if size > 255 * max(len(packed), 1):
        raise Damaged(f"{len(packed)} bytes cannot be {size} unpacked")
    out, at = bytearray(), 0
    while at < len(packed) and len(out) < size:
        control = packed[at]
        at += 1
        for bit in range(8):
            if at >= len(packed) or len(out) >= size:
                break
            if not control >> bit & 1:
                out.append(packed[at])
                at += 1
                continue
            one, two = _cut(packed, at, 2)[0]
            at += 2
            length, offset = (one & 15) + 3, (one & 0xF0) << 4 | two
            if length == 18:
                length += _cut(packed, at, 1)[0][0]
                at += 1
            if not 0 < offset <= len(out):
                raise Damaged(f"a repetition from {offset} bytes before byte {len(out)}")
            for _ in range(min(length, size - len(out))):
                out.append(out[-offset])
    if len(out) != size or at != len(packed):
        raise Damaged(f"{len(out)} bytes unpacked, and {size} expected")
    return bytes(out)


def _number(layout: str) -> Callable[[bytes], Any]:
    unpack = struct.Struct(layout).unpack
    return lambda data: unpack(data)[0]


def _numeric(data: bytes) -> Any:
    if len(data) < 2 or len(data) % 2:
        raise Damaged(f"a numeric of {len(data)} bytes")
    header, *rest = struct.unpack(f"<{len(data) // 2}H", data)
    if header & 0xC000 == 0xC000:
        special = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}.get(header & 0xF000)
        if special is None:
            raise Damaged(f"a numeric with the header {header:#x}")
        return decimal.Decimal(special)
    if header & 0x8000:
        negative, scale = bool(header & 0x2000), header >> 7 & 0x3F
        weight = (header & 0x3F) - (64 if header & 0x40 else 0)
        digits = rest
    else:
        if not rest:
            raise Damaged("a numeric without a weight")
        negative, scale = bool(header & 0x4000), header & 0x3FFF
        weight = rest[0] - (65_536 if rest[0] & 0x8000 else 0)
        digits = rest[1:]
    if any(digit > 9999 for digit in digits):
        raise Damaged("a numeric with a digit over 9999")
    number = 0
    for digit in digits:
        number = number * 10_000 + digit
    # The value is number * 10000 ** exponent, and has `scale` decimals.
    exponent = (weight - len(digits) + 1) * 4
    sign = 1 if negative and number else 0
    if -exponent > scale:
        number //= 10 ** (-exponent - scale)
        exponent = -scale
    else:
        number *= 10 ** (exponent + scale)
        exponent = -scale
    return decimal.Decimal((sign, tuple(map(int, str(number))), exponent))


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _bool(data: bytes) -> bool:
    if data[0] > 1:
        raise Damaged(f"a truth value of {data[0]}")
    return data[0] == 1


def _date(data: bytes) -> Any:
    (days,) = struct.unpack("<i", data)
    return UNDECIDED if days in (-(2**31), 2**31 - 1) else days + 10_957


def _timestamp(data: bytes) -> Any:
    (microseconds,) = struct.unpack("<q", data)
    return UNDECIDED if microseconds in (-(2**63), 2**63 - 1) else microseconds + 946_684_800_000_000


class Type(NamedTuple):
    """A type that can be read."""

    name: str
    length: int
    kind: str
    """The kind of column in a table (`freeblock.Table`)."""
    read: Callable[[bytes], Any]


TYPES = {
    16: Type("bool", 1, "bool", _bool),
    18: Type("char", 1, "text", lambda data: data.decode("latin-1")),
    19: Type("name", 64, "text", lambda data: _text(data.split(b"\0")[0])),
    20: Type("int8", 8, "int64", _number("<q")),
    21: Type("int2", 2, "int64", _number("<h")),
    23: Type("int4", 4, "int64", _number("<i")),
    25: Type("text", -1, "text", _text),
    26: Type("oid", 4, "int64", _number("<I")),
    700: Type("float4", 4, "double", _number("<f")),
    701: Type("float8", 8, "double", _number("<d")),
    1042: Type("bpchar", -1, "text", _text),
    1043: Type("varchar", -1, "text", _text),
    1082: Type("date", 4, "int64", _date),
    1114: Type("timestamp", 8, "int64", _timestamp),
    1184: Type("timestamptz", 8, "int64", _timestamp),
    1700: Type("numeric", -1, "text", _numeric),
}
"""The types that can be read, by their OIDs. Dates are days and timestamps microseconds since 1970-01-01; numerics are exact texts in
a table."""


class Control(NamedTuple):
    """The control file, as of the last checkpoint."""

    running: bool
    next_xid: int
    oldest_active: int
    """The oldest transaction that was under way; 0 if none was."""
    next_multi: int
    next_offset: int
    checksums: bool


def control(data: bytes) -> Control:
    """Reads global/pg_control."""
    if len(data) < 292:
        raise Damaged(f"the control file has {len(data)} bytes")
    version, _, state = struct.unpack_from("<IIi", data, 8)
    if version != 1300:
        raise Damaged(f"the control file has version {version}; PostgreSQL 15 has 1300")
    if struct.unpack_from("<I", data, 288)[0] != _crc32c(data[:288]):
        raise Damaged("the control file's checksum is wrong")
    next_xid, _, next_multi, next_offset = struct.unpack_from("<QIII", data, 64)
    (active,) = struct.unpack_from("<I", data, 120)
    if struct.unpack_from("<I", data, 216)[0] != PAGE or struct.unpack_from("<I", data, 220)[0] != SEGMENT_PAGES:
        raise Damaged("the server was built with pages or segments of another size")
    (checksums,) = struct.unpack_from("<I", data, 252)
    return Control(state not in (1, 2), next_xid & 0xFFFFFFFF, active, next_multi, next_offset, checksums != 0)


def _crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


Read = Callable[[str], Optional[bytes]]
"""Reads a file below the data directory; None if there is none."""


class Snapshot:
    """Which tuples are visible to a transaction that began at the last checkpoint.

    The commit log is read as it is on the disk, when it is first needed. Transactions that were under way at the checkpoint and have
    committed by then are undecided, because their tuples need not be on the disk.
    """

    def __init__(self, read: Read):
        data = read("global/pg_control")
        if data is None:
            raise Damaged("there is no global/pg_control")
        self.control = control(data)
        self._read = read
        self._files: Dict[str, Optional[bytes]] = {}

    def keep(self) -> None:
        """Reads the files that a scan may need, so that the server can remove them."""
        first = self.control.next_xid - (1 << 31)
        for xid in range(self.control.next_xid, max(first, -1), -(32_768 * 32)):
            if self._byte("pg_xact", xid // 32_768, 0, 1) is None:
                break

    def visible(self, tuple_: Tuple_) -> Optional[bool]:
        """None if it cannot be decided."""
        mask = tuple_.infomask
        if mask & _MOVED:
            return None  # of a VACUUM FULL before PostgreSQL 9.0
        if mask & _XMIN_FROZEN != _XMIN_FROZEN:
            if mask & _XMIN_INVALID:
                return False
            began = self._committed(tuple_.xmin, bool(mask & _XMIN_COMMITTED))
            if began is not True:
                return began
        if mask & _XMAX_INVALID or tuple_.xmax == 0 or mask & _XMAX_LOCK_ONLY or mask & (_XMAX_MULTI | _XMAX_LOCKS) == _XMAX_EXCLUSIVE:
            return True
        xmax: Optional[int] = tuple_.xmax
        if mask & _XMAX_MULTI:
            xmax = self._updater(tuple_.xmax)
            if xmax is None:
                return None
            if xmax == 0:
                return True
        ended = self._committed(xmax or 0, bool(mask & _XMAX_COMMITTED))
        return None if ended is None else not ended

    def _committed(self, xid: int, hint: bool) -> Optional[bool]:
        if xid < 3:
            return xid != 0
        if _before(self.control.next_xid, xid + 1):
            return False
        page, within = divmod(xid, 32_768)
        byte = self._byte("pg_xact", page, within // 4, 1)
        if byte is None:
            # The log of transactions whose tuples are all marked is removed.
            return True if hint else None
        status = byte[0] >> xid % 4 * 2 & 3
        if status == 3:
            return None
        active = self.control.oldest_active
        if status == 1 and active and not _before(xid, active):
            return None
        return status == 1

    def _updater(self, multi: int) -> Optional[int]:
        """The transaction of a group that changed the tuple; 0 if none did, None if it is unknown."""
        if _before(self.control.next_multi, multi + 1):
            return 0
        first = self._offset(multi)
        after = multi + 1 if multi + 1 < 2**32 else 1
        end = self.control.next_offset if after == self.control.next_multi else self._offset(after)
        if not first or not end or not 0 < end - first <= 1 << 16:
            return None
        for member in range(first, end):
            group, within = divmod(member, 4)
            page, place = divmod(group, 409)
            record = self._byte("pg_multixact/members", page, place * 20, 20)
            if record is None:
                return None
            if record[within] >= 4:
                return int(struct.unpack_from("<I", record, 4 + 4 * within)[0])
        return 0

    def _offset(self, multi: int) -> Optional[int]:
        found = self._byte("pg_multixact/offsets", multi // 2048, multi % 2048 * 4, 4)
        return None if found is None else int(struct.unpack("<I", found)[0])

    def _byte(self, log: str, page: int, place: int, length: int) -> Optional[bytes]:
        path = f"{log}/{page // 32:04X}"
        if path not in self._files:
            self._files[path] = self._read(path)
        data = self._files[path]
        at = page % 32 * PAGE + place
        return None if data is None or at + length > len(data) else data[at : at + length]


def _before(one: int, other: int) -> bool:
    """Whether a transaction is older than another; numbers wrap around."""
    return ((one - other) & 0xFFFFFFFF) >= 2**31


class Relation(NamedTuple):
    """A table and its files."""

    path: str
    """The first file, below the data directory."""
    columns: List[Column]


def relation(read: Read, snapshot: Snapshot, database: str, name: str) -> Relation:
    """Finds a table by "name" or "schema.name"; without a schema, in `public`."""
    version = read("PG_VERSION")
    if version is None or version.strip() != _VERSION.encode():
        raise Damaged(f"PG_VERSION says {(version or b'nothing').strip().decode(errors='replace')}; only {_VERSION} is known")
    schema, _, table = name.rpartition(".")
    of_database = None
    for row in _rows(read, snapshot, f"global/{_mapped(read, 'global', 1262)}"):
        if _name(row, 4) == database:
            of_database = _oid(row, 0)
    if of_database is None:
        raise LookupError(f"no database is called {database}")
    directory = f"base/{of_database}"
    classes = [row for row in _rows(read, snapshot, f"{directory}/{_mapped(read, directory, 1259)}")]
    files = {_oid(row, 0): _oid(row, 88) for row in classes}
    if 2615 not in files:
        raise Damaged("the catalog has no pg_namespace")
    schemas = {_name(row, 4): _oid(row, 0) for row in _rows(read, snapshot, f"{directory}/{files[2615]}")}
    found = [row for row in classes if _name(row, 4) == table and _oid(row, 68) == schemas.get(schema or "public")]
    if not found:
        raise LookupError(f"database {database} has no table {schema or 'public'}.{table}")
    row = found[0]
    if row[115:116] != b"r" or not _oid(row, 88) or _oid(row, 92):
        raise LookupError(f"{name} is not an ordinary table of the default tablespace")
    columns = []
    for described in _rows(read, snapshot, f"{directory}/{_mapped(read, directory, 1249)}"):
        if _oid(described, 0) != _oid(row, 0) or len(described) < 104:
            continue
        length, number = struct.unpack_from("<hh", described, 76)
        if number > 0:
            align = chr(described[93])
            if align not in _ALIGN:
                raise Damaged(f"column {number} of {name} has the alignment {align!r}")
            column = Column(_name(described, 4), _oid(described, 68), length, align, described[101] == 1, described[98] == 1)
            columns.append((number, column))
    columns.sort()
    if [number for number, _ in columns] != list(range(1, len(columns) + 1)):
        raise Damaged(f"the catalog has not all columns of {name}")
    return Relation(f"{directory}/{_oid(row, 88)}", [column for _, column in columns])


def _rows(read: Read, snapshot: Snapshot, path: str) -> Iterator[bytes]:
    """The fixed part of the rows of a catalog."""
    data = read(path)
    if data is None:
        raise Damaged(f"there is no {path}")
    for start in range(0, len(data) - PAGE + 1, PAGE):
        number = start // PAGE if snapshot.control.checksums else None
        for tuple_ in tuples(data[start : start + PAGE], number):
            if snapshot.visible(tuple_):
                yield tuple_.data


def _oid(row: bytes, at: int) -> int:
    return int(struct.unpack("<I", _cut(row, at, 4)[0])[0])


def _name(row: bytes, at: int) -> str:
    return _text(_cut(row, at, 64)[0].split(b"\0")[0])


def _mapped(read: Read, directory: str, oid: int) -> int:
    """The file of a catalog that the catalog cannot name."""
    data = read(f"{directory}/pg_filenode.map")
    if data is None or len(data) < 8:
        raise Damaged(f"there is no {directory}/pg_filenode.map")
    magic, count = struct.unpack_from("<ii", data)
    if magic != 0x592717 or not 0 <= count <= _MAPPED_MOST or len(data) < 8 + 8 * count:
        raise Damaged(f"{directory}/pg_filenode.map is damaged")
    for n in range(count):
        mapped, file = struct.unpack_from("<II", data, 8 + 8 * n)
        if mapped == oid:
            return int(file)
    raise Damaged(f"{directory}/pg_filenode.map does not name {oid}")
