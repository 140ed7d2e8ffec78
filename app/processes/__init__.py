"""The processes of one run: devices, messages, and a watch over each other."""
