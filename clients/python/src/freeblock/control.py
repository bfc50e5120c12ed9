"""Talks to a freeblock daemon over its control socket (docs/CONTROL.md). Python 3.9 or later, nothing else.

    with Session("data", priority=20) as session:
        session.read(0, session.sectors, block=128)
        for record in session:              # in whatever order is free; select and poll work on a session (fileno)
            print(record.start, len(record.data))
"""
import json
import socket
import struct
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

USUAL_PATH = "/run/freeblock/control.sock"
"""The default control socket of a daemon."""

_VERSION = 1

_HEAD_MOST = 1 << 16
"""The most bytes of an answer's head that are read."""


class Refused(Exception):
    """The daemon refuses, and says why; nothing has changed."""


class Gone(Exception):
    """The daemon has hung up, and the session is over."""


class Record(NamedTuple):
    """A block that has been read or written."""

    task: int
    """The number of the block's task."""
    start: int
    """The first LBN of the block."""
    sectors: int
    """The number of sectors of the block."""
    parameter: int
    """The number that came with the task."""
    write: bool
    """Whether the block was written; otherwise it was read."""
    bad: Optional[int]
    """The LBN of the first bad sector, if the medium could not serve the block; then there are no data."""
    last: bool
    """Whether the session has nothing left to come."""
    data: bytes
    """The bytes that were read; empty for a block that was written."""


class Wanted(NamedTuple):
    """A block that is about to be written: answer with give() or not_now()."""

    task: int
    """The number of the block's task."""
    start: int
    """The first LBN of the block."""
    sectors: int
    """The number of sectors of the block."""
    parameter: int
    """The number that came with the task."""


_Event = Tuple[int, Tuple[Any, ...]]
"""The kind and the fields of a frame."""


def _connect(path: str, head: str, body: bytes = b"") -> "tuple[socket.socket, int, bytes]":
    """Sends a request; returns the connection, the answer's code, and the part of its body that has arrived."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError as error:
        connection.close()
        text = f"{error.strerror}: no daemon answers at its control socket; give the path that `freeblock serve --control` has"
        raise OSError(error.errno, text, path) from None
    try:
        return _asked(connection, head, body)
    except BaseException:
        connection.close()
        raise


def _asked(connection: socket.socket, head: str, body: bytes) -> "tuple[socket.socket, int, bytes]":
    try:
        connection.sendall(f"{head}\r\nHost: freeblock\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    except BrokenPipeError:
        pass  # a daemon that refuses may answer and hang up before it has taken all
    answer = b""
    while b"\r\n\r\n" not in answer:
        some = connection.recv(65536)
        if not some:
            raise Gone("the daemon hung up")
        answer += some
        if len(answer) > _HEAD_MOST:
            raise Refused(_NO_DAEMON)
    head_bytes, rest = answer.split(b"\r\n\r\n", 1)
    code = head_bytes.split(b" ", 2)[1:2]
    if not head_bytes.startswith(b"HTTP/1.1 ") or not code or not code[0].isdigit():
        raise Refused(_NO_DAEMON)
    return connection, int(code[0]), rest


def _body(connection: socket.socket, rest: bytes) -> bytes:
    with connection:
        while some := connection.recv(65536):
            rest += some
    return rest


_NO_DAEMON = "the program that answers is no freeblock daemon; give the path of a daemon's control socket"


def _refused(body: bytes) -> Refused:
    try:
        return Refused(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return Refused(_NO_DAEMON)


def request(method: str, path: str, body: Optional[Dict[str, Any]] = None, control: str = USUAL_PATH) -> Dict[str, Any]:
    """Sends one request of docs/CONTROL.md, and returns its answer: request("POST", "/v1/disks/data/tasks", {"kind": "scrub"}).

    method, path, body: those of HTTP; the body becomes JSON.
    control: the daemon's control socket.
    """
    data = b"" if body is None else json.dumps(body).encode()
    connection, code, rest = _connect(control, f"{method} {path} HTTP/1.1\r\nConnection: close", data)
    whole = _body(connection, rest)
    if not 200 <= code < 300:
        raise _refused(whole)
    try:
        answer: Dict[str, Any] = json.loads(whole)
    except ValueError:
        raise Refused(_NO_DAEMON) from None
    return answer


class Session:
    """Reads and writes blocks of a disk, in the order that costs other clients least (Thereska et al., FAST 2004, section 3). A program
    that does not fetch its blocks suspends only its own session.

    disk: the disk's name at the daemon.
    priority: the weight among sessions, 1 to 100 (FAST 2004, section 5.2).
    control: the daemon's control socket.
    """

    sectors: int
    """The number of sectors of the disk."""
    sector_bytes: int
    """The bytes in a sector."""

    def __init__(self, disk: str, priority: int = 20, control: str = USUAL_PATH):
        head = f"POST /v1/disks/{disk}/sessions?priority={priority} HTTP/1.1"
        head += "\r\nConnection: Upgrade\r\nUpgrade: freeblock-session"
        self._socket, code, self._bytes = _connect(control, head)
        self._waiting: List[_Event] = []
        self._calls = 0
        try:
            if code != 101:
                raise _refused(self._bytes)
            kind, hello = self._wait()
            if kind != 128 or len(hello) != 3:
                raise Refused(_NO_DAEMON)
            version, self.sectors, self.sector_bytes = hello
            if version != _VERSION:
                raise Refused(f"the daemon speaks version {version} of the protocol, this file {_VERSION}")
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """The file descriptor, for select and poll: readable while a frame for get() has not been taken, and when the daemon is gone.

        A loop of select or poll and one get(0) misses nothing, with one exception: frames that arrive while a call waits for its
        answer (any method but get, give and not_now). After such a call, call get(0) until it returns None, then select or poll.
        """
        return self._socket.fileno()

    def read(self, start: int, sectors: int, block: int = 8, parameter: int = 0) -> int:
        """Registers blocks to be read, each once; returns the task's number.

        start, sectors: the first LBN and the length of the range.
        block: the sectors of a block.
        parameter: a number that comes with each block of the task.
        """
        return self._call(1, start, sectors, block, parameter)

    def write(self, start: int, sectors: int, block: int = 8, parameter: int = 0) -> int:
        """Registers blocks to be written: get() gives a `Wanted` for each. Returns the task's number.

        start, sectors: the first LBN and the length of the range.
        block: the sectors of a block.
        parameter: a number that comes with each block of the task.
        """
        return self._call(2, start, sectors, block, parameter)

    def abort(self, task: int) -> int:
        """Ends a task; returns the number of its blocks that were not delivered."""
        return self._call(3, task)

    def abort_range(self, start: int, sectors: int) -> int:
        """Ends every block that touches the range of `sectors` sectors from LBN `start`; returns their number."""
        return self._call(4, start, sectors)

    def promote(self, start: int, sectors: int) -> int:
        """Makes every block that touches the range of `sectors` sectors from LBN `start` foreground work; returns their number."""
        return self._call(5, start, sectors)

    def suspend(self) -> None:
        """Suspends the session's tasks until `resume`."""
        self._call(6)

    def resume(self) -> None:
        """Resumes the session's tasks."""
        self._call(7)

    def close(self) -> None:
        """Ends the session and all its tasks."""
        self._socket.close()

    def give(self, wanted: Wanted, data: bytes) -> None:
        """Gives the bytes of a wanted block, all of them, as `data`."""
        self._send(9, struct.pack("<QQ", wanted.task, wanted.start) + data)

    def not_now(self, wanted: Wanted) -> None:
        """Says that the bytes of a wanted block are not available; the block is wanted again later."""
        self._send(10, struct.pack("<QQ", wanted.task, wanted.start))

    def get(self, timeout: Optional[float] = None) -> Union[Record, Wanted, None]:
        """The next record or wanted block; None if none came within `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            event = self._waiting.pop(0) if self._waiting else self._event(deadline)
            if event is None:
                return None
            kind, fields = event
            if kind == 131:
                task, start, sectors, parameter, flags, bad, data = fields
                last = bool(flags & 4) and not self._waiting
                return Record(task, start, sectors, parameter, bool(flags & 1), bad if flags & 2 else None, last, data)
            if kind == 132:
                return Wanted(*fields)

    def __iter__(self) -> Iterator[Record]:
        """Records up to the last; for sessions that read."""
        while True:
            got = self.get()
            if isinstance(got, Record):
                yield got
                if got.last:
                    return

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        if self._socket.fileno() < 0:
            raise Gone("the session was closed by this program; open another")

    def _send(self, kind: int, fields: bytes) -> None:
        self._open()
        self._socket.settimeout(None)
        self._socket.sendall(struct.pack("<IB", 1 + len(fields), kind) + fields)

    def _call(self, kind: int, *fields: int) -> int:
        self._calls += 1
        self._send(kind, struct.pack(f"<{1 + len(fields)}Q", self._calls, *fields))
        while True:
            event = self._wait()
            if event[0] == 129 and event[1][0] == self._calls:
                value: int = event[1][1]
                return value
            if event[0] == 130 and event[1][0] == self._calls:
                raise Refused(event[1][1])
            self._waiting.append(event)

    def _wait(self) -> _Event:
        """The next frame, without a limit on the wait."""
        event = self._event(None)
        if event is None:
            raise Gone("the daemon has sent nothing")
        return event

    def _event(self, deadline: Optional[float]) -> Optional[_Event]:
        """The kind and the fields of the next frame; None after the deadline."""
        self._open()
        while True:
            # Only the present frame is read: select would not report bytes that are kept here.
            end = 4
            if len(self._bytes) >= 4:
                (length,) = struct.unpack_from("<I", self._bytes)
                end += length
                if not length:
                    raise Refused(_NO_DAEMON)
                if len(self._bytes) >= end:
                    kind, body = self._bytes[4], self._bytes[5:end]
                    self._bytes = self._bytes[end:]
                    try:
                        return kind, self._fields(kind, body)
                    except struct.error:
                        raise Refused(_NO_DAEMON) from None
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            self._socket.settimeout(left)
            try:
                some = self._socket.recv(min(end - len(self._bytes), 1 << 20))
            except (BlockingIOError, socket.timeout):
                return None
            if not some:
                raise Gone("the daemon has ended the session")
            self._bytes += some

    @staticmethod
    def _fields(kind: int, body: bytes) -> Tuple[Any, ...]:
        if kind == 130:
            return struct.unpack_from("<Q", body) + (body[8:].decode(errors="replace"),)
        if kind == 131:
            return struct.unpack_from("<6Q", body) + (body[48:],)
        return struct.unpack(f"<{len(body) // 8}Q", body)
