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
