"""The experiments: datasets, populations, the runner, and how figures and the report look.

Knows releases, baselines and the simulation; nothing of the library may import it.
"""
