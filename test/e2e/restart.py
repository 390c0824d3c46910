"""A training that goes on after the last step: it says the first step, then each that is logged."""

from __future__ import annotations

import os
import sys
import time

import kymogram

kymogram.init(run_name="r", resume_strategy="allow")
last = kymogram.get_last_step("loss")
start = 0 if last is None else last + 1
os.write(1, b"%d\n" % start)
for step in range(start, start + int(sys.argv[1])):
    kymogram.log("loss", float(step), step=step)
    os.write(1, b"%d\n" % step)
    time.sleep(0.005)
