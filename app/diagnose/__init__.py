"""The command `diagnose`: measures what the robustness of a model rests on."""
