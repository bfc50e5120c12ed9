"""Simulate hard disks and their schedulers, and talk to a freeblock daemon.

    import freeblock
    run = freeblock.simulate("quantum-atlas-10k", policy="sptf", outstanding=8, requests=10_000, keep_requests=True)
    print(run["foreground"]["mean_response_ms"])
    pandas.DataFrame(run.requests.to_pydict())      # or polars.from_arrow(run.requests), pyarrow.table(run.requests)

Simulations: `simulate`, `sweep`, `fleet`, `replay`, `validate`, `probe`, `lab`, `drives`, `drive`, `options`;
`describe` has the unit, the meaning and the source of each number and column. The scheduler itself,
for a host or a policy in Python: `Core`, `Drive`. A daemon's background sessions: `Session`, `request`; rows of a PostgreSQL table
by them: `mine`. docs/PYTHON.md has recipes.

The same options and the same seed give the same numbers as the command `freeblock`, bit for bit. Results as tables leave through
the Arrow C interface without being copied.
"""
from ._native import (
    Access,
    Completed,
    Core,
    Cut,
    Deliver,
    Drive,
    Execute,
    Failed,
    Reply,
    Send,
    Table,
    Waiting,
    __version__,
)
from .control import USUAL_PATH, Gone, Record, Refused, Session, Wanted, request
from .described import Described, describe, descriptions
from .fleets import Fleet, fleet
from .mining import Estimate, Mine, mine
from .simulation import (
    CommandError,
    Lab,
    Option,
    Policy,
    Probed,
    Simulation,
    UsageError,
    drive,
    drives,
    lab,
    options,
    probe,
    replay,
    simulate,
    validate,
)
from .sweeping import sweep

__all__ = [
    "Access",
    "CommandError",
    "Completed",
    "Core",
    "Cut",
    "Deliver",
    "Described",
    "Drive",
    "Estimate",
    "Execute",
    "Failed",
    "Fleet",
    "Gone",
    "Lab",
    "Mine",
    "Option",
    "Policy",
    "Probed",
    "Record",
    "Refused",
    "Reply",
    "Send",
    "Session",
    "Simulation",
    "Table",
    "USUAL_PATH",
    "UsageError",
    "Waiting",
    "Wanted",
    "__version__",
    "describe",
    "descriptions",
    "drive",
    "drives",
    "fleet",
    "lab",
    "mine",
    "options",
    "probe",
    "replay",
    "request",
    "simulate",
    "sweep",
    "validate",
]
