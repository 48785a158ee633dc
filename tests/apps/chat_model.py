"""Writes small chat models for tests: random weights, a SentencePiece vocabulary, special tokens, a chat template."""

import sys

import numpy as np

from support import ROOT

sys.path[:0] = [str(ROOT / "tests" / "apps" / "files"), str(ROOT / "tests" / "data" / "chat")]

import published_templates  # noqa: E402
import sound  # noqa: E402

MARKS = ["<|im_start|>", "<|im_end|>"]
WORDS = ["he", "ll", "▁he", "▁w", "or", "ld", "us", "er", "user", "sy", "st", "em", "is", "as", "the", "an", "▁t", "qu"]
# Every letter is a token, as in real SentencePiece vocabularies; sound.PIECES already contains "a" and "b".
LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1) if chr(c) not in "ab"]
PIECES = [*sound.PIECES, *((mark, 0.0, 3) for mark in MARKS),
          *((text, -5.0 - i, 1) for i, text in enumerate(WORDS + LETTERS))]
SHAPE = sound.Shape(dim=32, hidden=48, layers=2, heads=4, kv_heads=2, vocab=len(PIECES), context=512, tied=False)


def write_chat_model(path, template=published_templates.SMOLLM2, context=SHAPE.context, layers=SHAPE.layers,
                     pieces=PIECES, ahead=False):
    """Writes a model whose greedy output never ends and consists of words, since the logits of byte and special tokens
    are always 0, below the largest. `ahead` adds an MTP module, which predicts the token after the next."""
    shape = sound.dataclasses.replace(SHAPE, context=context, layers=layers + ahead, vocab=len(pieces))
    arrays = {name: array / np.sqrt(shape.dim) if array.ndim == 2 and "embd" not in name else array
              for name, array in sound.weights(shape).items()}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    if ahead:
        module = f"blk.{layers}.nextn"
        arrays |= {f"{module}.{norm}.weight": np.ones(shape.dim, np.float32)
                   for norm in ("enorm", "hnorm", "shared_head_norm")}
        arrays[f"{module}.eh_proj.weight"] = np.eye(shape.dim, 2 * shape.dim, dtype=np.float32)
    arrays["output.weight"][[kind != 1 for _, _, kind in pieces]] = 0
    model = sound.Gguf(shape, arrays, sound.sentencepiece_metadata(pieces))
    if ahead:
        model.key("llama.nextn_predict_layers", sound.U32, 1)
    model.key("tokenizer.ggml.add_bos_token", sound.BOOL, False)
    model.key("tokenizer.ggml.add_space_prefix", sound.BOOL, False)
    if template is not None:
        model.key("tokenizer.chat_template", sound.STRING, template)
    path.write_bytes(model.pack())
    return path
