"""Writes testdata/neptune as neptune-exporter does: its schema, its names, its parts.

python neptune.py FOLDER (needs pyarrow)
"""

import sys
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema([
    ("project_id", pa.string()), ("run_id", pa.string()), ("attribute_path", pa.string()), ("attribute_type", pa.string()),
    ("step", pa.decimal128(18, 6)), ("timestamp", pa.timestamp("ms", tz="UTC")), ("int_value", pa.int64()),
    ("float_value", pa.float64()), ("string_value", pa.string()), ("bool_value", pa.bool_()),
    ("datetime_value", pa.timestamp("ms", tz="UTC")), ("string_set_value", pa.list_(pa.string())),
    ("file_value", pa.struct([("path", pa.string())])),
    ("histogram_value", pa.struct([("type", pa.string()), ("edges", pa.list_(pa.float64())), ("values", pa.list_(pa.float64()))])),
])
PROJECT = "team/digits"


def safe(text):
    kept = "".join(c if c.isalnum() or c in "_-" else "_" for c in text)
    return f"{kept}-{blake2b(text.encode(), digest_size=8).hexdigest()}"


def row(run, path, kind, value, step=None, second=None):
    made = dict.fromkeys(SCHEMA.names)
    column = kind.removesuffix("_series").replace("file_set", "file") + "_value"
    when = None if second is None else datetime.fromtimestamp(1_700_000_000 + second, UTC)
    made |= {"project_id": PROJECT, "run_id": run, "attribute_path": path, "attribute_type": kind, "timestamp": when, column: value}
    if step is not None:
        made["step"] = Decimal(step).quantize(Decimal("1.000000"))
    return made


def write(folder, run, parts):
    at = folder / "data" / safe(PROJECT)
    at.mkdir(parents=True, exist_ok=True)
    for n, rows in enumerate(parts):
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), at / f"{safe(run)}_part_{n}.parquet", compression="snappy")


def main(folder):
    began = datetime.fromtimestamp(1_700_000_000, UTC)
    for run, parent in (("RUN-1", None), ("RUN-2", "RUN-1")):
        head = [
            row(run, "sys/name", "string", "digits"), row(run, "sys/creation_time", "datetime", began),
            row(run, "sys/tags", "string_set", ["base", "x"]), row(run, "sys/failed", "bool", parent is not None),
            row(run, "parameters/lr", "float", 0.1), row(run, "parameters/layers", "int", 3), row(run, "note", "string", "hello"),
        ]
        if parent:
            head += [row(run, "sys/forking/parent", "string", parent), row(run, "sys/forking/step", "int", 4)]
        first = range(5, 8) if parent else range(10)
        loss = [row(run, "train/loss", "float_series", 1 / (s + 1), s, s) for s in first]
        more = [row(run, "log", "string_series", "a line", 9, 9)]
        more += [row(run, "weights", "histogram_series", {"type": "COUNTING", "edges": [0.0, 1.0, 2.0], "values": [3.0, 4.0]}, 9, 9)]
        more += [row(run, "model/best.txt", "file", {"path": f"{run}/model/best.txt"})]
        file = folder / "files" / safe(PROJECT) / run / "model" / "best.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"weights of {run}\n")
        write(folder, run, [head + loss, more])


main(Path(sys.argv[1]))
