#!/usr/bin/env python3
"""Finds source files that no module names: they are not compiled, and their tests do not run. Finds circles of layers, too.

In each crate's `src` and in each integration binary below `tests`, a file must be named by a `mod` in the file that Rust looks for
it from, or by a `#[path]` beside it. The lab's experiments are listed by its build script.

Modules beside each other, those of a crate's root and those of any module, are layers: a module may use those below it, and none may
use another that uses it, directly or through others. A module and its own submodules may use each other. Unit tests may use everything.
"""

import re
import sys
from pathlib import Path

ROOTS = ("main.rs", "lib.rs")
LISTED = Path("crates/lab/src/experiments")

TESTS = re.compile(r"^#\[cfg\(test\)\]\n(pub(\([^)]*\))? )?mod \w+ \{.*?^\}", re.MULTILINE | re.DOTALL)
USE = re.compile(r"\buse ((?:crate|super|self)::[^;]+|(?:\w+::)[^;]+);")
Module = tuple[str, ...]

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


def modules(source: Path) -> dict[Module, str]:
    """Returns the text of each module of a crate, without comments and unit tests."""
    texts: dict[Module, str] = {}
    for file in sorted(source.rglob("*.rs")):
        parts = file.relative_to(source).with_suffix("").parts
        if parts[-1] in ("mod", "lib", "main"):
            parts = parts[:-1]
        if "tests" not in parts:
            texts[parts] = TESTS.sub("", re.sub(r"//.*", "", file.read_text()))
    return texts


class Names:
    """The modules of a crate, and the names that each takes from others by a `use`."""

    def __init__(self, texts: dict[Module, str]) -> None:
        self.texts = texts
        self.taken: dict[Module, dict[str, Module]] = {}
        for module, text in texts.items():
            self.taken[module] = {}
            for use in USE.findall(text):
                for path in expand(use):
                    names = re.split(r"::|\s+as\s+", path)
                    start = path.split(" as ")[0].split("::")
                    self.taken[module][names[-1]] = tuple(start)

    def resolve(self, module: Module, path: Module, depth: int = 0) -> Module | None:
        """Returns the module that defines the item which a path in `module` names; None if another crate defines it."""
        at, names = module, path
        if names[0] == "crate":
            at, names = (), names[1:]
        while names and names[0] in ("super", "self"):
            at, names = at[:-1] if names[0] == "super" else at, names[1:]
        if at == module and names and names == path and (*at, names[0]) not in self.texts:
            return None
        while names and (*at, names[0]) in self.texts:
            at, names = (*at, names[0]), names[1:]
        if names and depth < 8 and names[0] in self.taken.get(at, {}):
            taken = self.taken[at][names[0]]
            if found := self.resolve(at, (*taken, *names[1:]), depth + 1):
                return found
        return at

    def uses(self, module: Module) -> set[Module]:
        """Returns the modules that a module uses."""
        text = self.texts[module]
        paths = [tuple(path.split("::")) for use in USE.findall(text) for path in expand(use)]
        paths += [tuple(path.split("::")) for path in PATH.findall(text)]
        words = None
        for path in list(paths):
            if path[-1] == "*" and (above := self.resolve(module, path[:-1])) is not None:
                words = words or set(re.findall(r"\w+", text))
                paths += [(*path[:-1], name) for name in self.taken[above] if name in words]
        found = (self.resolve(module, path) for path in paths)
        return {other for other in found if other is not None}


def layers(source: Path) -> dict[Module, dict[Module, set[Module]]]:
    """Returns, for each module of a crate that has submodules, its submodules, each with the siblings that it uses."""
    names = Names(modules(source))
    siblings: dict[Module, dict[Module, set[Module]]] = {}
    for module in names.texts:
        for depth in range(len(module)):
            siblings.setdefault(module[:depth], {}).setdefault(module[: depth + 1], set())
    for module in names.texts:
        for other in names.uses(module):
            depth = next((at for at, (a, b) in enumerate(zip(module, other)) if a != b), None)
            if depth is not None:
                siblings[module[:depth]][module[: depth + 1]].add(other[: depth + 1])
    return siblings


def circle(uses: dict[Module, set[Module]]) -> list[Module]:
    """Returns modules of which each uses the next, and the last the first; none if there is no circle."""
    done: set[Module] = set()

    def follow(module: Module, path: list[Module]) -> list[Module]:
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
        for uses in layers(crate / "src").values():
            if found := circle(uses):
                circles += 1
                names = " -> ".join("::".join(module) for module in [*found, found[0]])
                print(f"{crate}: its modules use each other in a circle: {names}; move what they share to a module below them",
                      file=sys.stderr)
    return bool(lost or circles)


if __name__ == "__main__":
    sys.exit(main())
