"""Log a thousand points to a server that is away, and say how long init and close took."""

import argparse
import time

import kymogram

parser = argparse.ArgumentParser()
parser.add_argument("--server")
args = parser.parse_args()

start = time.monotonic()
kymogram.init(project_name="e2e", run_name="away", server=args.server)
print(f"init took {time.monotonic() - start:.3f} s")
for i in range(1000):
    kymogram.log("value", i)
start = time.monotonic()
kymogram.close()
print(f"close took {time.monotonic() - start:.3f} s")
