"""Charts as PNG files in one style."""
