"""Mechanisms for one number: a value in [0, 1] becomes an integer of a finite alphabet."""
