-- Whose memory a row is. Below an agent there are end users and views; empty is shared by all.
-- What was recorded before is shared. Its scope has the number of its agent, so that the text
-- index, which writes each term behind a number, stays as it is.

CREATE TABLE scopes (
    -- a number is never used again: the text index may still have terms behind it
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    agent INTEGER NOT NULL REFERENCES agents,
    end_user TEXT NOT NULL,
    view TEXT NOT NULL,
    -- its searchable episodes and the terms in all of them, and how many turns are noise
    episodes INTEGER NOT NULL DEFAULT 0,
    terms INTEGER NOT NULL DEFAULT 0,
    noise INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent, end_user, view)
) STRICT;

INSERT INTO scopes SELECT number, number, '', '', episodes, terms, noise FROM agents;

ALTER TABLE agents DROP COLUMN episodes;

ALTER TABLE agents DROP COLUMN terms;

ALTER TABLE agents DROP COLUMN noise;

ALTER TABLE episodes ADD COLUMN scope INTEGER NOT NULL DEFAULT 0;

DROP INDEX episodes_in_order;

DROP INDEX episodes_searchable;

DROP INDEX episodes_folded;

UPDATE episodes SET scope = agent;

CREATE INDEX episodes_in_order ON episodes (scope, at, id, state);

CREATE INDEX episodes_searchable ON episodes (scope, at, id) WHERE state = 0;

CREATE INDEX episodes_folded ON episodes (scope, at) WHERE state = 1;

CREATE TABLE scope_stretches (
    scope INTEGER NOT NULL REFERENCES scopes,
    at INTEGER NOT NULL,
    id TEXT NOT NULL,
    last_at INTEGER NOT NULL,
    last_id TEXT NOT NULL,
    turns INTEGER NOT NULL,
    PRIMARY KEY (scope, at, id)
) STRICT, WITHOUT ROWID;

INSERT INTO scope_stretches SELECT * FROM stretches;

DROP TABLE stretches;

ALTER TABLE scope_stretches RENAME TO stretches;

CREATE TABLE scope_artefacts (
    scope INTEGER NOT NULL REFERENCES scopes,
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
    PRIMARY KEY (scope, stretch_at, stretch_id, position)
) STRICT, WITHOUT ROWID;

INSERT INTO scope_artefacts SELECT * FROM artefacts;

DROP TABLE artefacts;

ALTER TABLE scope_artefacts RENAME TO artefacts;

CREATE INDEX artefacts_in_order ON artefacts (scope, kind, stretch_at, stretch_id);

CREATE INDEX artefacts_weighty ON artefacts (
    scope, kind, salience DESC, at DESC, stretch_id, position
) WHERE salience >= 60;

CREATE TABLE scope_underived (
    scope INTEGER NOT NULL REFERENCES scopes,
    at INTEGER NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (scope, at, id)
) STRICT, WITHOUT ROWID;

INSERT INTO scope_underived SELECT * FROM underived;

DROP TABLE underived;

ALTER TABLE scope_underived RENAME TO underived;

CREATE TABLE scope_unindexed (
    key INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scopes,
    -- whether the text index may have it already
    known INTEGER NOT NULL
) STRICT;

INSERT INTO scope_unindexed SELECT * FROM unindexed;

DROP TABLE unindexed;

ALTER TABLE scope_unindexed RENAME TO unindexed;

CREATE INDEX unindexed_by_scope ON unindexed (scope);

CREATE TABLE scope_vectors (
    key INTEGER PRIMARY KEY REFERENCES episodes ON DELETE CASCADE,
    scope INTEGER NOT NULL REFERENCES scopes,
    model TEXT NOT NULL,
    vector BLOB NOT NULL
) STRICT;

INSERT INTO scope_vectors SELECT * FROM vectors;

DROP TABLE vectors;

ALTER TABLE scope_vectors RENAME TO vectors;

CREATE TABLE scope_injections (
    key INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    end_user TEXT NOT NULL,
    view TEXT NOT NULL,
    place TEXT NOT NULL,
    session TEXT NOT NULL,
    at INTEGER NOT NULL,
    service TEXT NOT NULL,
    text TEXT NOT NULL,
    -- the memories in it, as JSON
    blocks BLOB NOT NULL,
    UNIQUE (agent, end_user, view, place, session)
) STRICT;

INSERT INTO scope_injections
SELECT key, agent, '', '', place, session, at, service, text, blocks FROM injections;

CREATE TABLE scope_injected_from (
    injection INTEGER PRIMARY KEY REFERENCES scope_injections ON DELETE CASCADE,
    agent TEXT NOT NULL,
    entries TEXT NOT NULL
) STRICT;

INSERT INTO scope_injected_from SELECT * FROM injected_from;

DROP TABLE injected_from;

DROP TABLE injections;

ALTER TABLE scope_injections RENAME TO injections;

ALTER TABLE scope_injected_from RENAME TO injected_from;

CREATE INDEX injections_at ON injections (at);

CREATE INDEX injected_from_by_agent ON injected_from (agent);

ALTER TABLE said ADD COLUMN end_user TEXT NOT NULL DEFAULT '';

ALTER TABLE said ADD COLUMN view TEXT NOT NULL DEFAULT '';

-- What was learned has the scope of the turn that it was learned from.

ALTER TABLE memory_events ADD COLUMN end_user TEXT NOT NULL DEFAULT '';

ALTER TABLE memory_events ADD COLUMN view TEXT NOT NULL DEFAULT '';

ALTER TABLE sessions ADD COLUMN end_user TEXT NOT NULL DEFAULT '';

ALTER TABLE sessions ADD COLUMN view TEXT NOT NULL DEFAULT '';

ALTER TABLE memories ADD COLUMN end_user TEXT NOT NULL DEFAULT '';

ALTER TABLE memories ADD COLUMN view TEXT NOT NULL DEFAULT '';

ALTER TABLE conflicts ADD COLUMN end_user TEXT NOT NULL DEFAULT '';

ALTER TABLE conflicts ADD COLUMN view TEXT NOT NULL DEFAULT '';

ALTER TABLE memory_rejects ADD COLUMN end_user TEXT NOT NULL DEFAULT '';

ALTER TABLE memory_rejects ADD COLUMN view TEXT NOT NULL DEFAULT '';

DROP INDEX idx_memories_subject;

CREATE INDEX idx_memories_subject ON memories (agent, end_user, view, category, service);
