"""The API of NVIDIA FasterTransformer's decoder models on Folio's engine, with dicts of NumPy arrays as tensors.

    import numpy as np
    from folio.faster_transformer import Llama

    llama = Llama("model.gguf")
    inputs = {"input_ids": [[5, 3, 9], [7, 0, 0]], "input_lengths": [3, 1], "output_seq_len": 20}
    outputs = llama.forward(llama.outputs(inputs, beam_width=4, names=["cum_log_probs"]), inputs)
    print(outputs["output_ids"], outputs["sequence_length"])

docs/faster_transformer.md lists the tensors and the differences from the original.
"""

from __future__ import annotations

import os
from typing import Any, Iterable, Mapping, Union

import numpy as np

from . import _engine
from .checks import MAX_BEAMS, as_json, cache, gpu, path_text, whole

__all__ = ["Llama"]

_INT = ("int32",)
# Types that each input tensor may have. Arrays of other types, numbers and lists are converted to the first of these
# types that represents all values exactly; float32 may round.
_TYPES: dict[str, tuple[str, ...]] = {
    "input_ids": _INT, "input_lengths": _INT, "output_seq_len": ("uint32", "int32"), "runtime_top_k": ("uint32", "int32"),
    "runtime_top_p": ("float32",), "temperature": ("float32",), "repetition_penalty": ("float32",),
    "len_penalty": ("float32",), "random_seed": ("uint64", "uint32", "int32"), "stop_words_list": _INT,
    "bad_words_list": _INT, "start_id": _INT, "end_id": _INT, "session_len": ("uint32", "int32"), "continue_gen": ("bool",),
}
_OUTPUTS = {"output_ids": "int32", "sequence_length": "int32", "cum_log_probs": "float32", "output_log_probs": "float32"}


class Llama:
    """A model with FasterTransformer's API.

    path                          a GGUF, a Hugging Face directory, a llama2.c file, or the directory of a run
    tokenizer                     a tokenizer file, if the model does not include one
    threads                       number of CPU threads; None: all cores
    device                        "cpu", "cuda" or "cuda:N"
    cache_type                    type of the KV cache: "f32", "f16" or "q8_0"; None: f16; f32 for F32 models
    start_id, end_id              defaults of the tensors with these names; None: the tokenizer's BOS and end tokens
    is_free_buffer_after_forward  free the engine and its KV cache after each forward()

    The weights stay mapped for the lifetime of this object; the caller owns all arrays. allocateBuffer(), or forward()
    if necessary, creates the engine and its KV cache; freeBuffer() frees them. Concurrent calls are serialized.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        *,
        tokenizer: Union[str, os.PathLike[str], None] = None,
        threads: int | None = None,
        device: str = "cpu",
        cache_type: str | None = None,
        start_id: int | None = None,
        end_id: int | None = None,
        is_free_buffer_after_forward: bool = False,
    ) -> None:
        options: dict[str, Any] = {"is_free_buffer_after_forward": bool(is_free_buffer_after_forward), **gpu(device)}
        if threads is not None:
            options["threads"] = whole("threads", threads)
        for name, value in (("start_id", start_id), ("end_id", end_id)):
            if value is not None:
                options[name] = whole(name, value, 0 if name == "start_id" else -1, 2**31 - 1)
        options |= cache(cache_type)
        self._llama = _engine.FasterTransformerLlama(
            path_text("path", path), "" if tokenizer is None else path_text("tokenizer", tokenizer),
            as_json(options))

    def initialize(self) -> None:
        """Starts the threads, or opens the GPU. Other calls do so if necessary."""
        self._llama.initialize()

    def allocateBuffer(self, batch_size: int, beam_width: int, max_seq_len: int, max_input_len: int) -> None:
        """Creates the engine with a KV cache for batch_size * beam_width sequences of max_seq_len tokens, with
        prompts of up to max_input_len tokens. Keeps the current engine if it is large enough."""
        sizes = {"batch_size": batch_size, "beam_width": beam_width, "max_seq_len": max_seq_len,
                 "max_input_len": max_input_len}
        self._llama.allocate_buffer(*(whole(name, size, 1, 2**31 - 1) for name, size in sizes.items()))

    def freeBuffer(self) -> None:
        """Frees the engine, its KV cache and the session."""
        self._llama.free_buffer()

    @property
    def has_buffer(self) -> bool:
        return self._llama.has_buffer()

    def forward(self, output_tensors: Mapping[str, np.ndarray], input_tensors: Mapping[str, Any],
                weights: Llama | None = None) -> dict[str, np.ndarray]:
        """Generates tokens, writes the results to output_tensors, and returns these as a dict.

        Inputs may be arrays, numbers or lists. Outputs must be C-contiguous, writable arrays of the right type, such as
        those from outputs(). `weights` must be this object or None. If a tensor is invalid, raises folio.Error and
        writes nothing.
        """
        if weights is not None and weights is not self:
            raise ValueError("weights have to be this object's own: leave them out")
        inputs = {name: _tensor(name, value) for name, value in input_tensors.items()}
        outputs = dict(output_tensors)
        for name, array in outputs.items():
            if not isinstance(array, np.ndarray):
                raise TypeError(f"{name} has to be an array that is written, not {type(array).__name__}")
            if not (array.flags.c_contiguous and array.flags.writeable):
                raise ValueError(f"{name} has to lie in rows and to be writable")
        self._llama.forward(outputs, inputs)
        return outputs

    def outputs(self, input_tensors: Mapping[str, Any], beam_width: int = 1, names: Iterable[str] = ()) \
            -> dict[str, np.ndarray]:
        """Returns arrays for forward(): output_ids, sequence_length and those in `names`, shaped for these inputs.

        With continue_gen, the caller must allocate output_log_probs, since its last dimension depends on the session.
        """
        needed = ("input_ids", "input_lengths", "output_seq_len")
        for name in needed:
            if name not in input_tensors:
                raise _engine.Error(f"input tensor {name} is missing")
        ids, lengths, most = (_tensor(name, input_tensors[name]) for name in needed)
        _require_shape("input_ids", ids, ids.ndim == 2 and len(ids) > 0, "[batch_size, max_input_length]")
        _require_shape("input_lengths", lengths, lengths.shape == (len(ids),), f"[{len(ids)}]")
        _require_shape("output_seq_len", most, most.shape in ((), (1,), lengths.shape), f"[1] or [{len(ids)}]")
        most = np.broadcast_to(most.astype(np.int64), lengths.shape)
        whole("output_seq_len", int(most.max(initial=1)), 1, self.context_length)
        shape = (len(ids), whole("beam_width", beam_width, 1, MAX_BEAMS))
        shapes: dict[str, tuple[int, ...]] = {"output_ids": (*shape, int(most.max())), "sequence_length": shape,
                                              "cum_log_probs": shape}
        if not np.any(input_tensors.get("continue_gen", False)):
            shapes["output_log_probs"] = (*shape, int((most - lengths).max(initial=0)))
        wanted = ["output_ids", "sequence_length", *names]
        for name in wanted:
            if name not in shapes:
                raise ValueError(f"there is no output tensor {name!r} to make; there are {', '.join(shapes)}")
        return {name: np.zeros(shapes[name], _OUTPUTS[name]) for name in wanted}

    def statistics(self) -> dict[str, int]:
        """Returns the engine's counters by name: "steps", "rows", "tokens" (generated), "cached_tokens" and others."""
        return self._llama.statistics()

    @property
    def vocab_size(self) -> int:
        return self._llama.vocab_size

    @property
    def context_length(self) -> int:
        return self._llama.context_length

    @property
    def end_tokens(self) -> list[int]:
        """The tokens that end a sequence if no end_id is given."""
        return self._llama.end_tokens


def _require_shape(name: str, array: np.ndarray, fits: bool, expected: str) -> None:
    if not fits:
        raise _engine.Error(f"{name} has shape {list(array.shape)}, expected {expected}")


def _tensor(name: str, value: Any) -> np.ndarray:
    """Converts `value` to a C-contiguous array of a type that the tensor `name` may have."""
    types = _TYPES.get(name)
    if types is None:  # unknown name: the engine raises the error
        return np.zeros(0, np.int32)
    try:
        array = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} has rows of unequal lengths; pad them") from None
    if str(array.dtype) in types:
        return array
    kinds = {"bool": "b", "float32": "fiu"}.get(types[0], "iu")
    if array.size and array.dtype.kind not in kinds:
        raise TypeError(f"{name} is of the type {array.dtype}, but has to be {' or '.join(types)}")
    with np.errstate(over="ignore"):
        for kind in types:
            converted = array.astype(kind)
            if kinds == "fiu" or np.array_equal(converted, array):
                return converted
    raise ValueError(f"{name} has a value that is no {' or '.join(types)}")
