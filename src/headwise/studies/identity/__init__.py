"""Can the input token still be told from a hidden token? Token identifiability, layer by layer.

Brunner et al. 2020 (https://arxiv.org/abs/1908.04211) §4, fig2, fig7–17, fig38–39: a map from hidden to input tokens is
learned on some sentences, and on others the nearest input token of the same sentence is looked up. The rate is the
share of tokens for which that is the token itself.

    target=input      x from e^l                fig2, fig7–10, fig38–39
    target=previous   e^(l−1) from e^l          fig11–13
    offsets=-1,1      x_(i±k) from e_i^l        fig14–17

and beyond the paper: which tokens are lost, by part of speech (`tags`) and by frequency, and whether those whose own
contribution is small (`attribution`) are the ones that are lost.

Hidden tokens are kept on disk, as float32 or float16, until everything was read; then maps are learned, and only rates
are stored. Layers are those of the other studies: layer 0 is what the first block puts out (the paper's layer 1), and
the input is what the embedding module puts out. In models that end in a norm (Llama and its like) the last layer is
read after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.attributions import ORIGINS
from headwise.errors import InputError
from headwise.models.model import Model
from headwise.models.packaged import packaged_folder
from headwise.stats import Pieces, Sums
from headwise.stats.reservoir import hashed, threshold
from headwise.studies import STUDIES
from headwise.studies.answers import Answer
from headwise.studies.identity.answers import answers
from headwise.studies.identity.figures import identity_figures
from headwise.studies.identity.learned import INPUT, SETS, Material, Question, Rates, answer, roles
from headwise.studies.identity.maps import MAPS, Recipe
from headwise.studies.identity.recovery import DISTANCES, Sentences
from headwise.studies.identity.table import identity_table
from headwise.studies.identity.tokens import TAGS, by_frequency, by_tag, with_attribution
from headwise.studies.needs import Cost, Means
from headwise.studies.study import Hidden, Reading, Setting, State, Stats, Study
from headwise.text.conllu import Sentence
from headwise.text.tags import by_sentence, by_spacy, check_spacy, source, token_tags
from headwise.types import Encoding

SOLVERS = ("closed-form", "newton", "adam")
SHARES = 3  # of the sentences: training, validation, test


@STUDIES.add(
    "identity", "can the input token be recovered from a hidden token (Brunner et al. 2020 fig2, fig7–17)", order=70
)
@dataclass(frozen=True)
class Identity(Study):
    """What is recovered, by which maps, and how they are learned.

    `maps`: none, linear, mlp. `distances`: cosine, l2. `source`: layers to learn from, or all. `target`: input,
    previous or a layer. `offsets`: which neighbour to recover, 0 for the token itself. `cross`: whether maps are also
    tested on the other layers. `sets`: sentences to test on: test, train. `folds`, `split` (training, validation, test)
    and `fraction` of the training sentences.

    `solver` of linear maps: closed-form (least squares, the same map for both distances), newton (for cosine, the map
    of the least cosine loss, which recovers more), adam (as in the paper: a map for each distance, with that distance
    as its loss). An mlp is always trained by Adam. `rate`, `batch`, `patience`, `hidden`, `epochs`: of Adam.

    `sentences`: how many are used at most; `keep`: the share of a huge corpus whose hidden tokens are stored at all;
    both choose by a hash of the document's number and the `seed`. `attribution`: how many documents, from the first on,
    are asked for each token's own contribution, with so many `tangents`, as that costs many passes; 0 for none. `tags`:
    part of speech from the corpus, by spaCy, or none.
    """

    title: ClassVar[str] = "Can the word still be told"
    cost: ClassVar[Cost] = "learning"
    fewest: ClassVar[int] = 4  # to learn a map from some and test it on others
    captions: ClassVar[Mapping[str, str]] = {
        "fig2a": "how many input tokens are found again from hidden tokens, layer by layer (Brunner et al. 2020)",
        "fig2b": "a linear map learned in one layer and tested in others, by cosine distance",
        "fig8": "a linear map learned in one layer and tested in others, by Euclidean distance",
        "fig9": "an MLP learned in one layer and tested in others, by Euclidean distance",
        "fig10": "an MLP learned in one layer and tested in others, by cosine distance",
        "fig7": "found on the sentences of training and of test",
        "fig11": "how many tokens of the layer before are found again",
        "fig14": "neighbours found by a linear map, by cosine distance",
        "fig15": "neighbours found by an MLP, by cosine distance",
        "fig16": "neighbours found by an MLP, by Euclidean distance",
        "fig17": "neighbours found by a linear map, by Euclidean distance",
        "matrix": "learned in one layer, tested in another: every pair of layers",
        "tag": "which tokens are lost, by part of speech",
        "frequency": "which tokens are lost, by frequency",
        "attribution": "whether tokens that kept little of themselves are the ones that are lost",
    }
    maps: tuple[str, ...] = setting(("none", "linear"), one_of=MAPS)
    distances: tuple[str, ...] = setting(DISTANCES, one_of=DISTANCES)
    source: tuple[str | int, ...] = setting(("all",), least=0)
    target: str | int = setting("input", least=0)
    offsets: tuple[int, ...] = setting((0,), least=-(10**4), most=10**4)
    cross: bool = True
    sets: tuple[str, ...] = setting(("test",), one_of=tuple(SETS))
    folds: int = setting(10, least=1)
    split: tuple[float | int, ...] = setting((70, 15, 15), least=0, most=10**6)
    fraction: float = setting(1.0, above=0, most=1)
    solver: str = setting("closed-form", one_of=SOLVERS)
    rate: float = setting(1e-4, above=0, most=10)
    batch: int = setting(256, least=1)
    patience: int = setting(20, least=1)
    hidden: int = setting(1000, least=1, most=10**6)
    epochs: int = setting(10_000, least=1)
    dtype: str = setting("float32", one_of=("float32", "float16"))
    sentences: int = setting(2000, least=1)
    keep: float = setting(1.0, above=0, most=1)
    attribution: int = setting(0, least=0)
    tangents: int = setting(4, least=1)
    tags: str = setting("none", one_of=("none", "corpus", "spacy"))
    seed: int = setting(0, least=0, most=SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.split) != SHARES or not self.split[0] or not self.split[-1]:
            raise InputError(
                "split of study identity must be three numbers, for training, validation and test, the first and the "
                f"last above 0, but {','.join(map(str, self.split))} was given."
            )
        for name in ("maps", "distances", "source", "offsets", "sets"):
            if not getattr(self, name):
                raise InputError(f"{name} of study identity must have at least one part; leave it out for all.")

    def check(self, model: Model) -> None:
        layers = model.layers()
        named = [layer for layer in (*self.source, self.target) if layer not in ("all", "input", "previous")]
        for layer in named:
            if not isinstance(layer, int) or not 0 <= layer < layers:
                raise InputError(
                    f"{model.name} has the layers 0 to {layers - 1}, but {layer!r} was asked for; source is all or "
                    "such numbers, target is input, previous or one of them."
                )
        if self.tags == "spacy":
            check_spacy()
            packaged_folder("spacy-en")

    def observe_hidden(self, hidden: Hidden, reading: Reading) -> Stats:
        """The hidden tokens of every text that is kept, and the ids of its tokens."""
        stack = next(iter(hidden.values()))
        kept = {layer: stack[layer + 1].to(getattr(torch, self.dtype)) for layer in self._needed(len(stack) - 1)}
        features, ids = {}, {}
        for row, (document, text) in enumerate(zip(reading.documents.tolist(), reading.batch.texts, strict=True)):
            if self._keeps(document):
                features[document] = torch.stack([layer[row, : len(text)] for layer in kept.values()], dim=1).cpu()
                ids[document] = torch.tensor(text.ids)
        return {"hidden": Pieces.of(features), "ids": Pieces.of(ids)} if features else {}

    def ask(self, model: Model, reading: Reading) -> Stats:
        """Each token's own contribution and part of speech, where asked for."""
        own, tags = {}, {}
        for row, (document, text) in enumerate(zip(reading.documents.tolist(), reading.batch.texts, strict=True)):
            if document < self.attribution and self._keeps(document):
                own[document] = self._own_share(model, text, document)
            note = reading.notes[row] if reading.notes else None
            if self.tags != "none" and self._keeps(document) and (found := self._tags(text, note)) is not None:
                tags[document] = found
        return {name: Pieces.of(found) for name, found in (("own", own), ("tags", tags)) if found}

    def conclude(self, state: State, model: Model, report: Callable[[str], None]) -> Stats:
        """Learn, test, and keep only the rates."""
        chosen, left_out = self._chosen(state)
        layers = self._layers(model.layers())
        material = self._material(state, chosen, model.layers())
        result: Stats = {
            "sizes": _numbers([next(iter(material.hidden.values())).shape[1], len(chosen), left_out]),
            "layers": _numbers(layers),
        }
        for offset in self.offsets:
            result[f"chance.{offset}"] = _chance(material.sentences, offset)
            for map_ in self.maps:
                rates = answer(self._question(map_, offset, layers), material, report)
                for distance, rate in rates.items():
                    result |= _stored(f"{map_}.{distance}.{offset}", rate)
                    if offset == 0 and self.target == "input":
                        result |= _of_tokens(f"{map_}.{distance}", rate, state, chosen, layers, material)
        return result

    def table(self, state: State, setting: Setting) -> pl.DataFrame:  # noqa: ARG002
        """One row a fact: a rate of a map, trained on one layer and tested on one; a group of tokens; a correlation."""
        return identity_table(state, str(self.target))

    @classmethod
    def for_report(cls, means: Means) -> Mapping[str, Any]:
        """Least squares of 20 tokens' sentences take about a second."""
        few = {} if means.texts is None else {"folds": max(2, means.texts - 1)}
        sentences = 1000 if means.seconds is None else max(20, min(2000, int(20 * means.seconds / means.tokens)))
        return {"folds": 5, "sentences": sentences, **few}

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:
        return answers(table, setting)

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """By the paper's numbers where it has them."""
        return identity_figures(self.table(state, setting), setting.model, str(self.target))

    def _keeps(self, document: int) -> bool:
        return bool(hashed(torch.tensor(document), self.seed) <= threshold(self.keep))

    def _layers(self, count: int) -> tuple[int, ...]:
        return tuple(range(count)) if "all" in self.source else tuple(sorted({int(layer) for layer in self.source}))

    def _target(self, layer: int) -> int:
        if isinstance(self.target, int):
            return self.target
        return INPUT if self.target == "input" else layer - 1

    def _needed(self, count: int) -> list[int]:
        layers = self._layers(count)
        return sorted({*layers, *(self._target(layer) for layer in layers)})

    def _question(self, map_: str, offset: int, layers: tuple[int, ...]) -> Question:
        recipe = Recipe(
            rate=self.rate, batch=self.batch, patience=self.patience, hidden=self.hidden, epochs=self.epochs
        )
        solver = "adam" if map_ == "mlp" else self.solver
        cross = self.cross and offset == 0 and self.target == "input"
        return Question(
            map=map_, distances=self.distances, layers=layers, tested=layers, target=self._target, offset=offset,
            solver=solver, cross=cross, sets=self.sets, recipe=recipe, seed=self.seed,
        )  # fmt: skip

    def _own_share(self, model: Model, text: Encoding, document: int) -> Float[Tensor, "token layer"]:
        """c_jj of hidden-token attribution; one text at a time, so that it never depends on the batch."""
        options = {"k": self.tangents, "seed": self.seed + 1_000_003 * document}
        maps = ORIGINS["hidden-token"](model, model.batch([text]), **options).maps[0]
        return maps.diagonal(dim1=-2, dim2=-1).detach().mT.float().cpu().contiguous()

    def _tags(self, text: Encoding, note: Any) -> Int64[Tensor, " token"] | None:
        """The number of each token's part of speech in TAGS, −1 for none."""
        sides = [source(text, segment) for segment in range(max(text.segment) + 1)]
        if self.tags == "spacy":
            tagged = [by_spacy(side, packaged_folder("spacy-en"), tagset="upos") for side in sides]
        elif isinstance(note, Sentence):
            tagged = [by_sentence(sides[0], note, tagset="upos")]
        else:
            return None
        names = token_tags(text, tagged)
        special = ["special" if is_special else str(name) for name, is_special in zip(names, text.special, strict=True)]
        return torch.tensor([TAGS.index(name) if name in TAGS else -1 for name in special])

    def _chosen(self, state: State) -> tuple[list[int], int]:
        """The documents that are used, and how many were left out as they have a single token."""
        ids = state.documents("ids") if "ids" in state else {}
        usable = [number for number, tokens in ids.items() if len(tokens) > 1]
        if not usable:
            raise InputError(
                f"A token can only be told from others, but none of the {len(ids)} texts kept has two tokens; "
                "take longer texts, or a larger keep."
            )
        order = hashed(torch.tensor(usable), self.seed).argsort()[: self.sentences]
        return sorted(torch.tensor(usable)[order].tolist()), len(ids) - len(usable)

    def _material(self, state: State, chosen: list[int], count: int) -> Material:
        ids = _pieces(state, "ids", chosen)
        sentences = Sentences(torch.tensor([len(tokens) for tokens in ids]), torch.cat(ids))
        role = roles(torch.tensor(chosen), folds=self.folds, split=self.split, fraction=self.fraction, seed=self.seed)
        rows = _pieces(state, "hidden", chosen)
        hidden = {
            layer: torch.cat([row[:, at].float() for row in rows]) for at, layer in enumerate(self._needed(count))
        }
        return Material(hidden, sentences, role)


def _pieces(state: State, name: str, chosen: list[int]) -> list[Tensor]:
    found = state.documents(name)
    return [found[number] for number in chosen]


def _numbers(values: Any) -> Sums:
    """Plain numbers as a statistic."""
    total = torch.as_tensor(values, dtype=torch.float64)
    return Sums(total, torch.ones_like(total))


def _chance(sentences: Sentences, offset: int) -> Sums:
    """What a guess scores under both readings, over the tokens that have a neighbour at `offset`."""
    inside: Bool[Tensor, " token"] = sentences.inside(offset)
    tokens = inside.nonzero()[:, 0]
    word = sentences.of_token * (int(sentences.ids.max()) + 1) + sentences.ids
    _, number, count = word.unique(return_inverse=True, return_counts=True)
    position = sentences.chance[tokens]
    same_word = count[number][tokens + offset] * position
    return Sums.of(torch.stack([position, same_word]), torch.ones(2, len(tokens)))


def _stored(name: str, rates: Rates) -> Stats:
    stored: Stats = {f"rate.{name}": Sums(rates.credit, rates.count)}
    return stored if rates.epochs is None else {**stored, f"epochs.{name}": _numbers(rates.epochs)}


def _of_tokens(
    name: str, rates: Rates, state: State, chosen: list[int], layers: tuple[int, ...], material: Material
) -> Stats:
    """Which tokens are lost: by frequency, and by part of speech and own contribution where those are known."""
    result: Stats = {f"frequency.{name}": by_frequency(rates.token_credit, material.sentences.ids)}
    if "tags" in state:
        result[f"tag.{name}"] = by_tag(rates.token_credit, torch.cat(_known(state, "tags", chosen, -1)))
    if "own" in state:
        own = torch.cat(_known(state, "own", chosen, torch.nan))[:, list(layers)].mT.double()
        result[f"attribution.{name}"] = with_attribution(rates.token_credit, rates.token_margin, own)
    return result


def _known(state: State, name: str, chosen: list[int], missing: float | int) -> list[Tensor]:
    """The pieces of the chosen documents, filled with `missing` where there is none."""
    found, ids = state.documents(name), _pieces(state, "ids", chosen)
    like = next(iter(found.values()))
    return [
        found.get(number, like.new_full((len(tokens), *like.shape[1:]), missing))
        for number, tokens in zip(chosen, ids, strict=True)
    ]
