CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value BYTEA NOT NULL
);

CREATE TABLE campaigns (
    id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task BYTEA NOT NULL UNIQUE,
    body BYTEA NOT NULL,
    phase TEXT NOT NULL,
    round INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    needed BIGINT,
    deadline BIGINT,
    fold BYTEA NOT NULL
);

CREATE TABLE tokens (
    hash BYTEA PRIMARY KEY,
    campaign INTEGER NOT NULL REFERENCES campaigns (id),
    used_by BYTEA
);

CREATE TABLE participants (
    campaign INTEGER NOT NULL REFERENCES campaigns (id),
    pseudonym BYTEA NOT NULL,
    verifier BYTEA NOT NULL,
    PRIMARY KEY (campaign, pseudonym)
);

CREATE TABLE rounds (
    campaign INTEGER NOT NULL REFERENCES campaigns (id),
    round INTEGER NOT NULL,
    query BYTEA NOT NULL,
    closed BYTEA,
    checkpoint BYTEA,
    seal BYTEA,
    PRIMARY KEY (campaign, round)
);

CREATE TABLE reports (
    campaign INTEGER NOT NULL,
    round INTEGER NOT NULL,
    pseudonym BYTEA NOT NULL,
    cell BIGINT NOT NULL,
    answer BYTEA NOT NULL,
    PRIMARY KEY (campaign, round, pseudonym)
);

-- How many reports a worker added to a round (round 0: participants). One row per worker, so that workers do not
-- wait for each other.
CREATE TABLE counters (
    campaign INTEGER NOT NULL,
    round INTEGER NOT NULL,
    worker TEXT NOT NULL,
    received BIGINT NOT NULL,
    PRIMARY KEY (campaign, round, worker)
);
