"""The server's API without a network: the checks, responses and errors of build/serve, in this process.

    service = Service(model)
    reply = service.request("POST", "/v1/completions", body=b'{"prompt": "ROMEO:", "stream": true}')
    for piece in reply: print(piece.decode(), end="")

In an event loop: `await reply.start()`, then `async for piece in reply`.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, AsyncIterator, Iterator, Mapping, Sequence

from . import _engine
from .checks import as_json, text, whole
from .model import Model, _events, _exception
from .options import server_body

LOCAL = {"host": "localhost", "content-type": "application/json"}


class Service:
    """Answers requests with a model. A model has at most one service, which ends with the model.

    api_key          key that requests must send as "Authorization: Bearer KEY"; empty: none
    allowed_hosts    accepted Host headers, in addition to localhost; "0.0.0.0" allows any address
    allowed_origins  origins of other web pages that may send requests
    max_queue        maximum number of running and waiting choices; further requests get status 429
    request_work     maximum work to prepare a request (template, tokenization, schema), in internal steps
    request_timeout  maximum duration of a request in seconds
    log              print a line to stderr for each completion and each refused request; log_texts adds their texts
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
        self._headers = {**LOCAL, "authorization": f"Bearer {api_key}"}  # those of complete()
        _engine.serve(model._model, as_json({
            "api_key": text("api_key", api_key), "allowed_hosts": _texts("allowed_hosts", allowed_hosts),
            "allowed_origins": _texts("allowed_origins", allowed_origins),
            "max_queue": whole("max_queue", max_queue, 1, 2**31 - 1),
            "request_work": whole("request_work", request_work, 1, 10**15),
            "request_timeout": whole("request_timeout", request_timeout, 1, 2**31 - 1), "log": bool(log),
            "log_texts": bool(log_texts)}))
        model._service = self

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        seed: int | None = None,
    ) -> Reply:
        """Sends a request as an HTTP client would. Header names must be lower-case. headers=None: localhost, JSON.

        `seed` is used if the body has no seed; None: a random one. In an event loop, use the reply's async methods.
        """
        events = None
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # no event loop, so the reply's methods block
            notifier = None
        else:
            events = _events()
            notifier = events.notifier
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
    """A response: a status, headers, and a body in pieces. Deleting it before the end aborts the request.

    Reading raises folio.Error if the body is incomplete because the request took too long or the model was closed.
    """

    def __init__(self, reply: Any, events: Any) -> None:
        self._reply = reply
        self._events = events

    @property
    def status(self) -> int:
        """Waits for the HTTP status and returns it, or 0 if the reply ended without one."""
        return self._reply.status()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers as (name, value) pairs. Available after `status` has been read."""
        return self._reply.headers()

    def __iter__(self) -> Iterator[bytes]:
        while piece := self._reply.next():
            yield piece

    def read(self) -> bytes:
        return b"".join(self)

    async def start(self) -> int:
        """Returns the HTTP status once it is known, or 0 if the reply ended without one. Does not block the loop."""
        while not (status := self._reply.poll_status()) and not self._reply.ended:
            await self._news()
        return status

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            if piece := self._reply.poll():
                yield piece
            elif self._reply.ended:
                return
            else:
                await self._news()

    async def _news(self) -> None:
        if self._events is not _events():
            raise _engine.Error("the request was not sent in this event loop; use the reply's status and read()")
        await self._events.wait()

    def close(self) -> None:
        """Aborts the request if it has not ended."""
        self._reply.give_up()


def complete(model: Model, chat: bool, body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a complete response of /v1/completions or /v1/chat/completions.

    Raises TypeError or ValueError for an invalid option in `body`, and folio.Error for other failures.
    """
    model._model.check_process()  # raises in a forked child, where the lock may never be released
    with model._creating_service:
        service = model._service or Service(model)
    path = "/v1/chat/completions" if chat else "/v1/completions"
    sent, names = server_body({**body, "stream": False})
    reply = service.request("POST", path, service._headers, sent.encode())
    try:
        received = reply.read()
    except _engine.Error:  # an incomplete answer
        if not model.closed:
            raise
    if model.closed:
        raise _engine.Error("the model is closed; open it again")  # closing truncates outputs
    answer = json.loads(received)
    if reply.status == 200:
        return answer
    error = answer["error"]
    raise _exception(_engine.Refusal(error["message"], error["param"], error["code"]), names)
