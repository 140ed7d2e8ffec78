"""The command `attention`: attention maps of a trained model."""
