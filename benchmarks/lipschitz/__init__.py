"""Lipschitz constants of attentions, proven and found."""
