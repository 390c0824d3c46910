"""What `kymogram.telemetry` is made of: points as Templar's MetricsLogger has them.

`values` turns fields into numbers and text, `tags` knows which tags describe the process and
which count steps, `machine` reads processor, memory and graphics card. `spool` writes points into
a run, `influx` sends them to an InfluxDB. What always holds: no call raises into the training
loop, and whatever is not kept is counted and said. Start at `spool.Sink`.
"""
