#!/usr/bin/env python3
"""Finds constants whose name states no quantity (docs/STYLE.md): `MOST`, `PATIENCE`, `NEAR`, ...

The name of a constant number or time says what it counts or measures and in which unit, and the name of a limit ends in `_MIN` or
`_MAX`: `REQUESTS_MAX`, `IDLE_TIMEOUT`, `SEARCH_RANGE_NS`. Flags, tags and other constants that are no quantities may have one word.
The type of a floating-point number states no unit, so its name has one of `UNITS`. In the crates of `CORE` the name of a number has
more than one word, unless it is the constant of a type.
"""

import re
import subprocess
import sys
from pathlib import Path

BARE = set(
    """
    ABOVE AGAIN AGREE AGREEING AGREES AHEAD ALARM ALIKE ALLOWED ALONE ANSWERED APART AROUND ASIDE ASKED ASSUMED BACK BAD
    BEFORE BEGIN BEGINNING BEGINS BELOW BESIDE BEYOND BIN BOLD CAME CERTAIN CHANCE CLAIMED CLOSE CLOSER
    CONTRADICTING DENSE DISAGREEING DOUBTS DOWN EACH EARLY ELSEWHERE ENDLESS ENOUGH EVERY EXACT EXCEEDED
    FALLS FAR FARTHEST FAST FASTEST FEW FEWEST FILLED FINE FIRST FLOOR FOOTPRINT FORGET FRACTION FREES FULL FURTHER
    FURTHEST GAP GROWTH GUESSED HELD HIDDEN HIGH JUMP KEPT KNOWN LARGE LARGEST LAST LASTING LATE LATELY LATER LATEST
    LEAD LEAST LEGIBLE LITTLE LONG LONGER LONGEST LOOK LOOKS LOOSE LOST MANY MARGIN MEMORY MISS MISTRUSTED MORE MOST
    NEAR NEARER NEARLY NEXT NOBODY NOISE NOISY NOTICED NOTICES OFTEN ONE PART PASS PAST PATIENCE PAUSE PRIOR REACH
    RECENT REFILL REGION REPEATED REPEATS REST RETURNED RIGHT RISES SAME SCALE SCANNED SEEN SELDOM SETTLE SHARED SHORT
    SHORTER SHORTEST SHRINKING SILENCE SKIPPED SLOW SLOWEST SMALL SMALLEST SMOOTH SOONER SPENT SPIN SPINS STALL STEADY
    STRAIGHT STRANGE SURE SURPRISE SUSPECT TELLING THEN TICK TOGETHER TOLD TOLERATED TOP TRIES TRUSTED TURN UNKNOWN
    UNLIKE UNSURE UNUSED UP USUAL VARY WAITING WANDERS WATCHED WIDER WIDEST WORTH
""".split()
)
# The name of a floating-point constant has one of these words.
UNITS = set(
    """
    NS US US2 MS S SECOND SECONDS HOURS REVOLUTIONS BYTES MB MIB PIXELS CHARACTERS
    SECTORS LBNS REQUESTS ARRIVALS READINGS ROUNDS GAPS SPREADS STEPS PARTS PPM
    SHARE SHARES RATIO FACTOR PERCENT PERCENTS PROBABILITY PROBABILITIES CONFIDENCE UTILISATION UTILISATIONS
    DEVIATIONS ERRORS QUANTILE QUANTILES WEIGHT EVIDENCE EXPONENT ARGUMENT LN PER
    """.split()
)
# `MOST_TASKS` is `TASKS_MAX`; a superlative that names a thing may stay: `SHORTEST_SEEK_CYLINDERS_MAX`.
PREFIX = re.compile(r"(?:MOST|LEAST|MAX|MIN)_|(?:LONGEST|SHORTEST|LARGEST|SMALLEST|FARTHEST|FEWEST|HIGHEST|LOWEST)_(?!.*_M(?:AX|IN)$)")
SUFFIX = re.compile(r"_(?:MOST|LEAST|LONGEST|SHORTEST|LARGEST|SMALLEST|FEWEST|LIMIT)$")
CONSTANT = re.compile(r"\b(?:const|static) ([A-Z][A-Z0-9_]*): ")
FLOAT = re.compile(r"\bconst ([A-Z][A-Z0-9_]*): &?\[*f(?:32|64)\b")
QUANTITY = re.compile(r"\bconst ([A-Z][A-Z0-9_]*): &?(?:\[(?!u8;)|\()?(?:[ui](?:8|16|32|64|128|size)|f64|Duration|Instant|Sectors|Bytes|std::ops::Range)\b.* =")
# Names such as `SILENCES_OF` and `SKIP_PART` do not say of what they are; a divisor, a ratio or a number `PER` something does.
OPEN_END = re.compile(r"_(?:OF|PART|AGAIN)$")
CORE = re.compile(r"crates/(?:units|model|scheduler|drive)/src/(?!.*tests)")


def is_bare(name: str, line: str, constant: str) -> bool:
    """Returns whether the name of a number does not say what it counts or measures."""
    return constant in BARE or bool(OPEN_END.search(constant) or (CORE.match(name) and "_" not in constant and not line.startswith(" ")))


def main() -> int:
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.rs"], check=True, capture_output=True, text=True)
    found = []
    for name in sorted(set(tracked.stdout.split("\n"))):
        if not name or not Path(name).is_file():
            continue
        for number, line in enumerate(Path(name).read_text(encoding="utf-8").split("\n"), start=1):
            constant = QUANTITY.search(line)
            if constant and is_bare(name, line, constant.group(1)):
                found.append(f"{name}:{number}: {constant.group(1)}: name the quantity, and the unit unless the type has it")
            constant = CONSTANT.search(line)
            if constant and (PREFIX.match(constant.group(1)) or SUFFIX.search(constant.group(1))):
                found.append(f"{name}:{number}: {constant.group(1)}: end the name of a limit in _MAX or _MIN")
            constant = FLOAT.search(line)
            if constant and not UNITS & set(constant.group(1).split("_")):
                found.append(f"{name}:{number}: {constant.group(1)}: name the unit (UNITS in {Path(__file__).name})")
    for message in found:
        print(message, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
