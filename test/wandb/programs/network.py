"""A validator or a miner of a compute subnet that keeps its state in W&B.

It calls the SDK as NI Compute's programs do: the same calls in the same order, with the same
keys, values and filters. A run's configuration is the state, and its history a trail of it.

    network.py ROLE NETUID SEED

joins as the hotkey of a seed, then does what it is told: each line of stdin is [number, method,
arguments]; the answer is said under the number.
"""

import collections
import functools
import hashlib
import json
import os
import pathlib
import sqlite3
import sys

import wandb
from bittensor_wallet import Keypair
from kit import ask, say

ENTITY, PROJECT, VERSION = "neuralinternet", "opencompute", 183
PATH = f"{ENTITY}/{PROJECT}"


class Database:
    """What the program keeps in its folder."""

    def __init__(self):
        self.conn = sqlite3.connect("database.db")
        self.conn.execute("CREATE TABLE IF NOT EXISTS wandb_runs (hotkey TEXT PRIMARY KEY, run_id TEXT NOT NULL)")
        self.conn.execute("CREATE TABLE IF NOT EXISTS stats (uid INTEGER PRIMARY KEY, report TEXT)")

    def run_of(self, hotkey):
        found = self.conn.execute("SELECT run_id FROM wandb_runs WHERE hotkey = ?", (hotkey,)).fetchone()
        return found and found[0]

    def keep_run(self, hotkey, run):
        """The first one stays."""
        with self.conn:
            self.conn.execute("INSERT OR IGNORE INTO wandb_runs VALUES (?, ?)", (hotkey, run))

    def stats(self):
        rows = self.conn.execute("SELECT uid, report FROM stats ORDER BY uid")
        return {uid: json.loads(report) for uid, report in rows}

    def keep_stats(self, stats):
        with self.conn:
            for uid, report in stats.items():
                row = (int(uid), json.dumps(report))
                self.conn.execute("INSERT OR REPLACE INTO stats VALUES (?, ?)", row)


class Participant:
    """One hotkey in one role, and its run."""

    def __init__(self, role, netuid, seed):
        self.role, self.netuid = os.path.splitext(role)[0], netuid
        self.key = Keypair.create_from_seed("0x" + seed)
        self.hotkey, self.db, self.run = self.key.ss58_address, Database(), None
        # What is left of the program's own configuration.
        self.config = {
            "netuid": netuid,
            "subtensor": {"network": "finney", "chain_endpoint": None},
            "neuron": {"name": self.role, "epoch": 12.5},
            "auto_update": True,
        }
        if not os.getenv("WANDB_API_KEY") and not (pathlib.Path.home() / ".netrc").exists():
            raise ValueError("log in to wandb, or set WANDB_API_KEY")
        self.api = wandb.Api()
        self.project = self.api.project(PROJECT, entity=ENTITY)
        self.name = f"{self.role}-{self.hotkey}"
        self.run_id = self.db.run_of(self.hotkey)
        try:
            self.join()
        except Exception as err:  # the program goes on without a run
            say("init failed", f"{type(err).__name__}: {err}")
        self.update_config()

    def join(self):
        """Finds the run of this hotkey, or begins one, and logs into it."""
        if self.run_id is None:
            clauses = [{"config.config.netuid": self.netuid}, {"display_name": self.name}]
            mine = self.api.runs(PATH, filters={"$and": clauses})
            if len(mine) >= 1:
                self.run_id = mine[0].id
                self.db.keep_run(self.hotkey, self.run_id)
                if len(mine) > 1:
                    for other in mine:
                        if other.id != self.run_id and other.state != "running":
                            other.delete(delete_artifacts=True)
                wandb.finish()
            else:
                first = wandb.init(project=self.project.name, entity=ENTITY, name=self.name)
                self.run_id = first.id
                self.db.keep_run(self.hotkey, self.run_id)
                wandb.finish()
        self.run = wandb.init(project=self.project.name, entity=ENTITY, id=self.run_id, resume="allow")

    def publish(self, **changes):
        self.run.config.update(changes, allow_val_change=True)

    def sign(self):
        """Shows that the hotkey knows of this run: it signs the id, and nothing else."""
        digest = hashlib.sha256(self.run.id.encode()).digest()
        self.publish(signature=self.key.sign(digest).hex())
        self.run.log({"dummy_metric": 0})

    def verify(self, run):
        config = run.config
        if not config.get("signature") or not config.get("hotkey"):
            return False
        digest = hashlib.sha256(run.id.encode()).digest()
        return Keypair(ss58_address=config["hotkey"]).verify(digest, bytes.fromhex(config["signature"]))

    # What a participant says.

    def update_config(self):
        if self.run:
            self.run.name = self.name
            self.publish(hotkey=self.hotkey, role=self.role, config=self.config, version=VERSION)
            self.sign()

    def update_specs(self, specs):
        self.publish(specs=specs)
        self.sign()

    def update_allocated(self, allocated):
        self.publish(allocated=allocated)
        self.sign()

    def update_miner_port_open(self, is_open):
        self.publish(is_port_open=is_open)
        self.run.log({"is_port_open": self.run.config["is_port_open"]})
        self.sign()

    def write_stats(self, stats):
        self.db.keep_stats(stats)

    def update_stats(self, stats):
        self.run.log({"stats": {int(uid): report for uid, report in stats.items()}})

    def update_allocated_hotkeys(self, hotkeys):
        self.api.flush()
        stats = self.db.stats()
        for report in stats.values():
            report["allocated"] = report.get("hotkey") in hotkeys
        self.db.keep_stats(stats)
        self.publish(allocated_hotkeys=hotkeys, stats=stats)
        self.run.log({"allocated_hotkeys": self.run.config["allocated_hotkeys"]})
        self.sign()

    def update_penalized_hotkeys(self, hotkeys, name="penalized_hotkeys"):
        self.api.flush()
        self.publish(**{name: hotkeys})
        self.run.log({name: self.run.config[name]})
        self.sign()

    def update_penalized_hotkeys_checklist(self, hotkeys):
        self.update_penalized_hotkeys(hotkeys, "penalized_hotkeys_checklist")

    def log_chain_data(self, data):
        self.run.log(data)

    # What it reads of others.

    def validators(self, key):
        self.api.flush()
        mine = [{"config.role": "validator"}, {"config.config.netuid": self.netuid}]
        clauses = [*mine, {f"config.{key}": {"$exists": True}}]
        return self.api.runs(path=PATH, filters={"$and": clauses})

    def lists(self, key, valid, flag):
        runs, found = self.validators(key), []
        if not runs:
            return []
        for run in runs:
            listed = run.config.get(key)
            if self.verify(run) and listed and (not flag or run.config.get("hotkey") in valid):
                found.extend(listed)
        return found

    def get_allocated_hotkeys(self, valid, flag):
        return self.lists("allocated_hotkeys", valid, flag)

    def get_penalized_hotkeys(self, valid, flag):
        return self.lists("penalized_hotkeys", valid, flag)

    def get_penalized_hotkeys_checklist(self, valid, flag):
        return self.lists("penalized_hotkeys_checklist", valid, flag)

    def get_stats_allocated(self, valid, flag):
        runs, reports = self.validators("stats"), {}
        if not runs:
            return {}
        for run in runs:
            stats = run.config.get("stats", {})
            if self.verify(run) and stats and (not flag or run.config.get("hotkey") in valid):
                for uid, report in stats.items():
                    if report.get("own_score") is True:
                        reports.setdefault(uid, []).append(report)
        counted = {uid: [one for one in all_of if one.get("score", 0) != 0] for uid, all_of in reports.items()}
        chosen = {int(uid): dominant(all_of) for uid, all_of in counted.items()}
        return {uid: {**report, "own_score": True} for uid, report in chosen.items() if report}

    def sync_allocated(self):
        """Who has allocated this miner: the first validator whose list has its hotkey."""
        for run in self.validators("allocated_hotkeys"):
            if self.verify(run) and self.hotkey in (run.config.get("allocated_hotkeys") or []):
                return self.update_allocated(run.config["hotkey"])
        return self.update_allocated(None)

    def get_miner_specs(self, queryable):
        self.api.flush()
        clauses = [
            {"config.role": "miner"},
            {"config.config.netuid": self.netuid},
            {"state": "running"},
            {"config.specs": {"$exists": True}},
            {"config.hotkey": {"$in": list(queryable.values())}},
        ]
        runs = self.api.runs(PATH, {"$and": clauses})
        specs = {run.config["hotkey"]: run.config["specs"] for run in runs if self.verify(run)}
        return {int(uid): [hotkey, specs[hotkey]] for uid, hotkey in queryable.items() if specs.get(hotkey)}

    # What tests ask besides.

    def find(self, filters, order=None, per_page=None):
        """The ids of the runs of a filter, how many there are, and the first."""
        self.api.flush()
        more = {key: value for key, value in (("order", order), ("per_page", per_page)) if value}
        runs = self.api.runs(PATH, filters, **more)
        first = runs[0].id if runs else None
        return [[run.id for run in runs], len(runs), first]

    def read(self, run):
        """A run as the dashboard of the subnet reads it, by its id."""
        self.api.flush()
        found = self.api.run(f"{PATH}/{run}")
        about = [found.id, found.name, found.state, found.description, found.created_at]
        return [*about, found.config, dict(found.summary), self.verify(found)]

    def dashboard(self):
        return [[run.id, run.name, run.state] for run in wandb.Api().runs(PATH)]

    def legacy(self):
        """The path without an entity: the viewer's own."""
        return len(wandb.Api().runs("registered-miners"))

    def delete(self, run):
        return self.api.run(f"{PATH}/{run}").delete(delete_artifacts=True)

    def finish(self):
        wandb.finish()


def dominant(reports):
    """The most frequent (GPU, number, score), then the highest score, then the first."""
    if len(reports) < 2:
        return reports[0] if reports else None

    def claim(report):
        specs = report.get("gpu_specs", {})
        return specs.get("gpu_name"), specs.get("num_gpus"), report.get("score", 0)

    votes = collections.Counter(map(claim, reports))
    best = max(votes, key=lambda one: (votes[one], one[2]))
    return next(report for report in reports if claim(report) == best)


def main():
    role, netuid, seed = sys.argv[1:4]
    try:
        participant = Participant(role, int(netuid), seed)
    except ValueError as err:
        say("refused", str(err))
        return
    say("joined", [participant.run_id, participant.run is not None, participant.hotkey])
    for line in sys.stdin:
        number, method, arguments = json.loads(line)
        ask(str(number))(functools.partial(getattr(participant, method), *arguments))


main()
