"""Runs programs of this folder one after another in one process, each below a line with its name: most of the time that each takes alone is torch's import.

series.py NAME.py...
"""
import os
import runpy
import sys

for name in sys.argv[1:]:
    print("==", name, flush=True)
    sys.argv = [name]
    runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), run_name="__main__")
    sys.modules["torch"].set_default_dtype(sys.modules["torch"].float32)  # what the next one starts with when it runs alone
