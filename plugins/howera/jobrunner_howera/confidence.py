"""How sure the recogniser on this machine is of each word.

The library tells the words alone. The model that comes with it tells of each piece of a word how
likely it found it; so the sound of a line is decoded once more here, in the same greedy way, and
the likelihoods are kept. That costs a third of what hearing it costs.
"""

import re
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

import numpy as np

RATE = 16_000
BEGIN, END = 1, 2
HEADS, WIDTH = 8, 36
PIECES_PER_S = 6.5
SPACE = "▁".encode()
LEAST_S = 0.1
Sure = list[tuple[str, float]]


class Judge:
    """The model's two halves and its pieces of words, loaded once."""

    def __init__(self, folder: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self._folder = folder
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(f"{folder}/{name}.ort", options)
            for name in ("encoder_model", "decoder_model_merged")
        )
        inputs = (one.name for one in self._decoder.get_inputs())
        self._past = [name for name in inputs if name.startswith("past_key_values")]

    def of_words(self, text: str, samples: Any) -> list[float]:
        """For each word of a text that was heard, from 0 to 1; 0 where it is heard otherwise."""
        words = text.split()
        if len(samples) < LEAST_S * RATE:
            return [0.0] * len(words)
        return matched(words, self._words(np.asarray(samples, np.float32)))

    def _words(self, samples: "np.ndarray") -> Sure:
        """A word is as sure as the least sure of its pieces; signs beside letters say nothing."""
        words: Sure = []
        for piece, sure in self._decoded(samples):
            text = piece.removeprefix(SPACE).decode("utf-8", "replace")
            counts = sure if re.search(r"\w", text) else 1.0
            if piece.startswith(SPACE) or not words:
                words.append((text, counts))
            else:
                words[-1] = (words[-1][0] + text, min(words[-1][1], counts))
        return words

    def _decoded(self, samples: "np.ndarray") -> list[tuple[bytes, float]]:
        heard = samples[None]
        shape = np.ones_like(heard, dtype=np.int64)
        (hidden,) = self._encoder.run(None, {"input_values": heard, "attention_mask": shape})
        known = {name: np.zeros((1, HEADS, 0, WIDTH), np.float32) for name in self._past}
        given = {
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": shape,
        }
        last, pieces = BEGIN, []
        for number in range(int(len(samples) / RATE * PIECES_PER_S) + 8):
            step = {
                "input_ids": np.array([[last]], np.int64),
                "use_cache_branch": np.array([number > 0]),
            }
            logits, *told = self._decoder.run(None, {**given, **step, **known})
            fresh = zip(self._past, told, strict=True)
            known |= {
                name: value
                for name, value in fresh
                if number == 0 or ".decoder." in name  # what was heard is told once
            }
            last, sure = _likeliest(logits[0, -1])
            if last == END:
                break
            pieces.append((self._pieces[last], sure))
        return pieces

    @cached_property
    def _pieces(self) -> list[bytes]:
        """Each with its length before it, in one byte or, from 128 on, in two."""
        with open(f"{self._folder}/tokenizer.bin", "rb") as file:
            data = file.read()
        pieces, at = [], 0
        while at < len(data):
            length, at = data[at], at + 1
            if length >= 128:
                length, at = length - 128 + data[at] * 128, at + 1
            pieces.append(data[at : at + length])
            at += length
        return pieces


def matched(words: list[str], heard: Sure) -> list[float]:
    """The same words, in their order; a word that is not among what was heard gets 0."""
    plain = [_plain(word) for word in words]
    others = [_plain(word) for word, _ in heard]
    sure = [0.0] * len(words)
    for block in SequenceMatcher(None, plain, others, autojunk=False).get_matching_blocks():
        for step in range(block.size):
            sure[block.a + step] = heard[block.b + step][1]
    return sure


def _likeliest(logits: "np.ndarray") -> tuple[int, float]:
    best = int(logits.argmax())
    return best, float(1 / np.exp(logits - logits[best]).sum())


def _plain(word: str) -> str:
    return re.sub(r"[^\w']", "", word.lower())
