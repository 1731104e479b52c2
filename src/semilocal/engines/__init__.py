"""Rows are counted where they lie: in memory, in files, DuckDB or Spark; everything else happens on the counts.

See :mod:`semilocal.engines.source` for the seam. Every engine gives the same bytes for the same seed.
"""
