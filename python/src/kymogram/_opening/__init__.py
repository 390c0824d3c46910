"""From the arguments of init() to an open run, and from there to the process's end.

In: what init() was given, and the variables that stand in for it. Out: checked
settings, the request that opens the run, its writer, and the hooks that close it.
Wrong arguments are reported before anything is written. Start at `opening.py`; the
table of all arguments is in `_arguments`.
"""
