"""What is measured of a trained model: one class for each measurement, and what runs them all."""
