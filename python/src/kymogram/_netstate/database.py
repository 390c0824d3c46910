"""The compute subnet's SQLite file. The tables of signed records are the child process's."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict

# As netstate/database.go has it.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS miner (uid INTEGER PRIMARY KEY, ss58_address TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS miner_details (id INTEGER PRIMARY KEY, hotkey TEXT UNIQUE, details TEXT,
    no_specs_count INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS tb (id INTEGER PRIMARY KEY, hotkey TEXT, details TEXT);
CREATE TABLE IF NOT EXISTS challenge_details (uid INTEGER, ss58_address TEXT, success BOOLEAN,
    elapsed_time REAL, difficulty INTEGER, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (uid) REFERENCES miner(uid) ON DELETE CASCADE,
    FOREIGN KEY (ss58_address) REFERENCES miner(ss58_address) ON DELETE CASCADE);
CREATE INDEX IF NOT EXISTS idx_uid ON challenge_details (uid);
CREATE INDEX IF NOT EXISTS idx_ss58_address ON challenge_details (ss58_address);
CREATE TABLE IF NOT EXISTS blacklist (id INTEGER PRIMARY KEY, hotkey TEXT UNIQUE, details TEXT);
CREATE TABLE IF NOT EXISTS allocation (id INTEGER PRIMARY KEY, hotkey TEXT UNIQUE, details TEXT);
CREATE TABLE IF NOT EXISTS wandb_runs (hotkey TEXT PRIMARY KEY, run_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pog_stats (id INTEGER PRIMARY KEY AUTOINCREMENT, hotkey TEXT,
    gpu_name TEXT, num_gpus INTEGER, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS stats (uid INTEGER PRIMARY KEY, hotkey TEXT NOT NULL, gpu_specs TEXT,
    score REAL, allocated BOOLEAN, own_score BOOLEAN, reliability_score REAL,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
"""
_KEPT_POG = 4
_COLUMNS = "uid hotkey gpu_specs score allocated own_score reliability_score created_at".split()


class GPUSpecs(TypedDict):
    """What a proof of GPU found."""

    gpu_name: str
    num_gpus: int


class Stat(TypedDict):
    """What a validator says of one miner."""

    uid: int
    hotkey: str
    gpu_specs: GPUSpecs | None
    score: float  # 0 to 100
    allocated: bool
    own_score: bool
    reliability_score: float
    created_at: str


class ComputeDb:
    """A participant's local database.

    It holds the secret that encrypted specs are read with: no other user may open it.

    Args:
        path: the file; it is made where there is none.

    """

    def __init__(self, path: str = "database.db") -> None:
        self.path = os.path.abspath(path)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._lock = threading.RLock()
        self.conn = sqlite3.connect(
            self.path, timeout=30.0, isolation_level=None, check_same_thread=False
        )
        with self._lock:
            self.conn.execute("PRAGMA busy_timeout = 30000")
            self.conn.execute("PRAGMA journal_mode = WAL")
            self.conn.executescript(_SCHEMA)

    def get_cursor(self) -> sqlite3.Cursor:
        """Give a cursor, as the compute subnet's programs use it."""
        return self.conn.cursor()

    def close(self) -> None:
        """Close the file."""
        self.conn.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Hold a transaction, which other processes wait for from its beginning."""
        with self._lock:
            self.conn.execute("BEGIN IMMEDIATE")
            try:
                yield self.conn
            except BaseException:
                self.conn.execute("ROLLBACK")
                raise
            self.conn.execute("COMMIT")

    def save_run_id(self, hotkey: str, run_id: str) -> None:
        """Remember the run of a hotkey; one that is known stays."""
        with self.writing() as conn:
            conn.execute("INSERT OR IGNORE INTO wandb_runs VALUES (?, ?)", (hotkey, run_id))

    def get_run_id(self, hotkey: str) -> str | None:
        """The run of a hotkey, None when none is known."""
        with self._lock:
            found = self.conn.execute("SELECT run_id FROM wandb_runs WHERE hotkey = ?", (hotkey,))
            row = found.fetchone()
        return None if row is None else str(row[0])

    def add_pog(self, hotkey: str, gpu_name: str, num_gpus: int) -> None:
        """Keep a result of a proof of GPU, the newest 4 of a hotkey."""
        with self.writing() as conn:
            conn.execute(
                "INSERT INTO pog_stats (hotkey, gpu_name, num_gpus) VALUES (?, ?, ?)",
                (hotkey, gpu_name, num_gpus),
            )
            conn.execute(
                "DELETE FROM pog_stats WHERE hotkey = ?1 AND id NOT IN "
                "(SELECT id FROM pog_stats WHERE hotkey = ?1 ORDER BY id DESC LIMIT ?2)",
                (hotkey, _KEPT_POG),
            )

    def get_pog(self, hotkey: str) -> list[GPUSpecs]:
        """The kept results of a hotkey, newest first."""
        query = "SELECT gpu_name, num_gpus FROM pog_stats WHERE hotkey = ? ORDER BY id DESC"
        with self._lock:
            rows = self.conn.execute(query, (hotkey,)).fetchall()
        return [{"gpu_name": name, "num_gpus": count} for name, count in rows]

    def add_challenge(
        self, uid: int, hotkey: str, success: bool, elapsed_time: float, difficulty: int
    ) -> None:
        """Keep the result of one challenge, and the miner that it is of."""
        with self.writing() as conn:
            conn.execute("INSERT OR IGNORE INTO miner VALUES (?, ?)", (uid, hotkey))
            conn.execute(
                "INSERT INTO challenge_details (uid, ss58_address, success, elapsed_time, "
                "difficulty) VALUES (?, ?, ?, ?, ?)",
                (uid, hotkey, success, elapsed_time, difficulty),
            )


def write_stats(db: ComputeDb, stats: Mapping[int, Mapping[str, Any]]) -> None:
    """Keep stats, those of a uid in place of the ones before."""
    marks = ", ".join("?" * len(_COLUMNS))
    changes = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])
    query = (
        f"INSERT INTO stats ({', '.join(_COLUMNS)}) VALUES ({marks[:-1]}"
        f"COALESCE(?, CURRENT_TIMESTAMP)) ON CONFLICT(uid) DO UPDATE SET {changes}"
    )
    with db.writing() as conn:
        for uid, one in stats.items():
            row = [int(uid), one["hotkey"], json.dumps(one.get("gpu_specs")), one.get("score", 0)]
            row += [bool(one.get("allocated")), bool(one.get("own_score"))]
            row += [one.get("reliability_score", 0), one.get("created_at") or None]
            conn.execute(query, row)


def retrieve_stats(db: ComputeDb) -> dict[int, Stat]:
    """Read all stats. A row that another program damaged lacks only what is damaged."""
    with db._lock:
        rows = db.conn.execute(f"SELECT {', '.join(_COLUMNS)} FROM stats").fetchall()
    out: dict[int, Stat] = {}
    for uid, hotkey, specs, score, allocated, own, reliability, created in rows:
        out[uid] = {
            "uid": uid,
            "hotkey": hotkey,
            "gpu_specs": _gpu(specs),
            "score": float(score or 0),
            "allocated": bool(allocated),
            "own_score": bool(own),
            "reliability_score": float(reliability or 0),
            "created_at": created or "",
        }
    return out


def _gpu(text: str | None) -> GPUSpecs | None:
    try:
        found = json.loads(text or "null")
        return {"gpu_name": str(found["gpu_name"]), "num_gpus": int(found["num_gpus"])}
    except (KeyError, TypeError, ValueError):
        return None
