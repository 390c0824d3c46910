"""One of several processes that log into one run: RUN RANK ROWS MODE."""

import sys
import time

import kit
import wandb

name, rank, rows, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
more = {}
if mode == "shared":
    more = {"mode": "shared"}
    if kit.VERSION >= (0, 20):
        more |= {"x_label": f"rank{rank}", "x_primary": rank == 0}
# Old SDKs name the folder of a run by the second.
time.sleep(1.2 * rank)
run = wandb.init(id=name, config={f"rank{rank}": rank}, settings=kit.settings(**more))
for i in range(rows):
    run.log({"loss": i + rank / 10, "rank": rank, f"only{rank}": i})
    time.sleep(0.05)
print("hello from", rank)
run.summary[f"sum{rank}"] = rank
time.sleep(max(0, 5 - 1.2 * rank))  # all of them are there at once
run.finish()
