"""Small files of Apache Parquet, without a library: flat tables of one row group, plain and uncompressed, with texts beside them.

Format: https://github.com/apache/parquet-format, and Thrift's compact protocol for its headers. Only the texts are read back.
"""
import struct
from typing import Any, Dict, List, Mapping, Sequence, Tuple

_MAGIC = b"PAR1"

_DEEPEST = 16
"""Bounds the nesting of the structures that are read; the format's have 6 levels."""

_TRUE, _FALSE, _I8, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 3, 5, 6, 8, 9, 12
"""Types of Thrift's compact protocol."""

_KINDS = {"bool": 0, "uint64": 2, "double": 5, "text": 6}
"""Parquet's physical types by the kinds of a `freeblock.Table`."""

_INTEGER, _STRING = (10, ((1, _I8, 64), (2, _FALSE, None))), (1, ())
"""Logical types: 64 bits without a sign, and UTF-8."""

Field = Tuple[int, int, Any]
"""A field of a structure: its number, its type, its value."""


class Damaged(ValueError):
    """Bytes that are no file of Parquet."""


def encoded(columns: Sequence[Tuple[str, str, List[Any]]], texts: Mapping[str, str]) -> bytes:
    """A file with columns and with texts by key. A column has a name, a kind (bool, uint64, double or text) and values, which are None
    in rows without one."""
    rows = len(columns[0][2]) if columns else 0
    schema: List[Sequence[Field]] = [((4, _BINARY, "freeblock"), (5, _I32, len(columns)))]
    chunks: List[Sequence[Field]] = []
    out = bytearray(_MAGIC)
    for name, kind, values in columns:
        physical, start = _KINDS[kind], len(out)
        element: List[Field] = [(1, _I32, physical), (3, _I32, 1), (4, _BINARY, name)]
        if kind == "text":
            element += [(6, _I32, 0), (10, _STRUCT, ((_STRING[0], _STRUCT, _STRING[1]),))]
        elif kind == "uint64":
            element += [(6, _I32, 14), (10, _STRUCT, ((_INTEGER[0], _STRUCT, _INTEGER[1]),))]
        schema.append(element)
        page = _page(kind, values)
        header = ((1, _I32, rows), (2, _I32, 0), (3, _I32, 3), (4, _I32, 3))
        out += _structure(((1, _I32, 0), (2, _I32, len(page)), (3, _I32, len(page)), (5, _STRUCT, header))) + page
        size = len(out) - start
        described: List[Field] = [(1, _I32, physical), (2, _LIST, (_I32, [0, 3])), (3, _LIST, (_BINARY, [name])), (4, _I32, 0)]
        described += [(5, _I64, rows), (6, _I64, size), (7, _I64, size), (9, _I64, start)]
        chunks.append(((2, _I64, start), (3, _STRUCT, described)))
    group = ((1, _LIST, (_STRUCT, chunks)), (2, _I64, len(out) - 4), (3, _I64, rows))
    pairs = [((1, _BINARY, key), (2, _BINARY, text)) for key, text in texts.items()]
    footer: List[Field] = [(1, _I32, 1), (2, _LIST, (_STRUCT, schema)), (3, _I64, rows), (4, _LIST, (_STRUCT, [group]))]
    footer += [(5, _LIST, (_STRUCT, pairs)), (6, _BINARY, "freeblock")]
    end = _structure(footer)
    return bytes(out) + end + struct.pack("<I", len(end)) + _MAGIC


def texts(data: bytes) -> Dict[str, str]:
    """The texts of a file by their keys. Raises Damaged."""
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise Damaged("no file of Parquet")
    (length,) = struct.unpack("<I", data[-8:-4])
    if length > len(data) - 12:
        raise Damaged(f"a footer of {length} bytes in a file of {len(data)}")
    footer, _ = _read(data[len(data) - 8 - length : -8], 0, _STRUCT, _DEEPEST)
    try:
        return {pair[1].decode(): pair[2].decode() for pair in footer.get(5, [])}
    except (AttributeError, KeyError, TypeError, UnicodeDecodeError):
        raise Damaged("the texts are no pairs of texts") from None


def _page(kind: str, values: Sequence[Any]) -> bytes:
    """The data of a page: which rows have a value, and the values."""
    present = _bits([value is not None for value in values])
    levels = _varint(len(present) << 1 | 1) + present
    known = [value for value in values if value is not None]
    if kind == "bool":
        body = _bits(known)
    elif kind == "text":
        packed = [text.encode() for text in known]
        body = b"".join(struct.pack("<I", len(text)) + text for text in packed)
    else:
        body = struct.pack(f"<{len(known)}{'Q' if kind == 'uint64' else 'd'}", *known)
    return struct.pack("<I", len(levels)) + levels + body


def _bits(flags: Sequence[bool]) -> bytes:
    packed = bytearray(-(-len(flags) // 8))
    for n, flag in enumerate(flags):
        packed[n // 8] |= bool(flag) << n % 8
    return bytes(packed)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _structure(fields: Sequence[Field]) -> bytes:
    out, last = b"", 0
    for number, type_, value in fields:
        out += bytes([(number - last) << 4 | type_]) + _value(type_, value)
        last = number
    return out + b"\0"


def _value(type_: int, value: Any) -> bytes:
    if type_ in (_TRUE, _FALSE):
        return b""
    if type_ == _I8:
        return bytes([value])
    if type_ in (_I32, _I64):
        return _varint(value << 1)  # zigzag; nothing here is negative
    if type_ == _BINARY:
        data: bytes = value.encode()
        return _varint(len(data)) + data
    if type_ == _LIST:
        of, items = value
        head = bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([0xF0 | of]) + _varint(len(items))
        return head + b"".join(_value(of, item) for item in items)
    return _structure(value)


def _read(data: bytes, at: int, type_: int, deepest: int) -> Tuple[Any, int]:
    """Reads a value; returns it, and the place behind it."""
    if deepest < 0:
        raise Damaged("structures are too deep in one another")
    if type_ in (_TRUE, _FALSE):
        return type_ == _TRUE, at
    if type_ == _I8:
        return _byte(data, at), at + 1
    if type_ in (4, _I32, _I64):
        zigzag, at = _read_varint(data, at)
        return zigzag >> 1 ^ -(zigzag & 1), at
    if type_ == _BINARY:
        length, at = _read_varint(data, at)
        if length > len(data) - at:
            raise Damaged(f"{length} bytes at byte {at} of {len(data)}")
        return data[at : at + length], at + length
    if type_ == _LIST:
        head = _byte(data, at)
        at, count = at + 1, head >> 4
        if count == 15:
            count, at = _read_varint(data, at)
        if count > len(data) - at:
            raise Damaged(f"{count} items at byte {at} of {len(data)}")
        items = []
        for _ in range(count):
            item, at = _read(data, at, head & 15, deepest - 1)
            items.append(item)
        return items, at
    if type_ == _STRUCT:
        fields: Dict[int, Any] = {}
        number = 0
        while True:
            head = _byte(data, at)
            at += 1
            if head == 0:
                return fields, at
            number += head >> 4
            if not head >> 4:
                raise Damaged("a field without a number")
            fields[number], at = _read(data, at, head & 15, deepest - 1)
    raise Damaged(f"a value of type {type_}")


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise Damaged(f"the footer ends at byte {at}")
    return data[at]


def _read_varint(data: bytes, at: int) -> Tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = _byte(data, at)
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise Damaged("a number of more than 64 bits")
