"""A model that Python's threads and tasks share. Its engine runs on a thread of its own and batches what they ask."""

from __future__ import annotations

import asyncio
import atexit
import difflib
import math
import os
import weakref
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, Mapping, Sequence, Union, overload

import numpy as np

from . import _engine
from .checks import CACHE_TYPES, gpu, index, path_text, scale, seconds, text, token_id, token_ids, whole
from .options import FORMS, as_json, renamed, server_options, with_names

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Options

Ids = Sequence[int]
Prompt = Union[str, Ids]
Message = Mapping[str, str]

class Model:
    """A model file, ready to answer: a GGUF, a Hugging Face directory, a llama2.c file, or the folder of a run.

    threads          of the CPU; None: all cores
    device           "cpu", "cuda" or "cuda:N"
    context          positions of one sequence; None: the model's
    cache_type       of keys and values: "f32", "f16" or "q8_0"; None: as the model's weights
    cache_tokens     positions of the cache; None: a context for each sequence, but at most 16,384, or four contexts
    max_sequences    sequences that run at once; more wait
    max_batch_tokens rows of a step
    draft_model      a smaller model of the same vocabulary, which guesses
    speculate        try so many guessed tokens at once; no text changes
    adapter          a low-rank adapter, peft's or a GGUF, times adapter_scale
    tokenizer        a file, where the model has none in it
    chat_template    a name or a file with a Jinja template; None: the model's own
    generation_config "auto": sampling defaults and end tokens of the model's generation_config.json or GGUF; "none"; or a
                     directory with a generation_config.json
    name             what it is called by a server; None: after its file

    Texts take the options of the server (docs/server.md), by the same names and with the same checks. The defaults are
    those of build/generate and build/chat: what generation_config says of sampling, else temperature 0.8 and top_p 0.95;
    a random seed, and max_tokens 256, or in chat() as many as fit in the context, as in the server's chat API. An unknown option or one of a wrong type is a TypeError,
    one out of its range a ValueError; all else is a folio.Error.

    A text may be held to a form (docs/forms.md), one of json_schema (a dict, JSON, or a class of pydantic's; with
    free_whitespace=True the model puts whitespace as it likes), regex, grammar (GBNF) and choice (a list of texts). It
    fits the form unless max_tokens, the context or a stop ends it; then it is the beginning of a text that does.
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
            speculate = 0 if draft_model is None else 4
        numbers = {"threads": threads, "context": context, "cache_tokens": cache_tokens, "speculate": speculate,
                   "max_sequences": max_sequences, "max_batch_tokens": max_batch_tokens}
        files = {"draft_model": draft_model, "adapter": adapter, "tokenizer": tokenizer,
                 "generation_config": generation_config}
        options: dict[str, Any] = {key: whole(key, value) for key, value in numbers.items() if value is not None}
        options |= {key: path_text(key, value) for key, value in files.items() if value is not None}
        options |= {key: text(key, value) for key, value in (("chat_template", chat_template), ("name", name))
                    if value is not None}
        options |= {"fast": bool(fast), "adapter_scale": scale(adapter_scale), **gpu(device)}
        if cache_type is not None:
            if cache_type not in CACHE_TYPES:
                raise ValueError(f"cache_type is {cache_type!r}, but has to be one of {', '.join(CACHE_TYPES)}")
            options["cache_type"] = CACHE_TYPES[cache_type]
        self._model = _engine.open(path_text("path", path), options)
        self._events: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Events] = weakref.WeakKeyDictionary()
        self._service: Any = None  # of folio.service, once there is one
        self.tokenizer = Tokenizer(self._model)
        """Text to ids and back."""
        self.config: dict[str, Any] = _engine.config(self._model)
        """The model's shape: vocab_size, dim, n_layers, …"""
        self.about: dict[str, Any] = _engine.about(self._model)
        """name, path, context, chat (whether it has a template), threads."""
        _open.add(self)

    def close(self) -> None:
        """Ends what runs, and gives the memory back. A second call does nothing."""
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

    # Texts.

    @overload
    def generate(self, prompt: str | None = None, **options: Unpack[Options]) -> str: ...
    @overload
    def generate(self, prompt: list[str] | tuple[str, ...], **options: Unpack[Options]) -> list[str]: ...
    def generate(self, prompt=None, **options):
        """How a text goes on, without the text itself. Token ids are a prompt, too.

        A list of prompts gives a list, and runs as one batch; n > 1 gives a list for each prompt.
        """
        texts = [text for text, *_ in self._submit(False, _prompted(prompt, options), pieces=False).results()]
        return _shaped(texts, _is_batch(prompt), options.get("n") or 1)

    async def agenerate(self, prompt=None, **options):
        """generate() for asyncio: other tasks run meanwhile."""
        stream = self._submit(False, _prompted(prompt, options), pieces=False, notifier=self._notifier())
        async for _ in self._news(stream):
            pass
        return _shaped([text for text, *_ in stream.results()], _is_batch(prompt), options.get("n") or 1)

    def stream(self, prompt: Prompt | None = None, *, timeout: float | None = None,
               **options: Unpack[Options]) -> Iterator[str]:
        """The same text in pieces of whole characters, as it comes. To leave the loop ends the text.

        What comes within two milliseconds is one piece. Several texts (a list of prompts, n > 1) come as pairs of their
        number and a piece.

        The text is generated whether or not somebody waits for a piece. Who waits for one longer than `timeout` seconds
        gets a TimeoutError, which ends it.
        """
        several = _is_batch(prompt) or (options.get("n") or 1) > 1
        longest = math.inf if timeout is None else seconds(timeout)
        return _pieces(self._submit(False, _prompted(prompt, options), pieces=True), several, longest)

    def astream(self, prompt: Prompt | None = None, **options: Unpack[Options]) -> AsyncIterator[str]:
        """stream() for asyncio."""
        several = _is_batch(prompt) or (options.get("n") or 1) > 1
        return self._apieces(False, _prompted(prompt, options), several)

    def chat(self, messages: Sequence[Message] | str, *, stream: bool = False, **options: Unpack[Options]):
        """The assistant's next answer: {"role": "user", "content": "…"} and so on, or one text of the user's.

        With stream=True an iterator of pieces, as stream(). max_tokens is by default as many as fit in the context. A
        base model has no chat template: use generate().
        """
        body = {**options, "messages": _messages(messages)}
        several = (options.get("n") or 1) > 1
        if stream:
            return _pieces(self._submit(True, body, pieces=True), several)
        return _shaped([text for text, *_ in self._submit(True, body, pieces=False).results()], False,
                       options.get("n") or 1)

    def achat(self, messages: Sequence[Message] | str, **options: Unpack[Options]) -> AsyncIterator[str]:
        """chat(stream=True) for asyncio."""
        return self._apieces(True, {**options, "messages": _messages(messages)}, (options.get("n") or 1) > 1)

    def beam(self, prompt: Prompt, width: int, n: int | None = None, **options: Any) -> list[tuple[str, float]]:
        """The n (width) best texts of a beam search, each with its score: ln p over a power of its length.

        Takes max_tokens, stop, length_penalty, early_stopping, and a form.
        """
        body = _prompted(prompt, {**options, "use_beam_search": True, "best_of": width, "n": width if n is None else n})
        return [(text, score) for text, _, _, score in self._submit(False, body, pieces=False).results()]

    def complete(self, prompt: Prompt | None = None, *, messages: Sequence[Message] | str | None = None,
                 **options: Any) -> dict[str, Any]:
        """The server's whole answer to a prompt, or to messages: texts, why they ended, probabilities and usage.

        Options that are not said are as in the server: temperature 1, 16 tokens of a prompt.
        """
        from .service import complete

        if messages is not None:
            return complete(self, True, {**options, "messages": _messages(messages)})
        return complete(self, False, _prompted(prompt, options))

    # What the model computes. Ids are those of one sequence, from its first token on.

    def score(self, text: Prompt, *, parse_special: bool = True) -> np.ndarray:
        """ln p of each token but the first, given those before it: (tokens - 1), float64, in nats."""
        if isinstance(text, str):
            ids = self.tokenizer.encode(text, prefix=True, parse_special=parse_special)
        else:
            ids = token_ids(text)
        return np.asarray(_engine.score(self._model, ids), dtype=np.float64)

    def logits(self, ids: Ids) -> np.ndarray:
        """(ids, vocab_size), float32: row i says what may follow ids[: i + 1]."""
        return _engine.logits(self._model, token_ids(ids))

    def trace(self, ids: Ids) -> dict[str, np.ndarray]:
        """Every named place of the forward pass, (ids, width) float32: "embedding", "layers.0.query", …, "logits"."""
        return _engine.trace(self._model, token_ids(ids))

    def attention(self, ids: Ids, layer: int) -> np.ndarray:
        """What each head of a layer looks at: (heads, ids, ids), float32; row i says how much of each position.

        softmax(q kᵀ / √head_dim) over the positions up to the row's own, or those of them in the sliding window.
        """
        n_layers = self.config["n_layers"]
        if not 0 <= index("layer", layer) < n_layers:
            raise ValueError(f"layer is {layer}, but has to be in [0, {n_layers - 1}]")
        places = self.trace(ids)
        head_dim, n_heads, n_kv = (self.config[key] for key in ("head_dim", "n_heads", "n_kv_heads"))
        query = places[f"layers.{layer}.query"].reshape(-1, n_heads, head_dim).swapaxes(0, 1)
        key = places[f"layers.{layer}.key"].reshape(-1, n_kv, head_dim).swapaxes(0, 1)
        scores = query @ np.repeat(key, n_heads // n_kv, axis=0).swapaxes(1, 2) / np.sqrt(np.float32(head_dim))
        distance = np.arange(len(ids))[:, None] - np.arange(len(ids))[None, :]
        window = self.config["sliding_window"] or len(ids)
        scores = np.where((distance >= 0) & (distance < window), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)

    @property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """The model's weights: their names as in a GGUF, and their shapes. A matrix is (out, in)."""
        return _engine.tensors(self._model)

    def tensor(self, name: str) -> np.ndarray:
        """The weights of that name, float32, as the file has them."""
        return _engine.tensor(self._model, name)

    @property
    def statistics(self) -> dict[str, Any]:
        """What the engine has done (steps, rows, tokens, cached_tokens, seconds) and does (running, waiting, blocks)."""
        return _engine.statistics(self._model)

    # How texts come.

    def _submit(self, chat: bool, body: dict[str, Any], pieces: bool, notifier: Any = None) -> Any:
        for name in ("stream", "stream_options", "logprobs", "top_logprobs", "echo", "model", "user", "tools",
                     "tool_choice", "parallel_tool_calls"):
            if name in body:
                raise TypeError(f"{name!r} is an option of the server's alone")
        body, names = server_options(body)
        # The engine's dicts have no order, but the keys of a schema do.
        said = {name: value for name, value in body.items() if name not in ("prompt", "messages", "logit_bias")}
        try:
            forms = as_json(said) if any(isinstance(value, Mapping) for value in said.values()) else ""
            return _engine.submit(self._model, chat, body, pieces, notifier, forms=forms)
        except _engine.Refusal as refusal:
            raise _exception(refusal, names) from None
        except (TypeError, ValueError) as error:
            raise with_names(error, names)

    def _notifier(self) -> Any:
        loop = asyncio.get_running_loop()
        if loop not in self._events:
            self._events[loop] = _Events(loop)
        return self._events[loop].notifier

    async def _news(self, stream: Any) -> AsyncIterator[Any]:
        events = self._events[asyncio.get_running_loop()]
        try:
            while True:
                for piece in stream.poll():
                    yield piece
                if stream.ended:
                    return
                await events.wait()
        finally:
            stream.cancel()

    async def _apieces(self, chat: bool, body: dict[str, Any], several: bool) -> AsyncIterator[Any]:
        stream = self._submit(chat, body, pieces=True, notifier=self._notifier())
        async for choice, text, _, _ in self._news(stream):
            if text:
                yield (choice, text) if several else text
        stream.results()


class Tokenizer:
    """Text to token ids and back."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def encode(self, text: str, *, prefix: bool = False, parse_special: bool = True) -> list[int]:
        """The ids of a text. With prefix=True the tokens that the model expects before one, such as BOS, come first.

        Names of special tokens, such as "<|im_end|>", are these tokens; with parse_special=False they are text.
        """
        return _engine.encode(self._model, text, bool(prefix), bool(parse_special))

    def decode(self, ids: Ids) -> str:
        """The text of tokens. What is no UTF-8 becomes U+FFFD."""
        return _checked(_engine.decode, self._model, ids) if len(ids) else ""

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, which may be part of a character; empty for special tokens."""
        return _engine.token_bytes(self._model, token_id(token))

    def apply_chat_template(self, messages: Sequence[Message]) -> list[int]:
        """A conversation up to where the next answer begins, in tokens."""
        return _checked(_engine.encode_chat, self._model, _messages(messages))


class _Events:
    """Wakes the tasks of an event loop that wait for texts. All streams of a loop share one descriptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.notifier = _engine.Notifier()
        self._waiting: set[asyncio.Future[None]] = set()
        # The loop keeps no reference to this, which would keep the loop.
        waiting, notifier = self._waiting, self.notifier
        self._loop = weakref.ref(loop)

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


def _pieces(stream: Any, several: bool, timeout: float = math.inf) -> Iterator[Any]:
    try:
        while not stream.ended:
            news = stream.wait(timeout)
            if not news and not stream.ended:
                raise TimeoutError(f"nothing came within the timeout of {timeout} s")
            for choice, text, _, _ in news:
                if text:
                    yield (choice, text) if several else text
        stream.results()  # of a model that was closed meanwhile: its error
    finally:
        stream.cancel()


def _is_batch(prompt: Any) -> bool:
    if isinstance(prompt, (str, type(None))):
        return False
    is_sequence = hasattr(prompt, "__len__") and hasattr(prompt, "__getitem__")
    if not is_sequence or isinstance(prompt, (bytes, bytearray, Mapping)):
        raise TypeError(f"a prompt is a text, token ids, or a list of these, not {type(prompt).__name__}")
    return len(prompt) > 0 and not hasattr(prompt[0], "__index__")


def _prompted(prompt: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    if "prompt" in options or "messages" in options:
        raise TypeError("the prompt is given twice")
    _is_batch(prompt)  # which is None, or has a length
    return {**options, "prompt": prompt}


def _shaped(texts: list[str], batch: bool, n: int) -> Any:
    if n > 1:
        each = [texts[i:i + n] for i in range(0, len(texts), n)]
        return each if batch else each[0]
    return texts if batch else texts[0]


def _messages(messages: Any) -> Any:
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages


def _exception(refusal: Any, names: Mapping[str, str] = {}) -> Exception:
    """`names` are those of server_options()."""
    message, field, code = refusal.args
    message = renamed(message, names)
    if code == "no_chat_template":
        message = f"{message.split(', like')[0]}: use generate(), or Model(…, chat_template=…)"
    if code == "unknown_parameter" and "did you mean" not in message:  # the server knows other names of forms
        message += "".join(f" (did you mean {near}?)" for near in difflib.get_close_matches(field, FORMS, 1))
    if code in ("unknown_parameter", "invalid_type"):
        return TypeError(message)
    if field in (None, "prompt", "messages", "model") or code is not None:
        return _engine.Error(message)
    return ValueError(message)


def _checked(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except _engine.Refusal as refusal:
        raise _exception(refusal) from None


_open: weakref.WeakSet[Model] = weakref.WeakSet()


def _close_all() -> None:
    for model in list(_open):
        model.close()
    _engine.wait_for_threads()


# A thread that waits for a text has to come back before the interpreter ends.
atexit.register(_close_all)
