"""Replicas of a model on Ray Serve, with OpenAI's API. Meant to be adapted; docs/ray_serve.md explains it.

    python -m folio.ray_serve MODEL --replicas 2

An ingress forwards requests to replicas, each with an engine in its own process. Requests and responses are those of
folio.service, as in build/serve. If a replica dies during a response, the ingress repeats the request on another one
and continues where the first one stopped.
"""

import argparse
import asyncio
import hashlib
import json
import logging
import math
import os
import random
from typing import Any, AsyncIterator

# These settings cut the cost of a message between processes to a third. Ray's processes inherit them.
for setting in ("USE_GRPC_BY_DEFAULT=1", "RUN_USER_CODE_IN_SEPARATE_THREAD=0", "RUN_ROUTER_IN_SEPARATE_LOOP=0",
                "REPLICA_GRPC_MAX_MESSAGE_LENGTH=67108864"):
    os.environ.setdefault(*f"RAY_SERVE_{setting}".split("="))

import ray
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, HTTPOptions, RequestRouterConfig
from ray.serve.exceptions import BackPressureError
from ray.serve.metrics import Counter, Gauge
from ray.serve.request_router import RequestRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from folio import Model
from folio.repeats import DONE, Rest
from folio.service import Service

BETWEEN_PIECES = 0.02  # seconds between messages of a response; output generated meanwhile is one message
BEGINNING = 256  # number of leading characters of a prompt that determine its replica
ATTEMPTS = 10  # maximum number per request, since a request may itself crash its replicas
JSON = [("Content-Type", "application/json"), ("Retry-After", "1")]
LAST_EVENTS = [b"event: response.%b\n" % end for end in (b"completed", b"incomplete", b"failed")]  # of /v1/responses


class Replica:
    """A replica of the model: an engine in its own process."""

    def __init__(self, path: str, options: dict[str, Any], service: dict[str, Any]) -> None:
        self.model = Model(path, **options)
        self.service = Service(self.model, **service)
        self.before = self.model.statistics
        self.gauges = {name: Gauge("folio_" + name) for name in ("running", "waiting", "blocks_in_use")}
        self.counters = {name: Counter(f"folio_{name}_total") for name in ("steps", "tokens", "cached_tokens")}

    async def answer(self, beginning: str, *request: Any) -> AsyncIterator[Any]:
        """Yields (status, headers), then pieces of the body. Close the generator to abort the request. `beginning` is
        used only by the router."""
        reply = self.service.request(*request)
        yield await reply.start(), reply.headers
        async for piece in reply:
            yield piece
            await asyncio.sleep(BETWEEN_PIECES)

    def check_health(self) -> None:
        """Updates Ray's metrics. Raises an error if the engine makes no progress, so that Ray replaces the replica."""
        before, self.before = self.before, self.model.statistics
        for name, gauge in self.gauges.items():
            gauge.set(self.before[name])
        for name, counter in self.counters.items():
            if (new := self.before[name] - before[name]) > 0:
                counter.inc(new)
        if before["running"] and self.before["running"] and before["steps"] == self.before["steps"]:
            raise RuntimeError("the engine has made no step in half a minute")

    def record_autoscaling_stats(self) -> dict[str, float]:
        return {"sequences": float(sum(self.model.statistics[name] for name in ("running", "waiting")))}


def by_sequences(context: Any) -> tuple[float, dict[str, Any]]:
    """Autoscaling policy for Ray. Returns the number of replicas needed for an average of at most
    target_ongoing_requests running or waiting sequences per replica, and an empty dict as the policy's state."""
    each = (context.aggregated_metrics or {}).get("sequences", {}) | {"queued": context.total_queued_requests or 0}
    return math.ceil(sum(each.values()) / context.config.target_ongoing_requests), {}


class SameBeginning(RequestRouter):
    """Routes requests with the same beginning to the same replica, for prefix caching. Rendezvous hashing orders the
    replicas for each beginning. Full replicas are skipped. Adding or removing a replica reassigns only
    the beginnings that hash to it."""

    async def choose_replicas(self, candidate_replicas: list[Any], pending_request: Any = None) -> list[list[Any]]:
        beginning = pending_request.args[0] if pending_request else ""
        weight = lambda r: hashlib.blake2b(f"{beginning}\0{r.replica_id.unique_id}".encode(errors="replace")).digest()  # noqa: E731
        return [[replica] for replica in sorted(candidate_replicas, key=weight)]


def beginning_of(body: bytes) -> str:
    """Returns the start of a prompt or conversation, to choose a replica: at most BEGINNING characters, and nothing
    after the user's first message, so that it is the same for all turns of a conversation."""
    try:
        asked = json.loads(body)
        said = asked.get("messages") or asked.get("prompt") or asked.get("input") or ""
        if isinstance(said, list) and isinstance(said[0], dict):
            first = next((i for i, message in enumerate(said) if message.get("role") == "user"), 0)
            said = said[:first + 1]
        return (said if isinstance(said, str) else json.dumps(said))[:BEGINNING]
    except (ValueError, AttributeError, RecursionError):
        return ""  # the replica reports the error


class Ingress:
    """Forwards requests. Records the sent part of each response, so that another replica can continue it."""

    def __init__(self, replicas: Any) -> None:
        self.replicas = replicas.options(stream=True)
        self.repeats = Counter("folio_repeats_total")

    async def __call__(self, request: Request) -> Response:
        body = await request.body()
        answer = self.answer(beginning_of(body), request.method, request.url.path, dict(request.headers), body,
                             random.getrandbits(53))
        status, headers, first = await anext(answer)

        async def pieces() -> AsyncIterator[bytes]:
            yield first
            async for _, _, piece in answer:
                yield piece

        return StreamingResponse(pieces(), status, dict(headers))

    async def answer(self, *request: Any) -> AsyncIterator[tuple[int, Any, bytes]]:
        """Yields (status, headers, piece) for each piece of the body. Tries another replica if one dies."""
        sent: list[bytes] = []
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(0.05 * 2**attempt)
            replica = self.replicas.answer.remote(*request)
            rest = Rest(b"".join(sent)) if sent else None
            try:
                head = await anext(replica)
                if rest and head[0] != 200:
                    raise RayActorError()  # this replica is full or shuts down: try another
                status, headers = head
                is_stream = dict(headers).get("Content-Type") == "text/event-stream"
                held = bytearray()  # the beginning of an event, or of a body that is not streamed
                async for piece in replica:
                    held += piece
                    if not is_stream:
                        continue
                    events, end, held = held.rpartition(b"\n\n")
                    piece = bytes(events + end)
                    if piece := rest(piece) if rest else piece:
                        sent.append(piece)
                        yield status, headers, piece
                if held or not sent:  # the body may be empty
                    yield status, headers, bytes(held)
                return
            except RayActorError:
                if sent and (sent[-1].endswith(DONE) or any(event in sent[-1] for event in LAST_EVENTS)):
                    return  # the response was complete
                if sent and sent[0].startswith(b"event: "):
                    break  # Rest cannot continue a stream of /v1/responses
                self.repeats.inc()
                logging.getLogger("ray.serve").warning("repeats a request, of which %d pieces were sent", len(sent))
            except BackPressureError:
                if not sent:
                    yield 429, JSON, error("rate_limit_error", "too many requests wait already")
                    return
        body = error("server_error", "no replica could go on with this; repeat the request")
        yield 503, JSON, b"data: " + body + b"\n" if sent else body


def error(kind: str, message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}}).encode() + b"\n"


def app(path: str, options: dict[str, Any], service: dict[str, Any], least: int, most: int, replica: type) -> Any:
    """Returns the Ray Serve application, which scales from `least` to `most` instances of the class `replica`.
    `options` and `service` are the keyword arguments of Model() and Service()."""
    sequences = options["max_sequences"]
    scale = AutoscalingConfig(min_replicas=least, max_replicas=most, target_ongoing_requests=sequences, upscale_delay_s=5,
                              look_back_period_s=5, policy=AutoscalingPolicy(policy_function=by_sequences))
    replicas = serve.deployment(replica).options(
        name="Replica", max_ongoing_requests=sequences, max_queued_requests=1024, health_check_period_s=30,
        ray_actor_options={"num_cpus": options["threads"]}, autoscaling_config=scale,
        request_router_config=RequestRouterConfig(request_router_class=SameBeginning))
    ingress = serve.deployment(Ingress).options(max_ongoing_requests=10_000, ray_actor_options={"num_cpus": 0})
    return ingress.bind(replicas.bind(path, options, service))


def main(replica: type = Replica) -> None:
    p = argparse.ArgumentParser("folio.ray_serve", description="Replicas of a model on Ray Serve, as OpenAI's API.")
    p.add_argument("model")
    for name, default, more in (("replicas", 2, ""), ("threads-per-replica", 1, ""), ("port", 8000, ""),
                                ("max-replicas", 0, "autoscale up to this many"), ("max-sequences", 16, "per replica")):
        p.add_argument("--" + name, type=int, default=default, help=more)
    p.add_argument("--host", default="127.0.0.1")
    p.add_argument("--api-key", default="", help="key that requests must send")
    p.add_argument("--allowed-host", action="append", default=[], help="accepted Host header, in addition to localhost")
    a = p.parse_args()
    if 0 < a.max_replicas < a.replicas:
        p.error(f"--max-replicas is {a.max_replicas}, but --replicas is {a.replicas}")
    ray.init(ignore_reinit_error=True)  # joins a running cluster, or starts one on this machine
    serve.start(http_options=HTTPOptions(host=a.host, port=a.port))
    serve.run(app(a.model, {"threads": a.threads_per_replica, "max_sequences": a.max_sequences},
                  {"api_key": a.api_key, "allowed_hosts": [*a.allowed_host, a.host]}, a.replicas,
                  max(a.replicas, a.max_replicas), replica))
    print(f"http://{a.host}:{a.port}", flush=True)
    try:
        asyncio.run(asyncio.Event().wait())
    except KeyboardInterrupt:
        serve.shutdown()


if __name__ == "__main__":
    from folio import ray_serve  # so that Ray's processes find the classes by module name

    ray_serve.main()
