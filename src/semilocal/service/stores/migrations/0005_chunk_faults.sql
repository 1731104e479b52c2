-- Why the last worker could not compute a chunk, for the operator; empty if it could, or nobody has tried.
ALTER TABLE pair_chunks ADD COLUMN fault TEXT NOT NULL DEFAULT '';
