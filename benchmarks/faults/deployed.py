"""deploy/Containerfile and deploy/wildspec.service, started for real: asked, looked at from within, and ended.

    unshare --mount --net python benchmarks/faults/deployed.py --image wildspec --tree TREE    (as root; docs/dev/faults.md)

The container runs with the words at the head of the container file, the unit under the systemd of TREE, a Debian tree with
wildspec in /opt/wildspec. A small image is decoded in the service, a large one in a process that it starts: both must work.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from fault_tools import Service, encoded, pictures, record, small_model

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PROBE = "grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/{0}/status; touch /proc/{0}/root/probe 2>&1; true"


def said(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout.strip()


def asked(service: Service) -> dict[str, Any]:
    """Seconds until it is ready, and the statuses of what it is asked."""
    began = time.monotonic()
    while service.ask(path="/readyz", timeout=5)[0] != 200:
        if time.monotonic() > began + 120:
            raise RuntimeError("the service did not start")
        time.sleep(0.2)
    ready = round(time.monotonic() - began, 1)
    photo = encoded(np.random.default_rng(0).integers(0, 256, (1500, 2000, 3), dtype=np.uint8), "JPEG", quality=60)
    small = encoded(pictures(1)[0][0])
    return {"ready_after_s": ready, "health": service.ask(path="/healthz")[0], "without_token": service.ask(small)[0],
            "small_image": service.ask(small, token="sesame")[0], "photograph": service.ask(photo, token="sesame")[0],
            "no_image": service.ask(b"nothing", token="sesame")[0], "page": service.ask(path="/")[0]}  # fmt: skip


def timed(*words: str) -> float:
    began = time.monotonic()
    said(*words)
    return round(time.monotonic() - began, 2)


def container(image: str, model: Path, engine: list[str], options: list[str]) -> dict[str, Any]:
    """The command at the head of the container file, with a name and in the background."""
    head = DEPLOY.joinpath("Containerfile").read_text().partition("docker run")[2].partition(" wildspec\n")[0]
    words = head.replace("\\\n#", "").replace('"$PWD/model:', f'"{model}:').replace('"', "").split()
    words.remove("--rm")
    said(*engine, "run", "--detach", "--name", "wildspec-try", *words, *options, image)
    try:
        found = asked(Service(None, 8000))
        found["inside"] = said(*engine, "exec", "wildspec-try", "sh", "-c", PROBE.format(1)).split("\n")
        found["healthcheck"] = subprocess.run([*engine, "healthcheck", "run", "wildspec-try"], check=False).returncode
        found["ended_after_s"] = timed(*engine, "stop", "--time", "90", "wildspec-try")
        found["status"] = int(said(*engine, "inspect", "--format", "{{.State.ExitCode}}", "wildspec-try"))
        return found
    finally:
        said(*engine, "rm", "--force", "wildspec-try")


def unit(tree: Path, model: Path) -> dict[str, Any]:
    """systemd as the first process of a container of its own, the unit enabled as its first lines say."""
    shutil.copy(DEPLOY / "wildspec.service", tree / "etc/systemd/system/")
    shutil.copytree(model, tree / "var/lib/wildspec/model", dirs_exist_ok=True)
    (tree / "etc/wildspec.env").write_text("WILDSPEC_TOKEN=sesame\n")
    said("systemctl", "--root", str(tree), "enable", "wildspec")
    boot = ["systemd-nspawn", "--quiet", f"--directory={tree}", "--boot", "--keep-unit", "--register=no", "--console=pipe"]
    process = subprocess.Popen(boot, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        found = asked(Service(None, 8000))
        first = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
        within = ("nsenter", "--target", first, "--all")
        pid = said(*within, "systemctl", "show", "--property=MainPID", "--value", "wildspec")
        found["inside"] = said(*within, "sh", "-c", PROBE.format(pid)).split("\n")
        found["ended_after_s"] = timed(*within, "systemctl", "stop", "wildspec")
        found["log"] = said(*within, "journalctl", "--boot", "--unit=wildspec", "--output=cat", "--no-pager").split("\n")
        found["result"] = said(*within, "systemctl", "show", "--property=Result", "--value", "wildspec")
        said(*within, "systemctl", "poweroff")
        process.wait(60)
        return found
    finally:
        process.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", required=True)
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--engine", default="podman", help="with its own options")
    parser.add_argument("--options", default="", help="further options of run")
    given = parser.parse_args()
    os.environ["WILDSPEC_TOKEN"] = "sesame"
    said("ip", "link", "set", "lo", "up")
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        model = small_model(Path(place) / "model")
        found = {"container": container(given.image, model, given.engine.split(), given.options.split())}
        record("deployed", {**found, "unit": unit(given.tree, model)})
