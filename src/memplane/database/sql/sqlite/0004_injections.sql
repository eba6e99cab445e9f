-- What was put into a conversation, so that it stands there again with the same bytes.
-- A place is the hash of what users said up to there; nothing here is derived from a ledger.

CREATE TABLE injections (
    key INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    place TEXT NOT NULL,
    session TEXT NOT NULL,
    at INTEGER NOT NULL,
    service TEXT NOT NULL,
    text TEXT NOT NULL,
    -- the memories in it, as JSON
    blocks BLOB NOT NULL,
    UNIQUE (agent, place, session)
) STRICT;

CREATE INDEX injections_at ON injections (at);

CREATE TABLE injected_entries (
    agent TEXT NOT NULL,
    entry TEXT NOT NULL,
    injection INTEGER NOT NULL REFERENCES injections ON DELETE CASCADE,
    PRIMARY KEY (agent, entry, injection)
) STRICT, WITHOUT ROWID;

CREATE INDEX injected_entries_injection ON injected_entries (injection);

-- Which turns were said at which place, so that a conversation is not told what stands in it.

CREATE TABLE said (
    agent TEXT NOT NULL,
    place TEXT NOT NULL,
    entry TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (agent, place, entry)
) STRICT, WITHOUT ROWID;

CREATE INDEX said_entry ON said (agent, entry);

CREATE INDEX said_time ON said (at);
