"""What a result must carry to be believed: command, commit, versions, hardware."""

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from wildspec._version import __version__

_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "faiss-cpu", "pyarrow", "pillow")


def package_versions() -> dict[str, str]:
    """Installed versions of the packages that numbers depend on."""
    found = {"python": platform.python_version(), "wildspec": __version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, Any]:
    """Processor, cores, memory, and the GPU when torch is loaded and sees one."""
    found: dict[str, Any] = {"cpu": _cpu_name(), "cores": os.cpu_count(), "memory_gib": _memory_gib()}
    torch = sys.modules.get("torch")  # never import torch just to describe the machine
    if torch is not None and torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
        found["cuda"] = torch.version.cuda
    return found


def environment() -> dict[str, Any]:
    """One record for result files: when, how, with what, on what."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": _command(),
        "commit": git_commit(),
        "versions": package_versions(),
        "hardware": hardware(),
    }


def git_commit() -> str | None:
    """Commit of the source tree, with '+' when it has uncommitted changes; None outside a checkout."""
    here = Path(__file__).resolve()

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=here.parent, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # an environment inside another repository is not of its commit
        return git("describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+") or None
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("WILDSPEC_COMMIT")  # a copied tree without its history can still be told


def _command() -> str:
    """The command line as one could type it, without the machine's own paths."""
    program = Path(sys.argv[0]).name if sys.argv else "python"
    if program in ("__main__.py", "wildspec"):
        program = "wildspec"
    elif program.endswith(".py"):
        program = f"python {Path(sys.argv[0]).parent.name}/{program}"
    return " ".join([program, *(shlex.quote(word) for word in sys.argv[1:])])


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None
