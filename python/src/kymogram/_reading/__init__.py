"""From a server's answers to columns and frames. Start at columns.py."""
