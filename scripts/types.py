#!/usr/bin/env python3
"""Finds names of types that mean several things within a crate, its tests, benchmarks and examples.

Two aliases of the same text mean the same thing, and so do the two sides of a `cfg`, which are listed in `EITHER`.
"""

import collections
import re
import sys
from pathlib import Path

# Types of which a build has one of two, by crate and name.
EITHER = {("device", "Ublk")}
TYPE = re.compile(r"^ *(?:pub(?:\([^)]*\))? )?(?:(?:unsafe )?(?:struct|enum|trait|union)|type(?= \w+(?:<\w+>)? = .*;$)) (\w+).*", re.MULTILINE)
ALIAS = re.compile(r"(pub(\([^)]*\))? )?type ")


def main() -> int:
    failed = False
    for crate in sorted(path for path in Path("crates").iterdir() if path.is_dir()):
        places: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
        for file in sorted(crate.rglob("*.rs")):
            text = file.read_text(encoding="utf-8")
            for found in TYPE.finditer(text):
                line = found.group(0).strip()
                # An associated type is named by its trait.
                if not (ALIAS.match(line) and found.group(0).startswith(" ")):
                    places[found.group(1)].append((line, f"{file}:{text.count(chr(10), 0, found.start()) + 1}"))
        for name, found in sorted(places.items()):
            same = len({line for line, _ in found}) == 1 and ALIAS.match(found[0][0])
            if len(found) > 1 and not same and (crate.name, name) not in EITHER:
                failed = True
                print(f"{crate}: {name} means {len(found)} things; name each: {', '.join(place for _, place in found)}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
