"""A load on a server with OpenAI's interface: streams over sockets, and the times at which their tokens came.

Prompts are random token ids, so no two begin alike and nothing that was read for one is of use to another.
"""

import http.client
import json
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from snell.errors import SnellError

__all__ = ["Client", "TokenTimes", "kept_rate", "kept_share", "total_rate", "under_load"]

_CLIENTS, _TOKENS, _LENGTHS = 4, 24, (16, 64, 256, 32, 128, 16)
_LONG = 1024
_STREAMS, _BEFORE = 3, 40
_TIMEOUT = 240.0


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """When a text was asked for, and when each of its tokens came."""

    asked: float
    came: tuple[float, ...]

    @property
    def first(self) -> float:
        """Seconds until the first token."""
        return self.came[0] - self.asked

    @property
    def between(self) -> list[float]:
        """Seconds from each token to the next."""
        return np.diff(self.came).tolist()


@dataclass(frozen=True, slots=True)
class Client:
    """Asks the model of a server for texts; ``ends`` are ids of tokens that would end one, and are forbidden."""

    host: str
    port: int
    model: str
    ends: Collection[int]
    vocabulary: int

    def stream(self, seed: int, length: int, tokens: int, came: Callable[[], None] = lambda: None) -> TokenTimes:
        """The times of a text of so many tokens after a prompt of that length; ``came`` is told of each token."""
        prompt = np.random.default_rng(seed).integers(self.vocabulary // 2, size=length).tolist()
        asked = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "logprobs": 0,  # so that a token of which no text can be shown yet comes too
            "logit_bias": {str(id_): -1e9 for id_ in self.ends},
        }
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT)
        start = time.perf_counter()
        try:
            connection.request("POST", "/v1/completions", json.dumps(asked), {"Content-Type": "application/json"})
            times = _token_times(connection.getresponse(), came)
        finally:
            connection.close()
        if len(times) != tokens:
            raise SnellError(f"expected {tokens} tokens of the server, received {len(times)}")
        return TokenTimes(start, tuple(times))


def under_load(client: Client) -> list[TokenTimes]:
    """Four clients ask one request after the other; when the first is half through, a long prompt comes."""
    halfway = threading.Event()

    def ask(place: int) -> list[TokenTimes]:
        found: list[TokenTimes] = []
        for number, length in enumerate(_LENGTHS):
            if place == 0 and number == len(_LENGTHS) // 2:
                halfway.set()
            found.append(client.stream(100 * place + number, length, _TOKENS))
        return found

    def ask_long() -> TokenTimes:
        halfway.wait(_TIMEOUT)
        return client.stream(1000, _LONG, _TOKENS)

    with ThreadPoolExecutor(_CLIENTS + 1) as threads:
        long = threads.submit(ask_long)
        short = list(threads.map(ask, range(_CLIENTS)))
        return [*(times for each in short for times in each), long.result()]


def kept_rate(client: Client) -> float:
    """The share of their rate that three streams keep while a long prompt is read."""
    under_way = threading.Semaphore(0)

    def write(place: int) -> TokenTimes:
        count = 0

        def came() -> None:
            nonlocal count
            count += 1
            if count == _BEFORE:
                under_way.release()

        return client.stream(place, 16, 12 * _BEFORE, came)

    with ThreadPoolExecutor(_STREAMS) as threads:
        writing = [threads.submit(write, place) for place in range(_STREAMS)]
        for _ in writing:
            under_way.acquire(timeout=_TIMEOUT)
        long = client.stream(1000, _LONG, 1)
        streams = [each.result() for each in writing]
    return kept_share(streams, long)


def kept_share(streams: Sequence[TokenTimes], long: TokenTimes) -> float:
    """The rate of streams while another text's prompt is read, over their rate before it was asked for."""
    begin = max(times.came[0] for times in streams)
    end = min(long.came[0], *(times.came[-1] for times in streams))
    return _rate(streams, long.asked, end) / _rate(streams, begin, long.asked)


def total_rate(client: Client, streams: int) -> float:
    """Tokens a second of all streams together, while all of them are being written."""
    with ThreadPoolExecutor(streams) as threads:
        times = list(threads.map(lambda place: client.stream(place, 16, 4 * _BEFORE), range(streams)))
    return _rate(times, max(each.came[0] for each in times), min(each.came[-1] for each in times))


def _rate(streams: Sequence[TokenTimes], begin: float, end: float) -> float:
    """Tokens a second that came after the one time and until the other."""
    if end <= begin:
        raise SnellError("the streams did not run at the same time, so they have no rate together; measure longer ones")
    return sum(begin < moment <= end for times in streams for moment in times.came) / (end - begin)


def _token_times(response: http.client.HTTPResponse, came: Callable[[], None]) -> list[float]:
    if response.status != 200:
        raise SnellError(f"the server answered {response.status}: {response.read(500).decode(errors='replace')}")
    times: list[float] = []
    for line in response:
        data = line.removeprefix(b"data:").strip()
        if data == line.strip() or data == b"[DONE]":
            continue
        event = json.loads(data)
        if "error" in event:
            raise SnellError(f"the server ended a stream: {event['error']['message']}")
        if event["choices"][0]["logprobs"] is not None:
            times.append(time.perf_counter())
            came()
    return times
