"""One person's position in two shares: a point function for two servers that do not collude.

Experimental: nobody independent has reviewed this code yet.

Each server alone sees random bytes. Together they can add up how many people are in each cell, level by level, and
check that every report stands for exactly one person in exactly one place. ``spec/sharing.md`` describes every byte.
Needs ``pip install 'semilocal[service]'`` for AES and HPKE.
"""
