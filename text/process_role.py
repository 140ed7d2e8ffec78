"""The role of this process: it may train, or only predict.

Lightning takes most of the start of a process; one that only predicts does without it.
"""

predicts_only = False
"""True: modules and corpora derive from torch's classes instead of Lightning's, and no Trainer
accepts them. Only the program of a process may set it, before it imports them, and
`steadfast.load`, if they are not imported yet; no other library may."""
