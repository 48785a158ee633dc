"""A model for use by several threads and asyncio tasks. Its engine batches their requests on a separate thread."""

from __future__ import annotations

import asyncio
import atexit
import difflib
import json
import math
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, Mapping, Sequence, Union, overload

import numpy as np

from . import _engine
from .checks import (DRAFT_SOURCES, MAX_BEAMS, as_json, cache, gpu, index, length_of, number_of, path_text, scale, seconds,
                     text, token_id, token_ids, whole)
from .explanation import Explanation
from .options import FORMS, renamed, server_body

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Options

Ids = Sequence[int]
Prompt = Union[str, Ids]
Message = Mapping[str, str]

class Model:
    """Loads a model: a GGUF, a Hugging Face directory, a llama2.c file, or the directory of a run.

    threads          number of CPU threads; None: all cores
    device           "cpu", "cuda" or "cuda:N"
    context          maximum number of positions of a sequence; None: the model's context length
    cache_type       type of the KV cache: "f32", "f16" or "q8_0"; None: f16; f32 for F32 models
    cache_tokens     positions in the KV cache; None: max_sequences contexts, but at most max(16384, 4 * context)
    max_sequences    maximum number of running sequences; others wait
    max_batch_tokens maximum number of tokens per step of the engine
    draft            source of drafts: "ngram", "model", "mtp" (the MTP module) or "auto" (mtp, else model or ngram)
    draft_model      a smaller model with the same vocabulary, for speculative decoding
    speculate        draft tokens per step; does not change outputs; None: 4 with draft or draft_model, else 0
    adapter          a LoRA adapter (peft directory or GGUF), scaled by adapter_scale
    tokenizer        a tokenizer file, if the model does not include one
    chat_template    name of a template, or a Jinja file; None: the model's own
    generation_config "auto" (sampling defaults and end tokens from the model), "none", or a directory with that file
    name             the model's name in server responses; None: derived from the path
    fast             BF16 arithmetic for 16-bit weights on CPUs; on GPUs the output may depend on the batch

    Generation accepts the server's options (docs/server.md), with the same names and checks. Defaults are those of
    build/generate and build/chat: the sampling values of generation_config, else temperature 0.8 and top_p 0.95; a
    random seed; and max_tokens 256, or in chat() as many as fit in the context. Unknown options and wrong types raise
    TypeError, values out of range ValueError, and all other failures folio.Error.

    Structured outputs (docs/forms.md) are specified by json_schema (a dict, JSON text, or a pydantic class; with
    free_whitespace=True the model chooses the whitespace), regex, grammar (GBNF) or choice (a list of strings). An
    output matches unless max_tokens, the context or a stop string ends it early; then it is a prefix of a match.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        *,
        threads: int | None = None,
        device: str = "cpu",
        context: int | None = None,
        cache_type: str | None = None,
        cache_tokens: int | None = None,
        max_sequences: int = 16,
        max_batch_tokens: int = 256,
        draft: str = "auto",
        draft_model: Union[str, os.PathLike[str], None] = None,
        speculate: int | None = None,
        adapter: Union[str, os.PathLike[str], None] = None,
        adapter_scale: float = 1.0,
        tokenizer: Union[str, os.PathLike[str], None] = None,
        chat_template: str | None = None,
        generation_config: Union[str, os.PathLike[str]] = "auto",
        name: str | None = None,
        fast: bool = False,
    ) -> None:
        if speculate is None:
            speculate = 0 if draft_model is None and draft == "auto" else 4
        numbers = {"threads": threads, "context": context, "cache_tokens": cache_tokens, "speculate": speculate,
                   "max_sequences": max_sequences, "max_batch_tokens": max_batch_tokens}
        files = {"draft_model": draft_model, "adapter": adapter, "tokenizer": tokenizer,
                 "generation_config": generation_config}
        options: dict[str, Any] = {key: whole(key, value) for key, value in numbers.items() if value is not None}
        options |= {key: path_text(key, value) for key, value in files.items() if value is not None}
        options |= {key: text(key, value) for key, value in (("chat_template", chat_template), ("name", name))
                    if value is not None}
        options |= {"fast": bool(fast), "adapter_scale": scale(adapter_scale), **gpu(device)}
        options |= {**cache(cache_type), "draft": number_of("draft", draft, DRAFT_SOURCES)}
        if options["speculate"] == 0 and (draft_model is not None or draft != "auto"):
            raise ValueError("speculate is 0, but draft and draft_model need at least 1; raise it or remove them")
        if adapter is None and options["adapter_scale"] != 1:
            raise ValueError(f"adapter_scale is {adapter_scale}, but there is no adapter to scale; pass one")
        self._model = _engine.open(path_text("path", path), as_json(options))
        self._service: Any = None  # set by folio.service.Service
        self._creating_service = threading.Lock()
        self.tokenizer = Tokenizer(self._model)
        """The model's Tokenizer, which converts text to token IDs and back."""
        self.config: dict[str, Any] = _engine.config(self._model)
        """The model's configuration: vocab_size, dim, n_layers, …"""
        self.about: dict[str, Any] = json.loads(_engine.about(self._model))
        """A dict of name, path, context, chat (has a chat template), threads, vocab_size, tokenizer, bos and eos."""
        _open.add(weakref.ref(self, _open.discard))

    def close(self) -> None:
        """Aborts all requests and frees the memory. A second call does nothing."""
        self._model.close()

    @property
    def closed(self) -> bool:
        return self._model.closed

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"Model({self.about['path']!r}, {self.config['parameters']:,} parameters{state})"

    @overload
    def generate(self, prompt: str | None = None, **options: Unpack[Options]) -> str: ...
    @overload
    def generate(self, prompt: list[str] | tuple[str, ...], **options: Unpack[Options]) -> list[str]: ...
    def generate(self, prompt=None, **options):
        """Returns the completion, without the prompt, as a string. The prompt is a string or token IDs.

        A list of prompts runs as one batch and returns a list. With n > 1, returns a list for each prompt.
        """
        return _shaped(self._submit(False, _prompted(prompt, options), pieces=False), _is_batch(prompt), options)

    async def agenerate(self, prompt=None, **options):
        """Generates like generate(), without blocking the event loop."""
        stream = self._submit(False, _prompted(prompt, options), pieces=False, notifier=_events().notifier)
        async for _ in self._news(stream):
            pass
        return _shaped(stream, _is_batch(prompt), options)

    def stream(self, prompt: Prompt | None = None, *, timeout: float | None = None,
               **options: Unpack[Options]) -> Iterator[str]:
        """Yields the completion in pieces of whole characters as it is generated. Leaving the loop aborts the request.

        Text that arrives within two milliseconds is one piece. Several completions (a list of prompts, or n > 1) are
        yielded as pairs (index, piece).

        Generation continues while the caller does not wait for a piece. Waiting longer than `timeout` seconds
        aborts the request and raises TimeoutError.
        """
        longest = math.inf if timeout is None else seconds(timeout)
        stream = self._submit(False, _prompted(prompt, options), pieces=True)
        return _pieces(stream, _is_several(prompt, options), longest)

    def astream(self, prompt: Prompt | None = None, **options: Unpack[Options]) -> AsyncIterator[str]:
        """Streams like stream(), as an asynchronous iterator."""
        return self._apieces(False, _prompted(prompt, options))

    def chat(self, messages: Sequence[Message] | str, *, stream: bool = False, **options: Unpack[Options]):
        """Returns the assistant's answer to messages {"role": "user", "content": "…"}, or to a string by the user.

        With stream=True, returns an iterator of pieces, as stream() does. By default max_tokens is as many as fit in
        the context. Base models have no chat template: use generate().
        """
        body = {**options, "messages": _messages(messages)}
        submitted = self._submit(True, body, pieces=bool(stream))
        return _pieces(submitted, _is_several(None, body)) if stream else _shaped(submitted, False, body)

    def achat(self, messages: Sequence[Message] | str, **options: Unpack[Options]) -> AsyncIterator[str]:
        """Streams like chat(stream=True), as an asynchronous iterator."""
        return self._apieces(True, {**options, "messages": _messages(messages)})

    def beam(self, prompt: Prompt, width: int, n: int | None = None, **options: Any) -> list[Any]:
        """Returns (output, score) of the n (default: width) best beams; score = ln p / n_tokens ** length_penalty.

        A list of prompts returns a list for each prompt. Accepts max_tokens, stop, length_penalty, early_stopping, and
        the options of structured outputs.
        """
        width = whole("width", width, 1, MAX_BEAMS)
        n = width if n is None else whole("n", n, 1, width)
        body = _prompted(prompt, dict(use_beam_search=True, best_of=width, n=n, **options))
        beams = [(text, score) for text, _, _, score in self._submit(False, body, pieces=False).results()]
        each = [beams[i:i + n] for i in range(0, len(beams), n)]
        return each if _is_batch(prompt) else each[0]

    def complete(self, prompt: Prompt | None = None, *, messages: Sequence[Message] | str | None = None,
                 **options: Any) -> dict[str, Any]:
        """Returns the server's response to a prompt or messages, as a dict in the format of OpenAI's API.

        Defaults are the server's: temperature 1, and 16 tokens for a prompt.
        """
        from .service import complete

        if options.get("stream"):
            raise TypeError("complete() returns a whole response; use stream(), chat(…, stream=True) or Service.request()")
        if messages is not None:
            if prompt is not None:
                raise TypeError("the prompt is given twice")
            return complete(self, True, {**options, "messages": _messages(messages)})
        return complete(self, False, _prompted(prompt, options))

    # Functions that return intermediate values. `ids` are the tokens of one sequence, starting at position 0.

    def score(self, text: Prompt, *, parse_special: bool = True) -> np.ndarray:
        """Returns ln p of each token except the first, given the preceding ones: (tokens - 1), float64, in nats."""
        if isinstance(text, str):
            ids = self.tokenizer.encode(text, prefix=True, parse_special=parse_special)
        else:
            ids = token_ids(text)
        return np.asarray(_engine.score(self._model, ids), dtype=np.float64)

    def logits(self, ids: Ids) -> np.ndarray:
        """Returns logits (ids, vocab_size), float32. Row i predicts the token after ids[: i + 1]."""
        return _engine.logits(self._model, token_ids(ids))

    def trace(self, ids: Ids) -> dict[str, np.ndarray]:
        """Returns the forward pass's intermediate values by name, each (ids, width), float32. Names are "embedding",
        "layers.0.attention_norm", "layers.0.query", …, "norm" and "logits"; see infer/forward/forward.h."""
        return _engine.trace(self._model, token_ids(ids))

    def attention(self, ids: Ids, layer: int) -> np.ndarray:
        """Returns the attention weights of a layer: (heads, ids, ids), float32. Row i has the weights of position i.

        With attention sinks, a row sums to less than 1.
        """
        n_layers = self.config["n_layers"]
        if not 0 <= index("layer", layer) < n_layers:
            raise ValueError(f"layer is {layer}, but has to be in [0, {n_layers - 1}]")
        return _engine.attention(self._model, token_ids(ids), index("layer", layer))

    def explain(self, prompt: Prompt, *, token: int | str | None = None, ablate: str | Sequence[str] | None = None,
                mean: str | Sequence[str] | None = None, mean_over: Prompt | None = None,
                patch: str | Sequence[str] | None = None, from_: Prompt | None = None) -> Explanation:
        """Explains the next token of each position of a prompt of at most 256 tokens.

        `token`, an ID or its text, is the token whose logit is attributed; None: each position's likeliest token.

        `ablate`, `mean` and `patch` list activations, such as "3.5" (head 5 of layer 3; see docs/explain.md). `ablate`
        replaces activations by zero, `mean` by their mean over the positions of the prompt or of `mean_over`, and
        `patch` by those of the prompt `from_`, aligned at the last token.
        """
        ablate, mean, patch = ([given] if isinstance(given, str) else given for given in (ablate, mean, patch))
        body = {"prompt": prompt, "token": token, "ablate": ablate, "mean": mean, "mean_over": mean_over, "patch": patch,
                "from": from_}
        return Explanation(*_checked(_engine.explain, self._model, as_json(body), names={"from": "from_"}))

    @property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the model's weights, by their names in GGUF. A matrix is (out, in)."""
        return _engine.tensors(self._model)

    def tensor(self, name: str) -> np.ndarray:
        """Returns the tensor with this GGUF name, converted exactly to float32. Raises folio.Error if there is none."""
        return _engine.tensor(self._model, name)

    @property
    def statistics(self) -> dict[str, Any]:
        """The engine's counters and load by name, such as "steps", "tokens" and "running" (sequences)."""
        return _engine.statistics(self._model)

    def _submit(self, chat: bool, body: dict[str, Any], pieces: bool, notifier: Any = None) -> Any:
        for name in ("stream", "stream_options", "logprobs", "top_logprobs", "echo", "model", "user", "tools",
                     "tool_choice", "parallel_tool_calls"):
            if name in body:
                raise TypeError(f"{name!r} is an option of the server's alone")
        sent, names = server_body(body)
        return _checked(_engine.submit, self._model, chat, sent, pieces, notifier, names=names)

    async def _news(self, stream: Any) -> AsyncIterator[Any]:
        events = _events()
        try:
            while True:
                news = stream.poll()
                for piece in news:
                    yield piece
                if stream.ended:
                    return
                if not news:  # else poll again: newer ones may have come while the caller used these
                    await events.wait()
        finally:
            stream.cancel()

    async def _apieces(self, chat: bool, body: dict[str, Any]) -> AsyncIterator[Any]:
        stream = self._submit(chat, body, pieces=True, notifier=_events().notifier)
        several = _is_several(body.get("prompt"), body)
        async for choice, text, _, _ in self._news(stream):
            if text:
                yield (choice, text) if several else text
        stream.results()


class Tokenizer:
    """Converts text to token IDs and back."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def encode(self, text: str, *, prefix: bool = False, parse_special: bool = True) -> list[int]:
        """Returns the token IDs of a text. prefix=True prepends the tokens that the model expects first, such as BOS.

        Special tokens in the text, such as "<|im_end|>", are parsed; with parse_special=False they are plain text.
        """
        return _engine.encode(self._model, text, bool(prefix), bool(parse_special))

    def decode(self, ids: Ids) -> str:
        """Returns the text of tokens. Invalid UTF-8 becomes U+FFFD."""
        return _checked(_engine.decode, self._model, as_json(ids, "tokens")) if length_of(ids) else ""

    def token_bytes(self, token: int) -> bytes:
        """Returns the bytes of a token, which may be part of a character; empty for special tokens."""
        return _engine.token_bytes(self._model, token_id(token))

    def apply_chat_template(self, messages: Sequence[Message]) -> list[int]:
        """Returns the tokens of a conversation, ending with the header of the assistant's next answer."""
        return _checked(_engine.encode_chat, self._model, as_json(_messages(messages), "messages"))


class _Events:
    """Wakes the tasks of an event loop that wait for results. All models of a loop share one file descriptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.notifier = _engine.Notifier()
        self._waiting: set[asyncio.Future[None]] = set()
        # The callback does not capture `self`, so that the loop and this object do not keep each other alive.
        waiting, notifier = self._waiting, self.notifier

        def wake() -> None:
            notifier.clear()
            for future in tuple(waiting):
                if not future.done():
                    future.set_result(None)
            waiting.clear()

        loop.add_reader(self.notifier.fileno(), wake)

    async def wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)


_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Events] = weakref.WeakKeyDictionary()


def _events() -> _Events:
    """Returns the _Events of the running loop."""
    loop = asyncio.get_running_loop()
    if loop not in _loops:
        _loops[loop] = _Events(loop)
    return _loops[loop]


def _pieces(stream: Any, several: bool, timeout: float = math.inf) -> Iterator[Any]:
    try:
        while not stream.ended:
            news = stream.wait(timeout)
            if not news and not stream.ended:
                raise TimeoutError(f"nothing came within the timeout of {timeout} s")
            for choice, text, _, _ in news:
                if text:
                    yield (choice, text) if several else text
        stream.results()  # raises if the model was closed meanwhile
    finally:
        stream.cancel()


def _is_batch(prompt: Any) -> bool:
    if isinstance(prompt, (str, type(None))):
        return False
    is_sequence = hasattr(prompt, "__len__") and hasattr(prompt, "__getitem__") and getattr(prompt, "ndim", 1) > 0
    if not is_sequence or isinstance(prompt, (bytes, bytearray, Mapping)):
        raise TypeError(f"a prompt is a text, token ids, or a list of these, not {type(prompt).__name__}")
    if length_of(prompt) == 0:
        return False
    return not hasattr(prompt[0], "__index__") or getattr(prompt[0], "ndim", 0) > 0  # arrays have __index__, too


def _is_several(prompt: Any, options: Mapping[str, Any]) -> bool:
    """Returns True if a request, whose options were checked, has several completions."""
    return _is_batch(prompt) or (options.get("n") or 1) > 1


def _prompted(prompt: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    if "prompt" in options or "messages" in options:
        raise TypeError("the prompt is given twice")
    _is_batch(prompt)  # raises TypeError unless the prompt is None, a string or a sequence
    return {**options, "prompt": prompt}


def _shaped(stream: Any, batch: bool, options: Mapping[str, Any]) -> Any:
    texts = [text for text, *_ in stream.results()]
    if (n := options.get("n") or 1) > 1:
        each = [texts[i:i + n] for i in range(0, len(texts), n)]
        return each if batch else each[0]
    return texts if batch else texts[0]


def _messages(messages: Any) -> Any:
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages


def _exception(refusal: Any, names: Mapping[str, str]) -> Exception:
    """Converts an error of the server to a Python exception. `names` is the dict that server_body() returns."""
    message, field, code = refusal.args
    message = renamed(message, names)
    if code == "no_chat_template":
        message = f"{message.split(', like')[0]}: use generate(), or Model(…, chat_template=…)"
    if code == "unknown_parameter" and "did you mean" not in message:  # suggest a Python name
        message += "".join(f" (did you mean {near}?)" for near in difflib.get_close_matches(field, FORMS, 1))
    if code in ("unknown_parameter", "invalid_type"):
        return TypeError(message)
    if field in (None, "prompt", "messages", "model") or code is not None:
        return _engine.Error(message)
    return ValueError(message)


def _checked(function: Any, *arguments: Any, names: Mapping[str, str] = {}) -> Any:
    """Returns function(*arguments). Converts an error of the server, and its option names by `names`."""
    try:
        return function(*arguments)
    except _engine.Refusal as refusal:
        raise _exception(refusal, names) from None


_open: set[weakref.ref[Model]] = set()  # not a WeakSet: no thread may add to one while another copies it


def _close_all() -> None:
    for reference in list(_open):
        if model := reference():
            model.close()
    _engine.wait_for_threads()


# Threads that wait for results must return before the interpreter ends.
atexit.register(_close_all)
