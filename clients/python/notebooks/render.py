"""Runs the notebook and writes its outputs as one HTML file without scripts: `python render.py FILE.html`. It needs marimo."""
import pathlib
import sys

import marimo
from osdi2000 import app

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Free bandwidth, in a minute</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:2rem auto;padding:0 1rem}
td,th{padding:.3rem .8rem;text-align:right;border-bottom:1px solid #ddd;font-weight:normal;vertical-align:bottom}
th{font-size:.85rem}</style>
"""


def main():
    outputs, _ = app.run()
    parts = [marimo.as_html(output).text for output in outputs if output is not None]
    if len(parts) < 4:
        raise SystemExit(f"the notebook has {len(parts)} outputs, and four are expected")
    pathlib.Path(sys.argv[1]).write_text(PAGE + "\n".join(parts))


if __name__ == "__main__":
    main()
