"""Labels of long texts by BELT (the third table of peers.md); prints accuracy and CPU seconds of training.

    python data/peers/labels.py train.jsonl test.jsonl --model FOLDER

The files have `text` and `labels`, as for `cogltx train FILE`. FOLDER holds a BERT of transformers.
"""

import argparse
import json
import time

import torch
from belt_nlp.bert import BertNN
from belt_nlp.bert_classifier_with_pooling import BertClassifierWithPooling
from transformers import AutoModel, AutoTokenizer


def read(path: str) -> tuple[list[str], list[str]]:
    """Return texts and their first labels."""
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row["text"] for row in rows], [row["labels"][0] for row in rows]


def main() -> None:
    """Train, predict, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--model", required=True)
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args()
    (texts, labels), (test_texts, test_labels) = read(arguments.train), read(arguments.test)
    names = sorted(set(labels))
    torch.manual_seed(0)
    encoder = AutoModel.from_pretrained(arguments.model)
    network = BertNN(model=encoder, num_labels=len(names))
    network.linear = torch.nn.Linear(encoder.config.hidden_size, len(names))  # BELT's own is for a width of 768
    classifier = BertClassifierWithPooling(
        num_labels=len(names), batch_size=8, learning_rate=1e-4, epochs=arguments.epochs, chunk_size=510, stride=510,
        minimal_chunk_length=510, pooling_strategy="mean", neural_network=network,
        tokenizer=AutoTokenizer.from_pretrained(arguments.model), device="cpu",
    )  # fmt: skip
    started = time.process_time()
    classifier.fit(texts, [names.index(label) for label in labels])
    seconds = time.process_time() - started
    predicted = [names[number] for number in classifier.predict(test_texts, 8).tolist()]
    right = sum(map(str.__eq__, predicted, test_labels))
    print(f"accuracy {100 * right / len(test_labels):.1f}, training {seconds:.0f} s")


if __name__ == "__main__":
    main()
