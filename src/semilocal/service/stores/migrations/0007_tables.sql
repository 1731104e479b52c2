-- One schema for all databases; names after a dollar sign are the dialect's words for types and tables.
CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value $bytes NOT NULL
) $by_key;

CREATE TABLE campaigns (
    id $number,
    task $bytes NOT NULL UNIQUE,
    body $bytes NOT NULL,
    phase TEXT NOT NULL,
    round INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    needed $large,
    deadline $large,
    fold $bytes NOT NULL
) $by_row;

CREATE TABLE tokens (
    hash $bytes PRIMARY KEY,
    campaign INTEGER NOT NULL REFERENCES campaigns (id),
    used_by $bytes
) $by_key;

CREATE TABLE participants (
    campaign INTEGER NOT NULL REFERENCES campaigns (id),
    pseudonym $bytes NOT NULL,
    verifier $bytes NOT NULL,
    PRIMARY KEY (campaign, pseudonym)
) $by_key;

CREATE TABLE rounds (
    campaign INTEGER NOT NULL REFERENCES campaigns (id),
    round INTEGER NOT NULL,
    query $bytes NOT NULL,
    closed $bytes,
    checkpoint $bytes,
    seal $bytes,
    PRIMARY KEY (campaign, round)
) $by_row;

-- body: what follows the pseudonym in a report's canonical bytes.
CREATE TABLE reports (
    campaign INTEGER NOT NULL,
    round INTEGER NOT NULL,
    pseudonym $bytes NOT NULL,
    body $bytes NOT NULL,
    PRIMARY KEY (campaign, round, pseudonym)
) $by_key;

-- How many awaited reports a worker added to a round (round 0: participants). One row per worker, so that workers do
-- not wait for each other.
CREATE TABLE counters (
    campaign INTEGER NOT NULL,
    round INTEGER NOT NULL,
    worker TEXT NOT NULL,
    received $large NOT NULL,
    PRIMARY KEY (campaign, round, worker)
) $by_key;

-- Pairs of two servers (experimental). Rows of pair_uploads never change; they are deleted when the pair has ended.
CREATE TABLE pairs (
    id $number,
    task $bytes NOT NULL UNIQUE,
    body $bytes NOT NULL,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    phase TEXT NOT NULL,
    confirmed INTEGER NOT NULL,
    enrolment TEXT NOT NULL,
    capacity $large,
    seconds $large,
    deadline $large,
    received $large NOT NULL,
    forwarded $large NOT NULL,
    refused $large NOT NULL,
    accepted $large,
    cleaned INTEGER NOT NULL,
    seed $bytes,
    transcript $bytes
) $by_row;

CREATE TABLE pair_tokens (
    hash $bytes PRIMARY KEY,
    pair INTEGER NOT NULL REFERENCES pairs (id),
    used INTEGER NOT NULL
) $by_key;

-- private: this server's private part, masked; onward: the helper's envelope, on the leader.
CREATE TABLE pair_uploads (
    id $number,
    pair INTEGER NOT NULL REFERENCES pairs (id),
    report $bytes NOT NULL,
    bucket $large NOT NULL,
    digest $bytes NOT NULL,
    public $bytes NOT NULL,
    private $bytes NOT NULL,
    onward $bytes NOT NULL,
    UNIQUE (pair, report)
) $by_row;

-- Reports that the helper could not take.
CREATE TABLE pair_refused (
    pair INTEGER NOT NULL REFERENCES pairs (id),
    report $bytes NOT NULL,
    PRIMARY KEY (pair, report)
) $by_key;

-- What the servers said to each other, in order. A step has one request and one answer for ever.
CREATE TABLE pair_steps (
    pair INTEGER NOT NULL REFERENCES pairs (id),
    number INTEGER NOT NULL,
    bucket $large NOT NULL,
    step TEXT NOT NULL,
    request $bytes NOT NULL,
    answer $bytes,
    PRIMARY KEY (pair, number),
    UNIQUE (pair, bucket, step)
) $by_row;

-- The shares of one bucket are read in the order of reports, without a look at the other buckets.
CREATE INDEX pair_uploads_by_bucket ON pair_uploads (pair, bucket, report);

-- What came out of the evaluation of a tree, level by level: sums and tags of all its reports, sealed with the server's
-- key for the pair. Deleted when the next tree begins or the pair has ended; all of it can be computed again.
CREATE TABLE pair_levels (
    pair INTEGER NOT NULL REFERENCES pairs (id),
    tree $bytes NOT NULL,
    name $bytes NOT NULL,
    result $bytes NOT NULL,
    PRIMARY KEY (pair, name)
) $by_row;
