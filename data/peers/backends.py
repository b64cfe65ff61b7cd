"""Plain passes of an encoder by PyTorch, ONNX Runtime and OpenVINO (the fifth table of peers.md).

    python data/peers/backends.py FOLDER --rounds 8

FOLDER holds a BERT of transformers. Prints tokens per CPU second, medians of interleaved rounds, and the mean cosine of
the token vectors with those of float32.
"""

import argparse
import copy
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import onnxruntime
import openvino
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from transformers import AutoModel

Run = Callable[[torch.Tensor, torch.Tensor], np.ndarray]
BATCHES = {512: 8, 128: 32}  # tokens of a window: windows in a batch


class Hidden(torch.nn.Module):
    """The encoder with one output: the vectors of the last layer, (batch, tokens, width)."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Pass a batch, each (batch, tokens)."""
        return self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state


def of_torch(model: torch.nn.Module) -> Run:
    """Return a pass by PyTorch."""
    return lambda ids, mask: model(ids, mask).float().numpy()


def of_onnx(path: Path) -> Run:
    """Return a pass by ONNX Runtime on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: session.run(None, {"ids": ids.numpy(), "mask": mask.numpy()})[0]


def of_openvino(path: Path, precision: str) -> Run:
    """Return a pass by OpenVINO on one thread."""
    hints = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": precision, "NUM_STREAMS": 1}
    model = openvino.Core().compile_model(path, "CPU", hints)
    return lambda ids, mask: model([ids.numpy(), mask.numpy()])[0]


def export(model: torch.nn.Module, folder: Path) -> tuple[Path, Path]:
    """Write the encoder as ONNX, in float32 and with weights of 8 bits."""
    exact, rounded = folder / "encoder.onnx", folder / "encoder8.onnx"
    sizes = {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("tokens", min=8, max=512)}
    inputs = torch.randint(1000, 20000, (4, 128)), torch.ones(4, 128, dtype=torch.long)
    torch.onnx.export(
        model, inputs, str(exact), input_names=["ids", "mask"], dynamic_shapes=(sizes, sizes), dynamo=True
    )  # fmt: skip
    quantize_dynamic(exact, rounded, weight_type=QuantType.QInt8)
    return exact, rounded


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    """Mean cosine of the token vectors."""
    norms = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    return float(((first * second).sum(-1) / norms).mean())


@torch.inference_mode()
def main() -> None:
    """Build every backend, measure them in turn, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Hidden(AutoModel.from_pretrained(arguments.model).eval().float())
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode(False):
        exact, rounded = export(model, Path(folder))
        runs = {
            "PyTorch, float32": of_torch(model),
            "PyTorch, bfloat16": of_torch(copy.deepcopy(model).bfloat16()),
            "PyTorch, 8 bits": of_torch(torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})),
            "ONNX Runtime, float32": of_onnx(exact),
            "ONNX Runtime, 8 bits": of_onnx(rounded),
            "OpenVINO, float32": of_openvino(exact, "f32"),
            "OpenVINO, bfloat16": of_openvino(exact, "bf16"),
            "OpenVINO, 8 bits": of_openvino(rounded, "f32"),
        }
    inputs = {
        tokens: (torch.randint(1000, 20000, (count, tokens)), torch.ones(count, tokens, dtype=torch.long))
        for tokens, count in BATCHES.items()
    }  # fmt: skip
    expected = {tokens: runs["PyTorch, float32"](*batch) for tokens, batch in inputs.items()}
    similar = {
        name: [cosine(run(*inputs[tokens]), expected[tokens]) for tokens in inputs] for name, run in runs.items()
    }
    seconds: dict[tuple[str, int], list[float]] = {(name, tokens): [] for name in runs for tokens in inputs}
    for _ in range(arguments.rounds):
        for (name, tokens), measured in seconds.items():
            started = time.process_time()
            runs[name](*inputs[tokens])
            measured.append(time.process_time() - started)
    for name in runs:
        speeds = [BATCHES[tokens] * tokens / np.median(seconds[name, tokens]) for tokens in inputs]
        print(f"{name:24}", *(f"{speed:6.0f}" for speed in speeds), *(f"{value:.4f}" for value in similar[name]))


if __name__ == "__main__":
    main()
