"""Packs a wheel of a native library that is built already: `python pack.py LIBRARY DIRECTORY`; prints the wheel's path.

`make wheel` has maturin compile the library with the features of one package, which compiles every dependency again. The tests have
the library from the workspace's build, so the short tier packs that one beside the same Python files.
"""
import base64
import hashlib
import pathlib
import re
import sys
import sysconfig
import zipfile

ROOT = pathlib.Path(__file__).parents[3]


def main(library, directory):
    project = (ROOT / "clients/python/pyproject.toml").read_text()
    version = re.search(r'^\[workspace\.package\][^\[]*?^version *= *"([^"]+)"', (ROOT / "Cargo.toml").read_text(), re.M | re.S)[1]
    needs = re.search(r'^requires-python *= *"([^"]+)"', project, re.M)[1]
    info = f"freeblock-{version}.dist-info"
    tag = "cp39-abi3-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
    source = ROOT / "clients/python/src/freeblock"
    files = {f"freeblock/{file.name}": file.read_bytes() for file in sorted(source.iterdir()) if file.is_file()}
    files["freeblock/_native.abi3.so"] = pathlib.Path(library).read_bytes()
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: freeblock\nVersion: {version}\nRequires-Python: {needs}\n".encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: pack.py\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = f"{info}/RECORD"
    rows = [f"{name},sha256={sha256(data)},{len(data)}" for name, data in files.items()]
    files[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    wheel = pathlib.Path(directory) / f"freeblock-{version}-{tag}.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    print(wheel)


def sha256(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
