"""Log one point for each line on stdin, and say when the call returned."""

import argparse
import sys
import time

import kymogram

parser = argparse.ArgumentParser()
parser.add_argument("--server")
args = parser.parse_args()

kymogram.init(project_name="live", run_name="live", server=args.server)
kymogram.log("value", 0)
print("open", flush=True)
for i, _ in enumerate(sys.stdin, start=1):
    kymogram.log("value", i)
    print(time.time_ns(), flush=True)
kymogram.close()
