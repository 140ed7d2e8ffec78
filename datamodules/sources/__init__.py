"""Sources of rows: local files and the Hugging Face hub."""
