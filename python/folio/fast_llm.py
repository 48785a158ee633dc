"""FastLLM's Python calls (github.com/ztxz16/fastllm) over folio.Model. docs/fast_llm.md lists each, and what differs.

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
from .checks import token_id
from .model import Model, _checked

History = Sequence[tuple[str, str]]  # what was asked, what was answered


@dataclasses.dataclass(frozen=True)
class GenerationConfig:
    """The original's fields and defaults; `seed` is ours, since its draws can't be repeated."""

    output_token_limit: int = -1
    """Tokens to generate at most; 0 or less: up to the end of the context."""
    last_n: int = 64
    """Tokens that the penalty looks at; 0 or less: all."""
    repeat_penalty: float = 1.0
    top_p: float = 1.0
    top_k: int = 1
    """1 or less: the likeliest token."""
    temperature: float = 1.0
    stop_token_ids: Collection[int] = ()
    seed: int = 0


class model:
    """A model and its requests. Takes what folio.Model takes. Any thread may call anything."""

    def __init__(self, path: Union[str, os.PathLike[str], Model], **options: Any) -> None:
        self.model = path if isinstance(path, Model) else Model(path, **options)
        self._own = self.model is not path
        self._open: dict[int, _Response] = {}
        self._n_handles = 0
        self._launching = threading.Lock()

    def release_memory(self) -> None:
        """Ends what runs, and gives the memory back."""
        for handle in list(self._open):
            self.abort_handle(handle)
        if self._own:
            self.model.close()

    def response(self, query: str, history: History | None = None, config: GenerationConfig | None = None,
                 **options: Any) -> str:
        """The answer to `query` after `history`, in the model's chat template if it has one."""
        return "".join(self.stream_response(query, history, config, **options))

    def stream_response(self, query: str, history: History | None = None, config: GenerationConfig | None = None,
                        one_by_one: bool = True, **options: Any) -> Iterator[str]:
        """The same in pieces of whole characters; with one_by_one=False each with all before it."""
        stream = self._submit([self._prompt(query, history or ())], _config(config, options))
        return _pieces(stream, one_by_one)

    def response_batch(self, inputs: Sequence[str], callback: Callable[[int, list[str]], None] | None = None,
                       config: GenerationConfig | None = None, **options: Any) -> list[str]:
        """How each text goes on; they run together.

        `callback` gets 0, 1, … with what is new of each, and last -1 with the whole texts.
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
        """A number for a request that runs from now on; none is given twice."""
        ids = self.encode(prompt) if isinstance(prompt, str) else prompt
        response = _Response(self._submit([ids], _config(config, options)))
        with self._launching:
            handle = self._n_handles
            self._open[handle] = response
            self._n_handles += 1
        return handle

    def fetch_response(self, handle: int) -> int:
        """The next token, or -1 where there is none, and then the handle is closed: -1 from then on.

        Waits without spinning. Raises the request's error, once, which closes the handle, too.
        """
        response = self._response(handle)
        if response is None:
            return -1
        try:
            token = response.next_token()
        except BaseException:  # of the request, or Ctrl-C, which ends it
            self._open.pop(handle, None)
            raise
        if token == -1:
            self._open.pop(handle, None)
        return token

    def abort_handle(self, handle: int) -> None:
        """Ends a request within a step and closes its handle; nothing is done if it is closed."""
        if self._response(handle) is not None and (response := self._open.pop(handle, None)):
            response.stream.cancel()

    def _response(self, handle: int) -> _Response | None:
        if not 0 <= handle < self._n_handles:
            raise _engine.Error(f"there is no handle {handle}: launch_response gives them, and gave {self._n_handles}")
        return self._open.get(handle)

    def make_input(self, history: str, round: int, input: str) -> str:
        """What to continue: the conversation so far, what is said now, and the beginning of an answer."""
        return _engine.fast_llm_make_input(self.model._model, history, round, input)

    def make_history(self, history: str, round: int, input: str, output: str) -> str:
        """The conversation so far with one more turn. Round 0 begins one."""
        return _engine.fast_llm_make_history(self.model._model, history, round, input, output)

    def encode(self, content: str) -> list[int]:
        """A text as it is continued; with a chat template, special tokens are looked for in it."""
        return _engine.fast_llm_encode(self.model._model, content)

    def tokenizer_decode_token(self, token: int) -> bytes:
        return self.model.tokenizer.token_bytes(token)

    def warmup(self) -> None:
        """Generates a token, so that all weights are in memory."""
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
            "prompt": [list(ids) for ids in prompts],
            "max_tokens": limit if limit > 0 else self.model.about["context"],
            "repeat_last_n": config.last_n if config.last_n > 0 else 2**31 - 1,
            "repetition_penalty": config.repeat_penalty,
            "top_p": config.top_p,
            "top_k": max(config.top_k, 1),
            "temperature": config.temperature,
            "seed": config.seed,
            "stop": stops,
        }
        return _checked(_engine.submit, self.model._model, False, body, pieces, None,
                        [*end_tokens, *map(token_id, config.stop_token_ids)])


class _Response:
    """A request whose tokens are fetched. The engine hands them over in groups; what was not asked for waits here."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._tokens: collections.deque[int] = collections.deque()
        self._fetching = threading.Lock()

    def next_token(self) -> int:
        self.stream.ended  # raises in a forked child, where the lock may be held forever
        with self._fetching:
            while not self._tokens and not self.stream.ended:
                for _, _, tokens, _ in self.stream.wait():
                    self._tokens.extend(tokens)
            return self._tokens.popleft() if self._tokens else -1


def _config(config: GenerationConfig | None, options: dict[str, Any]) -> GenerationConfig:
    config = config or GenerationConfig()
    if "max_length" in options:  # as the original's response() calls it
        options["output_token_limit"] = options.pop("max_length")
    if not options.pop("do_sample", True):
        options["top_k"] = 1
    config = dataclasses.replace(config, **options)
    if not 1e-3 <= config.repeat_penalty <= 100:  # the others' names and ranges are the engine's
        raise ValueError(f"repeat_penalty is {config.repeat_penalty}, but has to be in [0.001, 100]")
    return config


def _pieces(stream: Any, one_by_one: bool) -> Iterator[str]:
    said = ""
    try:
        while not stream.ended:
            for _, text, _, _ in stream.wait():
                if not text:
                    continue
                said += text
                yield text if one_by_one else said
        stream.results()  # of a model that was closed meanwhile: its error
    finally:
        stream.cancel()
