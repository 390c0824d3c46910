"""What a call of wandb.log costs: KEYS CALLS. Prints one line of JSON."""

import json
import resource
import sys
import time

import wandb

keys, calls = int(sys.argv[1]), int(sys.argv[2])
run = wandb.init()
row = {f"metric_{i}": 0.0 for i in range(keys)}
times = []
usage = resource.getrusage(resource.RUSAGE_SELF)
before = usage.ru_utime + usage.ru_stime
for step in range(calls):
    for i, key in enumerate(row):
        row[key] = step * 0.37 + i
    begin = time.perf_counter()
    run.log(row)
    times.append(time.perf_counter() - begin)
usage = resource.getrusage(resource.RUSAGE_SELF)
used = usage.ru_utime + usage.ru_stime - before
begin = time.perf_counter()
run.finish()
finish = time.perf_counter() - begin
times.sort()
median, p99 = times[calls // 2], times[calls * 99 // 100]
print(json.dumps({"Median": median * 1e6, "P99": p99 * 1e6, "CPU": used / calls * 1e6, "Finish": finish}))
