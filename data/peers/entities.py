"""Entities of long texts by windows of a token classifier of transformers (the fourth table of peers.md).

    python data/peers/entities.py $COGLTX_DATA/litbank/train.jsonl.gz $COGLTX_DATA/litbank/test.jsonl.gz --model FOLDER

The files are LitBank's JSON Lines, of which layer 0 counts. A window holds whole sentences, up to 512 tokens; the first
token of a word carries its tag. Prints the F1 of entities by seqeval and CPU seconds.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Iterator

import numpy as np
from datasets import Dataset
from seqeval.metrics import f1_score
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
)

Window = tuple[list[str], list[str]]  # words and their tags
IGNORED = -100


def windows(path: str, tokenizer: PreTrainedTokenizerBase) -> Iterator[Window]:
    """Fill windows with whole sentences of a document."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    for document in documents:
        words, tags, tokens = [], [], 0
        for sentence, sentence_tags in zip(document["sentences"], document["tags"][0], strict=True):
            length = len(tokenizer(sentence, is_split_into_words=True, add_special_tokens=False)["input_ids"])
            if words and tokens + length > 510:
                yield words, tags
                words, tags, tokens = [], [], 0
            words, tags, tokens = words + sentence, tags + sentence_tags, tokens + length
        yield words, tags


def encode(found: list[Window], names: list[str], tokenizer: PreTrainedTokenizerBase) -> Dataset:
    """Return token ids, and the number of its tag for the first token of each word."""
    rows = []
    for words, tags in found:
        row = tokenizer(words, is_split_into_words=True, truncation=True, max_length=512)
        places = row.word_ids()
        labels = [
            IGNORED if place is None or place == before else names.index(tags[place])
            for before, place in zip([None, *places], places, strict=False)
        ]
        rows.append({"input_ids": row["input_ids"], "attention_mask": row["attention_mask"], "labels": labels})
    return Dataset.from_list(rows)


def main() -> None:
    """Train, predict, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--model", required=True)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rate", type=float, default=2e-4)
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    train, test = list(windows(arguments.train, tokenizer)), list(windows(arguments.test, tokenizer))
    names = sorted({tag for _, tags in train + test for tag in tags})
    model = AutoModelForTokenClassification.from_pretrained(arguments.model, num_labels=len(names))
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder, num_train_epochs=arguments.epochs, per_device_train_batch_size=8, learning_rate=arguments.rate,
            bf16=True, use_cpu=True, save_strategy="no", report_to=[], seed=0,
        )  # fmt: skip
        collator = DataCollatorForTokenClassification(tokenizer)
        trainer = Trainer(model, settings, collator, encode(train, names, tokenizer))
        started = time.process_time()
        trainer.train()
        trained = time.process_time()
        logits, labels, _ = trainer.predict(encode(test, names, tokenizer))
    predicted = [
        [names[best] for best, label in zip(row, gold, strict=True) if label != IGNORED]
        for row, gold in zip(np.argmax(logits, -1), labels, strict=True)
    ]
    right = [tags[: len(found)] for (_, tags), found in zip(test, predicted, strict=True)]
    lost = sum(len(tags) for _, tags in test) - sum(map(len, predicted))
    print(
        f"F1 {100 * f1_score(right, predicted):.1f}, training {trained - started:.0f} s, "
        f"reading {time.process_time() - trained:.0f} s, {lost} words beyond a window"
    )


if __name__ == "__main__":
    main()
