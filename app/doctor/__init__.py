"""`doctor`: whether this machine can run the program, and what to do where it cannot."""

from app.doctor.command import run

__all__ = ["run"]
