"""The command `attention`: maps of what a trained model attends to."""
