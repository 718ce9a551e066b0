r"""Whitening Gram matrices, and the rank that counts.

B with Bᵀ G B = 1 on the range of G = VᵀV makes Q = V B an orthonormal basis of the columns of V, and V W with
W = B Bᵀ = G⁺ its projector. Gram matrices are small (d_v × d_v) and taken in float64.

Rank: float32 noise makes V look full-rank, which would silently turn effective attention back into the raw one. A
singular value counts where S > S_max · max(n, d_v) · eps, eps being that of the model's numbers: float32's for float32
and for half precision, whose values are exact once they are stored, float64's for float64. A Cholesky factor certifies
the usual case (all count, by float32's tolerance and so by float64's) at a fraction of the cost of an
eigen-decomposition, which decides the rest. What float64 tells apart no Gram matrix holds: there the SVD decides.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

EPS = torch.finfo(torch.float32).eps


def precision(dtype: torch.dtype) -> float:
    """The eps that the rank of values of this dtype is judged by."""
    return torch.finfo(dtype).eps if dtype == torch.float64 else EPS


class Whitener(NamedTuple):
    """B with Bᵀ G B = 1 on the range of G (or the basis Q = V B itself), and the rank of G."""

    matrix: Float[Tensor, "*many rows d_head"]
    rank: Int[Tensor, "*many"]


def whiten(
    gram: Float[Tensor, "*many d_head d_head"],
    count: Int[Tensor, "*many"],
    independent: Bool[Tensor, "*many"] | None = None,
) -> Whitener:
    """The whitener of each Gram matrix of `count` vectors; those of `independent` vectors are not looked at."""
    size = gram.shape[-1]
    tolerance = count.clamp(min=size).to(gram) * EPS
    inverse, certain = certify(gram, tolerance)
    matrix = inverse.mT.clone()
    found = torch.full(gram.shape[:-2], size, device=gram.device)
    if independent is not None:
        found = torch.where(independent, count, found)
        certain = certain | independent
    doubtful = ~certain
    if bool(doubtful.any()):
        matrix[doubtful], found[doubtful] = _whiten_by_eigenvalues(gram[doubtful], tolerance[doubtful])
    return Whitener(matrix, found)


def certify(
    gram: Float[Tensor, "*many size size"], tolerance: Float[Tensor, "*#many"]
) -> tuple[Float[Tensor, "*many size size"], Bool[Tensor, "*many"]]:
    """The inverse Cholesky factor, and whether it proves that every singular value is above the tolerance."""
    inverse, positive = inverse_factor(gram)
    # λ_min ≥ 1 / ‖L⁻¹‖_F² and λ_max ≤ tr G, so this is enough:
    largest = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    return inverse, positive & (inverse.square().sum((-2, -1)) * largest * tolerance**2 < 1)


def inverse_factor(
    gram: Float[Tensor, "*many size size"],
) -> tuple[Float[Tensor, "*many size size"], Bool[Tensor, "*many"]]:
    """L⁻¹ with L Lᵀ = G, and whether G has such a factor; the unit matrix where it has none."""
    factor, info = torch.linalg.cholesky_ex(gram)
    unit = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device).expand_as(gram)
    if bool(info.any()):
        factor = torch.where((info == 0)[..., None, None], factor, unit)
    return torch.linalg.solve_triangular(factor, unit, upper=False), info == 0


def _whiten_by_eigenvalues(
    gram: Float[Tensor, "many d_head d_head"], tolerance: Float[Tensor, " many"]
) -> tuple[Float[Tensor, "many d_head d_head"], Int[Tensor, " many"]]:
    values, vectors = torch.linalg.eigh(gram)
    counts = (values > values[:, -1:].clamp(min=0) * tolerance[:, None] ** 2) & (values > 0)
    scale = torch.where(counts, values.clamp(min=torch.finfo(values.dtype).tiny).rsqrt(), 0.0)
    return vectors * scale[:, None, :], counts.sum(-1)


def svd_basis(
    vectors: Float64[Tensor, "*many key d_head"], count: Int[Tensor, "*#many"]
) -> tuple[Float64[Tensor, "*many key column"], Int[Tensor, "*many"]]:
    """Q, the left singular vectors that count by float64's tolerance (zero beyond), and how many they are."""
    left, singular, _ = torch.linalg.svd(vectors, full_matrices=False)
    tolerance = count.clamp(min=vectors.shape[-1]) * torch.finfo(torch.float64).eps
    counts = singular > singular[..., :1] * tolerance[..., None]
    return left * counts[..., None, :], counts.sum(-1)
