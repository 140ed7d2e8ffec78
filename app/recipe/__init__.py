"""A recipe of several trainings: candidates, their choice on validation rows, a comparison."""
