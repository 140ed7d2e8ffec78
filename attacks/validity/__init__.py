"""Validity of adversarial texts: do they still mean the same to a human reader?"""
