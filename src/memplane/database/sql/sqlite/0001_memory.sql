-- What was learned, derived from the ledgers. Nothing here is the only copy of anything.
-- Times are microseconds since 1970 in UTC. The order of an agent's turns is (at, id).

CREATE TABLE agents (
    number INTEGER PRIMARY KEY,
    agent TEXT NOT NULL UNIQUE,
    -- its searchable episodes and the terms in all of them: what scores are relative to
    episodes INTEGER NOT NULL DEFAULT 0,
    terms INTEGER NOT NULL DEFAULT 0,
    -- and how many were folded
    noise INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE episodes (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    agent INTEGER NOT NULL REFERENCES agents,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    -- 0 searchable, 1 noise, 2 silent: kept out of memory because it failed or says nothing
    state INTEGER NOT NULL,
    question TEXT NOT NULL,
    answer TEXT NOT NULL,
    calls TEXT NOT NULL,
    length INTEGER NOT NULL,
    counts BLOB NOT NULL,
    UNIQUE (agent, id)
) STRICT;

CREATE INDEX episodes_in_order ON episodes (agent, at, id, state);

CREATE INDEX episodes_searchable ON episodes (agent, at, id) WHERE state = 0;

CREATE INDEX episodes_folded ON episodes (agent, at) WHERE state = 1;

CREATE TABLE markers (
    agent INTEGER NOT NULL REFERENCES agents,
    entry TEXT NOT NULL,
    position INTEGER NOT NULL,
    category TEXT NOT NULL,
    service TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (agent, entry, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE tombstones (
    agent INTEGER NOT NULL REFERENCES agents,
    id TEXT NOT NULL,
    PRIMARY KEY (agent, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE stretches (
    agent INTEGER NOT NULL REFERENCES agents,
    at INTEGER NOT NULL,
    id TEXT NOT NULL,
    last_at INTEGER NOT NULL,
    last_id TEXT NOT NULL,
    turns INTEGER NOT NULL,
    PRIMARY KEY (agent, at, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE artefacts (
    agent INTEGER NOT NULL REFERENCES agents,
    stretch_at INTEGER NOT NULL,
    stretch_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    at INTEGER NOT NULL,
    sources TEXT NOT NULL,
    salience INTEGER NOT NULL,
    valence INTEGER,
    arousal INTEGER,
    feeling TEXT,
    PRIMARY KEY (agent, stretch_at, stretch_id, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX artefacts_in_order ON artefacts (agent, kind, stretch_at, stretch_id);

CREATE INDEX artefacts_by_salience ON artefacts (agent, kind, salience DESC, at DESC);

-- Work that is still to be done, kept with the rows that it is about.

CREATE TABLE underived (
    agent INTEGER NOT NULL REFERENCES agents,
    at INTEGER NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (agent, at, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE unindexed (
    key INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agents,
    -- whether the text index may have it already
    known INTEGER NOT NULL
) STRICT;

CREATE INDEX unindexed_by_agent ON unindexed (agent);

CREATE TABLE followed (
    ledger TEXT NOT NULL,
    agent TEXT NOT NULL,
    cursor TEXT NOT NULL,
    PRIMARY KEY (ledger, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE notes (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
