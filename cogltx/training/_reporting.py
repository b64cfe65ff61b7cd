"""Lines about a training: each epoch, all of them in a table, and what may have gone wrong."""

from collections.abc import Iterator, Mapping

from cogltx._messages import counted
from cogltx.training._display import spoken, table
from cogltx.training._loop import Progress
from cogltx.training.optimizer import Optimizer

_FALLS = 0.97  # share of its first value that a loss is below after the training
_USEFUL = 5.0  # percent of the main metric


def epoch_title(done: Progress, number: int, of: str = "") -> str:
    """Name an epoch, from 1, and its model."""
    return f"epoch {number}{of}{' (mean)' * (number in done.means)}"


def epoch_line(
    done: Progress,
    number: int,
    metrics: Mapping[str, float],
    losses: Mapping[str, float],
    main: str,
    other: float | None = None,
) -> str:
    """Describe an epoch, or the model at the start with number 0.

    Args:
        done: progress of the run.
        number: of the epoch, from 1.
        metrics: those of the validation, in percent.
        losses: mean loss of each model.
        main: name of the main metric.
        other: the main metric of the worse one of the weights and their mean with the first, if both were measured.
    """
    title = epoch_title(done, number, f"/{done.epochs}") if number else "before training, thresholds tuned"
    shown = ", ".join(f"{spoken(name)} {value:.1f}" for name, value in metrics.items())
    if other is not None:
        shown += f" ({spoken(main)} {'without' if number in done.means else 'with'} the mean: {other:.1f})"
    return "; ".join([f"{title}: {shown}", *(f"{spoken(name)} {value:.3f}" for name, value in losses.items())])


def final_lines(done: Progress, main: str, n_validation: int, kept_epoch: str) -> Iterator[str]:
    """Describe all epochs in a table, and which model is kept and why."""
    numbered = enumerate(zip(done.history, done.losses, strict=True), start=1)
    rows = [(epoch_title(done, number), metrics | losses) for number, (metrics, losses) in numbered]
    if done.start:
        rows = [("before training", done.before), ("thresholds tuned", done.start), *rows]
    best = (done.best_epoch or 0) + (1 if done.start else -1)
    rows[best] = f"{rows[best][0]} *", rows[best][1]
    if done.stopped and done.epoch < done.epochs:
        yield f"a callback ended the training after epoch {done.epoch} of {done.epochs}"
    heading = f"{counted(n_validation, 'validation example')}; metrics in percent, losses of the training:"
    yield f"{heading}\n{table(rows, main)}"
    values = [row[main] for name, row in rows if name != "before training"]  # a model that could not be kept
    why = f"its {spoken(main)} is the highest"
    if kept_epoch == "last":
        why = "the last one"
    elif values.count(max(values)) > 1:
        why = f"no other {spoken(main)} is higher"
    start = "the model at the start, with tuned thresholds,"
    yield f"* {epoch_title(done, done.best_epoch) if done.best_epoch else start} is kept: {why}"


def likely_faults(done: Progress, main: str, n_examples: int, reasoner: Optimizer) -> Iterator[str]:
    """Name the likely cause where the loss does not fall, or the model is not useful."""
    losses = [means["reasoner_loss"] for means in done.losses if "reasoner_loss" in means]
    if len(losses) > 1 and losses[-1] > _FALLS * losses[0]:
        yield (
            f"warning: the reasoner's loss does not fall (epoch 1: {losses[0]:.3f}, the last: {losses[-1]:.3f}): "
            f"check gold labels, or try training.reasoner.learning_rate: {reasoner.config.learning_rate / 4:.1g}"
        )
    best = [done.start, *done.history][done.best_epoch or 0][main]
    if best < _USEFUL:
        yield (
            f"warning: the model is not useful yet: {spoken(main)} {best:.1f} % after {reasoner.step:,} steps on "
            f"{n_examples:,} examples; more examples help most, then more epochs (training.epochs: {3 * done.epochs})"
        )
