"""The space that positions live in: boxes, their units, named places, polygons."""
