"""What a caller hands in, checked and brought into one form.

In: names, numbers, arrays, steps, times, tags and nested configurations, of any
library. Out: checked text, bytes of columns, updates of attributes; or one
KymogramValidationError that names the argument, the rule and the place. Nothing is
written here. Start at `naming.py` and `numeric.py`.
"""
