#!/usr/bin/env python3
"""Counts sentences that a stranger stumbles over (docs/STYLE.md, "Comments give reasons"), in three kinds of text:

- comments of .rs and .toml files, and Markdown;
- string literals of .rs files (messages, help, reasons of assertions) that are prose: three words or more, no code;
- names of tests, split at their underscores.

Two shares are printed for each kind and place (crate or document): sentences that begin without a subject of their own ("What the
drive ...", "Who comes ...", "Of a read ..."), and sentences with a word of the private list. With --max PERCENT the exit code is 1 if
one of the shares is above PERCENT for any kind, so that no kind hides another; with --list the sentences themselves are printed.
Each run first looks for planted sentences (`self_check`).

With --words N the exit code is also 1 if the documents have more than N words: README.md and every .md below docs/, as `wc -w`
counts them, code and tables included. docs/REPRODUCTION.md is left out: `freeblock lab report` writes it, so its length is that of
the experiments, and no cut in it would last.
"""

import argparse
import pathlib
import re
import subprocess
import sys

HEADLESS = re.compile(r"^(What|Who|Whose|Whom|Whoever|Nobody|Somebody|Of|So many|So much)\b(?! course\b)")
# A message, and the name of a test, begin in lower case.
HEADLESS_MESSAGE = re.compile(HEADLESS.pattern, re.IGNORECASE)
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


# A comment, a literal (its text is a group) or a character, which may be a quotation mark, in the order in which the kinds are tried.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|'(?:\\.[^']*|[^'\\])'"""
    r"""|\bb?c?r(?P<hashes>\#+)"(?P<fenced>.*?)"(?P=hashes)|\bb?c?r"(?P<raw>[^"]*)"|"(?P<plain>(?:\\.|[^"\\])*)\"""",
    re.DOTALL,
)
ESCAPES = {"\\n": "\n", "\\r": "", "\\t": " ", '\\"': '"', "\\'": "'", "\\\\": "\\"}
# A value that is filled in, or an option.
PLACEHOLDER = re.compile(r"\{[^{}\n]*\}|(?<!\S)--[\w-]+")
# A line of TOML, JSON, HTTP, HTML or a script is no prose, nor is a row of numbers.
NO_PROSE = re.compile(r"""^\s*[\[\]{}<>|$.@]|^[A-Z]+ /|HTTP/|<\w+|</|^[\w."-]+ ?= |"\w+":|::|[;{}]$|\w\(\)|=>|&&|\|\||^[\w-]+: \S+$""")
# The place with which a message begins, such as `{path} {line}: `.
PLACE = re.compile(r"^(?:(?:x|[\w.,/\[\]-]+)(?: x| \d+)?: )+")


def literal_blocks(text: str):
    """Yields the lines of string literals that are prose, with x for a value that is filled in."""
    for token in TOKEN.finditer(text):
        raw = token["fenced"] or token["raw"]
        literal = raw or re.sub(r"\\\n\s*", "", token["plain"] or "")
        if not raw:
            literal = re.sub(r"\\[nrt\"'\\]", lambda escape: ESCAPES[escape[0]], literal)
        for line in PLACEHOLDER.sub("x", literal).split("\n"):
            words = re.findall(r"(?<![^\s(])[A-Za-z][a-z'-]*(?![^\s,.:;?!)])", line)
            # A line that begins with white space goes on from another literal and needs no subject; the dots keep it from counting.
            if len(words) >= 3 and 2 * len(words) > len(line.split()) and not NO_PROSE.search(line):
                yield ("... " if line[0].isspace() else "") + PLACE.sub("", line.strip())


def test_names(text: str):
    for name in re.findall(r"#\[test\](?:\s*#\[[^\n]*\]|\s*//[^\n]*)*\s*fn (\w+)", text):
        yield name.replace("_", " ")


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


# The kinds of text, each with the functions that find it in a file, by the file's suffix.
KINDS = {
    "comments": {".rs": rust_blocks, ".md": markdown_blocks, ".toml": toml_blocks},
    "literals": {".rs": literal_blocks},
    "names of tests": {".rs": test_names},
}

# The documents of --words, and the document among them that a command writes.
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
    """Returns whether the documents have more than `words_max` words, and then names the count, the limit and the longest documents."""
    documents = [name for name in tracked(COUNTED) if name.endswith(".md") and name != GENERATED]
    counts = {name: len(pathlib.Path(name).read_text(encoding="utf-8").split()) for name in documents}
    count = sum(counts.values())
    if count > words_max:
        longest = sorted(counts, key=lambda name: -counts[name])[:LONGEST_SHOWN]
        names = ", ".join(f"{name} {counts[name]}" for name in longest)
        print(f"README.md and docs/: {count} words without {GENERATED}, more than {words_max}: cut what no reader needs. The longest: {names}", file=sys.stderr)
    return count > words_max


def stumbles(kind: str, sentence: str) -> tuple[bool, bool]:
    """Returns whether the sentence has no subject of its own, and whether it has a private word."""
    beginning = HEADLESS if kind == "comments" else HEADLESS_MESSAGE
    headless = bool(beginning.match(sentence)) and not sentence.endswith("?")
    return headless, bool(PRIVATE.search(OTHER_TURNS.sub("", sentence)))


def self_check() -> None:
    """Fails if a planted comment, literal or name is not found, or if code is taken for prose."""
    planted = '''
        // What the drive reads is late. The drive waits for
        // a turn.
        #[test]
        #[cfg(unix)]
        fn who_writes_is_late() {
            let quote = ('"', "of \\"x\\" there is none left", 'a');
            assert!(late, "/state/{name}: what was read is late; \\
                           nobody waits");
            panic!(r#"told "so" by the drive"#);
            write!(" of the drive").and("[drive]\\nwhat = 3 of 4").and("GET /what is this HTTP/1.1");
        }
    '''
    expected = {"comments": (1, 1), "literals": (2, 2), "names of tests": (1, 0)}
    for kind, found in expected.items():
        each = [stumbles(kind, sentence) for block in KINDS[kind][".rs"](planted) for sentence in sentences(block)]
        counts = tuple(map(sum, zip(*each)))
        assert counts == found, f"prose.py: of the planted {kind}, {counts} are found instead of {found}"


def table(kind: str, places: dict[str, list[int]], max_percent: float | None, quiet: bool) -> bool:
    """Prints the shares of a kind of text, and returns whether one of them is above the maximum."""
    total = [sum(column) for column in zip(*places.values())] or [0, 0, 0]
    if not quiet:
        print(f"{kind:34} {'sentences':>9} {'headless':>9} {'private':>9}")
        for name, (count, headless, private) in sorted(places.items()):
            # A check shows only the places to look at.
            if count and (max_percent is None or max(headless, private) / count * 100 > max_percent):
                print(f"{name:34} {count:9} {headless / count:9.2%} {private / count:9.2%}")
    shares = [n / max(total[0], 1) * 100 for n in total[1:]]
    print(f"{'all ' + kind:34} {total[0]:9} {shares[0]:8.2f}% {shares[1]:8.2f}%")
    return max_percent is not None and max(shares) > max_percent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max", type=float, metavar="PERCENT", help="fail if a share is above this")
    parser.add_argument("--words", type=int, metavar="N", help="fail if README.md and docs/ have more words")
    parser.add_argument("--list", action="store_true", help="print the sentences")
    parser.add_argument("paths", nargs="*", help="files or directories that git tracks [default: all]")
    args = parser.parse_args()
    self_check()
    failed = False
    for kind, finders in KINDS.items():
        places: dict[str, list[int]] = {}
        for name in tracked(args.paths):
            find = finders.get(pathlib.Path(name).suffix)
            if find is None:
                continue
            counts = places.setdefault(place(name), [0, 0, 0])
            for block in find(pathlib.Path(name).read_text(encoding="utf-8")):
                for sentence in sentences(block):
                    headless, private = stumbles(kind, sentence)
                    counts[0] += 1
                    counts[1] += headless
                    counts[2] += private
                    if args.list and (headless or private):
                        print(f"{name}: {sentence[:300]}")
        failed |= table(kind, places, args.max, args.list)
    if args.words is not None:
        failed |= too_long(args.words)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
