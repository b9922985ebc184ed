#!/usr/bin/env python3
"""Check the package in the current folder: it has a changelog, and its changes are committed."""

import json
import pathlib
import subprocess

faults = []
if not pathlib.Path("CHANGELOG.md").is_file():
    faults.append("CHANGELOG.md is missing")
if subprocess.run(["git", "diff", "--quiet", "HEAD"], check=False).returncode:
    faults.append("there are changes that are not committed")
print(json.dumps({"passed": not faults, "faults": faults}))
raise SystemExit(bool(faults))
