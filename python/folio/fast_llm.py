"""FastLLM's Python API (github.com/ztxz16/fastllm) on folio.Model. docs/fast_llm.md lists all calls and differences.

    from folio import fast_llm as llm
    model = llm.model("model.gguf")
    print(model.response("Hello"))
    handle = model.launch_response("ROMEO:", output_token_limit=20)
    while (token := model.fetch_response(handle)) != -1: ...
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import os
import threading
from typing import Any, Callable, Collection, Iterator, Sequence, Union

from . import _engine
from .checks import as_json, text, token_id, token_ids
from .model import Model, _checked, _pieces

History = Sequence[tuple[str, str]]  # (question, answer) of each turn


@dataclasses.dataclass(frozen=True)
class GenerationConfig:
    """Options with FastLLM's names and defaults, and a `seed`, which FastLLM lacks, for reproducible samples."""

    output_token_limit: int = -1
    """Maximum number of tokens to generate; 0 or less: up to the end of the context."""
    last_n: int = 64
    """Number of recent tokens that the penalty considers; 0 or less: all."""
    repeat_penalty: float = 1.0
    top_p: float = 1.0
    top_k: int = 1
    """1 or less: greedy decoding."""
    temperature: float = 1.0
    stop_token_ids: Collection[int] = ()
    seed: int = 0


class model:
    """A model and its requests. Accepts the arguments of folio.Model. All methods are thread-safe."""

    def __init__(self, path: Union[str, os.PathLike[str], Model], **options: Any) -> None:
        self.model = path if isinstance(path, Model) else Model(path, **options)
        self._own = self.model is not path
        self._open: dict[int, _Response] = {}
        self._n_handles = 0
        self._launching = threading.Lock()

    def release_memory(self) -> None:
        """Aborts all requests. Frees the model, unless a Model was passed to the constructor."""
        for handle in list(self._open):
            self.abort_handle(handle)
        if self._own:
            self.model.close()

    def response(self, query: str, history: History | None = None, config: GenerationConfig | None = None,
                 **options: Any) -> str:
        """Returns the answer to `query` after `history`, using the model's chat template if it has one."""
        return "".join(self.stream_response(query, history, config, True, **options))

    def stream_response(self, query: str, history: History | None = None, config: GenerationConfig | None = None,
                        one_by_one: bool = True, **options: Any) -> Iterator[str]:
        """Yields the answer in pieces of whole characters. With one_by_one=False, yields the whole answer so far."""
        pieces = _pieces(self._submit([self._prompt(query, history or ())], _config(config, options)), several=False)
        return pieces if one_by_one else itertools.accumulate(pieces)

    def response_batch(self, inputs: Sequence[str], callback: Callable[[int, list[str]], None] | None = None,
                       config: GenerationConfig | None = None, **options: Any) -> list[str]:
        """Returns the completions of all inputs, which run as one batch.

        While text arrives, calls callback(i, texts), where i counts the calls from 0 and texts[j] is the new text of
        input j. At the end, calls callback(-1, completions).
        """
        if not inputs:
            return []
        stream = self._submit([self.encode(text) for text in inputs], _config(config, options),
                              pieces=callback is not None)
        try:
            calls = itertools.count()
            while callback is not None and not stream.ended:
                contents = [""] * len(inputs)
                for choice, text, _, _ in stream.wait():
                    contents[choice] += text
                if any(contents):
                    callback(next(calls), contents)
            outputs = [text for text, *_ in stream.results()]
        finally:
            stream.cancel()
        if callback is not None:
            callback(-1, list(outputs))
        return outputs

    def launch_response(self, prompt: Union[str, Sequence[int]], config: GenerationConfig | None = None,
                        **options: Any) -> int:
        """Starts a request and returns its handle. Handles are never reused."""
        ids = self.encode(prompt) if isinstance(prompt, str) else prompt
        response = _Response(self._submit([ids], _config(config, options)))
        with self._launching:
            handle = self._n_handles
            self._open[handle] = response
            self._n_handles += 1
        return handle

    def fetch_response(self, handle: int) -> int:
        """Waits for the next token and returns it. After the last token, closes the handle and returns -1.

        Returns -1 for a closed handle, too. If the request failed, closes the handle and raises the error.
        """
        response = self._response(handle)
        if response is None:
            return -1
        try:
            token = response.next_token()
        except BaseException:  # the request failed, or the user pressed Ctrl-C
            self._open.pop(handle, None)
            raise
        if token == -1:
            self._open.pop(handle, None)
        return token

    def abort_handle(self, handle: int) -> None:
        """Aborts a request, at the latest after the current step, and closes its handle. Ignores closed handles."""
        if self._response(handle) is not None and (response := self._open.pop(handle, None)):
            response.stream.cancel()

    def _response(self, handle: int) -> _Response | None:
        if not 0 <= handle < self._n_handles:
            raise _engine.Error(f"unknown handle {handle}: launch_response has returned {self._n_handles} so far")
        return self._open.get(handle)

    def make_input(self, history: str, round: int, input: str) -> str:
        """Returns the prompt of turn `round` (from 0): the history, the input, and the beginning of an answer."""
        return _engine.fast_llm_with_turn(self.model._model, history, round, input, None)

    def make_history(self, history: str, round: int, input: str, output: str) -> str:
        """Returns `history` with one more turn: `input` and the answer `output`. Round 0 ignores `history`."""
        return _engine.fast_llm_with_turn(self.model._model, history, round, input, text("output", output))

    def encode(self, content: str) -> list[int]:
        """Returns the tokens of a prompt. Special tokens are parsed if the model has a chat template."""
        return _engine.fast_llm_encode(self.model._model, content)

    def tokenizer_decode_token(self, token: int) -> bytes:
        return self.model.tokenizer.token_bytes(token)

    def warmup(self) -> None:
        """Generates a token, to load all weights into memory."""
        self.response_batch([""], output_token_limit=1)

    def _prompt(self, query: str, history: History) -> list[int]:
        if not self.model.about["chat"]:
            return self.encode("".join(itertools.chain(*history, (query,))))
        messages = [{"role": "user", "content": query}]
        for asked, answered in reversed(history):
            messages[:0] = {"role": "user", "content": asked}, {"role": "assistant", "content": answered}
        return self.model.tokenizer.apply_chat_template(messages)

    def _submit(self, prompts: list[Sequence[int]], config: GenerationConfig, pieces: bool = True) -> Any:
        end_tokens, stops = _engine.fast_llm_ends(self.model._model)
        limit = config.output_token_limit
        body = {
            "prompt": [token_ids(ids) for ids in prompts],
            "max_tokens": limit if limit > 0 else self.model.about["context"],
            "repeat_last_n": config.last_n if config.last_n > 0 else 2**31 - 1,
            "repetition_penalty": config.repeat_penalty,
            "top_p": config.top_p,
            "top_k": max(config.top_k, 1),
            "temperature": config.temperature,
            "min_p": 0,  # FastLLM has none, but the model's configuration may
            "seed": config.seed,
            "stop": stops,
        }
        return _checked(_engine.submit, self.model._model, False, as_json(body), pieces, None,
                        [*end_tokens, *map(token_id, config.stop_token_ids)])


class _Response:
    """A request whose tokens are fetched one by one. Buffers the groups of tokens that the engine delivers."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._tokens: collections.deque[int] = collections.deque()
        self._fetching = threading.Lock()

    def next_token(self) -> int:
        self.stream.ended  # raises in a forked child, where the lock may never be released
        with self._fetching:
            while not self._tokens and not self.stream.ended:
                for _, _, tokens, _ in self.stream.wait():
                    self._tokens.extend(tokens)
            return self._tokens.popleft() if self._tokens else -1


def _config(config: GenerationConfig | None, options: dict[str, Any]) -> GenerationConfig:
    config = config or GenerationConfig()
    if "max_length" in options:  # the name of output_token_limit in FastLLM's response()
        if "output_token_limit" in options:
            raise TypeError("max_length and output_token_limit are the same option; remove one of them")
        options["output_token_limit"] = options.pop("max_length")
    if not options.pop("do_sample", True):
        options["top_k"] = 1
    config = dataclasses.replace(config, **options)
    if not 1e-3 <= config.repeat_penalty <= 100:  # the engine's error would say repetition_penalty
        raise ValueError(f"repeat_penalty is {config.repeat_penalty}, but has to be in [0.001, 100]")
    return config
