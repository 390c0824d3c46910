"""The values that a logger kept, by its own reader: python stored.py LOGGER FOLDER. Prints them as a JSON list."""

from __future__ import annotations

import glob
import json
import os
import struct
import sys
from collections.abc import Iterator


def wandb(folder: str) -> list[int]:
    from wandb.proto import wandb_internal_pb2

    found = []
    # A set, because latest-run is a link.
    for path in {os.path.realpath(p) for p in glob.glob(f"{folder}/**/*.wandb", recursive=True)}:
        with open(path, "rb") as file:
            whole = file.read()
        for data in leveldb_records(whole):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            for item in record.history.item:
                if item.key == "value" or list(item.nested_key) == ["value"]:
                    found.append(int(float(item.value_json)))
    return found


def leveldb_records(data: bytes) -> Iterator[bytes]:
    """The whole records of a log of 32 KiB blocks (github.com/google/leveldb, doc/log_format.md).

    wandb has no reader of its files in Python any more; its file begins with seven bytes of its own.
    """
    at, parts = 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        piece = data[at + 7 : at + 7 + size]
        if kind == 0 or len(piece) < size:
            return  # not written yet, or torn
        parts = piece if kind in (1, 2) else parts + piece
        at += 7 + size
        if kind in (1, 4):
            yield parts


def tensorboard(folder: str) -> list[int]:
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    found = []
    for path in glob.glob(os.path.join(folder, "events.out.*")):
        for event in LegacyEventFileLoader(path).Load():
            found += [int(value.simple_value) for value in event.summary.value if value.tag == "value"]
    return found


def mlflow(folder: str) -> list[int]:
    import sqlite3

    base = sqlite3.connect(os.path.join(folder, "mlflow.db"))
    return [int(value) for (value,) in base.execute("select value from metrics where key = 'value'")]


def trackio(folder: str) -> list[int]:
    import sqlite3

    found = []
    for path in glob.glob(os.path.join(folder, "**", "*.db"), recursive=True):
        for (metrics,) in sqlite3.connect(path).execute("select metrics from metrics"):
            found += [int(v) for k, v in json.loads(metrics).items() if k == "value"]
    return found


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2])))
