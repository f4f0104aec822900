#!/usr/bin/env python3
"""What a dictionary of zstd would save in blocks of records that are unlike each other, beside blocks without one.

  python3 -m pip install zstandard
  bench/dictionaries.py [FOLDER...]

A row is one kind of record and one size of blocks: compressed bytes for each byte, without and with a dictionary of 110
KiB that is made of a sample of the records; its own bytes count. Kinds: JSON records that it makes, and the files of
each FOLDER up to 20,000 bytes of each (/usr/include and Python's library if none is named)."""

import argparse
import json
import random
import sysconfig
from pathlib import Path

import zstandard

LEVEL = 3
DICTIONARY_BYTES = 110 << 10
SAMPLES = 20_000
FILE_BYTES = 20_000


def json_records(count):
    words = "alpha beta gamma delta weights bias encoder layer station pressure temperature wind".split()
    for i in range(count):
        yield json.dumps({
            "id": i,
            "user": f"user{random.randrange(10**6)}",
            "created": f"2026-{random.randrange(1, 13):02}-{random.randrange(1, 29):02}T{random.randrange(24):02}:00:00Z",
            "loss": random.random(),
            "tags": random.sample(words, 3),
            "state": random.choice(["done", "failed", "queued"]),
        }).encode()


def files_of(folder):
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix != ".pyc":
            yield path.read_bytes()[:FILE_BYTES]


def blocks_of(records, size):
    block = b""
    for each in records:
        block += each
        if len(block) >= size:
            yield block
            block = b""
    if block:
        yield block


def main():
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("folders", nargs="*", metavar="FOLDER")
    folders = command.parse_args().folders or ["/usr/include", sysconfig.get_path("stdlib")]
    random.seed(1)
    kinds = [("JSON records", list(json_records(200_000)))] + [(folder, list(files_of(folder))) for folder in folders]
    print(f"{'records':40} {'MB':>6} {'block':>7} {'without':>8} {'with':>6} {'ratio':>6}")
    for name, records in kinds:
        total = sum(map(len, records))
        if not total:
            print(f"{name}: no files")
            continue
        made = zstandard.train_dictionary(DICTIONARY_BYTES, random.sample(records, min(len(records), SAMPLES)))
        plain = zstandard.ZstdCompressor(level=LEVEL)
        helped = zstandard.ZstdCompressor(level=LEVEL, dict_data=made)
        for size in (4 << 10, 16 << 10, 64 << 10):
            without = with_one = 0
            for block in blocks_of(records, size):
                without += len(plain.compress(block))
                with_one += len(helped.compress(block))
            with_one += len(made)
            print(f"{name:40} {total / 1e6:6.1f} {size >> 10:3} KiB {without / total:8.3f} {with_one / total:6.3f} "
                  f"{with_one / without:6.3f}")


if __name__ == "__main__":
    main()
