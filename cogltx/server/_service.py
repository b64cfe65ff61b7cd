"""The work of the server, without HTTP: hold documents, prepare them, answer, recall, rank."""

import asyncio
import tempfile
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from anyio import CapacityLimiter, to_thread
from more_itertools import map_reduce

from cogltx._files import fingerprint
from cogltx._folders import MULTILINGUAL_MODEL
from cogltx._languages import model_for
from cogltx.blocks import Blocks
from cogltx.document import Document, Query
from cogltx.encoding.layout import Layout
from cogltx.errors import CogltxError, DataError
from cogltx.formats import FORMATS, _processes, ending, read_document
from cogltx.formats._limits import Limits
from cogltx.index import splitter_key
from cogltx.judges import BM25Retriever, Memory
from cogltx.pipeline import CogLTX
from cogltx.prediction import Evidence, Prediction
from cogltx.recall import Recall
from cogltx.server._middleware import Metrics
from cogltx.server._scheduler import Scheduler
from cogltx.server._shelf import Held, Shelf
from cogltx.server._work import ANSWERING, READING, SEARCHING, GivenUpError, Lane, Pace, Work

_FILES_AT_ONCE, _FILES_PER_CLIENT = 4, 2  # each in a process of its own
_SHORT = 20_000  # characters of short works
_TOGETHER = 60_000  # characters of short works that are read together
_CHARACTERS_PER_TOKEN = 4.0  # before the text is split
_FIRST_PASSAGES = 3
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Limits of the server.

    Attributes:
        max_megabytes: size of a request.
        max_documents: number of documents held; a client may have half of them.
        queue_size: number of requests that wait to be read; a client may have half of them.
        max_seconds: limit of processor time to read a file; smaller files have a smaller one, see ``read_document``.
        max_requests: number of requests of one client per minute.
        workers: number of batches that run at the same time; they share the processor cores, one alone has them all.
        store: a folder that keeps the documents when the server ends; None: they are forgotten.
        allowed_hosts: host names of the server, besides those of this machine.
        api_key: required as ``Authorization: Bearer KEY`` if given.
    """

    max_megabytes: int = 64
    max_documents: int = 200
    queue_size: int = 256
    max_seconds: float = 60.0
    max_requests: int = 6000
    workers: int = 2
    store: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    api_key: str | None = None


@dataclass(frozen=True)
class _Job:
    """A short text with its question, and whether the reasoner answers it; or short texts to rank."""

    query: Query
    document: Document | None = None
    reasons: bool = False
    texts: tuple[str, ...] = ()

    @property
    def n_characters(self) -> int:
        """Size of the job."""
        return (len(self.document.text) if self.document is not None else 0) + sum(map(len, self.texts))


class Service:
    """Holds documents and reads them for many requests at once.

    Args:
        reader: the model.
        name: its name in responses.
        config: limits.
        load: loads the released model that is used for other languages than English; None: ``reader`` reads all.
    """

    def __init__(
        self, reader: CogLTX, name: str, config: ServerConfig, load: Callable[[str], CogLTX] | None = None
    ) -> None:
        self.reader, self.name, self.config = reader, name, config
        self._readers, self._load, self._loading = {name: reader}, load, Lock()
        self._keys: dict[str, str] = {}  # of the vectors that a model computes
        self.shelf = Shelf(config.max_documents, config.store)
        self.metrics = Metrics()
        self.pace = Pace()
        self.scheduler: Scheduler[_Job, Prediction | Recall | list[float]] = Scheduler(
            self._read, slots=config.workers, threads=config.workers + 1, queue_size=config.queue_size,
            size=lambda job: job.n_characters, max_size=_TOGETHER, observe=self.metrics.batch_size.observe,
        )  # fmt: skip
        self.metrics.waiting.set_function(lambda: self.scheduler.waiting)
        self.metrics.documents.set_function(lambda: len(self.shelf))
        self.metrics.characters.set_function(lambda: self.shelf.n_characters)
        self._files = CapacityLimiter(_FILES_AT_ONCE)
        self._pages = CapacityLimiter(_FILES_PER_CLIENT)
        self._files_of: weakref.WeakValueDictionary[str, CapacityLimiter] = weakref.WeakValueDictionary()
        self.stopping = asyncio.Event()

    def _model_of(self, parts: Sequence[Held], questions: Sequence[str] = ()) -> str:
        """Name the model that reads documents together, and questions about them."""
        if self._load is None:
            return self.name
        if model_for([], questions) == MULTILINGUAL_MODEL:
            return MULTILINGUAL_MODEL
        models = {held.model for held in parts}
        return models.pop() if len(models) == 1 else MULTILINGUAL_MODEL

    def _model_of_job(self, job: _Job) -> str:
        """Name the model of a short job, or of texts to rank."""
        if self._load is None:
            return self.name
        return model_for([job.document or Document("\n".join([job.query.text, *job.texts]))], [job.query.text])

    def _reader(self, name: str) -> CogLTX:
        """Return a model, loaded when it is needed first."""
        with self._loading:
            if name not in self._readers:
                assert self._load is not None
                self._readers[name] = self._load(name)
            return self._readers[name]

    def stop(self) -> None:
        """Give up all works, and end the processes that read files."""
        self.stopping.set()
        self.scheduler.stop()
        _processes.end_all()

    def close(self) -> None:
        """Stop, and remove what is not kept."""
        self.stop()
        self.shelf.close()

    async def read_upload(self, name: str, content: bytes, client: str) -> Document:
        """Read an uploaded file in the format that its name ends with; raises DataError."""
        of_client = self._files_of.setdefault(client, CapacityLimiter(_FILES_PER_CLIENT))
        async with of_client:
            read = partial(_read_upload, name, content, self.config.max_seconds)
            try:
                return await to_thread.run_sync(read, limiter=self._files)
            except DataError:
                if self.stopping.is_set():
                    raise GivenUpError from None
                raise

    async def page_sizes(self, held: Held) -> list[tuple[float, float]]:
        """Measure the pages of a PDF in points; empty for other formats."""
        if held.pdf is None:
            return []
        limits = Limits.of(held.pdf.stat().st_size)
        return await to_thread.run_sync(_processes.page_sizes, held.pdf, held.document.id, limits, limiter=self._pages)

    async def page_picture(self, held: Held, number: int, scale: float) -> bytes:
        """Draw a page of a PDF as PNG; raises DataError for other formats, and if there is no such page."""
        if held.pdf is None:
            raise DataError(f"{held.document.id}: only pages of PDF files are drawn")
        draw = partial(_processes.page_picture, held.pdf, held.document.id, number, scale)
        return await to_thread.run_sync(draw, Limits.of(held.pdf.stat().st_size), limiter=self._pages)

    async def hold(self, document: Document, client: str, pdf: bytes | None = None) -> Held:
        """Hold a document, and prepare it for questions in the background; raises ShelfFullError."""
        self.shelf.make_room(client)
        held = self.shelf.add(await to_thread.run_sync(self.shelf.write, document, client, pdf))
        work = Work(client, Lane.BACKGROUND, self.pace)
        work.plan(held.n_characters / _CHARACTERS_PER_TOKEN, asks=False)
        self.scheduler.run(work, partial(self._prepare_early, held, self._model_of([held]), work))
        return held

    def prepared(self, held: Held) -> float:
        """Return the share of a document that is prepared for questions."""
        if held.blocks or held.has_vectors:
            return 1.0
        return held.work.progress().share if held.work is not None else 0.0

    def ask(self, parts: Sequence[Held], document: Document, question: str, work: Work) -> "Future[Prediction]":
        """Begin to answer a question about a document, or one joined from parts; raises BusyError."""
        query = Query(question)
        return self.scheduler.run(work, partial(self._answer, parts, document, query, work))

    async def answer(self, parts: Sequence[Held], document: Document, question: str, client: str) -> Prediction:
        """Answer a question about a document; raises BusyError, and DataError if it cannot be read."""
        work, query = Work(client, pace=self.pace), Query(question)
        job = _Job(query, document, reasons=True) if self._is_short(parts) else None
        return await self._finished(work, job, partial(self._answer, parts, document, query, work))

    async def recall(self, parts: Sequence[Held], document: Document, question: str, client: str) -> Recall:
        """Find the key blocks of a document for a question; errors as ``answer``."""
        work, query = Work(client, pace=self.pace), Query(question)
        job = _Job(query, document) if self._is_short(parts) else None
        return await self._finished(work, job, partial(self._recall, parts, document, query, work))

    async def relevance(self, query: str, texts: Sequence[str], client: str) -> list[float]:
        """Score texts of any length for a query; errors as ``answer``."""
        work, job = Work(client, pace=self.pace), _Job(Query(query), texts=tuple(texts))
        is_short = job.n_characters <= _SHORT
        return await self._finished(work, job if is_short else None, partial(self._relevance, job))

    async def _finished(self, work: Work, job: _Job | None, do: Callable[[], Result]) -> Result:
        """Do a short job together with others, or else a long work alone; give it up if the request ends before."""
        future: Future[Any] = self.scheduler.run(work, do) if job is None else self.scheduler.submit(work, job)
        try:
            result: Result = await asyncio.wrap_future(future)
            return result
        except asyncio.CancelledError:
            work.give_up()
            raise

    def _is_short(self, parts: Sequence[Held]) -> bool:
        """Check whether a text is short and was sent with its question."""
        return len(parts) == 1 and not parts[0].id and parts[0].n_characters <= _SHORT

    def _read(self, jobs: Sequence[_Job]) -> list[Prediction | Recall | list[float]]:
        """Do several short jobs, those of one model together."""
        results: dict[int, Prediction | Recall | list[float]] = {}
        by_model = map_reduce(range(len(jobs)), lambda number: self._model_of_job(jobs[number]))
        for name, numbers in by_model.items():
            read = self._read_with(self._reader(name), [jobs[number] for number in numbers])
            results |= dict(zip(numbers, read, strict=True))
        return [results[number] for number in range(len(jobs))]

    @staticmethod
    def _read_with(reader: CogLTX, jobs: Sequence[_Job]) -> list[Prediction | Recall | list[float]]:
        """Do several short jobs: key blocks together, then answers together; rank texts."""
        model = reader.model
        rankings = {number: reader.ranking(job.query, job.texts) for number, job in enumerate(jobs) if job.texts}
        layouts = list[Layout]()
        for number, job in enumerate(jobs):
            if job.document is not None:
                layouts.append(model.layout(job.document, job.query))
            else:
                layouts += [model.layout(Document(job.texts[one]), job.query) for one in rankings[number].judged]
        recalls = iter(reader.memrecall(layouts))
        results: list[Prediction | Recall | list[float]] = []
        for number, job in enumerate(jobs):
            if job.document is not None:
                results.append(next(recalls))
            else:
                relevance = {one: next(recalls).relevance for one in rankings[number].judged}
                results.append(rankings[number].scores(relevance))
        asked = [number for number, job in enumerate(jobs) if job.reasons]
        predictions = reader.reason_over([one for one in map(results.__getitem__, asked) if isinstance(one, Recall)])
        for number, prediction in zip(asked, predictions, strict=True):
            results[number] = prediction
        return results

    def _relevance(self, job: _Job) -> list[float]:
        return self._reader(self._model_of_job(job)).relevance(job.query, job.texts)

    def _answer(self, parts: Sequence[Held], document: Document, query: Query, work: Work) -> Prediction:
        recall = self._recall(parts, document, query, work)
        work.begin(ANSWERING)
        [prediction] = self._reader(self._model_of(parts, [query.text])).reason_over([recall])
        work.finish()
        return prediction.within(document)

    def _recall(self, parts: Sequence[Held], document: Document, query: Query, work: Work) -> Recall:
        name = self._model_of(parts, [query.text])
        reader, unprepared = self._reader(name), [held for held in parts if name not in held.blocks]
        work.plan(sum(held.n_characters for held in unprepared) / _CHARACTERS_PER_TOKEN)
        if unprepared:
            work.begin(READING)
        layout = _layout(reader, parts, document, query)
        if unprepared:
            work.found = _first_passages(layout, document), True
        vectors = [self._prepare(held, name, work) for held in parts]
        if len(parts) > 1:
            reader.memrecall.judge.use_vectors(layout.blocks, np.concatenate(vectors))
        work.begin(SEARCHING)
        [recall] = reader.memrecall([layout])
        work.found = tuple(one.within(document) for one in recall.evidence), False
        return recall

    def _prepare_early(self, held: Held, name: str, work: Work) -> None:
        """Prepare a document before a question comes; what is wrong with it, the question will say."""
        work.begin(READING)
        with suppress(CogltxError, GivenUpError):
            self._prepare(held, name, work)
            work.finish()

    def _prepare(self, held: Held, name: str, work: Work) -> np.ndarray:
        """Split a document and compute its vectors, or wait for the work that does."""
        while not held.lock.acquire(timeout=0.1):
            work.check()
            if held.work is not None:
                work.follow(held.work)
        try:
            held.work, reader = work, self._reader(name)
            layout = reader.model.layout(held.document, None)
            if name not in held.blocks:
                work.correct(layout.blocks.n_tokens - held.n_characters / _CHARACTERS_PER_TOKEN)
            vectors = self._vectors(held, name, layout)
            held.blocks[name] = layout.blocks
            return vectors
        finally:
            held.work = None
            held.lock.release()

    def _vectors(self, held: Held, name: str, layout: Layout) -> np.ndarray:
        """Return the vectors of the blocks: of this process, of the folder that keeps the document, or computed."""
        judge = self._readers[name].memrecall.judge
        if not judge.index_key or name in held.blocks:
            return judge.vectors(layout)
        if name not in self._keys:
            self._keys[name] = _vectors_key(self._readers[name])
        key = self._keys[name]
        kept = held.load_vectors(key, len(layout.blocks))
        if kept is not None:
            judge.use_vectors(layout.blocks, kept)
            return kept
        vectors = judge.vectors(layout)
        held.save_vectors(key, vectors)
        return vectors


def _vectors_key(reader: CogLTX) -> str:
    """Fingerprint of what the vectors of a document depend on."""
    splitter = splitter_key(reader.model.tokenizer, reader.config.max_block_tokens)
    return fingerprint([splitter, reader.memrecall.judge.index_key])


def _layout(reader: CogLTX, parts: Sequence[Held], document: Document, query: Query) -> Layout:
    """Lay out a question and a document; the blocks of one that was joined are those of its parts."""
    model = reader.model
    if len(parts) > 1 and model.cached_blocks(document) is None:
        model.keep(Blocks.joined(document, [model.split(held.document) for held in parts]))
    return model.layout(document, query)


def _first_passages(layout: Layout, document: Document) -> tuple[Evidence, ...]:
    """Return the best blocks by BM25, which take no time, before the judge has scored any."""
    shares, found = BM25Retriever().shares(Memory(layout)), list[Evidence]()
    for block in np.argsort(-shares, kind="stable")[:_FIRST_PASSAGES].tolist():
        if shares[block] > 0:
            start, end = layout.blocks.trimmed(block)
            text = layout.blocks.document.text[start:end]
            found.append(Evidence(start, end, text, round(float(shares[block]), 4), 1).within(document))
    return tuple(found)


def _read_upload(name: str, content: bytes, max_seconds: float) -> Document:
    """Read a file from a temporary folder; messages and the document have the client's name."""
    kind = ending(name)
    title = name.replace("\\", "/").rpartition("/")[2][:200] or "file"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"upload{kind if kind in FORMATS else '.txt'}"
        path.write_bytes(content)
        return read_document(path, name=title, seconds=min(max_seconds, Limits.of(len(content)).seconds))
