"""The `norms` study written out: every map of every text kept, float64, loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import headwise as hw
from headwise.text.categories import CATEGORIES, categories


class Naive:
    """All numbers of a list of texts (or pairs), by layer of one stack."""

    def __init__(self, model: hw.Model, texts: Sequence[tuple[str, str | None]], stack: str):
        self.lengths: dict[int, list[np.ndarray]] = defaultdict(list)  # ‖f‖ [head key] of each text
        self.streams: dict[int, list[np.ndarray]] = defaultdict(list)
        self.maps: dict[int, list[np.ndarray]] = defaultdict(list)
        self.effective: dict[int, list[np.ndarray]] = defaultdict(list)
        self.visible: dict[int, list[np.ndarray]] = defaultdict(list)
        self.layers: dict[int, list[Any]] = defaultdict(list)
        self.kinds: list[np.ndarray] = []
        self.row_kinds: list[np.ndarray] = []
        self.ids: list[np.ndarray] = []
        for text, pair in texts:
            trace = model.trace(text, pair)
            keys, queries = trace.keys(stack), trace.queries(stack)
            causal = model.causal or stack == "decoder"
            self.kinds.append(np.array(categories(keys, causal=causal)))
            self.row_kinds.append(np.array(categories(queries, causal=model.causal or stack in ("decoder", "cross"))))
            self.ids.append(np.array(keys.ids))
            for layer in trace.of(stack):
                sent = np.einsum("hkd,hde->hke", layer.head_value[0].numpy(), layer.circuit.w_o.numpy())
                self.lengths[layer.index].append(np.sqrt((sent**2).sum(-1)))
                self.maps[layer.index].append(layer.alpha[0].numpy())
                self.visible[layer.index].append(layer.visible[0].numpy())
                self.layers[layer.index].append(layer)
                self.effective[layer.index].append(trace.attention("effective", stack=stack)[layer.index].numpy())
                if layer.residual is not None:
                    self.streams[layer.index].append(np.sqrt((layer.residual[0].numpy() ** 2).sum(-1)))

    def spread(self, layer: int, head: int) -> dict[str, float]:
        return spread(np.concatenate([norms[head] for norms in self.lengths[layer]]))

    def stream(self, layer: int) -> dict[str, float]:
        return spread(np.concatenate(self.streams[layer]))

    def to(self, maps: list[np.ndarray], category: int, rows: int | None = None, but: int | None = None) -> np.ndarray:
        """Sum over the category's keys, mean over rows (of one category, or of all but one), mean over the texts that
        have such rows."""
        found = []
        for map_, kinds, row_kinds in zip(maps, self.kinds, self.row_kinds, strict=True):
            chosen = (row_kinds == rows) if rows is not None else (row_kinds != but)
            if chosen.any():
                found.append(map_[:, chosen][:, :, kinds == category].sum(-1).mean(-1))
        return np.mean(found, axis=0)

    def norm_maps(self, layer: int) -> list[np.ndarray]:
        return [a * f[:, None] for a, f in zip(self.maps[layer], self.lengths[layer], strict=True)]

    def sent(self, layer: int, category: int) -> np.ndarray:
        parts = [f[:, kinds == category] for f, kinds in zip(self.lengths[layer], self.kinds, strict=True)]
        return np.concatenate(parts, axis=1).mean(1)

    def pairs(self, category: int | None) -> tuple[np.ndarray, np.ndarray]:
        """α and ‖f‖ of every seen pair of all layers and heads."""
        alphas, norms = [], []
        for layer, maps in self.maps.items():
            for map_, f, seen, kinds in zip(maps, self.lengths[layer], self.visible[layer], self.kinds, strict=True):
                chosen = seen & (np.ones(len(kinds), bool) if category is None else kinds == category)[None]
                alphas.append(map_[:, chosen].ravel())
                norms.append(np.broadcast_to(f[:, None], map_.shape)[:, chosen].ravel())
        return np.concatenate(alphas), np.concatenate(norms)

    def rho(self, category: int | None) -> float:
        # Bins are those of float32: numbers that differ beyond it are told apart by neither.
        return float(spearmanr(*(np.float32(x) for x in self.pairs(category))).statistic)

    def tokens(self) -> dict[tuple[int, float], tuple[float, float]]:
        """(text, place) → mean α from the rows that see the token and mean ‖f‖, over all layers and heads."""
        found = {}
        for text, ids in enumerate(self.ids):
            for place in range(len(ids)):
                alphas, norms = [], []
                for layer, maps in self.maps.items():
                    rows = self.visible[layer][text][:, place]
                    alphas.append(maps[text][:, rows, place].mean())
                    norms.append(self.lengths[layer][text][:, place].mean())
                found[text, place] = (float(np.mean(alphas)), float(np.mean(norms)))
        return found


def spread(x: np.ndarray) -> dict[str, float]:
    return {"mean": x.mean(), "sd": x.std(), "cv": x.std() / x.mean(), "max": x.max(), "min": x.min()}


KINDS = range(len(CATEGORIES))
