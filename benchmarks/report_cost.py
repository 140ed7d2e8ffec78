"""Measure the command `report`: processor time and size of the page.

python -m benchmarks.report_cost --run NAME
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Write the report of a run into a temporary folder, and print its cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, help="a measured run")
    parser.add_argument("--runs_dir", default="runs", help="directory of all runs")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        words = ["report", "--run", args.run, "--runs_dir", args.runs_dir, "--output", folder]
        subprocess.run([sys.executable, "-m", "app", *words], check=True, stdout=subprocess.DEVNULL)
        size = (Path(folder) / "report.html").stat().st_size
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.1f} s of processor time, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
