"""Metrics in the format of Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_SIZES = (1, 2, 4, 8, 16, 32)


class Metrics:
    """Counts and times of one server."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter("cogltx_requests", "Requests by route and status.", labels, registry=registry)
        self.seconds = Histogram(
            "cogltx_request_seconds", "Seconds per request.", ("route",), buckets=_SECONDS, registry=registry
        )
        self.batch_size = Histogram(
            "cogltx_batch_size", "Requests that are read together.", buckets=_SIZES, registry=registry
        )
        self.waiting = Gauge("cogltx_waiting_requests", "Requests in the queue.", registry=registry)
        self.documents = Gauge("cogltx_documents", "Documents held.", registry=registry)
        self.characters = Gauge("cogltx_characters", "Characters of the documents held.", registry=registry)

    def text(self) -> str:
        """All metrics as text."""
        return generate_latest(self._registry).decode()
