"""Delivering an answer: as one JSON object, or as server-sent events; either stops its work when the client leaves."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from typing import Any

from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from snell.llm.server.answers import Answer
from snell.llm.server.choices import Choices
from snell.llm.server.generation_fields import Delivery
from snell.llm.server.metrics import TokenTimer
from snell.llm.server.request_error import request_error_of
from snell.llm.server.service import Service

__all__ = ["CLIENT_LEFT", "deliver", "while_connected"]

CLIENT_LEFT = 499


async def deliver(request: Request, service: Service, choices: Choices, answer: Answer, how: Delivery) -> Response:
    """The response; refusals of the runner are raised before anything is sent."""
    timer = TokenTimer(service.metrics)
    # Entered here and left where the chunks end: a stream outlives this call.
    await choices.__aenter__()
    if how.stream:

        async def left(_: object) -> None:
            # The events may not even have begun, and then nothing of theirs runs.
            choices.cancel()

        return EventSourceResponse(
            _events(choices, answer, how, timer),
            send_timeout=service.settings.send_seconds,
            client_close_handler_callable=left,
            sep="\n",
        )
    try:
        if not await while_connected(request, _finished(choices, timer)):
            return Response(status_code=CLIENT_LEFT)
        return JSONResponse(answer.whole(choices.texts))
    finally:
        choices.cancel()


async def while_connected(request: Request, work: Coroutine[Any, Any, None]) -> bool:
    """Whether the work was done before the client left, which ends it; its errors are raised."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        working.result()
        return True
    finally:
        working.cancel()
        gone.cancel()


async def _finished(choices: Choices, timer: TokenTimer) -> None:
    async with aclosing(choices.chunks()) as chunks:
        async for index, chunk in chunks:
            if chunk.token_ids:
                timer.seen(index)


async def _events(choices: Choices, answer: Answer, how: Delivery, timer: TokenTimer) -> AsyncIterator[dict[str, Any]]:
    try:
        for piece in answer.opening(len(choices.texts)):
            yield _event(piece)
        async with aclosing(choices.chunks()) as chunks:
            async for index, chunk in chunks:
                if chunk.token_ids:
                    timer.seen(index)
                piece = answer.piece(index, chunk)
                if piece is not None:
                    yield _event(piece)
        if how.usage:
            yield _event(answer.closing(choices.texts))
        yield {"data": "[DONE]"}
    except Exception as error:  # the status is sent already; the stream ends with what went wrong
        yield _event(request_error_of(error).envelope())
    finally:
        choices.cancel()


def _event(content: dict[str, Any]) -> dict[str, Any]:
    return {"data": json.dumps(content, ensure_ascii=False, separators=(",", ":"))}


async def _gone(request: Request) -> None:
    """Returns when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
