"""What is installed is whole: every file of the package that is no Python is named as its data, every extra is described."""

import ast
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "wildspec"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_data_file_is_installed() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["wildspec"]
    files = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*") if path.is_file()]
    data = [name for name in files if not name.endswith((".py", ".pyc"))]
    assert {"bench/published.json", "bench/protocols.json", "serving/page/index.html"} <= set(data)
    assert not [name for name in data if not any(fnmatch(name, pattern.replace("**/", "*")) for pattern in patterns)]


def test_every_folder_with_python_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").is_file()], "setuptools would leave it out"


def test_only_declared_packages_are_imported() -> None:
    """At the top of a module: what the core brings. Anything else only where it is used, through `checks.require` or not."""
    named = {re.split(r"[<>=!~;\[ ]", line)[0].lower() for line in PROJECT["project"]["dependencies"]}
    modules = {"scikit-learn": "sklearn", "faiss-cpu": "faiss", "pillow": "PIL"}
    core = {modules.get(name, name) for name in named} | set(sys.stdlib_module_names) | {"wildspec"}
    extras = {  # rooms that are only entered through a command that asks for its extra first
        "serving/app.py", "serving/bodies.py", "serving/guard.py", "serving/meters.py", "serving/review_app.py",
        "serving/service.py", "serving/schemas.py",
    }  # fmt: skip
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            found = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            found += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            strange = {module.split(".")[0] for module in found} - core
            assert not strange or name in extras, f"{name} imports {sorted(strange)}"


def test_the_public_names_and_the_bench_need_no_optional_package() -> None:
    optional = "faiss plotly ray onnx onnxruntime fastapi uvicorn datasets tensorboard pandas timm torchvision"
    program = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({optional.split()}))\n"  # None: importing one is an ImportError
        "import wildspec\n"
        "for name in wildspec.__all__: getattr(wildspec, name)\n"
        "import wildspec.data, wildspec.detectors, wildspec.evaluation, wildspec.methods, wildspec.training\n"
        "import wildspec.report, wildspec.bundle.onnx_export, wildspec.data.hub, wildspec.serving.bulk\n"
        "import wildspec.bench.run, wildspec.bench.measure, wildspec.bench.figures, wildspec.bench.protocols\n"
        "for row in wildspec.bench.protocols.rows(): wildspec.detectors.build_detector(row.detector)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = "import sys, wildspec; print([m for m in ('torch', 'numpy', 'scipy', 'sklearn', 'typer') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr
