"""A thin nbdkit plugin over a daemon's export: it puts nbdkit's filters, or another nbdkit server, before the daemon.

    nbdkit python clients/nbdkit/freeblock.py socket=/run/freeblock/d0.sock
    nbdkit --filter=cow python clients/nbdkit/freeblock.py socket=/run/freeblock/d0.sock export=data

Each connection of nbdkit is a connection of the daemon, and each request goes there and back, one at a time: the scheduler,
the tasks and all promises are the daemon's. Errors come through with their errno, and what the daemon offers (FUA, trim,
read-only) is what nbdkit offers. Python 3.9 or later, nothing else; Debian has nbdkit's part in nbdkit-plugin-python.
"""
import errno
import os
import socket as sockets
import struct

import nbdkit

API_VERSION = 2

_OPTIONS = {"socket": None, "export": ""}

_MAGIC, _OPTION, _REPLY = b"NBDMAGIC", b"IHAVEOPT", 0x0003E889045565A9
_REQUEST, _SIMPLE = 0x25609513, 0x67446698
_READ, _WRITE, _FLUSH, _TRIM, _ZEROES = 0, 1, 3, 4, 6
_FUA, _NO_HOLE = 1, 2
_HAS_FLAGS, _READ_ONLY, _SEND_FLUSH, _SEND_FUA, _SEND_TRIM, _SEND_ZEROES, _MULTI = 1, 2, 4, 8, 32, 64, 256
# The most bytes of a request to the daemon, far below the daemon's own limit.
_MOST = 8 << 20


def config(key, value):
    if key not in _OPTIONS:
        raise RuntimeError(f"{key}: no such option; give socket=PATH, and export=NAME if it has one")
    _OPTIONS[key] = value


def config_complete():
    if _OPTIONS["socket"] is None:
        raise RuntimeError("give socket=PATH, a Unix socket under `listen` of a disk")
    # nbdkit changes its working directory later.
    _OPTIONS["socket"] = os.path.abspath(_OPTIONS["socket"])


def thread_model():
    return nbdkit.THREAD_MODEL_SERIALIZE_REQUESTS


class _Link:
    """A connection to the daemon that has chosen its export."""

    def __init__(self, path, export):
        self.socket = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            self.socket.connect(path)
        except OSError as error:
            raise RuntimeError(f"{path}: {error.strerror}; is the daemon running?") from error
        if self.take(16) != _MAGIC + _OPTION:
            raise RuntimeError(f"{path}: no NBD server of the fixed newstyle is there")
        self.take(2)
        self.socket.sendall(struct.pack(">I", 3))  # fixed newstyle, no zeroes
        name = export.encode()
        body = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
        self.socket.sendall(_OPTION + struct.pack(">II", 7, len(body)) + body)  # NBD_OPT_GO
        self.size = self.flags = None
        while True:
            magic, _, kind, length = struct.unpack(">QIII", self.take(20))
            data = self.take(length)
            if magic != _REPLY:
                raise RuntimeError(f"{path}: what it says is no NBD")
            if kind & 0x80000000:
                raise RuntimeError(f"{path}: {data.decode(errors='replace') or hex(kind)}")
            if kind == 3 and struct.unpack(">H", data[:2]) == (0,):  # NBD_INFO_EXPORT
                self.size, self.flags = struct.unpack(">QH", data[2:12])
            if kind == 1:
                break
        self.cookie = 0

    def take(self, count):
        parts = []
        while count:
            some = self.socket.recv(min(count, 1 << 20))
            if not some:
                raise OSError(errno.EIO, "the daemon has hung up")
            parts.append(some)
            count -= len(some)
        return b"".join(parts)

    def ask(self, kind, flags, offset, count, data=b"", answer=0):
        self.cookie += 1
        self.socket.sendall(struct.pack(">IHHQQI", _REQUEST, flags, kind, self.cookie, offset, count) + data)
        magic, error, cookie = struct.unpack(">IIQ", self.take(16))
        if magic != _SIMPLE or cookie != self.cookie:
            raise OSError(errno.EIO, "the daemon's answer fits no request")
        if error:
            nbdkit.set_error(error)
            raise OSError(error, os.strerror(error))
        return self.take(answer)


def open(readonly):
    return _Link(_OPTIONS["socket"], _OPTIONS["export"])


def close(link):
    try:
        link.socket.sendall(struct.pack(">IHHQQI", _REQUEST, 0, 2, 0, 0, 0))
    except OSError:
        pass  # The daemon has hung up already.
    link.socket.close()


def get_size(link):
    return link.size


def can_write(link):
    return not link.flags & _READ_ONLY


def can_flush(link):
    return bool(link.flags & _SEND_FLUSH)


def can_fua(link):
    return nbdkit.FUA_NATIVE if link.flags & _SEND_FUA else nbdkit.FUA_NONE


def can_trim(link):
    return bool(link.flags & _SEND_TRIM)


def can_zero(link):
    return bool(link.flags & _SEND_ZEROES)


def can_multi_conn(link):
    return bool(link.flags & _MULTI)


def _pieces(count, offset):
    at = 0
    while at < count:
        size = min(_MOST, count - at)
        yield at, size, offset + at
        at += size


def _flags(flags):
    return _FUA if flags & nbdkit.FLAG_FUA else 0


def pread(link, buf, offset, flags):
    for at, size, place in _pieces(len(buf), offset):
        buf[at:at + size] = link.ask(_READ, 0, place, size, answer=size)


def pwrite(link, buf, offset, flags):
    for at, size, place in _pieces(len(buf), offset):
        link.ask(_WRITE, _flags(flags), place, size, bytes(buf[at:at + size]))


def flush(link, flags):
    link.ask(_FLUSH, 0, 0, 0)


def trim(link, count, offset, flags):
    for _, size, place in _pieces(count, offset):
        link.ask(_TRIM, _flags(flags), place, size)


def zero(link, count, offset, flags):
    hole = 0 if flags & nbdkit.FLAG_MAY_TRIM else _NO_HOLE
    for _, size, place in _pieces(count, offset):
        link.ask(_ZEROES, _flags(flags) | hole, place, size)
