#!/usr/bin/env python3
"""Counts sentences that a stranger stumbles over, in comments of .rs and .toml files and in Markdown (docs/STYLE.md, "Comments give reasons").

Two shares are printed a place (crate or document): sentences that begin without a subject of their own ("What the drive ...",
"Who comes ...", "Of a read ..."), and sentences with a word of the private list. With --max PERCENT the exit code is 1 if
either share of all sentences is above it; with --list the sentences themselves are printed.

With --words N the exit code is 1 too if the documents have more words: README.md and every .md below docs/, as `wc -w` counts
them, code and tables included. docs/REPRODUCTION.md is left out: `freeblock lab report` writes it, so its length is that of the
experiments, and no cut in it would last.
"""

import argparse
import pathlib
import re
import subprocess
import sys

HEADLESS = re.compile(r"^(What|Who|Whose|Whom|Whoever|Nobody|Somebody|Of|So many|So much)\b(?! course\b)")
PRIVATE = re.compile(
    r"\b(foreseen|foresees?|as told|told|felt|sooner by|later by|kept back|left alone|heard of|on the heels|comes again|bought|"
    r"so many|so much|whoever|whom|himself|nobody|somebody|anybody|turns?)\b",
    re.IGNORECASE,
)
# "turn" is private for a revolution only.
OTHER_TURNS = re.compile(r"\b(in turns?|by turns|turns? (into|out|off|on|to|it|them|back|round|around)|turns (its|a)|"
                         r"turn(s|ed|ing)? (a|an|the) \w+ (into|off|on)|takes? turns|(must|may|can|to|cannot) turn)\b", re.IGNORECASE)
CODE = re.compile(r"`[^`]*`")
ENDS = re.compile(r"(?<=[.?!])\s+(?=[A-Z`\[\"(])")


def sentences(block: str):
    block = CODE.sub("`x`", " ".join(block.split()))
    for sentence in ENDS.split(block):
        sentence = sentence.strip(" *-#>|")
        if len(sentence.split()) >= 2:
            yield sentence


def rust_blocks(text: str):
    block, kind, fenced = [], None, False
    for line in text.splitlines():
        found = re.match(r"\s*(///|//!|//)(?!/) ?(.*)$", line)
        if not found:
            # A comment behind code.
            tail = re.search(r"[;,{})\]] // (.*)$", line)
            if block:
                yield " ".join(block)
                block = []
            fenced = False
            kind = None
            if tail:
                yield tail.group(1)
            continue
        mark, words = found.groups()
        if mark != kind or not words.strip() or words.lstrip().startswith(("#", "- ", "* ", "```", "|")):
            if block:
                yield " ".join(block)
            block = []
        kind = mark
        if words.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if not fenced and words.strip() and not words.lstrip().startswith("|"):
            block.append(words.strip())
    if block:
        yield " ".join(block)


def markdown_blocks(text: str):
    block, fenced = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        if fenced:
            continue
        if line.startswith("|"):
            if block:
                yield " ".join(block)
                block = []
            for cell in line.strip("|").split("|"):
                if len(cell.split()) >= 5:
                    yield cell
            continue
        if not line.strip() or re.match(r"\s*([-*#]|\d+\.) ?", line):
            if block:
                yield " ".join(block)
            block = []
        if line.strip():
            block.append(re.sub(r"^\s*([-*#]+|\d+\.)\s+", "", line))
    if block:
        yield " ".join(block)


def toml_blocks(text: str):
    block = []
    for line in [*text.splitlines(), ""]:
        # An option that is commented out is no sentence.
        if re.match(r"# (?![a-z_]+ = )", line):
            block.append(line[2:].strip())
        elif block:
            yield " ".join(block)
            block = []


BLOCKS = {".rs": rust_blocks, ".md": markdown_blocks, ".toml": toml_blocks}

# The documents of --words, and the one among them that a command writes.
COUNTED = ["README.md", "docs"]
GENERATED = "docs/REPRODUCTION.md"
LONGEST_SHOWN = 5


def place(path: str) -> str:
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "crates" else path


def tracked(paths: list[str]) -> list[str]:
    """Returns the files below the paths that git tracks, or would."""
    command = ["git", "ls-files", "-co", "--exclude-standard", *paths]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    return sorted({name for name in names if name and pathlib.Path(name).is_file()})


def too_long(words_max: int) -> bool:
    """Returns whether the documents have more words, and then names the count, the limit and the longest documents."""
    documents = [name for name in tracked(COUNTED) if name.endswith(".md") and name != GENERATED]
    counts = {name: len(pathlib.Path(name).read_text(encoding="utf-8").split()) for name in documents}
    count = sum(counts.values())
    if count > words_max:
        longest = sorted(counts, key=lambda name: -counts[name])[:LONGEST_SHOWN]
        names = ", ".join(f"{name} {counts[name]}" for name in longest)
        print(f"README.md and docs/: {count} words without {GENERATED}, more than {words_max}: cut what no reader needs. The longest: {names}", file=sys.stderr)
    return count > words_max


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max", type=float, metavar="PERCENT", help="fail if a share is above this")
    parser.add_argument("--words", type=int, metavar="N", help="fail if README.md and docs/ have more words")
    parser.add_argument("--list", action="store_true", help="print the sentences")
    parser.add_argument("paths", nargs="*", help="files or directories that git tracks [default: all]")
    args = parser.parse_args()
    files = [name for name in tracked(args.paths) if name.endswith(tuple(BLOCKS))]
    places: dict[str, list[int]] = {}
    for name in files:
        text = pathlib.Path(name).read_text(encoding="utf-8")
        blocks = BLOCKS[pathlib.Path(name).suffix](text)
        counts = places.setdefault(place(name), [0, 0, 0])
        for block in blocks:
            for sentence in sentences(block):
                counts[0] += 1
                headless = bool(HEADLESS.match(sentence)) and not sentence.endswith("?")
                private = bool(PRIVATE.search(OTHER_TURNS.sub("", sentence)))
                counts[1] += headless
                counts[2] += private
                if args.list and (headless or private):
                    print(f"{name}: {sentence[:300]}")
    total = [sum(column) for column in zip(*places.values())] or [0, 0, 0]
    if not args.list:
        print(f"{'':34} {'sentences':>9} {'headless':>9} {'private':>9}")
        for name, (count, headless, private) in sorted(places.items()):
            # A check shows only the places to look at.
            if count and (args.max is None or max(headless, private) / count * 100 > args.max):
                print(f"{name:34} {count:9} {headless / count:9.2%} {private / count:9.2%}")
    shares = [n / max(total[0], 1) * 100 for n in total[1:]]
    print(f"{'all':34} {total[0]:9} {shares[0]:8.2f}% {shares[1]:8.2f}%")
    failed = args.max is not None and max(shares) > args.max
    if args.words is not None and too_long(args.words):
        failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
