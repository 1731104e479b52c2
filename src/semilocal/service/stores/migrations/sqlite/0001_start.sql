CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE campaigns (
    id INTEGER PRIMARY KEY,
    task BLOB NOT NULL UNIQUE,
    body BLOB NOT NULL,
    phase TEXT NOT NULL,
    round INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    needed INTEGER,
    deadline INTEGER,
    fold BLOB NOT NULL
) STRICT;

CREATE TABLE tokens (
    hash BLOB PRIMARY KEY,
    campaign INTEGER NOT NULL REFERENCES campaigns (id),
    used_by BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE participants (
    campaign INTEGER NOT NULL REFERENCES campaigns (id),
    pseudonym BLOB NOT NULL,
    verifier BLOB NOT NULL,
    PRIMARY KEY (campaign, pseudonym)
) STRICT, WITHOUT ROWID;

CREATE TABLE rounds (
    campaign INTEGER NOT NULL REFERENCES campaigns (id),
    round INTEGER NOT NULL,
    query BLOB NOT NULL,
    closed BLOB,
    checkpoint BLOB,
    seal BLOB,
    PRIMARY KEY (campaign, round)
) STRICT;

CREATE TABLE reports (
    campaign INTEGER NOT NULL,
    round INTEGER NOT NULL,
    pseudonym BLOB NOT NULL,
    cell INTEGER NOT NULL,
    answer BLOB NOT NULL,
    PRIMARY KEY (campaign, round, pseudonym)
) STRICT, WITHOUT ROWID;

-- How many reports a worker added to a round (round 0: participants). One row per worker, so that workers do not
-- wait for each other.
CREATE TABLE counters (
    campaign INTEGER NOT NULL,
    round INTEGER NOT NULL,
    worker TEXT NOT NULL,
    received INTEGER NOT NULL,
    PRIMARY KEY (campaign, round, worker)
) STRICT, WITHOUT ROWID;
