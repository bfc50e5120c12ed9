"""Reads of a disk that is served over NBD, many at a time: an export of `freeblock serve`, or of another server, without TLS.

Protocol: https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md. Only the standard library is needed.
"""
import errno
import os
import socket
import struct
import urllib.parse
from typing import Dict, Optional, Tuple

_BLOCK = 4096
"""Single reads are widened to multiples of this number of bytes, because an export may have a minimum block size."""

_PIECE = 1 << 20
"""The most bytes of a request."""

_OPTION_MOST = 1 << 16
"""The most bytes of an answer to an option that are read."""


def is_uri(text: str) -> bool:
    """Whether the text is "nbd://HOST[:PORT]/EXPORT" or "nbd+unix:///EXPORT?socket=PATH"."""
    return text.startswith(("nbd://", "nbd+unix://"))


class Export:
    """A connection to an export."""

    name: str
    """The URI."""
    size: int
    """The size of the export in bytes."""

    def __init__(self, uri: str):
        self.name = uri
        self._asked: Dict[int, Tuple[int, int]] = {}
        self._number = 0
        parts = urllib.parse.urlsplit(uri)
        export = urllib.parse.unquote(parts.path[1:]).encode()
        if parts.scheme == "nbd+unix":
            path = urllib.parse.parse_qs(parts.query).get("socket", [""])[0]
            if not path:
                raise ValueError(f"{uri}: no socket is named; give nbd+unix:///EXPORT?socket=PATH")
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                self._socket.connect(path)
            except OSError as error:
                self._socket.close()
                raise OSError(error.errno, f"{error.strerror}: no server answers", uri) from None
        else:
            try:
                self._socket = socket.create_connection((parts.hostname or "localhost", parts.port or 10809))
            except OSError as error:
                raise OSError(error.errno, f"{error.strerror or error}: no server answers", uri) from None
        try:
            self.size = self._greet(export)
        except BaseException:
            self._socket.close()
            raise

    def _greet(self, export: bytes) -> int:
        magic, option, flags = struct.unpack(">8s8sH", self._receive(18))
        if magic != b"NBDMAGIC" or option != b"IHAVEOPT" or not flags & 1:
            raise ConnectionError(f"{self.name}: the server does not speak NBD as of today (fixed newstyle)")
        # Fixed newstyle and no zeroes; then NBD_OPT_GO without requests for information.
        body = struct.pack(">I", len(export)) + export + struct.pack(">H", 0)
        self._socket.sendall(struct.pack(">I", 1 | flags & 2) + b"IHAVEOPT" + struct.pack(">II", 7, len(body)) + body)
        size = None
        while True:
            magic, _, kind, length = struct.unpack(">QIII", self._receive(20))
            if magic != 0x3E889045565A9 or length > _OPTION_MOST:
                raise ConnectionError(f"{self.name}: an answer of the server is damaged")
            data = self._receive(length)
            if kind == 3 and length >= 10 and data[:2] == b"\0\0":
                (size,) = struct.unpack_from(">Q", data, 2)
            elif kind & 1 << 31:
                why = data.decode(errors="replace") or f"error {kind & ~(1 << 31)}"
                raise ConnectionError(f"{self.name}: the server does not serve this export: {why}")
            elif kind == 1:
                if size is None:
                    raise ConnectionError(f"{self.name}: the server does not tell the size of the export")
                return int(size)

    @property
    def outstanding(self) -> int:
        """The number of reads without an answer."""
        return len(self._asked)

    def ask(self, at: int, length: int) -> None:
        """Asks for `length` bytes from byte `at`; `answer` returns reads in the order that is cheapest for the disk."""
        self._number += 1
        self._asked[self._number] = (at, length)
        self._socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, self._number, at, length))

    def answer(self) -> Tuple[int, Optional[bytes]]:
        """The place and the bytes of a read that was asked for; None in place of the bytes if they cannot be read."""
        magic, error, number = struct.unpack(">IIQ", self._receive(16))
        if magic != 0x67446698 or number not in self._asked:
            raise ConnectionError(f"{self.name}: an answer of the server is damaged")
        at, length = self._asked.pop(number)
        return at, None if error else self._receive(length)

    def pread(self, length: int, at: int) -> bytes:
        """`length` bytes from byte `at`, fewer at the end of the export. Raises OSError."""
        found = bytearray()
        end = min(at + length, self.size)
        while at < end:
            start = at - at % _BLOCK
            block = min(-(-end // _BLOCK) * _BLOCK, start + _PIECE, self.size) - start
            self.ask(start, block)
            _, data = self.answer()
            if data is None:
                raise OSError(errno.EIO, os.strerror(errno.EIO), self.name)
            found += data[at - start : end - start]
            at = start + block
        return bytes(found)

    def close(self) -> None:
        """Ends the connection."""
        try:
            self._socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 2, 0, 0, 0))
        except OSError:
            pass
        self._socket.close()

    def _receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = self._socket.recv(min(length - len(data), _PIECE))
            if not part:
                raise ConnectionError(f"{self.name}: the server has closed the connection")
            data += part
        return bytes(data)
