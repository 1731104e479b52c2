-- The shares of one bucket are read in the order of reports, without a look at the other buckets.
CREATE INDEX pair_uploads_by_bucket ON pair_uploads (pair, bucket, report);
