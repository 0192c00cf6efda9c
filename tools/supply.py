"""What wildspec is made of, from the environment in which it was tested and from pyproject.toml.

    python tools/supply.py lock       constraints for a deployment: every package of wildspec[serve,onnx], at its version
    python tools/supply.py minima     the lower bounds of the core and of [serve], as requirements
    python tools/supply.py sbom       software bill of materials (CycloneDX 1.5, JSON)
    python tools/supply.py licences   a table of the packages and their licences
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("serve", "onnx")  # what a deployment needs


def plain(name: str) -> str:
    """A package's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def asked(extras: tuple[str, ...]) -> list[Requirement]:
    """What pyproject.toml asks for on this system: the core, and the extras named."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return [need for need in map(Requirement, lines) if need.marker is None or need.marker.evaluate()]


def parts(extras: tuple[str, ...] = EXTRAS) -> list[Distribution]:
    """Every installed package that is needed for that, and what those need in turn, by name."""
    found: dict[str, Distribution] = {}
    waiting = [(plain(need.name), frozenset(need.extras)) for need in asked(extras)]
    seen = set(waiting)
    while waiting:
        one, wanted = waiting.pop()
        try:
            found[one] = distribution(one)
        except PackageNotFoundError:
            continue  # of another system, or of an extra that is not installed
        for need in map(Requirement, found[one].requires or []):
            entry = (plain(need.name), frozenset(need.extras))
            here = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in (*wanted, ""))
            if here and entry not in seen:
                seen.add(entry)
                waiting.append(entry)
    return [found[key] for key in sorted(found)]


def licence(package: Distribution) -> str:
    """What its metadata says: an expression, else its classifiers, else the first line of the text."""
    facts: Any = package.metadata
    named = [line.rpartition(" :: ")[2] for line in facts.get_all("Classifier") or [] if line.startswith("License ::")]
    text = facts.get("License-Expression") or ", ".join(named) or (facts.get("License") or "").strip().partition("\n")[0]
    return text[:80] or "not stated"


def lock() -> Iterator[str]:
    yield "# Versions tested together, for deployments: pip install -c constraints-deploy.txt '.[serve,onnx]'"
    yield "# Written by `make lock`. Packages of one system only (CUDA) are not in it."
    for package in parts():
        yield f"{plain(package.name)}=={package.version.partition('+')[0]}"


def minima() -> Iterator[str]:
    for need in asked(("serve",)):
        lowest = [bound.version for bound in need.specifier if bound.operator in (">=", "==")]
        yield f"{need.name}=={lowest[0]}" if lowest else need.name


def sbom() -> Iterator[str]:
    components = [
        {
            "type": "library", "name": plain(one.name), "version": one.version,
            "purl": f"pkg:pypi/{plain(one.name)}@{one.version}", "licenses": [{"license": {"name": licence(one)}}],
        }
        for one in parts()
    ]  # fmt: skip
    ours = {"type": "application", "name": "wildspec", "version": distribution("wildspec").version}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": ours}}
    yield json.dumps({**document, "components": components}, indent=1)


def licences() -> Iterator[str]:
    yield "| package | version | licence |\n|---|---|---|"
    for one in parts():
        yield f"| {plain(one.name)} | {one.version} | {licence(one)} |"


if __name__ == "__main__":
    made = {"lock": lock, "minima": minima, "sbom": sbom, "licences": licences}
    if len(sys.argv) != 2 or sys.argv[1] not in made:
        sys.exit(__doc__)
    print("\n".join(made[sys.argv[1]]()))
