"""Rows are counted where they lie: in memory, in files, DuckDB or Spark; everything else happens on the counts."""
