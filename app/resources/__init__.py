"""The command `resources`: downloads what text attacks need."""
