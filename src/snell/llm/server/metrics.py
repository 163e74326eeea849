"""Metrics for Prometheus: requests, times of tokens, and what the runner does at the moment of asking."""

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from snell.llm.serving import Load

__all__ = ["Metrics", "TokenTimer"]

_FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_NEXT = (0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """One registry a server; ``load`` is asked whenever the metrics are read."""

    def __init__(self, load: Callable[[], Load] | None) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "snell_requests", "Requests by path and status.", ("path", "status"), registry=self._registry
        )
        self.first_token = Histogram(
            "snell_first_token_seconds", "Until a text's first token.", buckets=_FIRST, registry=self._registry
        )
        self.next_token = Histogram(
            "snell_next_token_seconds", "Between a text's tokens.", buckets=_NEXT, registry=self._registry
        )
        if load is not None:
            self._registry.register(_LoadCollector(load))

    def text(self) -> bytes:
        """In Prometheus' text form."""
        return generate_latest(self._registry)


class TokenTimer:
    """Times the tokens of one request's texts."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._start = time.perf_counter()
        self._last: dict[int, float] = {}

    def seen(self, index: int) -> None:
        """A token of the text with this number came."""
        now = time.perf_counter()
        if index in self._last:
            self._metrics.next_token.observe(now - self._last[index])
        else:
            self._metrics.first_token.observe(now - self._start)
        self._last[index] = now


class _LoadCollector(Collector):
    def __init__(self, load: Callable[[], Load]) -> None:
        self._load = load

    def collect(self) -> Iterable[Metric]:
        load = self._load()
        yield GaugeMetricFamily("snell_texts_waiting", "Texts that have not begun.", load.waiting)
        yield GaugeMetricFamily("snell_texts_running", "Texts being read or written.", load.running)
        yield GaugeMetricFamily("snell_cache_bytes", "Cache memory that counts against the budget.", load.cache_bytes)
        yield CounterMetricFamily("snell_prompt_tokens", "Prompt tokens computed.", load.prompt_tokens)
        yield CounterMetricFamily("snell_reused_tokens", "Prompt tokens that were in a cache.", load.reused_tokens)
        yield CounterMetricFamily("snell_generated_tokens", "Tokens generated.", load.generated_tokens)
