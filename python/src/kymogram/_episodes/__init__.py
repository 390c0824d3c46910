"""The RL calls: environments, their episodes and the steps within them.

In: values of one or many environments. Out: records with the axes rl_step, episode
and env_step. `group.py` holds the counters of all environments side by side, so that
a call for 64 of them is one operation of NumPy; `logger.py` moves the counters and
writes. Start at `RLLogger.environment_step`.
"""
