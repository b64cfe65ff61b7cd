"""Trains a tiny run again and again, and kills it each time with SIGKILL some steps later, wherever it is then.

Called by ``test_trainer.py``: killed.py ENCODER FOLDER STEPS…; after so many lines of the log the run is killed, 0: never.
"""

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

from cogltx.parts import new_parts
from cogltx.pipeline import CogLTX
from cogltx.tasks import make_task
from cogltx.training.learner import LearnerConfig
from cogltx.training.trainer import Trainer, TrainingConfig


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
    reader = CogLTX(new_parts(config(encoder, hidden_dropout=0.2), uses_judge=True))
    examples = corpus.make(8, unanswered=True)
    fast = LearnerConfig(learning_rate=1e-3)
    training = TrainingConfig(epochs=3, batch_size=2, judge=fast, reasoner=fast, checkpoint_steps=2)
    Trainer(reader, make_task("jsonl", {}), examples, examples[:4], training, output, lambda line: None).run(
        resume=True
    )


def main(encoder: Path, output: Path, steps: list[int]) -> None:
    new_parts(config(encoder), uses_judge=True)  # imports once, before the forks, what every child needs
    for number in steps:
        child = os.fork()
        if child == 0:
            if number:
                kill_after(output / "log.jsonl", number)
            train(encoder, output)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else f"ended {os.WEXITSTATUS(status)}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(step) for step in sys.argv[3:]])
