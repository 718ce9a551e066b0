"""From a text and what the user wants explained to a `Question`: one function a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers.models.auto import modeling_auto as auto

from headwise.errors import InputError, ModelError, TooLongError
from headwise.explanations.question import Question
from headwise.explanations.targets import OUTPUTS, Target
from headwise.interventions.spans import answers_questions
from headwise.models.capture import quiet
from headwise.models.model import Model
from headwise.models.tasks import check_chooses, labels_apart
from headwise.text.tokens import encode
from headwise.types import Encoding

DEFAULT_OF = "log-odds"  # of one token or label against all the others; a logit alone has no zero to compare with
ANSWER = 32  # tokens that a model may write where it is asked for an answer
TASKS = {
    "classification": auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    "token-classification": auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    "masked-lm": auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "causal-lm": auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "translation": auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
}


@dataclass(frozen=True)
class Wish:
    """What the user wants explained.

    `target`: a label (its name or number), a word, a continuation, a target sentence; None for what the model itself
    says. `rather`: explain the target rather than this one. `at`: which word a token classifier or a masked model is
    asked about (its number, or the word). `generate`: explain an answer of up to so many tokens that the model writes.
    """

    target: str | int | None = None
    rather: str | int | None = None
    of: str | None = None
    at: str | int | None = None
    generate: int | None = None
    chat: bool = (
        False  # the target answers the text as a turn of a chat, as an answer that the model writes always does
    )

    def __post_init__(self):
        if self.of is not None and self.of not in OUTPUTS:
            raise InputError(f"What is explained is one of {', '.join(OUTPUTS)}, but {self.of!r} was asked for.")
        if self.generate is not None and self.generate < 1:
            raise InputError(f"An answer must have at least one token, but generate={self.generate} was asked for.")
        if self.generate is not None and self.target is not None:
            raise InputError("Explain either a target that you give or an answer that the model writes, not both.")


def task_of(model: Model) -> str:
    """Which of TASKS a model does, or an error that says what to load."""
    names = {base.__name__ for base in type(model.hf).__mro__}
    found = [task for task, classes in TASKS.items() if names & set(classes.values())]
    if model.is_encoder_decoder:
        found = [task for task in found if task == "translation"]
    if not found and answers_questions(model):
        raise ModelError(
            f"An explanation needs one number to explain, but {model.name} points at the start and the end of an "
            "answer, which is not explained here; `headwise view QUESTION TEXT` shows its answer and its attention."
        )
    if not found:
        raise ModelError(
            f"An explanation needs a model that predicts, but {model.name} ({type(model.hf).__name__}) has no head "
            f"that is known; load it with its task, which is one of {', '.join(TASKS)} (--task; in serve "
            "--model NAME=TASK; in Python task= of hw.load)."
        )
    if model.hf.dtype not in (torch.float32, torch.float64):
        raise ModelError(
            f"Explanations need float32 or float64, but {model.name} is in "
            f"{str(model.hf.dtype).removeprefix('torch.')}; load it with dtype='float32'."
        )
    return found[0]


def ask(
    model: Model, text: str, pair: str | None = None, *, wish: Wish | None = None, truncate: bool = False
) -> Question:
    """The question for one text (or a pair; for an encoder–decoder, source and target sentence)."""
    task, wish = task_of(model), wish or Wish()
    if wish.rather is not None and wish.rather == wish.target:
        raise InputError(f"A contrast is between two things, but both are {wish.target!r}; choose another --rather.")
    if wish.generate is not None and task not in ("causal-lm", "translation"):
        raise InputError(f"Only a model that writes can be asked for an answer, but {model.name} is for {task}.")
    if task == "classification":
        found = replace(_label(model, model.encode(text, pair, truncate=truncate), wish), texts=(text, pair))
    elif task == "token-classification":
        found = replace(_token_label(model, model.encode(text, pair, truncate=truncate), wish), texts=(text, pair))
    elif task == "masked-lm":
        found = _masked(model, text, pair, wish, truncate)
    elif task == "causal-lm":
        found = _continued(model, text, wish, truncate)
    else:
        found = _translated(model, text, pair, wish, truncate)
    if not any(found.given):
        raise InputError("A text must have tokens of its own to explain by, but this one is special tokens only.")
    return found


def ask_read(model: Model, text: Encoding, target: Encoding | None = None) -> Question:
    """What the model itself says to a text that has been read: its label, the next token, the token under a mask in the
    middle of the text, the target that its decoder reads."""
    task = task_of(model)
    given = _given(text)
    if task == "classification":
        return _label(model, text, Wish())
    if task == "causal-lm":
        asked = Question(model, text, None, given, (len(text) - 1,), ())
        return _with_tokens(asked, "next-token", _predicted(asked), Wish())
    if task == "translation" and target is not None:
        rows = tuple(at for at in range(len(target) - 1) if not target.special[at + 1])
        asked = Question(model, text, target, given, rows, ())
        return _with_tokens(asked, "translation", [target.ids[at + 1] for at in rows], Wish())
    if task == "masked-lm" and model.tokenizer.mask_token_id is not None and any(given):
        own = [at for at, user in enumerate(given) if user]
        gap = own[len(own) // 2]
        ids = tuple(model.tokenizer.mask_token_id if at == gap else i for at, i in enumerate(text.ids))
        kept = tuple(user and at != gap for at, user in enumerate(given))
        asked = Question(model, replace(text, ids=ids), None, kept, (gap,), ())
        return _with_tokens(asked, "masked-token", [text.ids[gap]], Wish())
    raise ModelError(f"{model.name} is for {task}, and says nothing to a text by itself; explain it word by word.")


# Labels.


def _label(model: Model, text: Encoding, wish: Wish) -> Question:
    if not labels_apart(model.hf):
        check_chooses(model.name, model.hf, len(labels_of(model)))
    asked = Question(model, text, None, _given(text), (), ())
    return replace(asked, targets=(_choose_label(asked, "label", wish),))


def _token_label(model: Model, text: Encoding, wish: Wish) -> Question:
    word = _word_at(text, wish.at)
    row = text.unit.index(word)  # the word's first token speaks for it
    asked = Question(model, text, None, _given(text), (row,), ())
    target = _choose_label(asked, "token-label", wish)
    return replace(asked, targets=(replace(target, name=f"{target.name} at {text.words[word]}"),))


def _choose_label(asked: Question, kind: str, wish: Wish) -> Target:
    model = asked.model
    chosen = _predicted(asked)[0] if wish.target is None else _label_number(model, wish.target)
    names = labels_of(model)
    apart = kind == "label" and labels_apart(model.hf)
    of = wish.of or DEFAULT_OF
    of = "logit" if apart and of == "log-odds" else of
    target = Target(kind, of, names[chosen], (0,), (chosen,), apart=apart)
    if wish.rather is None:
        return target
    rather = _label_number(model, wish.rather)
    return replace(target, rather=(rather,), rather_name=names[rather])


def labels_of(model: Model) -> dict[int, str]:
    """The names of its classes, by number."""
    named: Any = model.hf.config.id2label
    return {int(number): str(name) for number, name in named.items()}


def _label_number(model: Model, label: str | int) -> int:
    names = labels_of(model)
    if isinstance(label, int) or str(label).isdigit():
        if int(label) in names:
            return int(label)
    else:
        for number, name in names.items():
            if name.lower() == label.lower():
                return number
    raise InputError(f"Labels of {model.name} are {', '.join(names.values())}, but {label!r} was asked for.")


def _word_at(text: Encoding, at: str | int | None) -> int:
    """The unit that is meant, by number or by its text."""
    own = [
        u for u in range(len(text.words)) if not all(s for s, v in zip(text.special, text.unit, strict=True) if v == u)
    ]
    if at is None:
        raise InputError("A token classifier labels every word; say which one is meant with at=WORD (--at).")
    if isinstance(at, int) or at.isdigit():
        if int(at) < len(own):
            return own[int(at)]
        raise InputError(f"Words of this text go from 0 to {len(own) - 1}, but at={at} was asked for.")
    named = [u for u in own if text.words[u].lower() == at.lower()]
    if not named:
        raise InputError(f"The word that is asked about must be in the text, but {at!r} is not; give its number.")
    return named[0]


# Tokens.


def _masked(model: Model, text: str, pair: str | None, wish: Wish, truncate: bool) -> Question:
    mask = str(model.tokenizer.mask_token)
    if model.tokenizer.mask_token_id is None:
        raise ModelError(f"A masked token needs a mask token, but the tokenizer of {model.name} has none.")
    ids = None if wish.target is None else _token_ids(model, wish.target, spaced=False)
    if mask not in text + (pair or ""):
        raise InputError(f"A masked model fills a gap, but the text has no {mask}; put one where the word is missing.")
    if ids is not None and len(ids) > 1:
        # As many masks as the word has tokens, in the place of the first one.
        if mask in text:
            text = text.replace(mask, mask * len(ids), 1)
        else:
            pair = str(pair).replace(mask, mask * len(ids), 1)
    encoding = model.encode(text, pair, truncate=truncate)
    gaps = [at for at, token in enumerate(encoding.ids) if token == model.tokenizer.mask_token_id]
    if not gaps:
        raise InputError(f"A masked model fills a gap, but {mask} was cut away; shorten the text.")
    rows = tuple(gaps[: 1 if ids is None else len(ids)])
    asked = Question(model, encoding, None, _given(encoding), rows, (), texts=(text, pair))
    return _with_tokens(asked, "masked-token", ids or _predicted(asked), wish)


def _continued(model: Model, text: str, wish: Wish, truncate: bool) -> Question:
    prompt, given, read = _prompt(model, text, wish, truncate)
    if wish.generate is not None:
        kind, ids = "answer", _written(model, prompt, wish.generate)
    elif wish.target is None:
        kind, ids = "next-token", None
    else:
        ids = _token_ids(model, wish.target, spaced=not (wish.chat or text[-1:].isspace()))
        kind = "next-token" if len(ids) == 1 else "continuation"
    whole = _appended(model, prompt, (ids or [])[:-1])
    rows = tuple(range(len(prompt) - 1, len(whole)))
    given = (*given, *[False] * (len(whole) - len(prompt)))
    asked = Question(model, whole, None, given, rows, (), texts=(read, None))
    return _with_tokens(asked, kind, ids or _predicted(asked), wish)


def _prompt(model: Model, text: str, wish: Wish, truncate: bool) -> tuple[Encoding, tuple[bool, ...], str]:
    """The tokens of a prompt, which of them are the user's, and what was read.

    Asked for an answer, a chat model gets its template.
    """
    if not (wish.chat or wish.generate is not None) or not model.tokenizer.chat_template:
        prompt = model.encode(text, truncate=truncate)
        return prompt, _given(prompt), text
    turn = [{"role": "user", "content": text}]
    whole = str(model.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False))
    start = whole.rfind(text.strip())
    prompt = _bare(model, whole)
    stop = start + len(text.strip())
    inside = tuple(start <= a and b <= stop and a < b for a, b in prompt.offsets)
    return prompt, inside, whole


def _bare(model: Model, text: str) -> Encoding:
    """A text that has its special tokens written in it."""
    found = encode(model.tokenizer, text, limit=model.limit)
    bare = len(model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])  # type: ignore[arg-type]
    if bare == len(found):
        return found
    ids = list(model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])  # type: ignore[arg-type]
    start = next(at for at in range(len(found)) if list(found.ids[at : at + bare]) == ids)
    part = slice(start, start + bare)
    return replace(
        found, tokens=found.tokens[part], ids=found.ids[part], special=found.special[part],
        segment=found.segment[part], offsets=found.offsets[part],
        unit=tuple(u - found.unit[start] for u in found.unit[part]),
        words=found.words[found.unit[start] : found.unit[start + bare - 1] + 1],
    )  # fmt: skip


def _written(model: Model, prompt: Encoding, most: int) -> list[int]:
    """What the model answers, by greedy search, without its closing token."""
    if model.limit is not None and len(prompt) + most > model.limit:
        raise TooLongError(
            f"A text and its answer may have at most {model.limit} tokens for this model, but they may come to "
            f"{len(prompt) + most}; shorten the text, or ask for fewer tokens."
        )
    ids = torch.tensor([prompt.ids], device=model.hf.device)
    with torch.no_grad(), quiet():
        out = model.hf.generate(  # type: ignore[operator] - a mixin that pyright takes for a tensor
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=most, do_sample=False, num_beams=1,
            pad_token_id=model.tokenizer.pad_token_id or 0,
        )  # fmt: skip
    written = [int(i) for i in out[0, len(prompt) :] if int(i) not in model.tokenizer.all_special_ids]
    if not written:
        raise InputError(f"{model.name} wrote nothing; give the answer that is to be explained as the target.")
    return written


def _appended(model: Model, prompt: Encoding, ids: Sequence[int]) -> Encoding:
    """A prompt with the tokens of its answer that the model reads: words of their own."""
    if model.limit is not None and len(prompt) + len(ids) > model.limit:
        raise TooLongError(
            f"A text and its answer may have at most {model.limit} tokens for this model, but they have "
            f"{len(prompt) + len(ids)}; shorten one of them."
        )
    names = readable(model, ids)
    first = len(prompt.words)
    return Encoding(
        tokens=(*prompt.tokens, *names), ids=(*prompt.ids, *ids), special=(*prompt.special, *[False] * len(ids)),
        segment=(*prompt.segment, *[0] * len(ids)), offsets=(*prompt.offsets, *[(0, 0)] * len(ids)),
        unit=(*prompt.unit, *range(first, first + len(ids))), words=(*prompt.words, *(name.strip() for name in names)),
    )  # fmt: skip


def _translated(model: Model, text: str, pair: str | None, wish: Wish, truncate: bool) -> Question:
    sentence = str(wish.target) if wish.target is not None else pair
    source = model.encode(text, truncate=truncate)
    if sentence is None:
        sentence = _translation(model, source, wish.generate or ANSWER * 4)
    whole = encode(model.tokenizer, sentence, limit=model.limit, truncate=truncate, as_target=True)
    prefix = model.encode_target(sentence, truncate=truncate)
    rows = tuple(at for at, special in enumerate(whole.special) if not special)
    asked = Question(model, source, prefix, _given(source), rows, (), texts=(text, None))
    return _with_tokens(asked, "translation", [whole.ids[at] for at in rows], wish)


def _translation(model: Model, source: Encoding, most: int) -> str:
    ids = torch.tensor([source.ids], device=model.hf.device)
    with torch.no_grad(), quiet():
        out = model.hf.generate(  # type: ignore[operator] - a mixin that pyright takes for a tensor
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=min(most, model.limit or most),
            num_beams=1, do_sample=False,
        )  # fmt: skip
    written = str(model.tokenizer.decode(out[0], skip_special_tokens=True))
    if not written.strip():
        raise InputError(f"{model.name} wrote an empty translation; pass the target sentence as the pair.")
    return written


def _with_tokens(asked: Question, kind: str, ids: Sequence[int], wish: Wish) -> Question:
    """The targets of one token; of several the whole first, by its joint log-probability, then each of them."""
    names = readable(asked.model, ids)
    if len(ids) == 1:
        target = Target(kind, wish.of or DEFAULT_OF, names[0].strip() or names[0], (0,), (ids[0],))
        if wish.rather is not None:
            rather = _token_ids(asked.model, wish.rather, spaced=kind != "masked-token")
            if len(rather) > 1:
                raise InputError(
                    f"A contrast is between two single tokens, but {wish.rather!r} has {len(rather)}; choose another."
                )
            target = replace(target, rather=(rather[0],), rather_name=str(wish.rather))
        return replace(asked, targets=(target,))
    if wish.rather is not None:
        raise InputError(
            f"A contrast is between two single tokens, but the target has {len(ids)}; choose a single one."
        )
    whole = str(asked.model.tokenizer.decode(list(ids))).strip()
    of = "log-probability"
    parts = [Target(kind, of, name.strip() or name, (at,), (ids[at],)) for at, name in enumerate(names)]
    joint = Target(kind, of, whole, tuple(range(len(ids))), tuple(ids))
    note = f"{whole!r} becomes {len(ids)} tokens: their joint log-probability is explained."
    return replace(asked, targets=(joint, *parts), note=note if kind in ("continuation", "masked-token") else "")


def _token_ids(model: Model, word: str | int, *, spaced: bool) -> list[int]:
    """The tokens of a word or continuation; after a text that ends in no space, those of a word after a space."""
    if isinstance(word, int):
        if not 0 <= word < model.hf.config.vocab_size:
            raise InputError(f"Tokens go from 0 to {model.hf.config.vocab_size - 1}, but {word} was asked for.")
        return [word]
    if not word.strip():
        raise InputError("A target must have at least one visible character, but it is empty; give a word.")
    forms = [f" {word}", word] if spaced and word[0].isalnum() else [word]
    options: list[list[int]] = [list(_ids(model, form)) for form in forms]
    found = min(options, key=len)  # the first among equals
    unknown: Any = model.tokenizer.unk_token_id
    if not found or (unknown is not None and unknown in found):
        raise InputError(f"A target must be in the model's vocabulary, but {word!r} is not; choose another word.")
    return found


def _ids(model: Model, text: str) -> Any:
    return model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


def readable(model: Model, ids: Sequence[int]) -> list[str]:
    """Each token as text; one that is part of a character as the tokenizer writes it."""
    plain = [str(model.tokenizer.decode([i])) for i in ids]
    written = [str(t) for t in model.tokenizer.convert_ids_to_tokens(list(ids))]
    return [text if text and "�" not in text else token for text, token in zip(plain, written, strict=True)]


def _predicted(asked: Question) -> list[int]:
    """What the model itself says at each row."""
    with torch.no_grad(), asked.running():
        return [int(i) for i in asked.logits()[0].argmax(-1)]


def _given(text: Encoding) -> tuple[bool, ...]:
    return tuple(not special for special in text.special)
