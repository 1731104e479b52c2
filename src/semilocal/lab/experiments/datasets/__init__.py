"""Datasets of the experiments: catalogue, loading, fetching, originals."""
