"""Top eigenpairs of S S^T in torch, on a CUDA device or the CPU: a block Krylov method with thick restarts.

From a random block the basis Q grows by the operator's image of its last block, orthogonalized; when it is full,
Rayleigh-Ritz keeps the leading Ritz vectors and their residuals start the next cycle. All work is sparse-times-block
and matrix products, which is what a GPU is fast at; a block of b vectors sees up to b copies of an eigenvalue.
"""

import warnings

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from wildspec.errors import ConvergenceError, InputError
from wildspec.graph.canonical import DEGENERATE
from wildspec.graph.inputs import Array
from wildspec.graph.solvers import EXTRA, RANK, beyond_rank

CYCLES = 300  # restarts before giving up, when max_iter is not given
DEPTH = 4  # blocks of fresh vectors between restarts


def torch_pairs(
    matrix: sparse.csr_array, k: int, *, tol: float, max_iter: int | None, seed: int, device: str | None
) -> tuple[Array, Array, bool]:
    """k leading pairs, descending, and up to ``EXTRA`` more copies of the k-th, whether these are all; or an error."""
    place = _device(device)
    forward, backward = _to_torch(matrix, place), _to_torch(sparse.csr_array(matrix.T), place)
    rows, columns = matrix.shape
    narrow = k < columns < rows  # work on the smaller side of S
    outer, inner, size = (backward, forward, columns) if narrow else (forward, backward, rows)
    generator = torch.Generator().manual_seed(seed)  # on the CPU: the same start on every device
    start = torch.randn(size, min(k + EXTRA, size), generator=generator, dtype=torch.float64).to(place)
    values, vectors = _block_krylov(outer, inner, start, k, max(tol, 1e-13), max_iter or CYCLES)
    if float(values[k - 1]) < RANK:
        raise beyond_rank(k, int((values[:k] >= RANK).sum()))
    if narrow:
        vectors = (forward @ vectors) / values.sqrt()
    complete = len(values) < start.shape[1] or start.shape[1] == size
    return values.cpu().numpy(), vectors.cpu().numpy(), complete


def _block_krylov(
    outer: Tensor, inner: Tensor, start: Tensor, k: int, tol: float, cycles: int
) -> tuple[Tensor, Tensor]:
    """Leading eigenpairs of outer @ inner from a (size, b) start, b >= k; pairs equal to the k-th come along."""
    size, width = start.shape
    ritz = torch.linalg.qr(start)[0]
    image = outer @ (inner @ ritz)
    for _ in range(cycles):
        small = ritz.T @ image
        values, rotation = torch.linalg.eigh((small + small.T) / 2)
        values, rotation = values.flip(0)[:width], rotation.flip(1)[:, :width]
        ritz, image = ritz @ rotation, image @ rotation
        residual = image - ritz * values
        norms = residual.norm(dim=0)
        wanted = int((values >= values[k - 1] - DEGENERATE).sum())  # k and the copies of the k-th
        if bool((norms[:wanted] <= tol).all()):
            return values[:wanted], ritz[:, :wanted]
        fresh = residual[:, norms > tol] / norms[norms > tol]
        basis, images = [ritz], [image]
        for _ in range(DEPTH):
            room = size - sum(block.shape[1] for block in basis)
            if room == 0:
                break
            fresh = _orthonormal(fresh[:, :room], basis)
            basis.append(fresh)
            fresh = outer @ (inner @ fresh)
            images.append(fresh)
        ritz, image = torch.cat(basis, dim=1), torch.cat(images, dim=1)
    raise ConvergenceError(
        f"block Krylov reached a residual of {float(norms[:wanted].max()):.2g}, not {tol:g}, in {cycles} restarts; "
        "raise max_iter, loosen tol, or choose k where the spectrum has a gap"
    )


def _orthonormal(block: Tensor, basis: list[Tensor]) -> Tensor:
    """Columns of ``block`` made orthonormal and orthogonal to ``basis``; dependent ones become other directions.

    Three passes: after a QR step a nearly dependent column is rounding blown up to length 1, and only then can the
    part of it that lies in the old space be seen and removed.
    """
    for _ in range(3):
        for known in basis:
            block = block - known @ (known.T @ block)
        block = torch.linalg.qr(block)[0]
    return block


def _to_torch(matrix: sparse.csr_array, device: torch.device) -> Tensor:
    index = np.int32 if matrix.nnz < 2**31 else np.int64
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")  # torch calls its CSR format beta
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(index)),
            torch.from_numpy(matrix.indices.astype(index)),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
            dtype=torch.float64,
        ).to(device)


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device must name a torch device such as cpu or cuda, got {name!r}") from error
    if place.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device = {name!r}, but torch sees no CUDA device; use device='cpu' or solver='lanczos'")
    return place
