"""Trains a tiny run again and again, and kills it each time with SIGKILL some steps later, wherever it is then.

killed.py KIND ENCODER FOLDER STEPS…; after so many lines of the log the run is killed, 0: never. KIND is joint (called by
``test_trainer.py``) or masked (by ``test_masked.py``).
"""

import itertools
import os
import signal
import sys
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

import corpus
import torch
from fakes import config

from cogltx.encoding.positions import PositionsConfig
from cogltx.encoding.pretrained import EncoderConfig
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.tasks.jsonl import write_examples
from cogltx.training import _loop as loop
from cogltx.training import masked_lm
from cogltx.training.config import DataConfig, TrainingConfig
from cogltx.training.optimizer import OptimizerConfig
from cogltx.training.trainer import Trainer

loop.monotonic = itertools.count().__next__  # type: ignore[assignment]
loop.CHECKPOINT_SECONDS = 3  # calls of the clock: a checkpoint after every second step or so
masked_lm.VALIDATION_STEPS = 5


def lines(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def kill_after(log: Path, steps: int) -> None:
    last = lines(log) + steps

    def watch() -> None:
        while lines(log) < last:
            time.sleep(0.0005)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def train(encoder: Path, output: Path) -> None:
    torch.manual_seed(0)
    reader = CogLTX(Model.create(config(encoder, hidden_dropout=0.2), with_judge=True))
    examples = corpus.make(8, unanswered=True)
    fast = OptimizerConfig(learning_rate=1e-3)
    training = TrainingConfig(epochs=3, batch_size=2, judge=fast, reasoner=fast, judge_epochs=None)
    Trainer(reader, training, train=examples, validation=examples[:4], output=output, report=lambda line: None).run(
        resume=True
    )


def train_masked(encoder: Path, output: Path) -> None:
    texts = output.with_suffix(".jsonl")
    if not texts.exists():
        write_examples(texts, corpus.make(4))
    settings = EncoderConfig(
        name=str(encoder), hidden_dropout=0.2, freeze_embeddings=False, batch_tokens=128,
        positions=PositionsConfig(length=600),
    )  # fmt: skip
    training = {
        "steps": 12, "batch_size": 4, "learner": {"learning_rate": 1e-3, "head_rate": 5}, "gradient_checkpointing": True,
    }  # fmt: skip
    data = DataConfig(train=str(texts), held_out=4)
    run = masked_lm.MaskedConfig.model_validate({"encoder": settings, "data": data, "length": 64, "training": training})
    masked_lm._MaskedTrainer(run, output, lambda line: None).run(resume=True)


def main(kind: str, encoder: Path, output: Path, steps: list[int]) -> None:
    Model.create(config(encoder), with_judge=True)  # imports once, before the forks, what every child needs
    for number in steps:
        child = os.fork()
        if child == 0:
            if number:
                kill_after(output / "log.jsonl", number)
            (train_masked if kind == "masked" else train)(encoder, output)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else f"ended {os.WEXITSTATUS(status)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), [int(step) for step in sys.argv[4:]])
