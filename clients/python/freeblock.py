"""The control client alone, for programs that have this directory in their path and no wheel installed.

It is `src/freeblock/control.py`, one file of the standard library; the wheel has the same names, and simulations beside them.
"""
import importlib.util
import pathlib
import sys

_PATH = pathlib.Path(__file__).resolve().parent / "src" / "freeblock" / "control.py"
_spec = importlib.util.spec_from_file_location("freeblock_control", _PATH)
if _spec is None or _spec.loader is None:
    raise ImportError(f"{_PATH} cannot be read; this file needs it beside it")
_control = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _control
_spec.loader.exec_module(_control)

USUAL_PATH = _control.USUAL_PATH
Refused = _control.Refused
Gone = _control.Gone
Record = _control.Record
Wanted = _control.Wanted
Session = _control.Session
request = _control.request
