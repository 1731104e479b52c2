"""What compares, attacks and reproduces. Nothing that releases anything imports it; the command line does.

- ``baselines``: other mechanisms, each with its true guarantee, that the figures compare with.
- ``audit``: attacks on our own promises, with lower bounds on the loss that they show.
- ``experiments``: the paper's figures, their data and how they are run again.
- ``planner``: what a collection would find, before anybody is asked.
"""
