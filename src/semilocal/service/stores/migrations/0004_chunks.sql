-- The evaluation of a tree of a pair, by as many processes as there are. Everything here can be computed again; it is
-- deleted when the next tree begins or the pair has ended.
-- A chunk of reports: who works on it (owner), for which order (claimed), and until when nobody else takes it over.
CREATE TABLE pair_chunks (
    pair INTEGER NOT NULL REFERENCES pairs (id),
    chunk INTEGER NOT NULL,
    bucket $large NOT NULL,
    root $bytes NOT NULL,
    ids $bytes NOT NULL,
    owner TEXT NOT NULL,
    claimed $bytes NOT NULL,
    lease_ends $large NOT NULL,
    PRIMARY KEY (pair, chunk)
) $by_row;

-- What is to be computed of every chunk, one after the other; digest: of this order and of all before it.
CREATE TABLE pair_orders (
    pair INTEGER NOT NULL REFERENCES pairs (id),
    number INTEGER NOT NULL,
    digest $bytes NOT NULL,
    body $bytes NOT NULL,
    PRIMARY KEY (pair, number)
) $by_row;

-- What came out, sealed with the server's key for the pair.
CREATE TABLE pair_results (
    pair INTEGER NOT NULL REFERENCES pairs (id),
    digest $bytes NOT NULL,
    chunk INTEGER NOT NULL,
    result $bytes NOT NULL,
    PRIMARY KEY (pair, digest, chunk)
) $by_row;
