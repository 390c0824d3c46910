"""Videos of environments: frames in, files for the agent out.

The caller's side checks and copies a frame and puts it into a queue; it never waits.
The thread of `renderer.py` encodes each episode into the spool's folder, where a kill
costs at most the last second. Start at `renderings.py`, then `renderer.py`;
`options.py` holds the rendering arguments of init().
"""
