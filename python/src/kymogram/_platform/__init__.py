"""What differs between operating systems.

`seams.py` takes each function from `posix.py` or `windows.py`: a file is locked,
mapped, reserved and read the same way above. Nothing of ours is imported here.
docs/platforms.md has the table. Start at `seams.py`.
"""
