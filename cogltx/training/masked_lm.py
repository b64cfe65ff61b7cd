"""Masked-LM training: continue the pretraining of an encoder on texts, optionally with more positions.

texts → rows of tokens → masks → encoder with masked-LM head → a checkpoint of ``transformers``, head included
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from tqdm.auto import tqdm

from cogltx.blocks import load_tokenizer
from cogltx.blocks.tokens import tokenize
from cogltx.document import Document, Segment
from cogltx.encoding.encoder import Batch, Encoder, Precision, batches
from cogltx.encoding.layout import NONE, Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig, load_pretrained
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.files import fingerprint, new_folder, write_json
from cogltx.tasks.texts import read_texts
from cogltx.training.data import expand
from cogltx.training.loop import TrainingLoop
from cogltx.training.optimizer import Optimizer, OptimizerConfig, Seed, default_rate
from cogltx.training.run import check_folder, store_config

FIGURES = "mlm.json"  # in the folder of a finished run
_ENCODER = "encoder"  # in the folder of a run: the trained checkpoint
_NAME = "masked-lm"
_CHARACTERS = 1 << 20  # tokenized together

Row: TypeAlias = Int[np.ndarray, " _"]
"""``[CLS] text [SEP] text … [SEP]``: vocabulary indices."""


class TextsConfig(BaseModel):
    """The texts: a text file, a folder of ``.txt`` files, or JSON Lines with ``text``; each may be gzipped.

    ``$NAME`` in a path is replaced by the environment variable.

    Attributes:
        train: training texts.
        validation: validation texts; without them, ``held_out`` training rows validate.
        validation_limit: maximum number of validation rows, drawn at random.
        held_out: number of training rows that validate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: str
    validation: str | None = None
    validation_limit: int | None = Field(None, ge=1)
    held_out: int = Field(100, ge=1)


class MaskedTrainingConfig(BaseModel):
    """Settings of masked-LM training.

    Attributes:
        steps: optimizer steps.
        batch_size: rows per step.
        learner: the optimizer; its ``head_rate`` applies only to a new head.
        share: share of the tokens to predict.
        gradient_checkpointing: recompute each layer in the backward pass, which saves memory.
        validation_steps: steps between validations; the first is before training, the last after it.
        checkpoint_steps: steps between checkpoints.
        seed: seed of all random choices.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(1000, ge=1)
    batch_size: int = Field(32, ge=1)
    learner: Annotated[OptimizerConfig, default_rate(1e-4)] = OptimizerConfig(learning_rate=1e-4)
    share: float = Field(0.15, gt=0, lt=1)
    gradient_checkpointing: bool = False
    validation_steps: int = Field(100, ge=1)
    checkpoint_steps: int = Field(100, ge=1)
    seed: Seed = 0


class MaskedConfig(BaseModel):
    """One run of masked-LM training.

    Attributes:
        encoder: the encoder to start from, and how its positions are extended.
        data: the texts.
        length: tokens per row.
        training: settings of the training.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoder: EncoderConfig = EncoderConfig()
    data: TextsConfig
    length: int = Field(512, ge=32)
    training: MaskedTrainingConfig = MaskedTrainingConfig()


@dataclass(frozen=True)
class _Rows:
    """Rows for training and validation."""

    train: Sequence[Row]
    validation: Sequence[Row]


def _packed(texts: Iterable[str], tokenizer: Any, length: int) -> list[Row]:
    """Tokenize texts and pack them into rows.

    Raises:
        DataError: a text is not valid, or the tokenizer drops all characters.
    """
    progress = tqdm(texts, desc="texts", unit=" texts", disable=None, leave=False)
    rows = _pack(_token_ids(iter(progress), tokenizer), WindowFormat(tokenizer, length))
    if not rows:
        raise DataError("texts: the tokenizer drops all characters")
    return rows


def _set_apart(train: Sequence[Row], validation: Sequence[Row] | None, config: TextsConfig, seed: int) -> _Rows:
    """Select the validation rows: of the validation texts, or held out.

    Raises:
        DataError: no row is left to train on.
    """
    rng = np.random.default_rng([seed, 3])
    if validation is not None:
        count = min(config.validation_limit or len(validation), len(validation))
        drawn = sorted(rng.choice(len(validation), size=count, replace=False).tolist())
        return _Rows(train, [validation[index] for index in drawn])
    if len(train) <= config.held_out:
        raise DataError(
            f"{config.train}: data.held_out is {config.held_out}, but there are only {len(train)} rows; hold out "
            "fewer, or name validation texts with data.validation"
        )
    held_out = set(rng.choice(len(train), size=config.held_out, replace=False).tolist())
    kept = [row for index, row in enumerate(train) if index not in held_out]
    return _Rows(kept, [train[index] for index in sorted(held_out)])


def _token_ids(texts: Iterable[str], tokenizer: Any) -> Iterator[Int[np.ndarray, " _"]]:
    """The tokens of each text, without special tokens; skips texts of which the tokenizer drops all characters."""
    group: list[str] = []
    n_characters = 0
    for text in texts:
        group.append(text)
        n_characters += len(text)
        if n_characters >= _CHARACTERS:
            yield from _tokenize_group(group, tokenizer)
            group, n_characters = [], 0
    if group:
        yield from _tokenize_group(group, tokenizer)


def _tokenize_group(texts: list[str], tokenizer: Any) -> Iterator[Int[np.ndarray, " _"]]:
    ends = np.cumsum([len(text) for text in texts]).tolist()
    segments = [Segment(end - len(text), end) for text, end in zip(texts, ends, strict=True)]
    try:
        ids, _, _, token_ends = tokenize(Document("".join(texts)), segments, tokenizer)
    except DataError:  # the tokenizer drops all characters
        return
    yield from (text_ids for text_ids in np.split(ids, token_ends[:-1]) if len(text_ids))


def _pack(texts: Iterable[Int[np.ndarray, " _"]], form: WindowFormat) -> list[Row]:
    """Rows with all tokens of all texts, in order, filled to the capacity; the last may be shorter.

    Args:
        texts: their tokens. A text may continue in the next row; a separator parts the texts of a row. A row with room
            for that separator only is one token short.
        form: special tokens and capacity.
    """
    rows: list[Row] = []
    start, separator = np.array([form.start_id]), np.array([form.separator_id])
    parts, used = [start], 1

    def close() -> None:
        nonlocal parts, used
        rows.append(np.concatenate([*parts, separator]).astype(np.int32))
        parts, used = [start], 1

    for ids in texts:
        first = 0
        while first < len(ids):
            between = [separator] if used > 1 and first == 0 else []
            room = form.capacity - 1 - used - len(between)
            if room > 0:
                taken = ids[first : first + room]
                parts += [*between, taken]
                used += len(between) + len(taken)
                first += len(taken)
            if room <= 0 or used == form.capacity - 1:
                close()
    if used > 1:
        close()
    return rows


@dataclass(frozen=True)
class _MaskedRow:
    """A row as the model sees it.

    Attributes:
        window: the row with some tokens masked or replaced.
        places: positions of the tokens to predict, ascending.
        targets: these tokens.
    """

    window: Window
    places: Int[np.ndarray, " masked"]
    targets: Int[np.ndarray, " masked"]


class Masking:
    """Masks rows as BERT was trained, with the data collator of ``transformers``.

    Args:
        tokenizer: names the special tokens, which are never predicted.
        share: share of the other tokens to predict, in (0, 1).

    Raises:
        ModelError: the tokenizer has no mask token.
    """

    def __init__(self, tokenizer: Any, share: float = 0.15) -> None:
        from transformers import DataCollatorForLanguageModeling

        if tokenizer.mask_token_id is None:
            raise ModelError("encoder: the tokenizer has no mask token")
        self.special = np.array(sorted(tokenizer.all_special_ids))
        self.collator: Any = DataCollatorForLanguageModeling(tokenizer, mlm_probability=share, return_tensors="np")

    def apply(self, row: Row, rng: np.random.Generator) -> _MaskedRow:
        """Mask a row; the generator alone determines the masks."""
        self.collator.generator = rng
        is_special = np.isin(row, self.special)[None]
        token_ids, labels = self.collator.numpy_mask_tokens(row[None].astype(np.int64), is_special)
        places = np.flatnonzero(labels[0] != -100)
        no_block = np.full(len(row), NONE, dtype=np.int32)
        return _MaskedRow(Window(token_ids[0].astype(np.int32), no_block, no_block, len(row)), places, row[places])


class _Identity(nn.Module):
    """Identity stand-in for the backbone."""

    def forward(self, *_: object, inputs_embeds: Tensor, **__: object) -> Any:
        """Return the input vectors in an encoder's output class."""
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=inputs_embeds)


class _MaskedModel(nn.Module):
    """An encoder with its architecture's masked-LM head, which computes only the tokens to predict.

    The head costs as much as a small encoder; its output layer is tied to the word embeddings.

    Args:
        model: an ``AutoModelForMaskedLM``, which is taken apart.
        new_head: whether the head is untrained.
    """

    def __init__(self, model: Any, *, new_head: bool) -> None:
        super().__init__()
        self.new_head = new_head
        self.encoder = Encoder(model.base_model)
        self.head = model
        self._set_backbone(_Identity())

    def _set_backbone(self, backbone: nn.Module) -> None:
        setattr(self.head, self.head.base_model_prefix, backbone)

    def forward(self, batch: Batch, chosen: Bool[Tensor, "windows tokens"]) -> Float[Tensor, "chosen vocabulary"]:
        """Compute the logits of the chosen tokens, window by window."""
        hidden = self.encoder(batch)[chosen]
        logits: Tensor = self.head(inputs_embeds=hidden[None]).logits
        return logits[0]

    def checkpoint_gradients(self) -> None:
        """Recompute each layer in the backward pass instead of keeping its activations.

        Raises:
            ModelError: the encoder does not support it.
        """
        base = self.encoder.model
        enable = getattr(base, "activation_checkpointing_enable", None) or base.gradient_checkpointing_enable
        try:
            enable({"use_reentrant": False})
        except ValueError as error:
            raise ModelError(f"gradient_checkpointing: the encoder does not support it: {error}") from error

    def save_pretrained(self, folder: Path) -> None:
        """Write encoder and head as one checkpoint of ``transformers``."""
        stand_in = getattr(self.head, self.head.base_model_prefix)
        self._set_backbone(self.encoder.model)
        try:
            self.head.save_pretrained(folder)
        finally:
            self._set_backbone(stand_in)


def load_masked(config: EncoderConfig) -> _MaskedModel:
    """Load a pretrained encoder with the head of its checkpoint, or a new one.

    Raises:
        ModelError: it cannot be loaded, or ``transformers`` has no masked-LM head for it.
    """
    from transformers import AutoModelForMaskedLM

    loaded, missing = load_pretrained(config, AutoModelForMaskedLM)
    masked = _MaskedModel(loaded, new_head=any("pooler." not in name for name in missing))
    if config.freeze_embeddings:
        masked.encoder.freeze_embeddings()
    return masked


def _predictions(model: nn.Module, batch: Batch, rows: Sequence[_MaskedRow]) -> tuple[Tensor, Tensor]:
    """Logits, shape [masked, vocabulary], and targets, shape [masked], of a batch of rows."""
    chosen = np.zeros(batch.input_ids.shape, dtype=bool)
    for number, row in enumerate(rows):
        chosen[number, row.places] = True
    targets = np.concatenate([row.targets for row in rows]).astype(np.int64)
    device = batch.input_ids.device
    logits: Tensor = model(batch, torch.from_numpy(chosen).to(device))
    return logits.float(), torch.from_numpy(targets).to(device)


def summed_loss(model: nn.Module, batch: Batch, rows: Sequence[_MaskedRow]) -> Float[Tensor, ""]:
    """Compute the summed cross-entropy of the masked tokens of a batch of rows."""
    return nn.functional.cross_entropy(*_predictions(model, batch, rows), reduction="sum")


@dataclass(frozen=True)
class Measured:
    """A measurement on the validation rows, whose masks never change.

    Attributes:
        step: optimizer steps before it.
        loss: mean over the masked tokens, in nats.
        accuracy: masked tokens that are predicted exactly, in percent.
    """

    step: int
    loss: float
    accuracy: float


@dataclass(frozen=True)
class _MaskedSummary:
    """Result of masked-LM training.

    Attributes:
        encoder: folder of the trained encoder.
        rows: number of training rows.
        validation_rows: number of validation rows.
        new_head: whether the initial checkpoint had no head.
        history: all measurements; the first is before training.
    """

    encoder: str
    rows: int
    validation_rows: int
    new_head: bool
    history: tuple[Measured, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain data for JSON."""
        return asdict(self) | {"before": asdict(self.history[0]), "after": asdict(self.history[-1])}

    def table(self) -> str:
        """Format the measurements as a table."""
        lines = ["  step    loss  masked accuracy"]
        lines += [f"{one.step:>6}  {one.loss:>6.3f}  {one.accuracy:>14.2f}%" for one in self.history]
        return "\n".join(lines)


class _MaskedTrainer:
    """Trains an encoder as a masked language model.

    Args:
        tokenizer: tokenizer of the encoder.
        rows: rows of its tokens.
        config: configuration of the run.
        output: folder of the run.
        report: receives lines of progress.

    Raises:
        ConfigError: rows are longer than the encoder's positions.
        ModelError: the encoder cannot be loaded or has no masked-LM head, or its tokenizer has no mask token.
    """

    def __init__(
        self, tokenizer: Any, rows: _Rows, config: MaskedConfig, output: Path, report: Callable[[str], None] = print
    ) -> None:
        training = config.training
        self.tokenizer, self.rows, self.config, self.output, self.report = tokenizer, rows, config, output, report
        self.masking = Masking(tokenizer, training.share)
        torch.manual_seed(training.seed)
        self.model = load_masked(config.encoder)
        positions = self.model.encoder.positions
        if positions is not None and config.length > positions:
            raise ConfigError(
                f"length is {config.length}, but the encoder has {positions} positions; encoder.positions extends them"
            )
        if training.gradient_checkpointing:
            self.model.checkpoint_gradients()
        learner = training.learner if self.model.new_head else training.learner.model_copy(update={"head_rate": 1.0})
        self.optimizer = Optimizer(
            _NAME, self.model, learner, training.steps, Precision.of(config.encoder), config.encoder.batch_tokens,
            tokenizer.pad_token_id or 0,
        )  # fmt: skip
        data = fingerprint(row.tobytes() for row in (*rows.train, *rows.validation))
        self.loop = TrainingLoop(output, data, {_NAME: self.model}, {_NAME: self.optimizer}, training.checkpoint_steps)
        self._order = lru_cache(maxsize=1)(self._shuffled)

    def run(self, *, resume: bool = False) -> _MaskedSummary:
        """Train to the last step and save the encoder in the folder of the run.

        Args:
            resume: continue from the last checkpoint, if there is one.
        """
        training = self.config.training
        head = "a new head" if self.model.new_head else "its own head"
        self.report(f"{len(self.rows.train)} training and {len(self.rows.validation)} validation rows; {head}")
        if self.loop.start(training.seed, resume=resume):
            self.report(f"resumed at step {self.loop.progress.batch} of {training.steps}")
        else:
            self._measure()
        if self.loop.steps(training.steps, _NAME, _NAME, self._step, self._epoch, self._after_step):
            self.loop.save()
        self.loop.log.close()
        return self._finish()

    def _step(self, step: int) -> float:
        """One optimizer step; returns its mean loss per masked token."""
        size = self.config.training.batch_size
        rows = [self._masked(place) for place in range(step * size, (step + 1) * size)]

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            return summed_loss(model, batch, [rows[index] for index in group])

        return self.optimizer.learn([row.window for row in rows], loss, max(1, sum(len(row.places) for row in rows)))

    def _epoch(self, step: int) -> int:
        return step * self.config.training.batch_size // len(self.rows.train) + 1

    def _after_step(self) -> None:
        training, step = self.config.training, self.loop.progress.batch
        if step == training.steps or step % training.validation_steps == 0:
            self._measure()

    def _masked(self, place: int) -> _MaskedRow:
        """The row at a place of the run; each epoch has its own order, and each row of an epoch its own masks."""
        epoch, place = divmod(place, len(self.rows.train))
        index = int(self._order(epoch)[place])
        rng = np.random.default_rng([self.config.training.seed, epoch, index, 5])
        return self.masking.apply(self.rows.train[index], rng)

    def _shuffled(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self.config.training.seed, epoch]).permutation(len(self.rows.train))

    @torch.inference_mode()
    def _measure(self) -> None:
        """Add loss and accuracy on the validation rows to the history."""
        seed, optimizer = self.config.training.seed, self.optimizer
        rows = [
            self.masking.apply(row, np.random.default_rng([seed, index, 9]))
            for index, row in enumerate(self.rows.validation)
        ]
        windows = [row.window for row in rows]
        self.model.eval()
        loss, correct = 0.0, 0
        groups = batches(windows, self.config.encoder.batch_tokens)
        for group in tqdm(groups, desc="validation", disable=None, leave=False):
            batch = Batch.of([windows[index] for index in group], optimizer.padding_id, optimizer.precision.device)
            with optimizer.precision.autocast():
                logits, targets = _predictions(self.model, batch, [rows[index] for index in group])
            loss += float(nn.functional.cross_entropy(logits, targets, reduction="sum"))
            correct += int((logits.argmax(dim=-1) == targets).sum())
        n_masked, step = max(1, sum(len(row.places) for row in rows)), self.loop.progress.batch
        measured = Measured(step, loss / n_masked, 100 * correct / n_masked)
        self.loop.progress.history.append(asdict(measured))
        figures = {"validation/loss": measured.loss, "validation/accuracy": measured.accuracy}
        self.loop.log.add(self._epoch(step), step, figures)
        steps = self.config.training.steps
        self.report(
            f"step {step}/{steps} validation: loss {measured.loss:.3f}, masked accuracy {measured.accuracy:.2f}%"
        )

    def _finish(self) -> _MaskedSummary:
        """Write the checkpoint of ``transformers`` and the measurements."""
        target = self.output / _ENCODER
        with new_folder(target) as folder:
            self.model.save_pretrained(folder)
            self.tokenizer.model_max_length = self.model.encoder.positions or self.tokenizer.model_max_length
            self.tokenizer.save_pretrained(folder)
        history = tuple(Measured(int(one["step"]), one["loss"], one["accuracy"]) for one in self.loop.progress.history)
        rows = self.rows
        summary = _MaskedSummary(str(target), len(rows.train), len(rows.validation), self.model.new_head, history)
        write_json(self.output / FIGURES, summary.to_dict())
        self.report(f"encoder in {target}")
        return summary


def mlm(
    run: MaskedConfig, output: Path, *, resume: bool = False, report: Callable[[str], None] = print
) -> _MaskedSummary:
    """Continue to pretrain an encoder as a masked language model on texts.

    Args:
        run: encoder, texts and training.
        output: the folder of the run; its folder ``encoder`` is an encoder for any other run.
        resume: continue from the last checkpoint.
        report: receives lines of progress.

    Raises:
        ConfigError: the folder has another run, or rows are longer than the encoder's positions.
        DataError: a file is missing, has no text, or is not UTF-8; names file and line.
        ModelError: the encoder has no masked-LM head, or its tokenizer has no mask.
        TrainingError: a loss is not finite, or the disk is full; the last checkpoint is kept.
    """
    check_folder(run, output, resume)
    data = run.data
    tokenizer = load_tokenizer(run.encoder.name)
    train = _packed(read_texts(expand(data.train)), tokenizer, run.length)
    other = _packed(read_texts(expand(data.validation)), tokenizer, run.length) if data.validation else None
    rows = _set_apart(train, other, data, run.training.seed)
    trainer = _MaskedTrainer(tokenizer, rows, run, output, report)
    store_config(run, output)
    return trainer.run(resume=resume)
