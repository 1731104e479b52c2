"""Ways in and out: tables of points, files of regions, plots."""
