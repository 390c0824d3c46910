"""The hot path of log() and the slow path behind it.

In: a metric, a value, a step, as the program gave them. Out: records in the writer's
segment. `tables.py` holds what repeated calls need, and `log()` appends from there
by one C call without a lock; `logger.py` is the path of all other calls, and fills
the tables. Steps of a series never repeat: `series.py` says how they are counted.
Start at `kymogram/_log.py`, then `tables.py` and `logger.py`.
"""
