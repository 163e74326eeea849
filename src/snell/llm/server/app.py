"""The application: paths, who may use them, and every failure as an answer in OpenAI's form."""

import asyncio
import hmac
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from snell.llm.generated_text import GeneratedText
from snell.llm.server.chat import chat_texts
from snell.llm.server.choices import Choices
from snell.llm.server.completions import completion_request
from snell.llm.server.delivering import CLIENT_LEFT, deliver, while_connected
from snell.llm.server.embeddings import embedding_request
from snell.llm.server.fields import Fields
from snell.llm.server.request_error import RequestError, request_error_of
from snell.llm.server.service import Service, close_texts

__all__ = ["application"]

Endpoint = Callable[[Request], Awaitable[Response]]
T = TypeVar("T")

# A body that is too long is read on, up to so many times the limit: a client that is still sending reads no answer.
_READ_FURTHER = 16


def application(service: Service) -> Starlette:
    """An ASGI application around a service; no cross-origin headers, so pages of other origins cannot use it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if service.runner is not None:
            service.runner.start()
        yield
        if service.runner is not None:
            await asyncio.to_thread(service.runner.close)

    api = _Api(service)
    routes = [
        Route("/health", api.health, methods=["GET"]),
        Route("/metrics", api.guarded("/metrics", api.metrics), methods=["GET"]),
        Route("/v1/models", api.guarded("/v1/models", api.models), methods=["GET"]),
        Route("/v1/models/{name:path}", api.guarded("/v1/models", api.model), methods=["GET"]),
        Route("/v1/chat/completions", api.guarded("/v1/chat/completions", api.chat), methods=["POST"]),
        Route("/v1/completions", api.guarded("/v1/completions", api.completions), methods=["POST"]),
        Route("/v1/embeddings", api.guarded("/v1/embeddings", api.embeddings), methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _http_problem})


async def _http_problem(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = "no such path" if status == 404 else str(getattr(error, "detail", error))
    return JSONResponse(RequestError(status, detail).envelope(), status)


def _header(request: Request, name: str) -> str:
    """The header's value, "" where there is none; of two, a proxy before this server may have believed the other."""
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise RequestError(400, f"the header {name}: expected once, received {len(values)} times")
    return values[0] if values else ""


class _Api:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._created = int(time.time())

    def guarded(self, path: str, endpoint: Endpoint) -> Endpoint:
        """The endpoint for clients that may use it, its failures answered, and its requests counted."""

        async def answered(request: Request) -> Response:
            try:
                self._check_key(request)
                response = await endpoint(request)
            except ClientDisconnect:
                response = Response(status_code=400)
            except Exception as error:  # whatever it is, the client is told in the form that it can read
                problem = request_error_of(error)
                headers = {"Retry-After": "1"} if problem.status in (429, 503) else {}
                response = JSONResponse(problem.envelope(), problem.status, headers)
            self._service.metrics.requests.labels(path, str(response.status_code)).inc()
            return response

        return answered

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(self, _: Request) -> Response:
        return Response(self._service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._described()]})

    async def model(self, request: Request) -> Response:
        self._check_model(request.path_params["name"])
        return JSONResponse(self._described())

    async def chat(self, request: Request) -> Response:
        fields = await self._fields(request)
        texts, answer, how = await self._prepared(chat_texts, fields)
        return await deliver(request, self._service, self._choices(texts), answer, how)

    async def completions(self, request: Request) -> Response:
        fields = await self._fields(request)
        asked = await self._prepared(completion_request, fields)
        if not asked.scores:
            answer = asked.answer(lambda: True)
            return await deliver(request, self._service, self._choices(asked.texts), answer, asked.how)
        try:
            answer = await self._beside(request, asked.answer)
        except Exception:
            close_texts(asked.texts)
            raise
        if answer is None:
            close_texts(asked.texts)
            return Response(status_code=CLIENT_LEFT)
        return await deliver(request, self._service, self._choices(asked.texts), answer, asked.how)

    async def embeddings(self, request: Request) -> Response:
        fields = await self._fields(request)
        asked = await self._prepared(embedding_request, fields)
        try:
            answer = await self._beside(request, asked.answer)
        except Exception as error:
            raise request_error_of(error, fields.names) from error
        return Response(status_code=CLIENT_LEFT) if answer is None else JSONResponse(answer)

    async def _beside(self, request: Request, work: Callable[[Callable[[], bool]], T]) -> T | None:
        """The result of work beside the runner, one request's at a time; None where the client left."""
        results: list[T] = []
        left = threading.Event()

        async def run() -> None:
            async with self._service.beside:
                results.append(await asyncio.to_thread(work, lambda: not left.is_set()))

        try:
            await while_connected(request, run())
        finally:
            left.set()
        return results[0] if results else None

    def _choices(self, texts: Sequence[GeneratedText]) -> Choices:
        _, runner = self._service.generator()
        return Choices(runner, texts, self._service.settings.request_seconds)

    async def _prepared(self, prepare: Callable[[Fields, Service], T], fields: Fields) -> T:
        """On a thread of its own: a long text takes a while to become tokens."""
        try:
            return await asyncio.to_thread(prepare, fields, self._service)
        except Exception as error:
            raise request_error_of(error, fields.names) from error

    async def _fields(self, request: Request) -> Fields:
        kind = _header(request, "content-type").partition(";")[0].strip().lower()
        # A page of another origin can send other types without asking first.
        if kind != "application/json":
            raise RequestError(415, f"the content type: expected application/json, received {kind or 'none'}")
        try:
            body = await asyncio.wait_for(self._body(request), self._service.settings.body_seconds)
        except TimeoutError as error:
            raise RequestError(408, "the request's body took too long to arrive", code="request_timeout") from error
        fields = await asyncio.to_thread(Fields.of_body, body)
        self._check_model(fields.text("model", self._service.settings.name))
        return fields

    async def _body(self, request: Request) -> bytes:
        limit, length, body = self._service.settings.body_bytes, 0, bytearray()
        async for part in request.stream():
            length += len(part)
            if length <= limit:
                body += part
            elif length > _READ_FURTHER * limit:
                break
        if length > limit:
            raise RequestError(413, f"the body: at most {limit} bytes are taken; send a shorter text")
        return bytes(body)

    def _check_model(self, name: str) -> None:
        mine = self._service.settings.name
        if name != mine:
            raise RequestError(
                404, f"model: {name!r} is not served here; the model is {mine!r}", "model", "model_not_found"
            )

    def _check_key(self, request: Request) -> None:
        key = self._service.settings.api_key
        if key is None:
            return
        scheme, _, given = _header(request, "authorization").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), key.encode()):
            raise RequestError(
                401, "the API key is missing or wrong; send it as a bearer token", code="invalid_api_key"
            )

    def _described(self) -> dict[str, object]:
        name = self._service.settings.name
        return {"id": name, "object": "model", "created": self._created, "owned_by": "snell"}
