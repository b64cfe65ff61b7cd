"""The work of the server, without HTTP: hold documents, answer, recall, rank."""

import asyncio
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anyio import CapacityLimiter, to_thread

from cogltx.document import Document, Query
from cogltx.errors import DataError
from cogltx.formats import FORMATS, ending, read_document
from cogltx.formats._limits import Limits
from cogltx.pipeline import BATCH_CHARACTERS, CogLTX, Ranking, batches_of_texts
from cogltx.prediction import Prediction
from cogltx.recall import Recall
from cogltx.server._middleware import Metrics
from cogltx.server._shelf import Shelf
from cogltx.server._worker import Worker

_FILES_AT_ONCE = 4  # each in a process of its own


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Limits of the server.

    Attributes:
        max_megabytes: size of a request.
        max_documents: number of documents held.
        queue_size: number of requests that wait to be read.
        max_seconds: limit of processor time to read a file; smaller files have a smaller one, see ``read_document``.
        api_key: required as ``Authorization: Bearer KEY`` if given.
    """

    max_megabytes: int = 64
    max_documents: int = 200
    queue_size: int = 64
    max_seconds: float = 60.0
    api_key: str | None = None


@dataclass(frozen=True)
class _Job:
    """The documents of one request, their question, and whether the reasoner answers it; or texts to rank."""

    documents: tuple[Document, ...]
    query: Query
    reasons: bool = False
    texts: tuple[str, ...] = ()

    @property
    def n_characters(self) -> int:
        """Size of the job."""
        return sum(len(document.text) for document in self.documents) + sum(map(len, self.texts))


class Service:
    """Holds documents and reads them for many requests at once; ``name`` is the model's in responses."""

    def __init__(self, reader: CogLTX, name: str, config: ServerConfig) -> None:
        self.reader, self.name, self.config = reader, name, config
        self.shelf = Shelf(config.max_documents)
        self.metrics = Metrics()
        self.worker = Worker(
            self._read, config.queue_size,
            size=lambda job: job.n_characters, max_size=BATCH_CHARACTERS,
            observe=self.metrics.batch_size.observe,
        )  # fmt: skip
        self.metrics.waiting.set_function(lambda: self.worker.waiting)
        self.metrics.documents.set_function(lambda: len(self.shelf))
        self.metrics.characters.set_function(lambda: self.shelf.n_characters)
        self._files = CapacityLimiter(_FILES_AT_ONCE)

    async def read_upload(self, name: str, content: bytes) -> Document:
        """Read an uploaded file in the format that its name ends with; raises DataError."""
        return await to_thread.run_sync(_read_upload, name, content, self.config.max_seconds, limiter=self._files)

    async def answer(self, document: Document, question: str) -> Prediction:
        """Answer a question about a document; raises BusyError, and DataError if it cannot be read."""
        [prediction] = await self._submit([document], question, reasons=True)
        assert isinstance(prediction, Prediction)
        return prediction.within(document)

    async def recall(self, document: Document, question: str) -> Recall:
        """Find the key blocks of a document for a question; errors as ``answer``."""
        [recall] = await self._submit([document], question)
        assert isinstance(recall, Recall)
        return recall

    async def relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score texts of any length for a query, in batches between which others are served; errors as ``answer``."""
        [ranking] = await self._submit([], query, texts=texts)
        assert isinstance(ranking, Ranking)
        relevance: dict[int, float] = {}
        for batch in batches_of_texts(ranking.judged, lambda number: len(texts[number])):
            recalls = await self._submit([Document(texts[number]) for number in batch], query)
            for number, recall in zip(batch, recalls, strict=True):
                assert isinstance(recall, Recall)
                relevance[number] = recall.relevance
        return ranking.scores(relevance)

    async def _submit(
        self, documents: Iterable[Document], question: str, *, reasons: bool = False, texts: Sequence[str] = ()
    ) -> Sequence[Recall | Prediction | Ranking]:
        job = _Job(tuple(documents), Query(question), reasons, tuple(texts))
        return await asyncio.wrap_future(self.worker.submit(job))

    def _read(self, jobs: Sequence[_Job]) -> list[Sequence[Recall | Prediction | Ranking]]:
        """Read the documents of several requests: key blocks together, then answers together; rank texts."""
        layouts = [self.reader.model.layout(document, job.query) for job in jobs for document in job.documents]
        recalls = iter(self.reader.memrecall(layouts))
        of_jobs = [[next(recalls) for _ in job.documents] for job in jobs]
        asked = [recall for job, found in zip(jobs, of_jobs, strict=True) for recall in found if job.reasons]
        predictions = iter(self.reader.reason_over(asked))
        return [
            [self.reader.ranking(job.query, job.texts)] if job.texts
            else [next(predictions) for _ in found] if job.reasons else found
            for job, found in zip(jobs, of_jobs, strict=True)
        ]  # fmt: skip


def _read_upload(name: str, content: bytes, max_seconds: float) -> Document:
    """Read a file from a temporary folder; messages and the document have the client's name."""
    kind = ending(name)
    title = name.replace("\\", "/").rpartition("/")[2][:200] or "file"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"upload{kind if kind in FORMATS else '.txt'}"
        path.write_bytes(content)
        try:
            document = read_document(path, seconds=min(max_seconds, Limits.of(len(content)).seconds))
        except DataError as error:
            raise DataError(str(error).replace(str(path), title)) from None
    return replace(document, id=title)
