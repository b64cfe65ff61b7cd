"""Masked-LM training: continue the pretraining of an encoder on texts, optionally with more positions.

texts → rows of tokens → masks → encoder with masked-LM head → a checkpoint of ``transformers``, head included
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from cogltx import _processes as processes
from cogltx._files import fingerprint, new_folder, write_json
from cogltx._progress import progress
from cogltx.blocks import load_tokenizer, save_tokenizer
from cogltx.blocks._tokens import tokenize
from cogltx.config import TaskConfig
from cogltx.document import Document, Segment
from cogltx.encoding.encoder import Batch, BatchRunner, Encoder, Precision, batches
from cogltx.encoding.layout import NONE, Window, WindowFormat
from cogltx.encoding.pretrained import EncoderConfig, load_pretrained
from cogltx.errors import ConfigError, DataError, ModelError
from cogltx.tasks._texts import read_texts
from cogltx.training._data import drawn, expand, files_of, n_held_out
from cogltx.training._display import Display, Estimate
from cogltx.training._loop import TrainingLoop
from cogltx.training._run_folder import check_folder, interruptible, run_folder
from cogltx.training.config import DataConfig
from cogltx.training.optimizer import Optimizer, OptimizerConfig, Seed

VALIDATION_STEPS = 100  # between validations; the first is before training, the last after it
_SHARE = 0.15  # of the tokens to predict
_NAME = "masked-lm"
_N_TEXTS = 256  # tokenized together
_IGNORED = -100  # label of the tokens that are not predicted, as in transformers

Row: TypeAlias = Int[np.ndarray, " _"]
"""``[CLS] text [SEP] text … [SEP]``: vocabulary indices."""


class _TrainingConfig(BaseModel):
    """Settings of masked-LM training.

    Attributes:
        steps: optimizer steps.
        batch_size: rows per step.
        learner: the optimizer; its ``head_rate`` applies only to a new head.
        gradient_checkpointing: recompute each layer in the backward pass, which saves memory.
        seed: seed of all random choices.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(1000, ge=1)
    batch_size: int = Field(32, ge=1)
    learner: Annotated[OptimizerConfig, OptimizerConfig.fill(learning_rate=1e-4)] = OptimizerConfig(learning_rate=1e-4)
    gradient_checkpointing: bool = False
    seed: Seed = 0


class MaskedConfig(BaseModel):
    """One run of masked-LM training.

    Attributes:
        task: its name ``masked_lm`` tells this run from others.
        encoder: the encoder to start from, and how its positions are extended.
        data: the texts: documents of any format, folders of them, or JSON Lines with ``text``; limits and ``held_out``
            count rows.
        length: tokens per row.
        training: how the encoder is trained.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: TaskConfig = TaskConfig(name="masked_lm")
    encoder: EncoderConfig = EncoderConfig()
    data: DataConfig
    length: int = Field(512, ge=32)
    training: _TrainingConfig = _TrainingConfig()


def _rows(run: MaskedConfig, tokenizer: Any) -> tuple[list[Row], list[Row]]:
    """Read training rows and validation rows, which are of the validation texts or held out."""
    data, seed = run.data, run.training.seed
    train = drawn(_packed(data.train_files, tokenizer, run.length), data.train_limit, seed)
    if data.validation is not None:
        return train, drawn(_packed([data.validation], tokenizer, run.length), data.validation_limit, seed)
    count = n_held_out(len(train), data.held_out)
    if len(train) <= count:
        raise DataError(
            f"{', '.join(data.train_files)}: data.held_out is {count}, but there are only {len(train)} rows; hold out "
            "fewer, or name validation texts with data.validation"
        )
    chosen = set(np.random.default_rng([seed, 3]).choice(len(train), size=count, replace=False).tolist())
    kept = [row for index, row in enumerate(train) if index not in chosen]
    return kept, [train[index] for index in sorted(chosen)]


def _packed(files: Sequence[str], tokenizer: Any, length: int) -> list[Row]:
    """Tokenize the texts of files and pack them into rows."""
    named = (file for name in files for file in files_of(name))
    texts = progress((text for file in named for text in read_texts(expand(file))), "texts", unit="texts")
    rows = _pack(_token_ids(iter(texts), tokenizer), WindowFormat(tokenizer, length))
    if not rows:
        raise DataError(f"{', '.join(files)}: the tokenizer drops all characters")
    return rows


def _token_ids(texts: Iterator[str], tokenizer: Any) -> Iterator[Int[np.ndarray, " _"]]:
    """The tokens of each text, without special tokens; skips texts of which the tokenizer drops all characters."""
    while group := list(islice(texts, _N_TEXTS)):
        ends = np.cumsum([len(text) for text in group]).tolist()
        segments = [Segment(end - len(text), end) for text, end in zip(group, ends, strict=True)]
        try:
            ids, _, _, token_ends = tokenize(Document("".join(group)), segments, tokenizer)
        except DataError:  # the tokenizer drops all characters
            continue
        yield from (text_ids for text_ids in np.split(ids, token_ends[:-1]) if len(text_ids))


def _pack(texts: Iterable[Int[np.ndarray, " _"]], form: WindowFormat) -> list[Row]:
    """Pack the tokens of all texts, in order, into rows filled to the capacity; the last may be shorter.

    A text may continue in the next row. A separator parts the texts of a row; a row with room for that only is
    one token short.
    """
    rows: list[Row] = []
    start, separator = np.array([form.start_id], dtype=np.int32), np.array([form.separator_id], dtype=np.int32)
    content, room = start[:0], form.capacity - 2
    for ids in texts:
        if len(content) >= room - 1:
            rows.append(content)
            content = content[:0]
        content = np.concatenate([content, separator[: len(content)], ids.astype(np.int32)])
        n_full = len(content) // room * room
        rows.extend(content[:n_full].reshape(-1, room))
        content = content[n_full:]
    rows += [content] if len(content) else []
    return [np.concatenate([start, row, separator]) for row in rows]


class _Masking:
    """Masks rows as BERT was trained, with the data collator of ``transformers``; never special tokens."""

    def __init__(self, tokenizer: Any) -> None:
        from transformers import DataCollatorForLanguageModeling

        if tokenizer.mask_token_id is None:
            raise ModelError("encoder: the tokenizer has no mask token")
        self.special = np.array(sorted(tokenizer.all_special_ids))
        self.collator: Any = DataCollatorForLanguageModeling(tokenizer, mlm_probability=_SHARE, return_tensors="np")

    def __call__(self, row: Row, *seeds: int) -> tuple[Row, Row]:
        """Mask a row; returns its tokens, some masked or replaced, and the labels: those tokens, −100 for others."""
        self.collator.generator = np.random.default_rng(seeds)
        is_special = np.isin(row, self.special)[None]
        token_ids, labels = self.collator.numpy_mask_tokens(row[None].astype(np.int64), is_special)
        return token_ids[0].astype(np.int32), labels[0]


class _Identity(nn.Module):
    """Returns its input in place of an encoder."""

    def forward(self, *_: object, inputs_embeds: Tensor, **__: object) -> Any:
        """Return the input vectors in an encoder's output class."""
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=inputs_embeds)


class _MaskedModel(nn.Module):
    """An encoder with its architecture's masked-LM head, which computes only the tokens to predict.

    The head costs as much as a small encoder; its output layer is tied to the word embeddings.
    """

    def __init__(self, model: Any, *, new_head: bool) -> None:
        super().__init__()
        self.new_head, self.encoder, self.head = new_head, Encoder(model.base_model), model
        self._set_backbone(_Identity())

    def _set_backbone(self, backbone: nn.Module) -> None:
        setattr(self.head, self.head.base_model_prefix, backbone)

    def forward(self, batch: Batch, chosen: Bool[Tensor, "windows tokens"]) -> Float[Tensor, "chosen vocabulary"]:
        """Compute the logits of the chosen tokens, window by window."""
        logits: Tensor = self.head(inputs_embeds=self.encoder(batch)[chosen][None]).logits
        return logits[0]

    def checkpoint_gradients(self) -> None:
        """Recompute each layer in the backward pass; raises ModelError if the encoder does not support it."""
        base = self.encoder.model
        enable = getattr(base, "activation_checkpointing_enable", None) or base.gradient_checkpointing_enable
        try:
            enable({"use_reentrant": False})
        except ValueError as error:
            raise ModelError(f"gradient_checkpointing: the encoder does not support it: {error}") from error

    def save_pretrained(self, folder: Path) -> None:
        """Write encoder and head as one checkpoint of ``transformers``."""
        self._set_backbone(self.encoder.model)
        try:
            self.head.save_pretrained(folder)
        finally:
            self._set_backbone(_Identity())


def _load(config: EncoderConfig) -> _MaskedModel:
    """Load a pretrained encoder with the head of its checkpoint, or a new one; raises ModelError if there is none."""
    from transformers import AutoModelForMaskedLM

    loaded, missing = load_pretrained(config, AutoModelForMaskedLM)
    masked = _MaskedModel(loaded, new_head=any("pooler." not in name for name in missing))
    if config.freeze_embeddings:
        masked.encoder.freeze_embeddings()
    return masked


def _window(token_ids: Row) -> Window:
    no_block = np.full(len(token_ids), NONE, dtype=np.int32)
    return Window(token_ids, no_block, no_block, len(token_ids))


def _predictions(model: nn.Module, batch: Batch, labels: Sequence[Row]) -> tuple[Tensor, Tensor]:
    """Logits, shape [masked, vocabulary], and targets, shape [masked], of a batch of rows."""
    padded = np.full(batch.input_ids.shape, _IGNORED, dtype=np.int64)
    for number, row_labels in enumerate(labels):
        padded[number, : len(row_labels)] = row_labels
    targets = torch.from_numpy(padded).to(batch.input_ids.device)
    chosen = targets != _IGNORED
    return model(batch, chosen).float(), targets[chosen]


def _learn(optimizer: Optimizer, rows: Sequence[tuple[Row, Row]]) -> float:
    """Run one optimizer step on tokens and labels of ``_Masking``; returns the mean loss per masked token, in nats."""

    def loss(model: nn.Module, batch: Batch, group: list[int]) -> Tensor:
        predictions = _predictions(model, batch, [rows[index][1] for index in group])
        return nn.functional.cross_entropy(*predictions, reduction="sum")

    return optimizer.learn([_window(token_ids) for token_ids, _ in rows], loss, max(1, _n_masked(rows)))


def _n_masked(rows: Sequence[tuple[Row, Row]]) -> int:
    return sum(int((labels != _IGNORED).sum()) for _, labels in rows)


class _MaskedTrainer:
    """Trains an encoder on training rows and measures it on validation rows."""

    def __init__(self, run: MaskedConfig, output: Path, report: Callable[[str], None] = print) -> None:
        training, self.config, self.output, self.report = run.training, run, output, report
        self.tokenizer = load_tokenizer(run.encoder.name)
        self.masking = _Masking(self.tokenizer)
        self.rows, validation = _rows(run, self.tokenizer)
        self.validation = [self.masking(row, training.seed, index, 9) for index, row in enumerate(validation)]
        torch.manual_seed(training.seed)
        self.model = _load(run.encoder)
        positions = self.model.encoder.positions
        if positions is not None and run.length > positions:
            raise ConfigError(
                f"length is {run.length}, but the encoder has {positions} positions; encoder.positions extends them"
            )
        if training.gradient_checkpointing:
            self.model.checkpoint_gradients()
        learner = training.learner if self.model.new_head else training.learner.model_copy(update={"head_rate": 1.0})
        padding_id = self.tokenizer.pad_token_id or 0
        runner = BatchRunner(Precision.of(run.encoder), run.encoder.batch_tokens, padding_id)
        self.optimizer = Optimizer(_NAME, self.model, learner, training.steps, runner)
        data = fingerprint(row.tobytes() for row in (*self.rows, *validation))
        self.loop = TrainingLoop(output, data, {_NAME: self.model}, {_NAME: self.optimizer}, seed=training.seed)

    def run(self, *, resume: bool = False) -> dict[str, Any]:
        """Train to the last step, save the encoder in the folder of the run, and return the figures (see ``mlm``)."""
        loop, target = self.loop, self.output / "encoder"
        head = "a new head" if self.model.new_head else "its own head"
        self.report(f"{len(self.rows)} training and {len(self.validation)} validation rows; {head}")
        resumes, n_steps = loop.start(resume=resume), self.config.training.steps
        loop.display = Display(self.report, Estimate({_NAME: (n_steps - loop.progress.batch, 1.0)}))
        with loop.interruptible():
            if resumes:
                loop.display.report(f"resumed at step {loop.progress.batch} of {n_steps}")
            elif resume:
                loop.display.report("no checkpoint to resume from; starting from the beginning")
            if not loop.progress.history:
                self._measure()
                loop.save()
            if loop.progress.batch < n_steps:
                loop.display.begin(_NAME)
                loop.steps(n_steps, _NAME, self._step, self._epoch, self._after_step)
                loop.save()
        loop.display.close()
        loop.log.close()
        history = [{**one, "step": int(one["step"])} for one in loop.progress.history]
        figures = {
            "encoder": str(target), "rows": len(self.rows), "validation_rows": len(self.validation),
            "new_head": self.model.new_head, "history": history, "before": history[0], "after": history[-1],
        }  # fmt: skip
        if processes.is_first():
            with new_folder(target) as folder:
                self.model.save_pretrained(folder)
                self.tokenizer.model_max_length = self.model.encoder.positions or self.tokenizer.model_max_length
                save_tokenizer(self.tokenizer, folder)
            write_json(self.output / "mlm.json", figures)
        self.report(f"encoder in {target}")
        return figures

    def _step(self, step: int) -> float:
        size = self.config.training.batch_size
        return _learn(self.optimizer, [self._masked(number) for number in range(step * size, (step + 1) * size)])

    def _epoch(self, step: int) -> int:
        return step * self.config.training.batch_size // len(self.rows) + 1

    def _after_step(self, loss: float | None) -> bool:
        step = self.loop.progress.batch
        if step == self.config.training.steps or step % VALIDATION_STEPS == 0:
            self._measure()
        return True

    def _masked(self, number: int) -> tuple[Row, Row]:
        """The row of a number in the run; each epoch has its own order, and each row of an epoch its own masks."""
        epoch, place = divmod(number, len(self.rows))
        index = int(self._order(epoch)[place])
        return self.masking(self.rows[index], self.config.training.seed, epoch, index, 5)

    @lru_cache(1)  # noqa: B019
    def _order(self, epoch: int) -> Int[np.ndarray, " rows"]:
        return np.random.default_rng([self.config.training.seed, epoch]).permutation(len(self.rows))

    @torch.inference_mode()
    def _measure(self) -> None:
        """Add loss and accuracy on the validation rows, whose masks never change, to the history."""
        runner, rows = self.optimizer.runner, self.validation
        windows = [_window(token_ids) for token_ids, _ in rows]
        self.model.eval()
        loss, correct = 0.0, 0
        groups = batches(windows, runner.batch_tokens)
        mine = [groups[number] for number in processes.local_share(processes.share(list(map(len, groups))))]
        for group in progress(mine, "validation", unit="batches"):
            batch = runner.tensors([windows[index] for index in group])
            with runner.precision.autocast():
                logits, targets = _predictions(self.model, batch, [rows[index][1] for index in group])
            loss += float(nn.functional.cross_entropy(logits, targets, reduction="sum"))
            correct += int((logits.argmax(dim=-1) == targets).sum())
        loss, n_correct = processes.total([loss, correct])
        n_masked, step = max(1, _n_masked(rows)), self.loop.progress.batch
        figures = {"loss": loss / n_masked, "accuracy": 100 * n_correct / n_masked}
        self.loop.progress.history.append({"step": step, **figures})
        self.loop.log.add(self._epoch(step), step, {f"validation/{name}": value for name, value in figures.items()})
        self.loop.display.report(
            f"step {step}/{self.config.training.steps} validation: loss {figures['loss']:.3f}, "
            f"masked accuracy {figures['accuracy']:.2f}%"
        )


@processes.joined()
def mlm(
    run: MaskedConfig, output: Path, *, resume: bool = False, report: Callable[[str], None] = print
) -> dict[str, Any]:
    """Continue to pretrain an encoder as a masked language model on texts; the run's folder ``encoder`` has the result.

    Returns:
        the content of ``mlm.json``: the folder ``encoder``, the numbers ``rows`` and ``validation_rows``, ``new_head``
        (whether the initial checkpoint had no head), and the ``history`` of measurements on the validation rows, with
        its first (``before`` training) and last (``after``): ``step``, ``loss`` (mean over the masked tokens, in nats)
        and ``accuracy`` (masked tokens that are predicted exactly, in percent).

    Raises:
        ConfigError: the folder has another run, or rows are longer than the encoder's positions.
        DataError: a file is missing, has no text, or is not UTF-8; names file and line.
        ModelError: the encoder has no masked-LM head, or its tokenizer has no mask.
        TrainingError: a loss is not finite, or the disk is full; the last checkpoint is kept.
    """
    check_folder(run, output, resume)
    report = processes.of_first(report)
    with interruptible(output):
        with closing(Display(report, Estimate({}), "reading the texts")):
            trainer = _MaskedTrainer(run, output, report)
        with run_folder(run, output, resume):
            return trainer.run(resume=resume)
