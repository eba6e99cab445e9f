-- Ranking looks at what was asked and what was told by itself, at who told it, and how.
-- Everything is taken in anew from the ledgers.

DELETE FROM unindexed;
DELETE FROM underived;
DELETE FROM artefacts;
DELETE FROM stretches;
DELETE FROM markers;
DELETE FROM episodes;
DELETE FROM followed;
DELETE FROM notes;

UPDATE agents SET episodes = 0, terms = 0, noise = 0;

ALTER TABLE episodes DROP COLUMN counts;

ALTER TABLE episodes ADD COLUMN speaker TEXT NOT NULL DEFAULT '';

-- 1 it ends with a question, 2 it tells a time
ALTER TABLE episodes ADD COLUMN signs INTEGER NOT NULL DEFAULT 0;

-- The terms of each: how many there are, then a line for each with how often it is there.
ALTER TABLE episodes ADD COLUMN asked TEXT NOT NULL DEFAULT '';

ALTER TABLE episodes ADD COLUMN told TEXT NOT NULL DEFAULT '';

-- What texts mean, where a model was chosen; a vector goes with its episode.
CREATE TABLE vectors (
    key INTEGER PRIMARY KEY REFERENCES episodes ON DELETE CASCADE,
    agent INTEGER NOT NULL REFERENCES agents,
    model TEXT NOT NULL,
    vector BLOB NOT NULL
) STRICT;
