"""`doctor` checks whether this machine can run the program, and says how to repair it."""
