#!/usr/bin/env python3
"""Finds source files that no module names: they are not compiled, and their tests do not run. Finds circles of layers, too.

In each crate's `src` and in each integration binary below `tests`, a file must be named by a `mod` in the file that Rust looks for
it from, or by a `#[path]` beside it. The lab's experiments are listed by its build script.

In each crate the top-level modules are layers: a module may use those below it, and none may use another that uses it, directly or
through others. A module and its own submodules may use each other. Unit tests may use everything.
"""

import re
import sys
from pathlib import Path

ROOTS = ("main.rs", "lib.rs")
LISTED = Path("crates/lab/src/experiments")

TESTS = re.compile(r"^#\[cfg\(test\)\]\n(pub(\([^)]*\))? )?mod \w+ \{.*?^\}", re.MULTILINE | re.DOTALL)
USE = re.compile(r"\buse ((?:crate|super|self)::[^;]+|(?:\w+::)[^;]+);")
PATH = re.compile(r"\b((?:crate|super)(?:::\w+)+)")


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


def expand(use: str) -> list[str]:
    """Returns the paths of a `use` with braces."""
    found = re.match(r"(.*?)\{(.*)\}$", use, re.DOTALL)
    if not found:
        return [use.split(" as ")[0].strip()]
    paths, depth, part = [], 0, ""
    for letter in found.group(2) + ",":
        if letter == "," and depth == 0:
            if part.strip():
                paths += expand(found.group(1) + part.strip())
            part = ""
        else:
            depth += (letter == "{") - (letter == "}")
            part += letter
    return paths


def layers(source: Path) -> dict[str, set[str]]:
    """Returns the top-level modules of a crate, each with those that it uses."""
    texts: dict[tuple[str, ...], str] = {}
    for file in sorted(source.rglob("*.rs")):
        parts = file.relative_to(source).with_suffix("").parts
        if parts[-1] in ("mod", "lib", "main"):
            parts = parts[:-1]
        if "tests" not in parts:
            texts[parts] = TESTS.sub("", re.sub(r"//.*", "", file.read_text()))
    tops = {parts[0] for parts in texts if parts}
    # The root's own names are those of the modules that it exports them from.
    exported = {}
    for use in USE.findall(texts.get((), "")):
        for path in expand(use):
            names = path.removeprefix("crate::").removeprefix("self::").split("::")
            exported[names[-1]] = names[0]
    uses: dict[str, set[str]] = {top: set() for top in tops}
    for parts, text in texts.items():
        if not parts:
            continue
        paths = [path for use in USE.findall(text) for path in expand(use)] + PATH.findall(text)
        for path in paths:
            names = path.split("::")
            at = list(parts)
            while names and names[0] == "super":
                at, names = at[:-1], names[1:]
            if names and names[0] == "crate":
                at, names = [], names[1:]
            if not at and names:
                top = names[0] if names[0] in tops else exported.get(names[0])
                if top in tops and top != parts[0]:
                    uses[parts[0]].add(top)
    return uses


def circle(uses: dict[str, set[str]]) -> list[str]:
    """Returns modules of which each uses the next, and the last the first; none if there is no circle."""
    done: set[str] = set()

    def follow(module: str, path: list[str]) -> list[str]:
        if module in path:
            return path[path.index(module) :]
        if module in done:
            return []
        for other in sorted(uses[module]):
            if found := follow(other, [*path, module]):
                return found
        done.add(module)
        return []

    for module in sorted(uses):
        if found := follow(module, []):
            return found
    return []


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
    circles = 0
    for crate in sorted(Path("crates").iterdir()):
        if found := circle(layers(crate / "src")):
            circles += 1
            print(f"{crate}: its modules use each other in a circle: {' -> '.join([*found, found[0]])}; move what they share to "
                  "a module below them", file=sys.stderr)
    return bool(lost or circles)


if __name__ == "__main__":
    sys.exit(main())
