"""What the page says about each quantity: a label, what it is, what its rows add up to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wording:
    """`rows` says how a row is normalised, so that nobody reads a sum into it that is not there."""

    label: str
    about: str
    rows: str
    unit: str
    signed: bool = False


WEIGHT, LENGTH, SHARE = "weight", "vector length", "share"
UNBOUNDED = "Lengths of vectors in the model's own units: rows do not add up to 1."
DISTRIBUTION = "Each row adds up to 1."

WORDINGS = {
    "raw": Wording(
        "Raw attention",
        "The weight α that the softmax gives each key: where the head looks, not what it takes.",
        DISTRIBUTION,
        WEIGHT,
    ),
    "effective": Wording(
        "Effective attention",
        "The part of the weights that reaches the head's output; what the values cannot tell apart is removed.",
        "Signed; rows need not add up to 1 and are not rescaled.",
        WEIGHT,
        signed=True,
    ),
    "null": Wording(
        "Null-space part",
        "Raw minus effective: the part of the weights that cancels and leaves the head's output unchanged.",
        "Signed; multiplied with the head's values every row gives zero.",
        WEIGHT,
        signed=True,
    ),
    "norm": Wording(
        "Weighted value norm",
        "‖α f(x)‖: the length of the vector that a key really sends, weight and value together.",
        UNBOUNDED,
        LENGTH,
    ),
    "alternative": Wording(
        "Other weights, same output",
        "Weights the head could have had: non-negative, rows add up to 1, and its output is the same.",
        DISTRIBUTION,
        WEIGHT,
    ),
    "raw-mean": Wording("Mean of heads", "The raw weights averaged over the heads of a layer.", DISTRIBUTION, WEIGHT),
    "norm-sum": Wording(
        "Norm of the summed heads",
        "‖Σ_h α f(x)‖: what all heads together send from a key; heads that oppose each other cancel.",
        UNBOUNDED,
        LENGTH,
    ),
    "norm-residual": Wording(
        "With the residual",
        "‖Σ_h α f(x) + x‖: the heads together with the copy that the residual connection keeps.",
        UNBOUNDED,
        LENGTH,
    ),
    "norm-residual-ln": Wording(
        "With residual and norm layer",
        "The heads with the residual connection, after the layer norm that follows.",
        UNBOUNDED,
        LENGTH,
    ),
    "value-zeroing": Wording(
        "Value zeroing",
        "How far a token's output moves when one key's value is set to zero.",
        DISTRIBUTION,
        SHARE,
    ),
    "globenc": Wording(
        "GlobEnc",
        "Norms through residual and both norm layers of the block.",
        DISTRIBUTION,
        SHARE,
    ),
    "alti": Wording(
        "ALTI",
        "How near a key's vector brings the block's output, as a share.",
        DISTRIBUTION,
        SHARE,
    ),
    "hidden-token": Wording(
        "Hidden token attribution",
        "The share of each input token in a hidden token, by the gradient of the one in the other.",
        DISTRIBUTION,
        SHARE,
    ),
    "output-weighted": Wording(
        "Output-weighted attribution",
        "The share of each input token in what a hidden token passes on to the model's output.",
        "Each row adds up to 1; rows that the output does not read are empty.",
        SHARE,
    ),
    "rollout": Wording(
        "Attention rollout",
        "Raw attention and the residual multiplied through the layers.",
        DISTRIBUTION,
        SHARE,
    ),
    "globenc-rollout": Wording(
        "GlobEnc rollout",
        "GlobEnc of every block, multiplied through the layers.",
        DISTRIBUTION,
        SHARE,
    ),
    "alti-rollout": Wording(
        "ALTI rollout",
        "ALTI of every block, multiplied through the layers.",
        DISTRIBUTION,
        SHARE,
    ),
    "flow": Wording("Attention flow", "The largest flow from an input token to a hidden one.", DISTRIBUTION, SHARE),
}


def wording(name: str, *, signed: bool) -> Wording:
    """The words for `name`; a quantity nobody described is shown under its own name, signed if its values are."""
    return WORDINGS.get(name) or Wording(name, f"The quantity “{name}”.", "Rows are shown as given.", "value", signed)
