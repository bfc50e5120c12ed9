#!/usr/bin/env python3
"""Finds source files that no module names: they are not compiled, and their tests do not run.

In each crate's `src` and in each integration binary below `tests`, a file must be named by a `mod` in the file that Rust looks for
it from, or by a `#[path]` beside it. The lab's experiments are listed by its build script.
"""

import re
import sys
from pathlib import Path

ROOTS = ("main.rs", "lib.rs")
LISTED = Path("crates/lab/src/experiments")


def parents(file: Path, root: Path) -> list[Path]:
    """Returns the files that can name this one."""
    at = file.parent.parent if file.name == "mod.rs" else file.parent
    if at == root:
        return [root / name for name in ROOTS]
    return [at / "mod.rs", at.with_suffix(".rs")]


def is_named(file: Path, root: Path) -> bool:
    """Returns whether a `mod` or a `#[path]` names the file."""
    module = file.parent.name if file.name == "mod.rs" else file.stem
    by_mod = re.compile(rf"^\s*(pub(\([^)]*\))? )?mod {module}\b", re.MULTILINE)
    if any(by_mod.search(parent.read_text()) for parent in parents(file, root) if parent.exists()):
        return True
    by_path = re.compile(rf'#\[path = "([^"]*/)?{re.escape(file.name)}"\]')
    return any(by_path.search(other.read_text()) for other in root.rglob("*.rs"))


def main() -> int:
    lost = []
    for base in sorted(Path("crates").glob("*/src")) + sorted(Path("crates").glob("*/tests/*")):
        if not any((base / name).exists() for name in ROOTS):
            continue
        for file in sorted(base.rglob("*.rs")):
            is_root = file.parent == base and file.name in ROOTS
            if not (is_root or LISTED in file.parents or is_named(file, base)):
                lost.append(file)
    for file in lost:
        print(f"{file}: no `mod` names this file, so it is not compiled; name it where its module belongs, or delete it", file=sys.stderr)
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
