-- Levels of pairs are evaluated again after a restart, and stored no more.
DROP TABLE pair_levels;
