"""Log 0, 1, 2, … and say each number on stdout after the call that logged it returned."""

from __future__ import annotations

import argparse
import os
import time

import kymogram

parser = argparse.ArgumentParser()
parser.add_argument("--server")
parser.add_argument("--run", required=True)
parser.add_argument("--count", type=int, default=1 << 60, help="how many points; default: until killed")
parser.add_argument("--until", help="end as soon as this file exists")
parser.add_argument("--pause", type=float, default=0, help="seconds between two calls")
parser.add_argument("--resume", action="store_true", help="join a run of this name")
args = parser.parse_args()

kymogram.init(
    workspace_name="default",
    project_name="crash",
    run_name=args.run,
    server=args.server,
    resume_strategy="allow" if args.resume else "never",
)
os.write(1, b"open\n")
for i in range(args.count):
    kymogram.log("value", float(i))
    os.write(1, b"%d\n" % i)  # one system call: whole in the pipe before a kill, or not at all
    if args.pause:
        time.sleep(args.pause)
    if args.until and i % 16 == 0 and os.path.exists(args.until):
        break
kymogram.close(close_timeout=60)
