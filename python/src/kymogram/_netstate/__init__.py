"""The state of a network: the local database, and the process that signs and judges.

`helper` runs `kymogram netstate`, which does what needs keys: it signs, keeps sequences, judges
what others say. `database` is the compute subnet's SQLite file, `dominant` the vote, `record` reads
signed records with bittensor's own wallet. What always holds: no secret is written to a log, and
both languages open the same file. Start at `helper.Participant`.
"""
