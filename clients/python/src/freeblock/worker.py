"""A process of a sweep: reads the options of a simulation from a line of standard input, and writes its results to a line of
standard output, both as JSON, until the input ends. `sweep` starts it."""
import json
import os
import sys
import warnings
from typing import Any, Dict

from .simulation import CommandError, simulate


def point(options: Dict[str, Any]) -> Dict[str, Any]:
    """The results of a simulation with these options, without its real time, or the error as {"error": text}."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = dict(simulate(**options))
    except CommandError as error:
        return {"error": str(error)}
    del values["wall_s"]
    return values


def main() -> None:
    """Answers every line, until the sweep has ended or died."""
    for line in sys.stdin:
        answer = json.dumps(point(json.loads(line))) + "\n"
        try:
            os.write(1, answer.encode())
        except BrokenPipeError:
            return
