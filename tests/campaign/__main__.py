"""A campaign that tries to break cogltx: kills, failing writes, full disks, two at once, little memory, broken files.

    python -m tests.campaign --kills 1000 --fuzzed 10000 --writes 1000 --seed 0

Prints what it did, and every finding; the exit code is the number of findings, at most 100.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import documents
import faults
import forked
import fuzz
import house
import kills
import together


def main() -> int:
    """Run what the options ask for."""
    names = [*(job.name for job in kills.JOBS), kills.SERVE]
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=0, help="SIGKILLs at random moments of every command")
    parser.add_argument("--jobs", default=",".join(names), help="what is killed, and whose writes fail")
    parser.add_argument("--writes", type=int, default=0, help="failing writes of every command")
    parser.add_argument("--disks", type=int, default=0, help="full disks for every command")
    parser.add_argument("--together", type=int, default=0, help="times that every command runs three times at once")
    parser.add_argument("--memory", type=int, default=0, help="limits of memory for every command")
    parser.add_argument("--fuzzed", type=int, default=0, help="broken files of every kind")
    parser.add_argument("--documents", type=int, default=0, help="broken files of people, read by the library")
    parser.add_argument("--real", type=Path, help="a folder of real files, which are broken, too")
    parser.add_argument(
        "--only", default="", help="a single case of the broken files, such as pdf:17, or 17 of --documents"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    jobs = options.jobs.split(",")
    if options.writes and Path(faults.PRELOADED).exists() and "LD_PRELOAD" not in os.environ:
        os.environ["LD_PRELOAD"] = faults.PRELOADED
        os.execv(sys.executable, sys.orig_argv)
    findings: list[str] = []

    def found(finding: str) -> None:
        findings.append(finding)
        print(f"FOUND {finding}", flush=True)

    forked.warm()
    with tempfile.TemporaryDirectory() as folder:
        built = os.fork()
        if built == 0:
            house.build(Path(folder))
            os._exit(0)
        os.waitpid(built, 0)
        place, start = Path(folder), time.monotonic()
        if options.kills:
            print("kills:", kills.campaign(place, jobs, options.kills, options.seed, found), flush=True)
        if options.writes:
            print("failing writes:", faults.campaign(place, jobs, options.writes, found), flush=True)
        if options.disks:
            print("full disks:", faults.full_disks(place, jobs, options.disks, found), flush=True)
        if options.together:
            print("at once:", together.campaign(place, jobs, options.together, options.seed, found), flush=True)
        if options.memory:
            print("little memory:", faults.little_memory(place, jobs, options.memory, found), flush=True)
        if options.documents:
            read = documents.campaign(place, options.documents, options.seed, found, options.real, options.only)
            print("broken documents:", read, flush=True)
        if options.fuzzed:
            print("broken files:", fuzz.campaign(place, options.fuzzed, options.seed, found, options.only), flush=True)
    print(f"{len(findings)} findings in {time.monotonic() - start:.0f} s")
    return min(len(findings), 100)


if __name__ == "__main__":
    sys.exit(main())
