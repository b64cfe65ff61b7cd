"""A small part of the campaign of tests/campaign: kills, full disks and broken files leave nothing behind."""

import subprocess
import sys
from pathlib import Path


def test_a_small_campaign() -> None:
    command = [sys.executable, "-m", "tests.campaign", "--jobs", "index", "--kills", "3", "--disks", "1"]
    done = subprocess.run(
        [*command, "--fuzzed", "17", "--documents", "60"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n0 findings in " in done.stdout
    assert "'index': " in done.stdout
    assert "'.docx read': " in done.stdout
