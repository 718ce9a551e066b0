"""The data that every part of headwise passes on: frozen, with the shapes in the annotations.

One axis vocabulary everywhere: `batch layer head query key token input d_head d_model`. A batch axis and a head axis
are always there, of length 1 where there is one text or one head.
"""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor


@dataclass(frozen=True)
class Encoding:
    """One text, or a pair of texts, as the model reads it.

    `unit[t]` numbers the word that token t belongs to; a special token that the tokenizer added is a unit of its own,
    so that summing over units loses no attention.
    """

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    special: tuple[bool, ...]
    segment: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    unit: tuple[int, ...]
    words: tuple[str, ...]  # the text of each unit
    places: tuple[tuple[float, ...], ...] = ()  # of a patch (top, left, bottom, right) in shares of the picture, of a
    # frame (start, stop) in seconds, () of a token that has none; () for text
    given: Mapping[str, Tensor] = field(default_factory=dict, repr=False, compare=False)  # what stands for the ids

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Batch:
    """Texts padded on the right to one length, ready for the model; `targets` are the decoder's side."""

    texts: tuple[Encoding, ...]
    targets: tuple[Encoding, ...]
    inputs: Mapping[str, Tensor]

    @cached_property
    def mask(self) -> Bool[Tensor, "batch token"]:
        return real_tokens(self.texts, next(iter(self.inputs.values())).device)

    @cached_property
    def target_mask(self) -> Bool[Tensor, "batch token"]:
        return real_tokens(self.targets, self.inputs["decoder_input_ids"].device)


def real_tokens(texts: tuple[Encoding, ...], device: torch.device) -> Bool[Tensor, "batch token"]:
    """True at real tokens, False at padding."""
    lengths = torch.tensor([len(text) for text in texts], device=device)
    return torch.arange(int(lengths.max()), device=device) < lengths[:, None]


@dataclass(frozen=True)
class Norm:
    """A LayerNorm (`centred`) or RMSNorm as numbers: gain · c(x) / σ(x) + bias, c(x) = x − mean(x) or x."""

    gain: Float[Tensor, " d_model"]
    bias: Float[Tensor, " d_model"]
    eps: float
    centred: bool

    def centre(self, x: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any d_model"]:
        return x - x.mean(-1, keepdim=True) if self.centred else x

    def sigma(self, x: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any 1"]:
        """The length that the norm divides `x` by."""
        return (self.centre(x).square().mean(-1, keepdim=True) + self.eps).sqrt()

    def __call__(self, x: Float[Tensor, "*any d_model"]) -> Float[Tensor, "*any d_model"]:
        return self.gain * self.centre(x) / self.sigma(x) + self.bias


@dataclass(frozen=True)
class Circuit:
    """What surrounds an attention call, found and proved at load.

    The block computes  out = Σ_h α_h V_h W_O,h + b_O,  then  sum = residual + scale · inner(out),  then outer(sum);
    `inner` is there only where a norm stands between attention and the sum (Gemma 2, OLMo 2), `outer` is the norm that
    reads the sum: the block's own in post-norm models, the feed-forward block's in pre-norm ones. The feed-forward
    output is then added to outer(sum) where `post` holds, to the sum itself where not, and `last` is the norm that
    reads this: the block's second one in post-norm models, the first one of the next block in pre-norm ones.
    """

    stored: Float[Tensor, "head d_head d_model"]  # W_O in the model's own precision; in half precision its own memory
    b_o: Float[Tensor, " d_model"]
    scale: float = 1.0
    inner: Norm | None = None
    outer: Norm | None = None
    last: Norm | None = None
    post: bool = False
    shared: bool = False  # W_O reads other things beside the heads (ConvBERT), which `out` leaves aside

    @property
    def w_o(self) -> Float[Tensor, "head d_head d_model"]:
        """W_O, of a model in half precision widened for the moment: copies of all would cost a sixth of the model."""
        return self.stored.float().contiguous() if self.stored.dtype in (torch.float16, torch.bfloat16) else self.stored

    @cached_property
    def root(self) -> Float[Tensor, "head d_head d_head"]:
        """R with R Rᵀ = W_O W_Oᵀ per head: ‖v W_O‖ = ‖v R‖, at the cost of the head's size instead of the model's."""
        values, vectors, _ = self._spectrum
        return (vectors * values.clamp(min=0).sqrt()[:, None]).to(self.w_o)

    @cached_property
    def reader(self) -> Float[Tensor, "head d_head d_head"] | None:
        """Per head the projector onto the directions of the value space that W_O reads; None where it reads all.

        A full-rank W_O,h reads every direction, and the null space of T = V W_O,h is that of V. A head that was pruned
        or trained away does not, and the rest of its value vectors never reaches the model.
        """
        _, vectors, read = self._spectrum
        return None if bool(read.all()) else torch.einsum("hdr,hr,hfr->hdf", vectors, read.double(), vectors)

    @cached_property
    def _spectrum(self) -> tuple[Float64[Tensor, "head d_head"], Float64[Tensor, "head d_head d_head"], Tensor]:
        """Eigenvalues and eigenvectors of W_O W_Oᵀ, and which of them count."""
        values, vectors = torch.linalg.eigh(torch.einsum("hde,hfe->hdf", self.w_o.double(), self.w_o.double()))
        tolerance = max(self.w_o.shape[1:]) * torch.finfo(torch.float32).eps
        return values, vectors, values > values[:, -1:].clamp(min=0) * tolerance**2


@dataclass(frozen=True)
class Layer:
    """One attention layer of a batch, or a block of its query rows: all that a measure may look at.

    The weights of padding queries are zero; `query_mask` says which rows count. Columns of padding keys are invisible,
    their values are zero and so is the attention to them.
    """

    stack: str  # "self", or "encoder", "decoder" and "cross"
    index: int  # zero-based number of the layer in its stack
    first_row: int  # position of the block's first query in the text
    alpha: Float[Tensor, "batch head query key"]
    value: Float[Tensor, "batch kv_head key d_head"]
    visible: Bool[Tensor, "batch query key"]
    query_mask: Bool[Tensor, "batch query"]
    key_mask: Bool[Tensor, "batch key"]
    out: Float[Tensor, "batch query d_model"]  # the output of W_O, bias included
    residual: Float[Tensor, "batch query d_model"] | None  # None: found no sum of a residual and `out`
    circuit: Circuit
    gate: Float[Tensor, "batch head query d_head"] | None = None  # W_O reads g ⊙ Σ α V; None: it reads Σ α V
    memo: dict[str, Any] = field(default_factory=dict, repr=False)  # of this block, see `once`
    text_memo: dict[str, Any] = field(default_factory=dict, repr=False)  # shared by the blocks of a layer

    @property
    def groups(self) -> int:
        """How many query heads share one key/value head."""
        return self.alpha.shape[1] // self.value.shape[1]

    @cached_property
    def head_value(self) -> Float[Tensor, "batch head key d_head"]:
        """The value vectors with grouped heads repeated."""
        return self.value.repeat_interleave(self.groups, dim=1)


Measure = TypeVar("Measure", bound=Callable[..., Any])


def once(measure: Measure) -> Measure:
    """Decorator: compute a measure of a layer once, whoever asks; studies that run together share it."""
    return _remembered(measure, lambda layer: layer.memo)


def once_per_text(measure: Measure) -> Measure:
    """As `once`, for what depends on the keys alone and so is the same for every block of query rows."""
    return _remembered(measure, lambda layer: layer.text_memo)


def _remembered(measure: Measure, memo_of: Callable[[Layer], dict[str, Any]]) -> Measure:
    name = f"{measure.__module__}.{measure.__name__}"

    @wraps(measure)
    def remembered(layer: Layer) -> Any:
        memo = memo_of(layer)
        if name not in memo:
            memo[name] = measure(layer)
        return memo[name]

    return cast(Measure, remembered)
