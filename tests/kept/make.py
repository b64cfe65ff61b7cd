"""Make the kept model and index of the present format: ``PYTHONPATH=.:tests python tests/kept/make.py 3``."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tiny
import torch
from fakes import config

from cogltx.judges import FusionWeights
from cogltx.model import Model
from cogltx.pipeline import CogLTX
from cogltx.prediction import Prediction
from cogltx.reasoners._confidence import Calibration

TEXT = " ".join(tiny.CORPUS[:10])
QUESTIONS = ("Who wrote the report?", "What is the capital of France?")


def facts(prediction: Prediction) -> list[list[Any]]:
    """The answers and the evidence of a prediction: texts, places, confidences and scores."""
    answers = [[one.text, one.start, one.end, one.confidence] for one in prediction.alternatives]
    evidence = [[one.text, one.start, one.end, one.score] for one in prediction.evidence]
    return [[prediction.answer, prediction.start, prediction.end, prediction.confidence], *answers, *evidence]


def main(target: Path) -> None:
    torch.manual_seed(0)
    with TemporaryDirectory() as folder:
        settings = config(tiny.make_encoder(Path(folder), texts=tiny.CORPUS[:10]), capacity=96, max_block_tokens=24)
        recall = settings.memrecall.model_copy(update={"shortlist": 4, "retriever": "trained"})
        calibration = Calibration(sharpness=0.5, relevance=0.5, no_answer=-1.0, wrong=-2.0)
        reasoner = settings.reasoner.model_copy(update={"calibration": calibration})
        settings = settings.model_copy(update={"memrecall": recall, "reasoner": reasoner})
        reader = CogLTX(Model.create(settings, with_judge=True, device="cpu"))
    encoder = settings.encoder.model_copy(update={"name": "tiny"})
    reader.model.initial_config = settings.model_copy(update={"encoder": encoder})
    reader.use_fusion(FusionWeights(judge=0.5, retriever=0.5, bias=1.0))
    reader.save_pretrained(target / "model", name="tiny")
    reader.open(TEXT).save(target / "text.index")
    found = [facts(reader.predict(TEXT, question)) for question in QUESTIONS]
    (target / "predictions.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(__file__).parent / f"format-{sys.argv[1]}")
