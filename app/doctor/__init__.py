"""`doctor` checks whether this machine can run the program, and says what to do where it cannot."""

from app.doctor.doctor_command import run

__all__ = ["run"]
