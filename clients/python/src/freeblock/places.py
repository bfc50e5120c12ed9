"""The places of files on a disk: by the kernel's map of a mounted file system, or by ext4's own on an image. Both only read."""
import errno
import os
import stat
import struct
from typing import List, NamedTuple, Optional, Tuple, Union

from . import nbd


class Image:
    """A file or block device that is read."""

    def __init__(self, path: str):
        self.name = path
        self._file = open(path, "rb")

    def pread(self, length: int, at: int) -> bytes:
        """`length` bytes from byte `at`, fewer at the end of the file. Raises OSError."""
        return os.pread(self._file.fileno(), length, at)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def opened(image: "Union[str, os.PathLike[str]]") -> "Union[Image, nbd.Export]":
    """A disk to be read: a file, a block device, or the URI of an export over NBD."""
    name = os.fspath(image)
    return nbd.Export(name) if nbd.is_uri(name) else Image(name)


class Extent(NamedTuple):
    """A part of a file that lies in one piece on the disk, in bytes."""

    logical: int
    """The distance from the beginning of the file."""
    physical: int
    """The distance from the beginning of the disk."""
    length: int
    """The bytes of the part."""


class Mounted:
    """A directory of a mounted file system, whose first byte is at `offset` of the disk."""

    name: str
    """The directory, for messages."""

    def __init__(self, directory: str, offset: int = 0):
        self.name = self._directory = directory
        self._offset = offset

    def read(self, path: str) -> Optional[bytes]:
        """The bytes of a file; None if there is no such file."""
        try:
            with open(os.path.join(self._directory, path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def modified(self, path: str) -> int:
        """The time at which a file was last written or truncated, in seconds since 1970."""
        return int(os.stat(os.path.join(self._directory, path)).st_mtime)

    def extents(self, path: str) -> "Optional[Tuple[int, List[Extent]]]":
        """The size of a file and its extents on the disk; None if there is no such file. Its bytes in memory are first written."""
        import fcntl

        try:
            file = open(os.path.join(self._directory, path), "rb")
        except FileNotFoundError:
            return None
        found: List[Extent] = []
        with file:
            size, at = os.fstat(file.fileno()).st_size, 0
            while at < size:
                # FIEMAP with FIEMAP_FLAG_SYNC, for 128 extents.
                asked = bytearray(struct.pack("<QQIIII", at, size - at, 1, 0, 128, 0) + bytes(128 * 56))
                try:
                    fcntl.ioctl(file.fileno(), 0xC020660B, asked, True)
                except OSError as error:
                    raise OSError(
                        error.errno, f"the file system does not say where its files are ({error.strerror}); use ext4 or XFS", file.name
                    ) from None
                (count,) = struct.unpack_from("<I", asked, 20)
                last = False
                for n in range(min(count, 128)):
                    logical, physical, length, _, _, flags = struct.unpack_from("<QQQQQI", asked, 32 + 56 * n)
                    last = bool(flags & 1)
                    at = max(at + 1, logical + length)
                    if flags & 0x70E:
                        text = "a part of the file has no place of its own on the disk; use ext4 or XFS without shared parts"
                        raise OSError(errno.ENOTSUP, text, file.name)
                    if not flags & 0x800:
                        found.append(Extent(logical, self._offset + physical, min(length, size - logical)))
                if last or not count:
                    break
        return size, found


class Ext4:
    """A directory of an ext4 file system that begins at `offset` bytes of an image (a file, block device or export), and is not mounted
    there (the kernel's Documentation/filesystems/ext4)."""

    def __init__(self, image: "Union[str, os.PathLike[str]]", directory: str, offset: int = 0):
        self.name = f"{os.fspath(image)}: {directory}"
        """The image and the directory, for messages."""
        self._file = opened(image)
        self._offset = offset
        try:
            block = self._at(1024, 1024)
            (magic,) = struct.unpack_from("<H", block, 56)
            self._shift = struct.unpack_from("<I", block, 24)[0]
            incompatible = struct.unpack_from("<I", block, 96)[0]
            if magic != 0xEF53 or self._shift > 6:
                raise ValueError(f"{image}: no ext4 begins at byte {offset}")
            if incompatible & 0x4:
                raise ValueError(f"{image}: the journal has to be replayed; mount the file system once, or run e2fsck on it")
            # The formats of these features are known here: 64bit, extents, flex_bg, filetype, metadata_csum_seed, large_dir.
            unknown = incompatible & ~(0x2 | 0x40 | 0x80 | 0x200 | 0x2000 | 0x4000)
            if unknown or not incompatible & 0x40:
                raise ValueError(f"{image}: the file system has features {unknown:#x} that are not known here, or no extents")
            self._first = struct.unpack_from("<I", block, 20)[0]
            self._per_group = struct.unpack_from("<I", block, 40)[0]
            self._inodes = struct.unpack_from("<I", block, 0)[0]
            self._inode_size = struct.unpack_from("<H", block, 88)[0]
            self._descriptor = struct.unpack_from("<H", block, 254)[0] if incompatible & 0x80 else 32
            if not self._per_group or self._inode_size < 128 or self._descriptor < 32:
                raise ValueError(f"{image}: the superblock is damaged")
            self._directory = self._walk(2, directory)
            if self._directory is None:
                raise FileNotFoundError(errno.ENOENT, "no such directory in the image", directory)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Closes the image."""
        self._file.close()

    def read(self, path: str) -> Optional[bytes]:
        """The bytes of a file; None if there is no such file."""
        found = self.extents(path)
        return None if found is None else self._bytes(*found)

    def modified(self, path: str) -> int:
        """The time at which a file was last written or truncated, in seconds since 1970."""
        assert self._directory is not None
        number = self._walk(self._directory, path)
        if number is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.name}/{path}")
        return int(struct.unpack_from("<I", self._inode(number), 16)[0])

    def extents(self, path: str) -> "Optional[Tuple[int, List[Extent]]]":
        """The size of a file and its extents; None if there is no such file."""
        assert self._directory is not None
        number = self._walk(self._directory, path)
        return None if number is None else self._map(self._inode(number))

    def _at(self, at: int, length: int) -> bytes:
        data = self._file.pread(length, self._offset + at)
        if len(data) != length:
            raise ValueError(f"{self._file.name}: {length} bytes at byte {self._offset + at} are past its end")
        return data

    def _inode(self, number: int) -> bytes:
        if not 0 < number <= self._inodes:
            raise ValueError(f"{self._file.name}: there is no inode {number}")
        group, within = divmod(number - 1, self._per_group)
        block = 1024 << self._shift
        descriptor = self._at((self._first + 1) * block + group * self._descriptor, self._descriptor)
        table = struct.unpack_from("<I", descriptor, 8)[0]
        if self._descriptor >= 64:
            table |= struct.unpack_from("<I", descriptor, 40)[0] << 32
        return self._at(table * block + within * self._inode_size, self._inode_size)

    def _map(self, inode: bytes) -> Tuple[int, List[Extent]]:
        (flags,) = struct.unpack_from("<I", inode, 32)
        size = struct.unpack_from("<I", inode, 4)[0] | struct.unpack_from("<I", inode, 108)[0] << 32
        if not flags & 0x80000 or flags & 0x10000000:
            raise ValueError(f"{self._file.name}: a file is not mapped by extents")
        found: List[Extent] = []
        self._tree(inode[40:100], 5, found)
        return size, [Extent(e.logical, e.physical, min(e.length, size - e.logical)) for e in sorted(found) if e.logical < size]

    def _tree(self, node: bytes, deepest: int, found: List[Extent]) -> None:
        magic, count, _, depth = struct.unpack_from("<HHHH", node)
        if magic != 0xF30A or depth > deepest or 12 + 12 * count > len(node):
            raise ValueError(f"{self._file.name}: a tree of extents is damaged")
        shift = 10 + self._shift
        for n in range(count):
            if depth:
                _, low, high = struct.unpack_from("<IIH", node, 12 + 12 * n)
                self._tree(self._at((low | high << 32) << shift, 1 << shift), depth - 1, found)
            else:
                block, length, high, low = struct.unpack_from("<IHHI", node, 12 + 12 * n)
                if length <= 32_768:  # a longer one is allocated and not written yet
                    found.append(Extent(block << shift, self._offset + ((low | high << 32) << shift), length << shift))
        if len(found) > 1 << 20:
            raise ValueError(f"{self._file.name}: a file has more than 2^20 extents")

    def _bytes(self, size: int, extents: List[Extent]) -> bytes:
        if size > 1 << 30:
            raise ValueError(f"{self._file.name}: a file of {size} bytes is not read as a whole")
        data = bytearray(size)
        for logical, physical, length in extents:
            data[logical : logical + length] = self._at(physical - self._offset, length)
        return bytes(data)

    def _walk(self, number: int, path: str) -> Optional[int]:
        for part in path.split("/"):
            if not part:
                continue
            inode = self._inode(number)
            if not stat.S_ISDIR(struct.unpack_from("<H", inode)[0]):
                return None
            data, at, next_ = self._bytes(*self._map(inode)), 0, None
            while at + 8 <= len(data):
                entry, length, name = struct.unpack_from("<IHB", data, at)
                if length < 8:
                    raise ValueError(f"{self._file.name}: a directory is damaged")
                if entry and data[at + 8 : at + 8 + name] == part.encode():
                    next_ = entry
                    break
                at += length
            if next_ is None:
                return None
            number = next_
        return number
