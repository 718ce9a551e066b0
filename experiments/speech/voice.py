"""Sentences spoken by espeak-ng whose words' seconds are known: by its own marks, or word by word."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LOUD = 0.01  # of 1: what counts as sound
GAP = 0.06  # seconds of silence between words that are spoken one by one
SYNCHRONOUS, UTF8, RATE, END, WORD = 2, 1, 1, 0, 1  # of speak_lib.h


class Spoken(NamedTuple):
    samples: Float[np.ndarray, " sample"]
    rate: int
    words: tuple[tuple[str, float, float], ...]  # and its seconds


class Event(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("unique", ctypes.c_uint), ("text_position", ctypes.c_int),
                ("length", ctypes.c_int), ("audio_position", ctypes.c_int), ("sample", ctypes.c_int),
                ("user", ctypes.c_void_p), ("id", ctypes.c_char * 8))  # fmt: skip


HEARD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(Event))


def said(text: str, voice: str) -> tuple[Float[np.ndarray, " sample"], int, list[float]]:
    """The samples, their rate, and the second at which each word begins."""
    library = ctypes.CDLL("libespeak-ng.so.1")
    rate = library.espeak_Initialize(SYNCHRONOUS, 0, None, 0)
    parts: list[np.ndarray] = []
    begins: list[float] = []

    def hear(wave: ctypes._Pointer, count: int, events: ctypes._Pointer) -> int:
        if count > 0 and wave:
            parts.append(np.ctypeslib.as_array(wave, (count,)).copy())
        at = 0
        while events[at].type != END:
            if events[at].type == WORD:
                begins.append(events[at].audio_position / 1000)
            at += 1
        return 0

    kept = HEARD(hear)  # subtle: held here, or it would be gone before it is called
    library.espeak_SetSynthCallback(kept)
    library.espeak_SetVoiceByName(voice.encode())
    library.espeak_SetParameter(RATE, 150, 0)
    coded = text.encode()
    library.espeak_Synth(coded, ctypes.c_size_t(len(coded) + 1), 0, 0, 0, UTF8, None, None)
    samples = np.concatenate(parts).astype(np.float32) / 2**15
    if not (np.abs(samples) > LOUD).any():
        raise ValueError(f"A voice must be heard, but {voice} says {text!r} without a sound; choose another.")
    return samples, rate, begins


def in_one(sentence: str, voice: str) -> Spoken | None:
    """The sentence as it is spoken; a word ends where the next begins. None where espeak joined words to one mark."""
    samples, rate, begins = said(sentence, voice)
    words = sentence.split()
    if len(begins) != len(words):
        return None
    loud = np.flatnonzero(np.abs(samples) > LOUD)
    ends = [*begins[1:], (loud[-1] + 1) / rate]
    return Spoken(samples, rate, tuple(zip(words, begins, ends, strict=True)))


def one_by_one(sentence: str, voice: str) -> Spoken:
    """A word at a time, each cut to where it sounds."""
    words, at, rate = [], 0.2, 22050
    parts = [np.zeros(int(at * rate), np.float32)]
    for word in sentence.split():
        samples, rate, _ = said(word, voice)
        loud = np.flatnonzero(np.abs(samples) > LOUD)
        samples = samples[loud[0] : loud[-1] + 1]
        words.append((word, at, at + len(samples) / rate))
        parts += [samples, np.zeros(int(GAP * rate), np.float32)]
        at += len(samples) / rate + int(GAP * rate) / rate
    return Spoken(np.concatenate(parts), rate, tuple(words))
