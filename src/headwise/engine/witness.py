"""A run's pass proves itself: watched, the model's output on a text of the corpus is what it is by itself.

The text is the longest of the first ones that the model can read, run as the studies run it (in blocks of rows where
it is long). An output that differs by more than rounding stops the run before anything is counted.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import torch

from headwise.engine.fold import readable
from headwise.engine.plan import OPENING, Plan
from headwise.models.model import Model


def proved(model: Model, plan: Plan) -> dict[str, Any] | None:
    """The number of tokens and the relative error; None where no text of the first ones can be read."""
    documents = (document for shard in plan.shards(model, Counter()) for document in shard.documents)
    items = list(readable(model, list(islice(documents, OPENING)), plan, Counter()))
    if not items:
        return None
    longest = max(items, key=lambda item: (item.length, -item.number))
    batch = model.batch([longest.text], [longest.target] if longest.target else [])
    with torch.inference_mode():
        watched = model.run(batch, lambda _layer: None)
        return {"tokens": longest.length, "output_error": model.watched_error(batch, watched)}
