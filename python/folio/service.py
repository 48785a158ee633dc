"""The server's API without a network: the checks, answers and errors of build/serve, in this process.

    service = Service(model)
    reply = service.request("POST", "/v1/completions", body=b'{"prompt": "ROMEO:", "stream": true}')
    for piece in reply: print(piece.decode(), end="")

An event loop awaits the same: `await reply.start()`, `async for piece in reply`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any, AsyncIterator, Iterator, Mapping, Sequence

from . import _engine
from .checks import text, whole
from .model import Model, _exception
from .options import as_json, server_options, with_names

LOCAL = {"host": "localhost", "content-type": "application/json"}


class Service:
    """Answers requests with a model. A model has one service; it ends with the model.

    api_key          what requests have to bring as "Authorization: Bearer KEY"; empty: nothing
    allowed_hosts    that requests may name beside localhost; "0.0.0.0" allows any address
    allowed_origins  of pages elsewhere that may ask
    max_queue        choices that run or wait; more are told to come back (429)
    request_work     steps that preparing a request may take, before it runs
    request_timeout  seconds that a request may take
    log              a line on stderr for each request; log_texts: prompts and answers, too
    """

    def __init__(
        self,
        model: Model,
        *,
        api_key: str = "",
        allowed_hosts: Sequence[str] = (),
        allowed_origins: Sequence[str] = (),
        max_queue: int = 1024,
        request_work: int = 10_000_000,
        request_timeout: int = 600,
        log: bool = False,
        log_texts: bool = False,
    ) -> None:
        self.model = model
        _engine.serve(model._model, {
            "api_key": text("api_key", api_key), "allowed_hosts": _texts("allowed_hosts", allowed_hosts),
            "allowed_origins": _texts("allowed_origins", allowed_origins),
            "max_queue": whole("max_queue", max_queue, 0, 2**31 - 1),
            "request_work": whole("request_work", request_work, 1, 10**15),
            "request_timeout": whole("request_timeout", request_timeout, 0, 2**31 - 1), "log": bool(log),
            "log_texts": bool(log_texts)})
        model._service = self

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        seed: int | None = None,
    ) -> Reply:
        """Asks as a client over HTTP does. Names of headers are in small letters; None: those of a local client.

        `seed` is for a request that names none, which else gets a random one. In an event loop the reply is awaited.
        """
        events = None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a caller who waits
            notifier = None
        else:
            notifier = self.model._notifier()
            events = self.model._events[loop]
        if not isinstance(body, bytes):
            raise TypeError(f"body has to be bytes, not {type(body).__name__}")
        seed = None if seed is None else whole("seed", seed, 0, 2**64 - 1)
        headers = LOCAL if headers is None else headers
        return Reply(_engine.request(self.model._model, method, path, dict(headers), body, seed, notifier), events)


def _texts(name: str, values: Sequence[str]) -> list[str]:
    if isinstance(values, str):
        raise TypeError(f"{name} has to be a list of texts, not one text")
    return [text(name, value) for value in values]


class Reply:
    """An answer on its way: a status, headers, and a body in pieces. Forgotten before its end, it ends its request."""

    def __init__(self, reply: Any, events: Any) -> None:
        self._reply = reply
        self._events = events

    @property
    def status(self) -> int:
        """Waits for it. 0: the reply ended without one."""
        return self._reply.status()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """They are there when the status is."""
        return self._reply.headers()

    def __iter__(self) -> Iterator[bytes]:
        while piece := self._reply.next():
            yield piece

    def read(self) -> bytes:
        return b"".join(self)

    async def start(self) -> int:
        """Waits for the status."""
        while not (status := self._reply.poll_status()) and not self._reply.ended:
            await self._events.wait()
        return status

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            if piece := self._reply.poll():
                yield piece
            elif self._reply.ended:
                return
            else:
                await self._events.wait()

    def close(self) -> None:
        """Ends the request, if it has not ended."""
        self._reply.give_up()


_services = threading.Lock()


def complete(model: Model, chat: bool, body: Mapping[str, Any]) -> dict[str, Any]:
    """One whole answer of /v1/completions or /v1/chat/completions, with its usage and probabilities.

    A refusal is the same exception as of Model.generate().
    """
    model._model.check_process()  # in a forked child the lock may be held forever
    with _services:
        service = model._service or Service(model)
    path = "/v1/chat/completions" if chat else "/v1/completions"
    body, names = server_options(body)
    try:
        sent = as_json({**body, "stream": False}).encode()
    except (TypeError, ValueError) as error:
        raise with_names(error, names)
    reply = service.request("POST", path, body=sent)
    answer = json.loads(reply.read())
    if reply.status == 200:
        return answer
    error = answer["error"]
    raise _exception(_engine.Refusal(error["message"], error["param"], error["code"]), names)
