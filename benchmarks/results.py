"""Runs the measurements that the command line names, or all of a program, and stores their results in a JSON file."""

from __future__ import annotations

import datetime
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def record(path: Path, measurements: Sequence[Callable[[], dict[str, Any]]]) -> None:
    """Stores each result under its name, with date and machine; results of other measurements remain."""
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    wanted = sys.argv[1:] or [function.__name__ for function in measurements]
    for function in measurements:
        if function.__name__ not in wanted:
            continue
        begin = time.perf_counter()
        results[function.__name__] = {
            "about": (function.__doc__ or "").strip(),
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
            "results": function(),
        }
        print(f"{function.__name__}: {time.perf_counter() - begin:.0f} s")
        print(json.dumps(results[function.__name__]["results"], indent=1), flush=True)
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
