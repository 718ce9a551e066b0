"""What is to be run: everything that decides the numbers, as one frozen value that goes into the manifest."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from headwise.models.model import Model
from headwise.studies import STUDIES
from headwise.studies.study import Study
from headwise.text.corpus import CorpusSpec, Document, Shard, shards
from headwise.text.segments import cut_at, segments

OPENING = 32  # documents that a study may look at before the others


@dataclass(frozen=True)
class Plan:
    """Two runs with the same plan and the same number of threads a worker give the same bits."""

    studies: Mapping[str, Mapping[str, Any]]  # name → settings
    model: Mapping[str, Any]  # name, weights, revision, dtype, task
    corpus: CorpusSpec
    shard_documents: int = 64
    batch_tokens: int = 2048  # padded tokens of a batch
    truncate: bool = False
    max_tokens: int | None = None  # longer texts are skipped, or cut with `truncate`
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "corpus": self.corpus.to_json()}

    @property
    def digest(self) -> str:
        """What a resumed run must share; the path of the corpus may differ, its fingerprint may not."""
        decided = self.to_json()
        for field in ("name", "path"):
            decided["corpus"].pop(field)
        return hashlib.sha256(json.dumps(decided, sort_keys=True, default=list).encode()).hexdigest()[:16]

    def build(self) -> list[Study]:
        return [STUDIES[name](**settings) for name, settings in self.studies.items()]

    def opening(self, model: Model) -> tuple[Document, ...]:
        """The first documents, for studies that must know something of the corpus beforehand."""
        wanted = any(study.has("prepare") for study in self.build())
        documents = (document for shard in self.shards(model, Counter()) for document in shard.documents)
        return tuple(islice(documents, OPENING)) if wanted else ()

    def shards(self, model: Model, skipped: Counter[str]) -> Iterator[Shard]:
        """The corpus in shards, the same ones on every machine; `skipped` fills as it is read."""
        documents: Iterator[Document] = self.corpus.documents(skipped)
        if self.corpus.segments is not None:
            special = model.tokenizer.num_special_tokens_to_add(pair=True)
            cut = cut_at(lambda text: _spans(model, text))
            documents = segments(documents, cut, self.corpus.segments, special=special, skipped=skipped)
        return shards(documents, self.shard_documents)


def _spans(model: Model, text: str) -> list[tuple[int, int]]:
    coded = model.tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
    )
    return coded["offset_mapping"]


def model_facts(model: Model) -> dict[str, Any]:
    """What identifies a model: its name and a digest of every weight."""
    source = dict(model.source or {})
    return {
        "name": model.name,
        "revision": model.revision,
        "task": source.get("task"),
        "dtype": str(model.hf.dtype).removeprefix("torch."),
        "type": model.hf.config.model_type,
        "weights": _weights_digest(model),
        "source": source or None,
    }


def _weights_digest(model: Model) -> str:
    """Names, shapes and float64 sums of all parameters: any change that matters shows."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.hf.named_parameters()):
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.detach().double().sum().item():.17g}".encode())
    return digest.hexdigest()[:16]
