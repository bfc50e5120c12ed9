#!/usr/bin/env python3
"""Finds constants whose name states no quantity (docs/STYLE.md): `MOST`, `PATIENCE`, `NEAR`, ...

A number's or a time's constant says of what it is and in which unit, and a limit ends in `_MIN` or `_MAX`: `REQUESTS_MAX`,
`IDLE_TIMEOUT`, `SEARCH_RANGE_NS`. Flags, tags and other constants that are no quantities may have one word.
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
QUANTITY = re.compile(r"\bconst ([A-Z]+): &?(?:\[|\()?(?:[ui](?:8|16|32|64|128|size)|f64|Duration|Instant|Sectors|Bytes|std::ops::Range)\b")


def main() -> int:
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.rs"], check=True, capture_output=True, text=True)
    found = []
    for name in sorted(set(tracked.stdout.split("\n"))):
        if not name or not Path(name).is_file():
            continue
        for number, line in enumerate(Path(name).read_text(encoding="utf-8").split("\n"), start=1):
            constant = QUANTITY.search(line)
            if constant and constant.group(1) in BARE:
                found.append(f"{name}:{number}: {constant.group(1)}: name the quantity, and the unit unless the type has it")
    for message in found:
        print(message, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
