"""Our attacks next to those of TextAttack 0.3.11."""
