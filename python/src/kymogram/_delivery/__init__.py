"""The way from the spool to the server.

`client.py` opens the run over HTTP; `agent.py` finds and starts the binary that
delivers; `helper.py` is the thread that looks after both once a second and passes on
what the agent says; `errors.py` keeps that for the program; `wait.py` waits for the
acknowledgement. No call here logs a point. Start at `helper.py`.
"""
