"""What the package learns from its surroundings.

In: environment variables, the user's files, `git` and `nvidia-smi`. Out: the server,
the key, the job, the rank, and updates that describe the machine. What looks like a
secret never leaves. Start at `environment.py`.
"""
