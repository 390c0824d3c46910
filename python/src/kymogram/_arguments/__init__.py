"""The arguments of init(): one table, and the checks that it names.

In: what init() was given. Out: one checked value at a time, in the order in which
the caller asks; an argument that is left out comes from the environment, then from
the table. From the table python/arguments.py also makes the signature in `kymogram/_init.py`
and the tables of the docs. Start at `table.py`.
"""
