"""The space that positions live in: boxes, named places, and an index over rectangles."""
