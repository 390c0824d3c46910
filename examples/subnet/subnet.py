"""A simulated subnet: what its nodes log in each window, as Templar's nodes do.

Everything follows from the seed: the same arguments give the same points, also on
another machine. Times are simulated, 25 minutes a window.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

Value = int | float | str

WINDOW_SECONDS = 125 * 12  # blocks of a window, seconds of a block
FIRST_WINDOW = 41_000
TASKS = ("arc_challenge", "arc_easy", "hellaswag", "mmlu", "openbookqa", "piqa", "winogrande")
EVALUATED = 15  # miners that a validator looks at in a window
EVALUATES_EVERY = 10  # windows between two evaluations
SLASHED, INACTIVE, BROKEN, RESTARTED = 3, 4, 2, 1  # uids of miners with a fate


@dataclass(frozen=True)
class Sample:
    """One call of `MetricsLogger.log`, with the tags that the logger adds."""

    node: str
    measurement: str
    tags: dict[str, str]
    fields: dict[str, Value]
    time_ns: int


@dataclass
class Node:
    """A process of the subnet."""

    seed: int
    role: str
    uid: str
    prefix: str
    group: str
    job_type: str
    life: int = 0
    clock_ns: int = 0
    samples: list[Sample] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.role}-{self.uid}"

    def random(self, *of: object) -> random.Random:
        return random.Random("/".join(map(str, (self.seed, self.name, *of))))

    def standard(self) -> dict[str, str]:
        """What each point says of its process. It overrides the caller's tags, as in Templar."""
        runtime = f"{self.random('life', self.life).getrandbits(64):016x}"
        return {
            "uid": self.uid,
            "prefix": self.prefix,
            "version": "2.1.3",
            "runtime_id": runtime,
            "role": self.role,
            "group": self.group,
            "job_type": self.job_type,
            "config_netuid": "3",
            "config_device": "cuda:0",
            "config_life": str(self.life),
        }

    def log(
        self,
        name: str,
        tags: dict[str, object],
        fields: dict[str, Value],
        system: random.Random | None = None,
    ) -> None:
        """Keep a point; with system it has the machine's figures, as validators send them."""
        text = {k: str(v) for k, v in tags.items()}
        gpu: dict[str, str] = {}
        if system:
            fields = {**fields, **machine(system)}
            gpu = {"gpu_id": "0", "gpu_name": "NVIDIA H100 80GB HBM3"}
        self.clock_ns += 1_000_000  # no two points of a node have one time
        tags_of = {**text, **self.standard(), **gpu}
        self.samples.append(Sample(self.name, self.prefix + name, tags_of, fields, self.clock_ns))

    def take(self) -> Iterator[Sample]:
        yield from self.samples
        self.samples = []


def machine(r: random.Random) -> dict[str, Value]:
    """The fields of `with_system_metrics` and `with_gpu_metrics`, in MB."""
    return {
        "sys_cpu_usage": r.uniform(20, 60),
        "sys_mem_used": r.uniform(90e3, 120e3),
        "sys_mem_total": 515_000.0,
        "gpu_mem_segments": r.randint(80, 120),
        "gpu_mem_allocated_mb": r.uniform(30e3, 60e3),
        "gpu_mem_cached_mb": r.uniform(60e3, 70e3),
        "gpu_mem_total_mb": r.uniform(70e3, 79e3),
    }


@dataclass
class Subnet:
    """Miners, validators, an evaluator and an aggregator over some windows."""

    nodes: int
    validators: int
    windows: int
    seed: int
    start_ns: int

    def __post_init__(self) -> None:
        if self.validators < 1 or self.windows < 1 or self.nodes - self.validators - 2 < 5:
            raise ValueError(
                f"a subnet needs a window, a validator, an evaluator, an aggregator and 5 miners: "
                f"{self.windows} windows and {self.nodes} nodes with {self.validators} validators are too few"
            )
        made = [
            *(("miner", str(uid), "M", "miner", "mining") for uid in range(self.miners)),
            *(("validator", str(uid), "V", "validator", "validation") for uid in range(self.miners, self.nodes - 2)),
            ("evaluator", "1", "E", "evaluations", "eval"),
            ("aggregator", "1", "A", "aggregator", "aggregation"),
        ]
        self.all = [Node(self.seed, *one) for one in made]

    @property
    def miners(self) -> int:
        return self.nodes - self.validators - 2

    def samples(self) -> Iterator[Sample]:
        """All points, window by window."""
        for i in range(self.windows):
            for order, node in enumerate(self.all):
                node.clock_ns = self.start_ns + (i * WINDOW_SECONDS + order) * 10**9
                getattr(self, node.role)(node, i)
                yield from node.take()

    def at(self, share: float) -> int:
        """The window after this share of all."""
        return int(self.windows * share)

    def place(self, i: int) -> dict[str, object]:
        return {"window": FIRST_WINDOW + i, "global_step": i}

    def loss(self, i: int, r: random.Random) -> float:
        return 2.2 + 8.5 * math.exp(-i / 40) + r.gauss(0, 0.05)

    def slashed(self, uid: int, i: int) -> bool:
        return uid == SLASHED and i >= self.at(0.6)

    def inactive(self, uid: int, i: int) -> bool:
        return uid == INACTIVE and self.at(0.5) <= i < self.at(0.75)

    def miner(self, node: Node, i: int) -> None:
        uid, r = int(node.uid), node.random(i)
        if self.inactive(uid, i):
            return
        if (uid == RESTARTED and i in (self.at(0.3), self.at(0.7))) or (i > 0 and r.random() < 0.005):
            node.life += 1
        loss = math.nan if uid == BROKEN and i == self.at(0.4) else self.loss(i, r) + uid % 7 * 0.02
        peers = sorted(r.sample(range(self.miners), min(self.miners, 15)))
        fields: dict[str, Value] = {
            "loss": loss,
            "n_gather_peers": len(peers),
            "gather_success_rate": r.uniform(80, 100),
            "gather_peers": json.dumps(peers),
            "skipped_peers": json.dumps(peers[:1]),
            "window_total_time": r.uniform(900, 1400),
            "peer_update_time": r.uniform(1, 5),
            "compression_time": r.uniform(2, 6),
            "gather_time": r.uniform(20, 60),
            "put_time": r.uniform(1, 9),
            "model_update_time": r.uniform(5, 9),
            "tokens_per_sec": 20_000 + 150 * (uid * 37 % 101) + r.gauss(0, 200),
        }
        node.log("training_step_v2", self.place(i), fields)

    def validator(self, node: Node, i: int) -> None:
        r, at = node.random(i), self.place(i)
        loss, other = self.loss(i, r), self.loss(i, r) + 0.1
        active = sum(not self.inactive(uid, i) for uid in range(self.miners))
        uids = sorted(r.sample(range(self.miners), min(self.miners, EVALUATED)))
        times = ("window_total_time", "peer_update_time", "gather_time", "evaluation_time", "model_update_time")
        fields: dict[str, Value] = {
            "loss_own_before": loss,
            "loss_own_after": loss - 0.02,
            "loss_own_improvement": 0.02 / loss,
            "loss_random_before": other,
            "loss_random_after": other - 0.01,
            "loss_random_improvement": 0.01 / other,
            "current_block": (FIRST_WINDOW + i) * 125,
            "evaluated_uids_count": len(uids),
            "outer_lr": 0.9,
            "inner_lr": 4e-4 * math.exp(-i / 500),
            "active_miners_count": active,
            "gather_success_rate": r.uniform(80, 100),
            "total_peers": self.miners,
            "total_skipped": r.randint(0, 3),
            **{name: r.uniform(5, 300) for name in times},
        }
        node.log("validator_window_v2", at, fields, r)
        norms = (
            "mean_grad_norm",
            "max_grad_norm",
            "min_grad_norm",
            "median_grad_norm",
            "grad_norm_std",
            "mean_weight_norm",
        )
        node.log(
            "validator_gradient_stats",
            at,
            {**{n: r.uniform(0.1, 2) for n in norms}, "grad_to_weight_ratio": r.uniform(0, 0.1)},
            r,
        )
        for uid in uids:
            self.judge(node, i, uid, r)

    def judge(self, node: Node, i: int, uid: int, r: random.Random) -> None:
        """What a validator says of one miner."""
        at, score = {**self.place(i), "eval_uid": uid}, 0.0 if self.slashed(uid, i) else r.uniform(0.2, 1)
        if uid == SLASHED and self.slashed(uid, i) and r.random() < 0.2:
            fields: dict[str, Value] = {"score_before": 0.8, "score_after": 0.0, "reason": "NaN in the gradient"}
            node.log("validator_slash", {**at, "reason_code": "invalid_gradient"}, fields, r)
        if self.inactive(uid, i):
            node.log(
                "validator_inactivity",
                {**self.place(i), "uid": uid},
                {"score_before": score, "score_after": score * 0.75},
                r,
            )
            return
        if r.random() < 0.8:  # Templar's sample_rate
            fields = {
                "gradient_score": score * 0.01,
                "binary_indicator": int(score > 0.5),
                "binary_moving_avg": score,
                "sync_score": r.uniform(0.9, 1),
                "final_score": score * 0.9,
                "weight": score / self.miners,
            }
            node.log("validator_scores", at, fields, r)
        node.log(
            "validator_openskill", at, {"mu": 25 + score, "sigma": 8 / (1 + i), "ordinal": 25 + score - 24 / (1 + i)}
        )
        sync = ("l2_norm", "avg_l2_norm", "avg_abs_diff", "max_diff", "avg_steps_behind", "max_steps_behind")
        node.log("validator_sync_score", {**self.place(i), "uid": uid}, {name: r.uniform(0, 1) for name in sync}, r)

    def evaluator(self, node: Node, i: int) -> None:
        if i % EVALUATES_EVERY:
            return
        r, at = node.random(i), self.place(i)
        for n, task in enumerate(TASKS):
            score = 0.25 + 0.05 * n + 0.3 * (1 - math.exp(-i / 60)) + r.gauss(0, 0.005)
            node.log("benchmark_task", {**at, "task": task, "metric": "acc_norm"}, {"score": score})
        node.log("benchmark_summary", at, {"num_tasks": len(TASKS), "global_step": i})
        loss = self.loss(i, r)
        fields: dict[str, Value] = {
            "perplexity": math.exp(loss),
            "average_loss": loss,
            "bpb": loss / 2.8,
            "runtime_s": r.uniform(100, 200),
            "total_tokens": 1_000_000,
            "total_bytes": 4_100_000,
        }
        node.log("custom_evaluation", {**at, "world_size": 1}, fields)

    def aggregator(self, node: Node, i: int) -> None:
        r = node.random(i)
        active = [uid for uid in range(self.miners) if not self.inactive(uid, i) and not self.slashed(uid, i)]
        fields: dict[str, Value] = {
            "peers": len(active),
            "skipped": self.miners - len(active),
            "gradient_norm": r.uniform(0.5, 1.5),
            "aggregation_time": r.uniform(10, 40),
            "upload_time": r.uniform(2, 8),
        }
        node.log("aggregation", self.place(i), fields)
