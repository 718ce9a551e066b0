"""How much of a parse can be read from all heads together: probing classifiers with controls.

Clark et al. 2019 (https://arxiv.org/abs/1906.04341) §5 and table3, for any quantity, on a corpus of parsed sentences:

    attention             a weight for every head and direction
    attention+vectors     weights that depend on the two words
    distances+vectors     word vectors and word order without attention
    untrained+vectors     attention+vectors on the attention of the same model with random weights
    right-branching       the next word, without learning
    structural            distances between hidden tokens (Hewitt & Manning 2019), every layer: UUAS

Beside each stands its control task (Hewitt & Liang 2019), learned in the same way from heads that only the word type
decides, at random; selectivity is the difference. Probes are trained from several seeds.

Of the corpus the first `train` sentences are for training, the rest for testing. UAS counts the words that have the
right head, punctuation aside; UUAS the arcs between words other than punctuation, without their direction. The features
of every sentence are kept as float16 on disk until the probes are trained, then dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.allowed import SEED, setting
from headwise.errors import InputError
from headwise.measures import ATTENTION
from headwise.measures.wordmaps import Words, word_map
from headwise.models.model import Model
from headwise.results.shown import finite, number
from headwise.stats import Pieces, Sums
from headwise.studies import STUDIES
from headwise.studies.answers import DOING, Answer
from headwise.studies.needs import Cost, Needs
from headwise.studies.probe.controls import selectivity
from headwise.studies.probe.dependency import FRAME, PROBES, Training, predicted, trained
from headwise.studies.probe.figures import structural_figure, table3_figure, weights_figure
from headwise.studies.probe.frames import frame
from headwise.studies.probe.structural import Scale, Scaled, StructuralTraining, distances, fitted
from headwise.studies.probe.treebank import ByNumber, Features, Treebank, facts
from headwise.studies.probe.trees import tree_distances
from headwise.studies.probe.untrained import untrained
from headwise.studies.probe.vectors import word_vectors
from headwise.studies.study import Hidden, Reading, Setting, State, Stats, Study, at
from headwise.text.conllu import Sentence
from headwise.types import Layer

DIRECTIONS = ("head_to_dependent", "dependent_to_head")
UNTRAINED = "untrained"
PAPER = {"attention": 61.0, "attention+vectors": 77.0, "distances+vectors": 58.0, "untrained+vectors": 30.0,
         "right-branching": 26.0, "structural": 80.0}  # fmt: skip
SCHEMA = {"what": pl.String, "probe": pl.String, "quantity": pl.String, "decoder": pl.String, "layer": pl.Int64,
          "head": pl.Int64, "name": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64,
          "control": pl.Float64, "selectivity": pl.Float64, "paper": pl.Float64, "count": pl.Int64}  # fmt: skip
Report = Callable[[str], None]
Row = dict[str, Any]


@STUDIES.add(
    "probe", "parsing from all heads together, with controls, and from hidden tokens (Clark et al. table3)", order=100
)
@dataclass(frozen=True)
class Probe(Study):
    """`train`: sentences at the beginning of the corpus that are for training, 0 for 70 %. `vectors`: glove, model or
    spacy:PIPELINE. `epochs`, `batch` (sentences a step), `rate`: training of the dependency probes. `random`: whether
    the untrained copy is run. `structural_epochs`: 0 for no structural probe."""

    title: ClassVar[str] = "Parsing from all heads"
    needs: ClassVar[Needs] = Needs(("encoder", "decoder"), "parse")
    cost: ClassVar[Cost] = "learning"
    by_name: ClassVar[bool] = True  # it trains for long
    captions: ClassVar[Mapping[str, str]] = {
        "table3": "parses learned from all heads together, with controls (Clark et al. 2019)",
        "weights": "which heads the probe listens to",
        "structural": "parse trees in the distances of hidden tokens, layer by layer",
    }
    quantities: tuple[str, ...] = setting(("raw", "effective", "norm"), of=ATTENTION)
    vectors: str = "glove"
    train: int = setting(0, least=0)
    seeds: int = setting(3, least=1)
    epochs: int = setting(3, least=1)
    batch: int = setting(1, least=1)
    rate: float = setting(0.002, above=0, most=10)
    random: bool = True
    structural_rank: int = setting(64, least=1)
    structural_epochs: int = setting(10, least=0)
    seed: int = setting(0, least=0, most=SEED)

    def check(self, model: Model) -> None:
        super().check(model)
        word_vectors(self.vectors)

    def observe(self, layer: Layer, reading: Reading) -> Stats:
        """Word-level maps of every quantity."""
        found = {at(quantity, layer): word_maps(layer, quantity, reading) for quantity in self.quantities}
        return {key: pieces for key, pieces in found.items() if pieces is not None}

    def observe_hidden(self, hidden: Hidden, reading: Reading) -> Stats:
        """Hidden tokens, mean over those of a word."""
        if not self.structural_epochs:
            return {}
        real = torch.where(reading.batch.mask[..., None], hidden["self"].float(), 0.0)
        means = torch.einsum("bwt,lbtd->bwld", _frames(reading, torch.float32).giving[:, FRAME:], real)
        largest = torch.finfo(torch.float16).max
        sentences = zip(reading.documents.tolist(), means.clamp(-largest, largest), parses(reading), strict=True)
        return {"hidden": Pieces.of({number: rows[: len(parse)].half() for number, rows, parse in sentences})}

    def ask(self, model: Model, reading: Reading) -> Stats:
        """What is known of the words; and the word-level maps of the untrained copy."""
        vectors, numbers = word_vectors(self.vectors), reading.documents.tolist()
        sentences = list(zip(numbers, reading.batch.texts, parses(reading), strict=True))
        state: Stats = {
            "words": Pieces.of({number: facts(parse) for number, _, parse in sentences}),
            "vectors": Pieces.of({number: vectors(model, text, parse).half() for number, text, parse in sentences}),
        }
        return {**state, **(_untrained_maps(untrained(model, self.seed), reading) if self.random else {})}

    def conclude(self, state: State, model: Model, report: Report) -> Stats:  # noqa: ARG002
        """Train every probe from every seed, score it, and keep only scores and weights."""
        bank = Treebank.of(state.documents("words"), self.train)
        sizes = torch.tensor([len(bank.training), len(bank.testing)]).double()
        found: Stats = {
            "sentences": Sums(sizes, torch.ones_like(sizes)),
            "uas/right-branching//argmax": _stacked([bank.right_branching(seed) for seed in self._seeds]),
        }
        for probe, quantity in self._probes():
            found |= self._dependency(bank, state, probe, quantity, report)
        return {**found, **(self._structural(bank, state, report) if self.structural_epochs else {})}

    @property
    def _seeds(self) -> range:
        return range(self.seed, self.seed + self.seeds)

    def _probes(self) -> Iterator[tuple[str, str]]:
        """Names with the quantity that each looks at; the untrained copy's is raw."""
        yield from ((probe, quantity) for quantity in self.quantities for probe in ("attention", "attention+vectors"))
        yield from [("untrained+vectors", "raw")] * self.random
        yield "distances+vectors", ""

    def _dependency(self, bank: Treebank, state: State, probe: str, quantity: str, report: Report) -> Stats:
        kind = PROBES[probe.replace(UNTRAINED, "attention")]
        maps = _maps(state, UNTRAINED if probe.startswith(UNTRAINED) else quantity) if "maps" in kind.uses else ()
        vectors = state.documents("vectors") if "vectors" in kind.uses else None
        features = Features.of(bank.training, maps, vectors)
        built = kind(features.heads, features.dimension)
        scores: dict[str, list[Sums]] = {}
        weights: list[Tensor] = []
        for seed in self._seeds:
            learned = trained(
                built, features.of_sentences(bank.training), [parsed.candidates(seed) for parsed in bank.training],
                Training(self.epochs, self.rate, self.batch, seed),
                _teller(report, f"{probe} {quantity}", seed, "nats a word"),
            )  # fmt: skip
            parsed = predicted(built, learned, features.of_sentences(bank.testing))
            for decoder, sums in bank.uas(parsed, seed).items():
                scores.setdefault(decoder, []).append(sums)
            if probe == "attention":
                weights.append(torch.stack([learned[way][0] for way in DIRECTIONS]))
        found: Stats = {f"uas/{probe}/{quantity}/{decoder}": _stacked(sums) for decoder, sums in scores.items()}
        if weights:
            total = torch.stack(weights).double().sum(0)
            found[f"weights/{quantity}"] = Sums(total, torch.full_like(total, len(weights)))
        return found

    def _structural(self, bank: Treebank, state: State, report: Report) -> Stats:
        hidden = state.documents("hidden")
        training, testing = ([hidden[parsed.number] for parsed in part] for part in (bank.training, bank.testing))
        scale = Scale.of(training)
        scores = []
        for seed in self._seeds:
            trees = [torch.stack([_tree(heads) for heads in parsed.both(seed)]) for parsed in bank.training]
            how = StructuralTraining(self.structural_rank, self.structural_epochs, seed=seed)
            maps = fitted(Scaled(training, scale), trees, how, _teller(report, "structural", seed, "arcs a pair"))
            scores.append(bank.uuas(distances(maps, Scaled(testing, scale)), seed))
        return {"uuas/structural": _stacked(scores)}

    def table(self, state: State, setting: Setting) -> pl.DataFrame:
        """One row a fact, `what` it is: uas or uuas, weight, sentences.

        Scores are in %, mean over seeds with the range over seeds, beside the mean of the control, the selectivity, the
        paper's number (for another model and treebank) and the words or arcs counted. Weights are those of the
        attention probe in units of each head's typical (root mean square) map, `decoder` naming the direction.
        """
        _, heads, _ = setting.stacks["self"]
        rows = [*_uas_rows(state), *_uuas_rows(state), *_weight_rows(state, heads), *_size_rows(state)]
        return pl.DataFrame([{**dict.fromkeys(SCHEMA), **row} for row in rows], schema=SCHEMA)

    def answers(self, table: pl.DataFrame, setting: Setting) -> Iterator[Answer]:  # noqa: ARG002 - n is the table's own
        scores = finite(table, "value").filter((pl.col("what") == "uas") & (pl.col("decoder") == "argmax"))
        learned = scores.filter((pl.col("probe") == "attention") & (pl.col("quantity") == "raw"))
        branching = scores.filter(pl.col("probe") == "right-branching")
        if len(learned) and len(branching):
            row, plain = learned.row(0, named=True), branching["value"][0]
            yield Answer(
                DOING,
                f"Read together, the raw weights of all heads find the syntactic head of {row['value']:.0f}\u00a0% of "
                f"{row['count']:,} words ({number(row['low'], '.0f')} to {number(row['high'], '.0f')} over seeds); the "
                f"next word is it in {number(plain, '.0f')}\u00a0%, and heads drawn by word type are found for "
                f"{number(row['control'], '.0f')}\u00a0%.",
            )

    def figures(self, state: State, setting: Setting) -> Mapping[str, Any]:
        """table3, weights and structural."""
        table = self.table(state, setting)
        charts = {"table3": table3_figure(table, setting.model), "weights": weights_figure(table, setting.model)}
        return {**charts, **({"structural": structural_figure(table, setting.model)} if self.structural_epochs else {})}


# --- what is kept of a batch ---


def parses(reading: Reading) -> tuple[Sentence, ...]:
    """The parse of every text of a batch."""
    if not reading.notes or not all(isinstance(note, Sentence) for note in reading.notes):
        raise InputError(
            "Study probe needs parsed sentences, but this corpus has texts without a parse; give a CoNLL-U file "
            "(--corpus FILE.conllu)."
        )
    return reading.notes


def word_maps(layer: Layer, quantity: str, reading: Reading) -> Pieces | None:
    """Every sentence's map as float16 rows [from × to, head]; None while blocks of rows are still to come."""
    maps = word_map(layer, quantity, _frames(reading, layer.alpha.dtype))
    if maps is None:
        return None
    sizes = [FRAME + len(parse) for parse in parses(reading)]
    sentences = zip(reading.documents.tolist(), maps.permute(0, 2, 3, 1), sizes, strict=True)
    return Pieces.of({number: rows[:size, :size].flatten(0, 1).half() for number, rows, size in sentences})


def _frames(reading: Reading, dtype: torch.dtype) -> Words:
    key = f"{__name__}.frames.{dtype}"
    if key not in reading.memo:
        reading.memo[key] = frame(reading.batch.texts, parses(reading), dtype=dtype)
    return reading.memo[key]


def _untrained_maps(model: Model, reading: Reading) -> Stats:
    state: Stats = {}

    def see(layer: Layer) -> None:
        pieces = word_maps(layer, "raw", reading)
        if pieces is not None:
            state[at(UNTRAINED, layer)] = pieces

    with torch.inference_mode():
        model.run(reading.batch, see)
    return state


# --- what the probes learn from, and what they come to ---


def _maps(state: State, name: str) -> tuple[ByNumber, ...]:
    """Word-level maps, layer by layer, of each sentence."""
    layers = state.by_layer(Pieces, name, "self")
    return tuple(dict(zip(pieces.numbers, pieces.tensors, strict=True)) for pieces in layers)


def _tree(heads: Int[Tensor, " word"]) -> Float[Tensor, "word other"]:
    return torch.from_numpy(tree_distances(heads.numpy())).float()


def _stacked(sums: Sequence[Sums]) -> Sums:
    return Sums(torch.stack([each.total for each in sums]), torch.stack([each.weight for each in sums]))


def _teller(report: Report, name: str, seed: int, unit: str) -> Callable[[int, float], None]:
    return lambda epoch, loss: report(f"{name.strip()}, seed {seed}, epoch {epoch + 1}: loss {loss:.3f} {unit}")


# --- table ---


def _scores(of_seeds: Float[Tensor, "seed task"]) -> Row:
    """Mean and range over seeds, control and selectivity, in %."""
    task, control = (100 * of_seeds).unbind(-1)
    value, beside = float(task.mean()), float(control.mean())
    return {"value": value, "low": float(task.min()), "high": float(task.max()), "control": beside,
            "selectivity": selectivity(value, beside)}  # fmt: skip


def _uas_rows(state: State) -> Iterator[Row]:
    for name, sums in state.after(Sums, "uas/"):
        probe, quantity, decoder = name.split("/")
        yield {"what": "uas", "probe": probe, "quantity": quantity or None, "decoder": decoder,
               **_scores(sums.mean), "paper": PAPER[probe], "count": int(sums.weight[0, 0])}  # fmt: skip


def _uuas_rows(state: State) -> Iterator[Row]:
    for name, sums in state.after(Sums, "uuas/"):
        for layer, mean in enumerate(sums.mean.unbind(-1)):
            yield {"what": "uuas", "probe": name, "decoder": "tree", "layer": layer, **_scores(mean),
                   "paper": PAPER[name], "count": int(sums.weight[0, 0, layer])}  # fmt: skip


def _weight_rows(state: State, heads: int) -> Iterator[Row]:
    for quantity, sums in state.after(Sums, "weights/"):
        for direction, weights in zip(DIRECTIONS, sums.mean.tolist(), strict=True):
            for place, weight in enumerate(weights):
                layer, head = divmod(place, heads)
                yield {"what": "weight", "probe": "attention", "quantity": quantity, "decoder": direction,
                       "layer": layer, "head": head, "name": f"L{layer}.H{head}", "value": weight}  # fmt: skip


def _size_rows(state: State) -> Iterator[Row]:
    for name, count in zip(("train", "test"), state.sums("sentences").total.tolist(), strict=True):
        yield {"what": "sentences", "name": name, "value": count, "count": int(count)}
