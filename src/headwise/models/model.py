"""A loaded model: reads texts, runs them, and hands every attention layer to whoever asked."""

# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# Unknown: what torch, polars and transformers leave so.

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypedDict, Unpack, overload

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headwise.changes import Change
from headwise.errors import InputError, ModelError, ProofError
from headwise.models import editing
from headwise.models.capture import ROWS, Recorder, Site, Visitor, evaluating, quiet, recording
from headwise.models.inputs import Asked, Messages, read
from headwise.models.probe import (
    accepts,
    checking,
    first_output,
    hidden_states,
    last_logits,
    position_limit,
    reads_source_twice,
    token_table,
    without_cache,
)
from headwise.models.proof import OUTPUT_TOLERANCE, Proof, output_error
from headwise.models.senses import batched, sense_of
from headwise.text.tokens import encode
from headwise.traces import WAYS, Keeper, LongTrace, Top, Trace, top_of
from headwise.types import Batch, Encoding

MAP_BYTES = 4 * 2**30  # the most that the stored maps of one trace may take


class Asking(TypedDict, total=False):
    """What `Model.trace` may be asked for beside texts and `keep`."""

    ids: Sequence[int] | None
    messages: Messages | None
    image: Any
    audio: Any
    generate: int
    add_special_tokens: bool
    truncate: bool
    layers: Sequence[int] | None
    change: Change | Sequence[Change]


@dataclass(frozen=True)
class Model:
    """A Hugging Face model with its tokenizer, every attention call of which is known and proved.

    `stacks` names its kinds of attention: ("self",), or ("encoder", "decoder", "cross").
    """

    name: str
    hf: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    proof: Proof
    revision: str | None = None
    extractor: Any = None  # of a model of sound: the checkpoint's feature extractor
    reading: Mapping[str, Any] = field(default_factory=dict)  # of a model of pictures: its preprocessor_config.json
    source: Mapping[str, Any] | None = None  # what `hw.load` was called with; None for a model of the user's own

    def __repr__(self) -> str:
        sizes = ", ".join(f"{stack} {self.layers(stack)} × {self.heads(stack)}" for stack in self.stacks)
        bare = "".join(
            f", no attention in {stack} block{'s' * (len(blocks) > 1)} {', '.join(map(str, blocks))}"
            for stack, blocks in self.proof.bare.items()
        )
        bare += f", not seen: {', '.join(self.proof.unseen)}" if self.proof.unseen else ""
        return f"<headwise.Model {self.name}: {sizes} heads{bare}, proof error {self.proof.projection_error:.0e}>"

    @cached_property
    def stacks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(site.stack for site in self.proof.sites))

    def layers(self, stack: str | None = None) -> int:
        return len(self.sites(stack))

    def heads(self, stack: str | None = None) -> int:
        return self.sites(stack)[0].circuit.stored.shape[0]

    def head_size(self, stack: str | None = None) -> int:
        return self.sites(stack)[0].circuit.stored.shape[1]

    def sites(self, stack: str | None = None) -> tuple[Site, ...]:
        """The attention calls of one stack (the first one where none is named)."""
        stack = stack or self.stacks[0]
        if stack not in self.stacks:
            raise InputError(f"There is no stack {stack!r} in {self.name}; there are {', '.join(self.stacks)}.")
        return tuple(site for site in self.proof.sites if site.stack == stack)

    @cached_property
    def sense(self) -> str:
        """What it reads: "text", "image" or "audio"."""
        return sense_of(self.hf)

    @property
    def is_encoder_decoder(self) -> bool:
        return bool(getattr(self.hf.config, "is_encoder_decoder", False))

    @cached_property
    def limit(self) -> int | None:
        """The most tokens the model can read; None where its positions know no limit."""
        return position_limit(self.hf)

    @property
    def causal(self) -> bool:
        """Whether tokens of the first stack see only those before them."""
        return self.sites()[0].causal

    def encode(
        self, text: str, pair: str | None = None, *, truncate: bool = False, limit: int | None = None
    ) -> Encoding:
        """The tokens of a text or a pair; for an encoder–decoder the source alone. `limit` below the model's own."""
        limits = [most for most in (limit, self.limit) if most is not None]
        return encode(self.tokenizer, text, pair, limit=min(limits, default=None), truncate=truncate)

    def encode_target(self, text: str, *, truncate: bool = False) -> Encoding:
        """The tokens that the decoder reads for a target text: its own start token, then all but the last."""
        return self._shifted(encode(self.tokenizer, text, limit=self.limit, truncate=truncate, as_target=True))

    def _shifted(self, target: Encoding) -> Encoding:
        """The decoder's start token, then all tokens but the last."""
        # subtle: a configuration need not have them; a saved T5 has no bos_token_id.
        roles = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
        known = (getattr(self.hf.config, role, None) for role in roles)
        start = next((number for number in known if isinstance(number, int)), 0)
        if target.ids[0] == start:  # Whisper's tokenizer writes it itself
            return cut(target, len(target) - 1)
        token = str(self.tokenizer.convert_ids_to_tokens(start))
        shift = max(target.unit[:-1], default=-1) + 1
        return Encoding(
            tokens=(token, *target.tokens[:-1]), ids=(start, *target.ids[:-1]), special=(True, *target.special[:-1]),
            segment=(0, *target.segment[:-1]), offsets=((0, 0), *target.offsets[:-1]),
            unit=(0, *(u + 1 for u in target.unit[:-1])), words=(token, *target.words[:shift]),
        )  # fmt: skip

    def batch(self, texts: Sequence[Encoding], targets: Sequence[Encoding] = ()) -> Batch:
        """Pad the texts on the right, whatever side the tokenizer prefers; positions are the same either way.

        The decoder of a classifier (bart-large-mnli) reads the source again, and so has it as its target.
        """
        if reads_source_twice(self.hf) and not targets:
            targets = [self._shifted(text) for text in texts]
        inputs = batched(texts) if texts[0].given else self._token_inputs(texts, targets)
        if targets:
            pad = self._pad_id((*texts, *targets))
            inputs["decoder_input_ids"] = self._padded([t.ids for t in targets], pad)
            inputs["decoder_attention_mask"] = self._padded([[1] * len(t) for t in targets], 0)
        return Batch(tuple(texts), tuple(targets), inputs)

    def _token_inputs(self, texts: Sequence[Encoding], targets: Sequence[Encoding]) -> dict[str, Tensor]:
        self._check_ids(texts)
        if not self.proof.padding and len({len(text) for text in texts}) > 1:
            raise InputError(
                f"Texts of a batch must be of one length for {self.name}, as padding changes what it computes, but "
                "these are not; read them one by one."
            )
        inputs = {"input_ids": self._padded([t.ids for t in texts], self._pad_id((*texts, *targets)))}
        inputs["attention_mask"] = self._padded([[1] * len(t) for t in texts], 0)
        if "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = self._padded([t.segment for t in texts], 0)
        return inputs

    def _check_ids(self, texts: Sequence[Encoding]) -> None:
        """Refuse a tokenizer that knows tokens which the model has no vector for."""
        rows = getattr(token_table(self.hf), "num_embeddings", None)
        worst, token = max(
            (pair for text in texts for pair in zip(text.ids, text.tokens, strict=True)), default=(0, "")
        )
        if rows is not None and worst >= rows:
            raise ModelError(
                f"The ids of a tokenizer must be below {rows}, the vectors that {self.name} has, but {token!r} is "
                f"{worst}; load the model with the tokenizer that it was trained with."
            )

    def _pad_id(self, texts: Sequence[Encoding]) -> int:
        """The model's own padding id, which its head looks for; else one that stands in none of the texts."""
        for owner in (self.hf.config, self.tokenizer):
            pad = getattr(owner, "pad_token_id", None)
            if isinstance(pad, int) and pad >= 0:
                return pad
        used = {number for text in texts for number in text.ids}
        return next(number for number in range(len(used) + 1) if number not in used)

    def _padded(self, rows: Sequence[Sequence[int]], fill: int) -> Tensor:
        width = max(len(row) for row in rows)
        return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], device=self.hf.device)

    def run(
        self,
        batch: Batch,
        visit: Visitor,
        *,
        wanted: Callable[[Site], bool] = lambda _: True,
        rows: int = ROWS,
        **options: Any,
    ) -> Any:
        """One forward pass over `batch`; `visit` gets every wanted layer as it is computed, in order.

        A text of more than `rows` tokens comes in blocks of that many query rows, each a `Layer` of its own with
        `first_row` set; nothing n × n is ever held. Returns the model's own output.
        """
        masks = {"source": batch.mask}
        if batch.targets:
            masks["target"] = batch.target_mask
        sdpa = self.proof.sdpa and bool(self.hf._supports_sdpa)  # pyright: ignore[reportPrivateUsage] - nothing public says it
        recorder = Recorder(self.proof.sites, masks, visit, wanted, sdpa, rows if self.proof.blocks else 0)
        with recording(self.hf, recorder):
            return self.forward(batch, **options)

    def forward(self, batch: Batch, **options: Any) -> Any:
        """One forward pass over `batch` in eval mode, watched by nobody; the model's own output."""
        if "cross" in self.stacks and not batch.targets:
            raise InputError(
                f"An encoder–decoder reads a source and a target, but the batch for {self.name} has no targets; give "
                "them as model.batch([model.encode(source)], [model.encode_target(target)])."
            )
        options = {**without_cache(self.hf), **options}
        inputs = {name: tensor for name, tensor in batch.inputs.items() if accepts(self.hf, name)}
        with evaluating(self.hf), _padding(self.hf.config, batch):
            return self.hf(**inputs, **options)

    def changed(self, *changes: Change) -> AbstractContextManager[None]:
        """`with model.changed(zero("L3.H4")): …`: heads, edges or blocks changed (headwise.changes), then as before."""
        return editing.changed(self, changes)

    def exactly(self, *changes: Change) -> AbstractContextManager[None]:
        """As `changed`, but under no others: those of a block around it wait."""
        return editing.exactly(self, changes)

    @property
    def reads_source_twice(self) -> bool:
        """An encoder–decoder as a classifier: its decoder reads the source again."""
        return reads_source_twice(self.hf)

    @overload
    def trace(
        self, text: str | None = ..., pair: str | None = ..., *, keep: Literal["all"] = ..., **asked: Unpack[Asking]
    ) -> Trace: ...
    @overload
    def trace(
        self, text: str | None = ..., pair: str | None = ..., *, keep: Literal["top"] | Top, **asked: Unpack[Asking]
    ) -> LongTrace: ...
    def trace(
        self,
        text: str | None = None,
        pair: str | None = None,
        *,
        ids: Sequence[int] | None = None,
        messages: Messages | None = None,
        image: Any = None,
        audio: Any = None,
        generate: int = 0,
        add_special_tokens: bool = True,
        truncate: bool = False,
        layers: Sequence[int] | None = None,
        keep: str | Top = "all",
        change: Change | Sequence[Change] = (),
    ) -> Any:
        """Everything about one text (or a pair of texts; for an encoder–decoder, source and target): a `Trace`.

        In place of a text: `ids`, or a chat as `messages`, which its template writes; of a model of pictures `image`,
        of one of sound `audio` (models/pictures.py and sounds.py say what may be given); of one that reads both, a
        text with `image` (models/both.py). `generate` lets the model write that many tokens first; `trace.answer` is
        where its answer (or the assistant's last turn) begins. `layers` keeps only those layers. `keep="top"` is for
        texts whose maps would not fit in memory: a `LongTrace` has the 16 strongest entries of every row and sums over
        blocks (`keep=hw.Top(k=…, quantities=…)`). `change`: what is changed in the model (headwise.changes), beside
        what `with model.changed(…)` changes around it.
        """
        changes = tuple(change) if isinstance(change, Sequence) else (change,)
        asked = Asked(text, pair, ids, messages, image, audio, add_special_tokens, generate, truncate)
        with self.changed(*changes):
            if keep != "all":
                return self._long_trace(asked, top_of(keep, layers, editing.in_force(self)))
            return self._trace(asked, layers)

    def says(self, text: str, pair: str | None = None, *, truncate: bool = False) -> Any:
        """What the model itself answers: `.says` in a line, `.choices` with how sure; None where it answers nothing."""
        return WAYS["says"](self, text, pair, truncate=truncate)

    def explain(self, text: str, pair: str | None = None, **options: Any) -> Any:
        """What a number of the model rests on, and whether to believe it: see `headwise.explanations.explain`."""
        return WAYS["explain"](self, text, pair, **options)

    def traces(
        self,
        texts: Sequence[str],
        pairs: Sequence[str | None] | None = None,
        *,
        truncate: bool = False,
        layers: Sequence[int] | None = None,
    ) -> list[Trace]:
        """`trace` of several texts."""
        pairs = pairs or [None] * len(texts)
        if len(pairs) != len(texts):
            raise InputError(f"There must be one pair a text, but there are {len(texts)} texts and {len(pairs)} pairs.")
        asked = [Asked(text, pair, truncate=truncate) for text, pair in zip(texts, pairs, strict=True)]
        return [self._trace(one, layers) for one in asked]

    def _read(self, asked: Asked) -> tuple[Encoding, list[Encoding], int | None]:
        source, answer = read(self, asked)
        targets = [] if not self.is_encoder_decoder or self.reads_source_twice else [self._target(source, asked)]
        return source, targets, answer

    def _long_trace(self, asked: Asked, top: Top) -> LongTrace:
        source, targets, answer = self._read(asked)
        batch = self.batch([source], targets)
        target = batch.targets[0] if batch.targets else None
        lengths = {stack: side_lengths(stack, len(source), len(target or ())) for stack in self.stacks}
        keeper = Keeper(top, {name: (self.layers(name), self.heads(name), *size) for name, size in lengths.items()})
        few = last_logits(self.hf)  # those of all tokens would be larger than everything that is kept
        with torch.no_grad(), quiet(), checking(self.hf, "reading this text"):
            error = self.watched_error(batch, self.run(batch, keeper, rows=keeper.rows, **few), **few)
        return LongTrace(
            self.name, source, target, keeper.maps, keeper.facts(), revision=self.revision, answer=answer, model=self,
            proof_error=self.proof.projection_error, output_error=error,
        )  # fmt: skip

    def _trace(self, asked: Asked, layers: Sequence[int] | None) -> Trace:
        source, targets, answer = self._read(asked)
        self._check_layers(layers)
        self._check_memory(len(source), len(targets[0]) if targets else 0, layers)
        batch, found = self.batch([source], targets), []
        with torch.no_grad(), quiet(), checking(self.hf, "reading this text"):
            output = self.run(
                batch, found.append, rows=0, output_hidden_states=True,
                wanted=lambda site: layers is None or site.index in layers,
            )  # fmt: skip
            error = self.watched_error(batch, output)
        changes = editing.in_force(self)
        return Trace(
            model_name=self.name,
            text=source,
            target=batch.targets[0] if batch.targets else None,
            layers=editing.sending(self, found, changes),
            change=changes,
            hidden={stack: states[:, 0] for stack, states in self.hidden_states(output).items()},
            revision=self.revision,
            proof_error=self.proof.projection_error,
            output_error=error,
            answer=answer,
            model=self,
        )

    def hidden_states(self, output: Any) -> dict[str, Float[Tensor, "layer batch token d_model"]]:
        """`hidden_states`, one row a layer: where some blocks have no attention, what each that has one reads."""
        states = hidden_states(output)
        for stack, bare in self.proof.bare.items():
            blocks = [site.block for site in self.sites(stack)]
            if stack in states and len(states[stack]) == len(blocks) + len(bare) + 1:
                states[stack] = states[stack][[*blocks, len(states[stack]) - 1]]
        return states

    def watched_error(self, batch: Batch, watched: Any, **options: Any) -> float:
        """How far the pass that was watched is from one that was not, relative to the largest number of the output."""
        got = first_output(watched)
        error = output_error(self.hf, got, lambda: first_output(self.forward(batch, **options)))
        if not error <= OUTPUT_TOLERANCE[got.dtype]:
            raise ProofError(
                f"A trace must show what {self.name} computes by itself, to {OUTPUT_TOLERANCE[got.dtype]:g}, but its "
                f"output on this text differs by {error:.1e} when it is watched; try a shorter text."
            )
        return error

    def _target(self, source: Encoding, asked: Asked) -> Encoding:
        if asked.pair is not None:
            return self.encode_target(asked.pair, truncate=asked.truncate)
        if not self.hf.can_generate():
            task = "translation" if self.sense == "text" else "transcription"
            raise InputError(
                f"{self.name} reads a source and a target, but only one text was given; pass the target as the pair, "
                f"or load the model with task={task!r} to have it written."
            )
        inputs: dict[str, Any] = dict(self.batch([source]).inputs)
        inputs.pop("token_type_ids", None)
        with torch.no_grad(), quiet(), evaluating(self.hf):
            ids = self.hf.generate(  # type: ignore[operator] - a mixin that pyright takes for a tensor
                **inputs, max_new_tokens=min(128, self.limit or 128), num_beams=1, do_sample=False
            )
        written = str(self.tokenizer.decode(ids[0], skip_special_tokens=True))
        if not written.strip():
            raise InputError(f"{self.name} wrote nothing; pass the target as the pair.")
        return self.encode_target(written, truncate=asked.truncate)

    def _check_layers(self, layers: Sequence[int] | None) -> None:
        if layers is not None and not layers:
            raise InputError("At least one layer must be kept, but layers=[] was given; leave it out to keep all.")
        for layer in layers or ():
            if not 0 <= layer < self.layers():
                raise InputError(f"Layers of {self.name} go from 0 to {self.layers() - 1}, but {layer} was asked for.")

    def _check_memory(self, tokens: int, target: int, layers: Sequence[int] | None) -> None:
        kept = [site for site in self.proof.sites if layers is None or site.index in layers]
        need = map_bytes(kept, tokens, target)
        if need > MAP_BYTES:
            raise InputError(
                f"The maps of a trace may take {MAP_BYTES / 2**30:.0f} GiB, but {tokens} tokens × {len(kept)} layers "
                f'would take {need / 2**30:.1f}; pass keep="top" for the strongest entries of every row, or layers=[…].'
            )


def map_bytes(sites: Sequence[Site], tokens: int, target: int) -> int:
    """What a trace takes: the weights of every stack are kept, and a quantity that is looked at takes as much again."""
    pairs = {site.stack: math.prod(side_lengths(site.stack, tokens, target)) for site in sites}
    return sum(2 * 4 * site.circuit.stored.shape[0] * pairs[site.stack] for site in sites)


def side_lengths(stack: str, tokens: int, target: int) -> tuple[int, int]:
    """How many queries and keys a stack has."""
    return {"decoder": (target, target), "cross": (target, tokens)}.get(stack, (tokens, tokens))


def cut(text: Encoding, length: int) -> Encoding:
    """The first `length` tokens."""
    axes = ("tokens", "ids", "special", "segment", "offsets", "unit", "places")
    shorter = {name: getattr(text, name)[:length] for name in axes}
    return replace(text, **shorter, words=text.words[: max(shorter["unit"], default=-1) + 1])


@contextmanager
def _padding(config: Any, batch: Batch) -> Generator[None, None, None]:
    """For the pass the config has the batch's padding id: without one GPT-2 and Llama classifiers refuse batches."""
    ids, mask = batch.inputs.get("input_ids"), batch.mask
    if ids is None or bool(mask.all()) or getattr(config, "pad_token_id", None) is not None:
        yield
        return
    config.pad_token_id = int(ids[~mask][0])
    try:
        yield
    finally:
        config.pad_token_id = None
