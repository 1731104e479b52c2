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

CREATE TABLE reports (
    campaign INTEGER NOT NULL,
    round INTEGER NOT NULL,
    pseudonym $bytes NOT NULL,
    cell $large NOT NULL,
    answer $bytes NOT NULL,
    PRIMARY KEY (campaign, round, pseudonym)
) $by_key;

-- How many reports a worker added to a round (round 0: participants). One row per worker, so that workers do not
-- wait for each other.
CREATE TABLE counters (
    campaign INTEGER NOT NULL,
    round INTEGER NOT NULL,
    worker TEXT NOT NULL,
    received $large NOT NULL,
    PRIMARY KEY (campaign, round, worker)
) $by_key;
