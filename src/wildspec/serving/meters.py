"""What the service counts, for Prometheus. Own registry: two services in one process do not mix."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

LATENCY = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Meters:
    """Counters and histograms of one service."""

    def __init__(self, inside: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "wildspec_requests", "Requests by path and status", ["path", "status"], registry=self.registry
        )
        images = Counter("wildspec_images", "Images judged, by decision", ["decision"], registry=self.registry)
        self.kept, self.rejected = images.labels("kept"), images.labels("rejected")
        self.seconds = Histogram(
            "wildspec_predict_seconds", "Time of predict requests", buckets=LATENCY, registry=self.registry
        )
        self.batch = Histogram(
            "wildspec_batch_images", "Images judged together", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            registry=self.registry,
        )  # fmt: skip
        held = Gauge("wildspec_images_inside", "Images admitted and not yet answered", registry=self.registry)
        held.set_function(inside)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
