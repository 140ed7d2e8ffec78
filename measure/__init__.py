"""What is measured of a trained model: one file for each measurement, and what runs them all."""
