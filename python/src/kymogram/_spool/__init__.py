"""The log on disk that a run writes and the agent delivers (docs/format/spool.md).

In: records, as bytes. Out: files that another process reads, and the status page
that it writes back. A record whose append returned survives a SIGKILL; a full disk
moves points to memory, and a full memory drops and counts them. Start at
`writer.py`, then `segment.py`; `records.py` has the layout of every record.
"""
