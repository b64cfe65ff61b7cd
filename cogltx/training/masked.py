"""Masked-LM training: an encoder goes on learning from the user's own texts, perhaps with more positions than it had.

What comes out is a checkpoint of ``transformers``, head included. Knows rows of tokens (see
``rows``); nothing about files of texts.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from accelerate import Accelerator
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from tqdm.auto import tqdm

from cogltx.encoding.encoder import Batch, Precision, batches, to_batch
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.errors import ConfigError
from cogltx.files import fingerprint, new_folder, write_json
from cogltx.training.checkpoints import Checkpoints, Progress
from cogltx.training.log import Log
from cogltx.training.masked_model import load_masked, predictions, summed_loss
from cogltx.training.masking import SHARE, MaskedRow, Masking
from cogltx.training.optimizer import Learner, LearnerConfig, Seed, default_rate
from cogltx.training.rows import Rows, TextsConfig

ENCODER = "encoder"  # in a run's folder: the trained checkpoint
FIGURES = "mlm.json"  # in a run's folder, when it is done
_NAME = "masked-lm"
_SHOWN = 20  # steps whose mean loss the bar shows


class MaskedTrainingConfig(BaseModel):
    """How a masked language model is trained.

    Attributes:
        steps: of the optimiser.
        batch_size: rows a step; as many forward passes as ``encoder.batch_tokens`` makes of them.
        learner: the optimiser; its ``head_rate`` holds for a head that the checkpoint did not have.
        share: of a row's tokens that are predicted.
        gradient_checkpointing: compute each layer twice, and keep less in memory.
        validation_steps: steps between measurements; there is one before the first step and one after the last.
        checkpoint_steps: steps between checkpoints.
        seed: of everything random.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(1000, ge=1)
    batch_size: int = Field(32, ge=1)
    learner: Annotated[LearnerConfig, default_rate(1e-4)] = LearnerConfig(learning_rate=1e-4)
    share: float = Field(SHARE, gt=0, lt=1)
    gradient_checkpointing: bool = False
    validation_steps: int = Field(100, ge=1)
    checkpoint_steps: int = Field(100, ge=1)
    seed: Seed = 0


class MaskedConfig(BaseModel):
    """One run of masked-LM training.

    Attributes:
        encoder: where it starts, and how its positions go on. ``freeze_embeddings`` holds here too.
        data: the texts.
        length: tokens in a row.
        training: how.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoder: EncoderConfig = EncoderConfig()
    data: TextsConfig
    length: int = Field(512, ge=32)
    training: MaskedTrainingConfig = MaskedTrainingConfig()


@dataclass(frozen=True)
class Measured:
    """A measurement on the validation rows, whose masks are always the same.

    Attributes:
        step: steps before it.
        loss: mean over the masked tokens, in nats.
        accuracy: masked tokens that are predicted exactly, in percent.
    """

    step: int
    loss: float
    accuracy: float


@dataclass(frozen=True)
class MaskedSummary:
    """What masked-LM training came to.

    Attributes:
        encoder: the folder of the trained encoder.
        rows: to learn from.
        validation_rows: to measure on.
        new_head: whether the checkpoint at the start had no head.
        history: all measurements, the first before training.
    """

    encoder: str
    rows: int
    validation_rows: int
    new_head: bool
    history: tuple[Measured, ...]

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain data for JSON."""
        return asdict(self) | {"before": asdict(self.history[0]), "after": asdict(self.history[-1])}

    def table(self) -> str:
        """The measurements as text."""
        lines = ["  step    loss  masked accuracy"]
        lines += [f"{one.step:>6}  {one.loss:>6.3f}  {one.accuracy:>14.2f}%" for one in self.history]
        return "\n".join(lines)


class MaskedTrainer:
    """Trains an encoder as a masked language model.

    Args:
        tokenizer: the encoder's.
        rows: of its tokens.
        config: of the run.
        output: the run's folder.
        report: takes one line of progress at a time.

    Raises:
        ConfigError: rows are longer than the encoder reads.
        ModelError: the encoder cannot be loaded, has no masked-LM head in ``transformers``, or its tokenizer no mask.
    """

    def __init__(
        self, tokenizer: Any, rows: Rows, config: MaskedConfig, output: Path, report: Callable[[str], None] = print
    ) -> None:
        self.tokenizer, self.rows, self.config, self.output, self.report = tokenizer, rows, config, output, report
        self.masking = Masking(tokenizer, config.training.share)
        torch.manual_seed(config.training.seed)
        self.model = load_masked(config.encoder)
        positions = self.model.encoder.positions
        if positions is not None and config.length > positions:
            raise ConfigError(
                f"length: expected at most {positions}, the positions of the encoder, got {config.length}; "
                "encoder.positions makes more"
            )
        if config.training.gradient_checkpointing:
            self.model.checkpoint_gradients()
        self.precision = Precision.of(config.encoder)
        self.learner = self._learner()
        self.checkpoints = Checkpoints(output / "checkpoints")
        self.progress = Progress(data=fingerprint(row.tobytes() for row in (*rows.train, *rows.validation)))
        self.log = Log(output)
        self._order = lru_cache(maxsize=1)(self._shuffled)

    def _learner(self) -> Learner:
        training = self.config.training
        learner = training.learner if self.model.new_head else training.learner.model_copy(update={"head_rate": 1.0})
        accelerator = Accelerator(cpu=self.precision.device.type == "cpu", mixed_precision="no")
        if accelerator.num_processes > 1:
            raise ConfigError(f"training: expected one process, got {accelerator.num_processes}")
        return Learner(
            _NAME, self.model, learner, training.steps, accelerator, self.precision,
            self.config.encoder.batch_tokens, self.tokenizer.pad_token_id or 0,
        )  # fmt: skip

    def run(self, *, resume: bool = False) -> MaskedSummary:
        """Trains to the end and leaves the encoder in the run's folder.

        Args:
            resume: go on from the last checkpoint, if there is one.
        """
        training, progress = self.config.training, self.progress
        head = "a new head" if self.model.new_head else "its own head"
        self.report(f"{len(self.rows.train)} training and {len(self.rows.validation)} validation rows; {head}")
        torch.manual_seed(training.seed)
        if resume and self.checkpoints.exists():
            progress, _ = self.checkpoints.load({_NAME: self.model}, {_NAME: self.learner}, progress.data)
            self.progress = progress
            self.log.cut(progress.logged)
            self.report(f"resumed at step {progress.batch} of {training.steps}")
        else:
            self.log.cut(0)
            self._measure()
        with tqdm(total=training.steps, initial=progress.batch, desc=_NAME, disable=None, leave=False) as bar:
            losses: list[float] = []
            while progress.batch < training.steps:
                losses = [*losses[1 - _SHOWN :], self._step(progress.batch)]
                bar.set_postfix(loss=f"{np.mean(losses):.3f}")
                bar.update()
                self._after_step()
        self.log.close()
        return self._finish()

    def _step(self, step: int) -> float:
        """One step of the optimiser; its mean loss a masked token."""
        size = self.config.training.batch_size
        rows = [self._masked(place) for place in range(step * size, (step + 1) * size)]

        def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
            return summed_loss(model, batch, [rows[index] for index in group])

        value = self.learner.learn([row.window for row in rows], loss, max(1, sum(len(row.places) for row in rows)))
        self.progress.batch = step + 1
        self.log.add(self._epoch(step * size), step + 1, {f"{_NAME}/loss": value})
        return value

    def _epoch(self, place: int) -> int:
        return place // len(self.rows.train) + 1

    def _after_step(self) -> None:
        """Measures and saves where it is time to."""
        training, step = self.config.training, self.progress.batch
        last = step == training.steps
        if last or step % training.validation_steps == 0:
            self._measure()
        if last or step % training.checkpoint_steps == 0:
            self.progress.logged = self.log.size
            self.checkpoints.save(self.progress, {_NAME: self.model}, {_NAME: self.learner}, {})

    def _masked(self, place: int) -> MaskedRow:
        """The row at a place of the run: each epoch has an order of its own, and each row masks of its own."""
        epoch, place = divmod(place, len(self.rows.train))
        index = int(self._order(epoch)[place])
        rng = np.random.default_rng([self.config.training.seed, epoch, index, 5])
        return self.masking.apply(self.rows.train[index], rng)

    def _shuffled(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self.config.training.seed, epoch]).permutation(len(self.rows.train))

    @torch.inference_mode()
    def _measure(self) -> None:
        """Loss and accuracy on the validation rows go into the history."""
        seed = self.config.training.seed
        rows = [
            self.masking.apply(row, np.random.default_rng([seed, index, 9]))
            for index, row in enumerate(self.rows.validation)
        ]
        windows = [row.window for row in rows]
        self.model.eval()
        loss, right = 0.0, 0
        groups = batches(windows, self.config.encoder.batch_tokens)
        for group in tqdm(groups, desc="validation", disable=None, leave=False):
            batch = to_batch([windows[index] for index in group], self.learner.padding_id, self.precision.device)
            with self.precision.autocast():
                logits, targets = predictions(self.model, batch, [rows[index] for index in group])
            loss += float(nn.functional.cross_entropy(logits, targets, reduction="sum"))
            right += int((logits.argmax(dim=-1) == targets).sum())
        tokens, step = max(1, sum(len(row.places) for row in rows)), self.progress.batch
        found = Measured(step, loss / tokens, 100 * right / tokens)
        self.progress.history.append(asdict(found))
        values = {"validation/loss": found.loss, "validation/accuracy": found.accuracy}
        self.log.add(self._epoch(step * self.config.training.batch_size), step, values)
        steps = self.config.training.steps
        self.report(f"step {step}/{steps} validation: loss {found.loss:.3f}, masked accuracy {found.accuracy:.2f}%")

    def _finish(self) -> MaskedSummary:
        """Leaves the checkpoint of ``transformers`` and the figures."""
        target = self.output / ENCODER
        with new_folder(target) as folder:
            self.model.save_pretrained(folder)
            self.tokenizer.model_max_length = self.model.encoder.positions or self.tokenizer.model_max_length
            self.tokenizer.save_pretrained(folder)
        history = tuple(Measured(int(one["step"]), one["loss"], one["accuracy"]) for one in self.progress.history)
        rows = self.rows
        summary = MaskedSummary(str(target), len(rows.train), len(rows.validation), self.model.new_head, history)
        write_json(self.output / FIGURES, summary.to_dict())
        self.report(f"encoder in {target}")
        return summary
