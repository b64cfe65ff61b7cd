"""Commit, version, machine and date of a measurement, and the fingerprint of its data."""

import datetime
import hashlib
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cogltx import __version__

_FLAGS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16", "avx512f": "AVX-512", "avx2": "AVX2"}  # best first


def origin() -> dict[str, str | None]:
    """Return commit (None outside a clone), version, machine and date of a measurement made now."""
    today = datetime.date.today().isoformat()
    return {"commit": _commit(Path(__file__).parent), "version": __version__, "machine": _machine(), "date": today}


def described(measured: Mapping[str, Any]) -> str:
    """Format version, commit, machine and date, as far as they are known."""
    known = [("version ", measured["version"]), ("commit ", measured["commit"]), ("", measured["machine"])]
    return ", ".join(f"{name}{value}" for name, value in [*known, ("", measured["date"])] if value)


def _commit(folder: Path) -> str | None:
    """Return the short hash of the commit, with `-dirty` if a tracked file outside of `data/` differs from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changes = git("status", "--porcelain", "--untracked-files=no", "--", ":(top)", ":(top,exclude)data")
        return git("rev-parse", "--short=7", "HEAD") + ("-dirty" if changes else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _machine() -> str:
    """Name the processor, the best arithmetic that it has, the number of threads, and the GPU."""
    import torch

    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    pairs = (line.partition(":") for line in reversed(lines))
    fields = {name.strip(): value.strip() for name, _, value in pairs}
    parts = [fields.get("model name") or platform.processor() or platform.machine()]
    parts += [name for flag, name in _FLAGS.items() if flag in fields.get("flags", "").split()][:1]
    parts.append(f"threads: {torch.get_num_threads()}")
    return ", ".join([*parts, *([torch.cuda.get_device_name()] if torch.cuda.is_available() else [])])


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of a folder's files."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.relative_to(path)}\n".encode() if path.is_dir() else b"")
        total.update(file.read_bytes() if file.is_file() else str(path).encode())  # such as the word `fetch`
    return total.hexdigest()
